#!/usr/bin/env bash
# Builds the extension for a Python without the interpreter lock and runs python/free_threaded with it, each test in four
# threads at once. The interpreter is $FREE_THREADED_PYTHON, or the newest python3.*t there is; where uv is installed it may
# bring one.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/packages.sh
venv=${VENV:-.venv}
there=.venvs/free-threaded

find_python() {
  local name
  for name in ${FREE_THREADED_PYTHON:+"$FREE_THREADED_PYTHON"} python3.15t python3.14t python3.13t; do
    command -v "$name" && return
  done
  command -v uv >/dev/null && uv python install --quiet 3.14t && uv python find 3.14t
}

python=$(find_python) || die "no free-threaded Python; name one by FREE_THREADED_PYTHON=/path/to/python3.14t"
"$python" -c 'import sys, sysconfig; sys.exit(not sysconfig.get_config_var("Py_GIL_DISABLED"))' ||
  die "$python has the interpreter lock; FREE_THREADED_PYTHON must name one without"
if ! cmp -s tools/free_threaded.txt "$there/.stamp"; then
  say "installing packages for $python into $there (once)"
  rm -rf "$there"
  if command -v uv >/dev/null; then
    uv venv --quiet --python "$python" "$there"
    VIRTUAL_ENV=$PWD/$there uv pip install --quiet -r tools/free_threaded.txt
  else
    "$python" -m venv "$there"
    "$there/bin/python" -m pip install --quiet --disable-pip-version-check -r tools/free_threaded.txt
  fi
  cp tools/free_threaded.txt "$there/.stamp"
fi
# Before 3.15 the stable ABI has no form without the lock: this one is for this version alone, and lies beside the other.
PYO3_PYTHON=$PWD/$there/bin/python cargo build --release --locked --package feedline-python
suffix=$("$there/bin/python" -c 'import sysconfig; print(sysconfig.get_config_var("EXT_SUFFIX"))')
package=$there/package/feedline
rm -rf "$there/package"
mkdir -p "$there/package"
cp -r python/feedline "$package"
rm -f "$package"/*.so
cp "${CARGO_TARGET_DIR:-target}/release/lib_feedline.so" "$package/_feedline$suffix"
PYTHONPATH=$there/package "$there/bin/python" -m pytest -c python/free_threaded/pytest.ini python/free_threaded --parallel-threads=4
