#!/usr/bin/env bash
# Builds a wheel as it is released, into dist/: tools/wheel.sh [Rust target; this machine's]. zig compiles and links, so that
# the wheel needs no more than glibc 2.28 (or musl 1.2), and may be for another processor than this one.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/packages.sh
target=${1:-$(rustc -vV | sed -n 's/^host: //p')}
processor=${target%%-*}
case $target in
  *-linux-gnu) tag=manylinux_2_28 zig_target=$processor-linux-gnu.2.28 ;;
  *-linux-musl) tag=musllinux_1_2 zig_target=$processor-linux-musl ;;
  *) die "no wheel for $target by this script; the workflow 'wheels' has macOS and Windows" ;;
esac
if ! [ -d "$(rustc --print sysroot)/lib/rustlib/$target" ]; then
  rustup target add "$target" || die "Rust's library for $target is missing: rustup target add $target"
fi

# dav1d is built by meson, which does not see the compilers that cargo is told about. It takes CC, or for another processor
# the names of its cross file.
tools=$PWD/target/zig/$target
mkdir -p "$tools"
make_tool() { # name, zig's command
  printf '#!/bin/sh\nexec "%s" -m ziglang %s "$@"\n' "$PWD/.venv/bin/python" "$2" >"$tools/$1"
  chmod +x "$tools/$1"
}
make_tool zig-cc "cc -target $zig_target"
make_tool "$processor-linux-gnu-gcc" "cc -target $zig_target"
make_tool "$processor-linux-gnu-ar" ar
make_tool "$processor-linux-gnu-strip" "objcopy --strip-all"
export PATH=$tools:$PWD/.venv/bin:$PATH CC=$tools/zig-cc

.venv/bin/maturin build --profile dist --strip --locked --zig --target "$target" --compatibility "$tag" --out dist
