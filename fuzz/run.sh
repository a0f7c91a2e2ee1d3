#!/bin/sh
# Runs every fuzz target for a bounded time: fuzz/run.sh [seconds per target, 60] [targets...]
# Works with a stable toolchain: RUSTC_BOOTSTRAP lets it take the sanitizer flags that cargo-fuzz passes.
set -eu
cd "$(dirname "$0")"
seconds="${1:-60}"
[ $# -gt 0 ] && shift
export RUSTC_BOOTSTRAP=1
command -v cargo-fuzz >/dev/null || cargo install cargo-fuzz --locked
cargo run --quiet --bin seeds
for target in ${*:-jpeg_vs_turbo jpeg_index dct images png webp gif bmp tiff avif jxl pnm qoi exif formats columns pack programs video_index audio}; do
    cargo fuzz run --release "$target" -- -max_total_time="$seconds" -max_len=200000 -timeout=20 -rss_limit_mb=2048
done
