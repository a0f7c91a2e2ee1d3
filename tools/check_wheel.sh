#!/usr/bin/env bash
# Checks a wheel as a user would meet it: empty environments with numpy alone (1.26 and 2.x), README's example, the demo, size and
# import time. `tools/check_wheel.sh dist/feedline-*.whl`
set -euo pipefail
wheel=$(realpath "$1")
python=${PYTHON:-python3}
tools=$(realpath "$(dirname "$0")")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

megabytes=$(($(stat -c %s "$wheel") / 1000000))
echo "$(basename "$wheel"): $megabytes MB"
[ "$megabytes" -lt 15 ] || { echo "a wheel must stay below 15 MB" >&2; exit 1; }
unzip -l "$wheel" | grep -q 'sboms/' || { echo "the wheel has no list of what it is made of (SBOM)" >&2; exit 1; }

for numpy in "numpy>=1.26,<2" "numpy>=2"; do
  rm -rf "$work/env"
  "$python" -m venv "$work/env"
  "$work/env/bin/python" -m pip install --quiet --disable-pip-version-check "$wheel" "$numpy"
  (cd "$work" && env/bin/python "$tools/try_wheel.py")
  (cd "$work" && env/bin/feedline demo >demo.txt) || { cat "$work/demo.txt"; exit 1; }
done
echo "the wheel works with both NumPy versions"
