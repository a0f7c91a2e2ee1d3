#!/usr/bin/env bash
# 2,000 batches with early breaks under valgrind's leak checker: nothing may be lost.
set -euo pipefail
cd "$(dirname "$0")/.."
# The packages that `cargo test` builds: others would choose other features and compile everything again.
cargo build --quiet --locked --workspace --exclude feedline-python --example leaks
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# "Definitely" and "indirectly" lost are leaks. Thread stacks that the system keeps for reuse are "possibly lost".
# valgrind 3.19 does not know AVX-512; FEEDLINE_CPU is left alone so that the real kernels run.
valgrind --leak-check=full --errors-for-leak-kinds=definite,indirect --error-exitcode=9 --log-file="$log" \
  "${CARGO_TARGET_DIR:-target}/debug/examples/leaks" || { cat "$log"; exit 1; }
grep -E "definitely lost|ERROR SUMMARY" "$log" || true
echo "no leak in 2,000 batches"
