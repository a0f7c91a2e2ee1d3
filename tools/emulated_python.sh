#!/usr/bin/env bash
# Prints the path of a Python for aarch64 that runs here, by qemu. It is Debian's, with all that it and NumPy need, unpacked
# below .venvs/; nothing is installed but qemu. For systems with apt whose package lists have arm64 (Debian; Ubuntu has it
# elsewhere).
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/packages.sh
need qemu-aarch64-static qemu-user-static "runs programs for aarch64"
there=$PWD/.venvs/aarch64
if ! [ -x "$there/python" ]; then
  say "unpacking Debian's Python for aarch64 into $there (once)"
  rm -rf "$there"
  mkdir -p "$there"/{state/lists/partial,cache/archives/partial,root}
  touch "$there/status"
  apt=(apt-get -qq -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o Dir::State="$there/state"
    -o Dir::State::status="$there/status" -o Dir::Cache="$there/cache" -o Debug::NoLocking=1
    -o APT::Install-Recommends=0 -o APT::Sandbox::User="$(id -un)")
  "${apt[@]}" update >&2
  "${apt[@]}" install --download-only -y python3 libstdc++6 >&2
  for package in "$there"/cache/archives/*.deb; do dpkg -x "$package" "$there/root"; done
  rm -rf "$there"/{state,cache}
  printf '#!/bin/sh\nexec qemu-aarch64-static -L "%s" "%s" "$@"\n' "$there/root" "$there/root/usr/bin/python3" >"$there/python"
  chmod +x "$there/python"
fi
echo "$there/python"
