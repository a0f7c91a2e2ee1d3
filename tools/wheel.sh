#!/usr/bin/env bash
# Builds a wheel as it is released, into dist/: tools/wheel.sh [Rust target; this machine's] [interpreter]. zig compiles and
# links, so that the wheel needs no more than glibc 2.28 (or musl 1.2), and may be for another processor than this one. An
# interpreter is named for a wheel without the interpreter lock (python3.14t); the usual one is for all from Python 3.10 on.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/packages.sh
target=${1:-$(rustc -vV | sed -n 's/^host: //p')}
interpreter=${2:-}
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
  printf '#!/bin/sh\n%s\nexec "%s" -m ziglang %s "$@"\n' "${3:-}" "$PWD/.venv/bin/python" "$2" >"$tools/$1"
  chmod +x "$tools/$1"
}
# When only macros are asked for, zig does not understand its own versions of glibc.
choose="target=$zig_target; case \" \$* \" in *' -dM '*) target=${zig_target%.2.28} ;; esac"
make_tool zig-cc 'cc -target "$target"' "$choose"
make_tool "$processor-linux-gnu-gcc" 'cc -target "$target"' "$choose"
make_tool "$processor-linux-gnu-ar" ar
make_tool "$processor-linux-gnu-strip" "objcopy --strip-all"
export PATH=$tools:$PWD/.venv/bin:$PATH CC=$tools/zig-cc

rm -rf target/wheel
.venv/bin/maturin build --profile dist --strip --locked --zig --target "$target" --compatibility "$tag" \
  ${interpreter:+--interpreter "$interpreter"} --out target/wheel
# Deflate with a longer search: 14.61 MB instead of 14.89.
need advzip advancecomp "packs wheels tighter"
advzip --quiet --recompress --shrink-normal target/wheel/*.whl
mkdir -p dist
mv target/wheel/*.whl dist/
