#!/usr/bin/env bash
# Writes docs/performance.md from the benchmarks' own output: tools/performance.sh PHOTOS [LARGE_PHOTOS]
# PHOTOS has class folders of ordinary photographs, LARGE_PHOTOS some of 8 megapixels and more.
set -euo pipefail
cd "$(dirname "$0")/.."
photos=$1
large=${2:-}
out=docs/performance.md
model=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1)
quiet() { grep -vE '^ *(Compiling|Finished|Running|Blocking|Downloaded|Downloading|Updating) ' || true; }

{
  cat <<TEXT
# Performance

Made by \`tools/performance.sh\` on $(date -u +%Y-%m-%d): $model, $(nproc) CPUs, $(rustc --version),
$(.venv/bin/python -c 'import platform, torch, torchvision, PIL; print("Python", platform.python_version(), "torch", torch.__version__, "torchvision", torchvision.__version__, "Pillow", PIL.__version__)'); load average at the start $(cut -d' ' -f1 /proc/loadavg).

Machines are noisy: the sides of a comparison alternate in one run, and the best round of each counts. Compare ratios, not
microseconds. Kernel times are CPU time of one thread.

## Decoding: \`make bench-decode DATA=...\`

TEXT
  echo '```text'
  cargo bench --quiet -p feedline-pixels --bench decode -- "$photos" --rounds 5 --regions 5 2>/dev/null | quiet
  echo '```'
  cat <<'TEXT'

## Whole recipes, one thread

From the JPEG's bytes to a normalised float32 tensor. "naive" is libjpeg-turbo for the whole image, crop,
`fast_image_resize`, normalise. "train" is RandomResizedCrop 224 + flip, "validation" Resize 256 + CenterCrop 224. "fast" is
`decode="fast"` (DCT scaling).

TEXT
  cargo bench --quiet -p feedline-pixels --bench recipes -- "$photos" ${large:+"$large"} --rounds 5 2>/dev/null | quiet
  cat <<'TEXT'

## The loader beside others: `make bench DATA=...`

TEXT
  echo '```text'
  .venv/bin/python benchmarks/run.py "$photos"
  echo '```'
  cat <<'TEXT'

## Every format beside its own loader: `make bench-formats DATA=...`

TEXT
  echo '```text'
  .venv/bin/python benchmarks/formats.py "$photos" || true # says what it falls short of
  echo '```'
  cat <<'TEXT'

## From a bucket: `make bench-remote DATA=...`

TEXT
  echo '```text'
  .venv/bin/python benchmarks/remote.py "$photos"
  echo '```'
  cat <<'TEXT'

## Encodings of a pack: `feedline pack PHOTOS x --compare`

TEXT
  echo '```text'
  .venv/bin/feedline pack "$photos" /tmp/feedline-compare --compare --quiet
  echo '```'
  cat tools/performance-notes.md
} > "$out.new"
mv "$out.new" "$out"
echo "wrote $out"
