#!/usr/bin/env bash
# Checks a wheel as a user would meet it: size, list of parts, oldest glibc; then in empty environments with NumPy alone (1.26
# and 2.x) README's example, the demo, import time. A wheel for aarch64 runs in an emulator (tools/emulated_python.sh), one for
# musl by $MUSL_PYTHON. `tools/check_wheel.sh dist/feedline-*.whl`
set -euo pipefail
wheel=$(realpath "$1")
python=${PYTHON:-python3}
tools=$(realpath "$(dirname "$0")")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() { echo "$*" >&2; exit 1; }

check_file() {
  local bytes newest
  bytes=$(stat -c %s "$wheel")
  "$python" -m zipfile -e "$wheel" "$work/content"
  ls "$work"/content/*.dist-info/sboms/* >/dev/null 2>&1 || fail "the wheel has no list of what it is made of (SBOM)"
  newest=$(grep -aoE 'GLIBC_2\.[0-9]+' "$work"/content/feedline/*.so | sort -uV | tail -1) || true # none with musl
  echo "$(basename "$wheel"): $bytes bytes, newest symbols ${newest:-not of glibc}"
  [ "$bytes" -lt 15000000 ] || fail "a wheel must stay below 15 MB"
  grep -aqF 'libstdc++' "$work"/content/feedline/*.so && fail "it needs the system's C++ library"
  [ "$(printf '%s\n' "${newest:-GLIBC_2.0}" GLIBC_2.28 | sort -V | tail -1)" = GLIBC_2.28 ] || fail "it needs more than glibc 2.28"
}

try_here() { # NumPy's requirement
  local began=$SECONDS
  rm -rf "$work/env"
  "$python" -m venv "$work/env"
  "$work/env/bin/python" -m pip install --quiet --disable-pip-version-check --only-binary numpy "$wheel" "$1"
  echo "installed into an empty environment in $((SECONDS - began)) s"
  (cd "$work" && env/bin/python "$tools/try_wheel.py")
  (cd "$work" && env/bin/feedline demo >demo.txt) || { cat "$work/demo.txt"; exit 1; }
}

try_by() { # interpreter that needs no pip, NumPy's requirement, platforms
  local interpreter=$1 numpy=$2
  shift 2
  rm -rf "$work/site"
  "$python" -m pip install --quiet --disable-pip-version-check --target "$work/site" --only-binary :all: \
    --python-version "$("$interpreter" -c 'import sys; print("%d.%d" % sys.version_info[:2])')" \
    "${@/#/--platform=}" "$wheel" "$numpy"
  (cd "$work" && PYTHONPATH=$work/site "$interpreter" "$tools/try_wheel.py")
  (cd "$work" && PYTHONPATH=$work/site "$interpreter" -m feedline demo >demo.txt) || { cat "$work/demo.txt"; exit 1; }
}

try_emulated() { # NumPy's requirement
  export TRY_PYTHON
  TRY_PYTHON=$("$tools/emulated_python.sh")
  try_by "$TRY_PYTHON" "$1" manylinux_2_28_aarch64 manylinux_2_27_aarch64 manylinux2014_aarch64
}

try_musl() { # NumPy's requirement
  try_by "$MUSL_PYTHON" "$1" musllinux_1_2_x86_64
}

check_file
runs_it=$python
case $(basename "$wheel")-on-$(uname -m) in
  *musllinux*_x86_64*-on-x86_64)
    [ -n "${MUSL_PYTHON:-}" ] || { echo "not run: name a Python with musl by MUSL_PYTHON"; exit; }
    runs_it=$MUSL_PYTHON try=try_musl ;;
  *_x86_64*-on-x86_64 | *_aarch64*-on-aarch64) try=try_here ;;
  *_aarch64*-on-x86_64) try=try_emulated ;;
  *) fail "nothing here runs it" ;;
esac
# NumPy 1.26 has no wheels for Python 3.13 and later.
versions=("numpy>=2")
"$runs_it" -c 'import sys; sys.exit(sys.version_info >= (3, 13))' && versions+=("numpy>=1.26,<2")
for numpy in "${versions[@]}"; do
  $try "$numpy"
done
echo "the wheel works with ${versions[*]}"
