#!/usr/bin/env bash
# Makes this machine able to build feedline; with "test" to test it, with "wheel" to release it. Says what it does; does it once.
set -euo pipefail
cd "$(dirname "$0")/.."
level=${1:-build}
python=${PYTHON:-python3}

. tools/packages.sh

command -v cargo >/dev/null || die "cargo is missing; install Rust (rustup, or your system's packages)"
need cc build-essential "a C compiler, for libjpeg-turbo, libwebp and dav1d"
need cmake cmake "builds libjpeg-turbo"
need nasm nasm "assembles the SIMD code of libjpeg-turbo and dav1d"
need meson meson "builds dav1d"
need ninja ninja-build "builds dav1d"
command -v "$python" >/dev/null || die "$python is missing; install Python 3.10 or later"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' || die "$python is older than 3.10"

if [ ! -x .venv/bin/python ]; then
  say "making .venv"
  "$python" -m venv .venv 2>/dev/null || {
    rm -rf .venv
    apt_install python3-venv || die "$python cannot make virtual environments; install the package 'python3-venv'"
    "$python" -m venv .venv
  }
fi

with_uv() { # file with requirements; four times as fast as pip. It does not read pip's settings, so pip may have to follow
  .venv/bin/python -m pip install --quiet --disable-pip-version-check uv==0.13.8 &&
    .venv/bin/uv pip install --quiet --python .venv/bin/python -r "$1"
}

install_python() { # file with requirements; a stamp keeps it from being done twice
  local stamp=".venv/.feedline-$(basename "$1").stamp"
  cmp -s "$1" "$stamp" && return
  say "installing Python packages of $1 into .venv (once)"
  with_uv "$1" || .venv/bin/python -m pip install --quiet --disable-pip-version-check -r "$1"
  cp "$1" "$stamp"
}

install_python tools/requirements-build.txt
[ "$level" != wheel ] || install_python tools/requirements-wheel.txt
if [ "$level" = test ]; then
  need valgrind valgrind "the leak test"
  need ffmpeg ffmpeg "its libraries decode video"
  need chromium chromium "the tests of 'feedline view'"
  install_python tools/requirements-dev.txt
fi
