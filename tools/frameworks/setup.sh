#!/usr/bin/env bash
# Makes one environment per group of frameworks under .frameworks, from the lists beside this script. What .venv has
# (torch, feedline itself) is shared by a path file, and every package is listed, so nothing else is installed.
# Names of groups as arguments make only those.
set -euo pipefail
cd "$(dirname "$0")/../.."
. tools/environments.sh
groups=("$@")
[ ${#groups[@]} -gt 0 ] || groups=(torch ray spark dask keras)

install() { # environment, list
  if command -v uv >/dev/null; then
    UV_LINK_MODE=hardlink VIRTUAL_ENV=$PWD/$1 uv pip install --quiet --no-deps -r "$2"
  else
    "$1/bin/python" -m ensurepip >/dev/null
    "$1/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps -r "$2"
  fi
}

for group in "${groups[@]}"; do
  wanted="tools/frameworks/$group.txt"
  [ -f "$wanted" ] || die "$group: there is no $wanted"
  stamp=".frameworks/$group/.stamp"
  cmp -s "$wanted" "$stamp" && continue
  [ "$group" != spark ] || need java openjdk-17-jre-headless "Spark runs on Java"
  say "installing $group into .frameworks/$group (once)"
  [ -x ".frameworks/$group/bin/python" ] || "$venv/bin/python" -m venv --without-pip ".frameworks/$group"
  own=$(purelib ".frameworks/$group")
  # Path files of .venv count too: feedline is installed as one.
  echo "import site; site.addsitedir('$shared')" >"$own/zz-shared.pth"
  install ".frameworks/$group" "$wanted"
  cp "$wanted" "$stamp"
done
