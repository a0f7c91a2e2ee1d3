# Installing what a machine lacks: for the set-up scripts to source.

say() { printf 'setup: %s\n' "$*" >&2; }
die() { printf 'setup: error: %s\n' "$*" >&2; exit 1; }

apt_install() { # packages; fails quietly where we may not or cannot
  command -v apt-get >/dev/null || return 1
  local sudo=""
  if [ "$(id -u)" != 0 ]; then
    sudo="sudo -n"
    $sudo true 2>/dev/null || return 1
  fi
  say "installing system packages: $*"
  $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$@" >/dev/null 2>&1 ||
    { $sudo apt-get update -qq >/dev/null 2>&1 && $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$@" >/dev/null; }
}

need() { # command, package, what for
  command -v "$1" >/dev/null && return
  apt_install "$2" || true
  command -v "$1" >/dev/null || die "$1 is missing ($3); install the system package '$2' and try again"
}
