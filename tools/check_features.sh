#!/usr/bin/env bash
# Checks that builds with some of the Cargo features compile: none, a few usual ones, and with `--all` each by itself.
set -euo pipefail
cd "$(dirname "$0")/.."

check() {
    echo "feedline with features: ${1:-none}"
    cargo check --quiet --locked -p feedline --no-default-features --features "$1"
}

check ""
check "remote"
check "parquet,webdataset,webp,ndarray"
if [ "${1:-}" = --all ]; then
    for feature in array-record arrow beton hdf5 litdata lmdb mds npy recordio slipcache tbl tfrecord zarr zip avif gif tiff \
        jpeg-xl jpeg-2000; do
        check "$feature"
    done
fi
