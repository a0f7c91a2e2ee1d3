#!/bin/sh
# Runs every fuzz target for a bounded time: fuzz/run.sh [seconds per target, 60] [targets...]
# With 0 seconds, the seeds and all regressions (fuzz/regressions/TARGET) are run once, under the address sanitizer.
# Works with a stable toolchain: RUSTC_BOOTSTRAP lets it take the sanitizer flags that cargo-fuzz passes.
set -eu
cd "$(dirname "$0")"
seconds="${1:-60}"
[ $# -gt 0 ] && shift
export RUSTC_BOOTSTRAP=1
# Two copies of one C library's variables are no error: Rust links them once per binary.
export ASAN_OPTIONS="${ASAN_OPTIONS:-detect_odr_violation=0}"
command -v cargo-fuzz >/dev/null || cargo install cargo-fuzz --locked
# All targets at once: what they share is most of it. `seeds` is among them.
cargo fuzz build --release
built="target/$(rustc -vV | sed -n 's/^host: //p')/release"
"$built/seeds"
time="-max_total_time=$seconds"
[ "$seconds" -gt 0 ] || time="-runs=0"
for target in ${*:-$(cargo fuzz list | grep -vx seeds)}; do
    mkdir -p "corpus/$target" "regressions/$target" "artifacts/$target"
    echo "fuzzing $target"
    "$built/$target" "corpus/$target" "regressions/$target" "$time" \
        -max_len=200000 -timeout=20 -rss_limit_mb=2048 -artifact_prefix="artifacts/$target/" -print_final_stats=1
done
