#!/bin/sh
# Runs every fuzz target for a bounded time: fuzz/run.sh [seconds per target, 60] [targets...]
# With 0 seconds, the seeds and all regressions (fuzz/regressions/TARGET) are run once, under the address sanitizer.
# Works with a stable toolchain: RUSTC_BOOTSTRAP lets it take the sanitizer flags that cargo-fuzz passes.
set -eu
cd "$(dirname "$0")"
seconds="${1:-60}"
[ $# -gt 0 ] && shift
export RUSTC_BOOTSTRAP=1
command -v cargo-fuzz >/dev/null || cargo install cargo-fuzz --locked
cargo run --quiet --bin seeds
time="-max_total_time=$seconds"
[ "$seconds" -gt 0 ] || time="-runs=0"
for target in ${*:-jpeg_vs_turbo jpeg_scans jpeg_index dct images png webp gif bmp tiff avif jxl pnm qoi exif formats columns pack programs video_index audio}; do
    mkdir -p "corpus/$target" "regressions/$target"
    cargo fuzz run --release "$target" "corpus/$target" "regressions/$target" -- "$time" -max_len=200000 -timeout=20 -rss_limit_mb=2048
done
