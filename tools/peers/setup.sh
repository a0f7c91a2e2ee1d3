#!/usr/bin/env bash
# Makes an environment for every loader that `make bench-peers` measures: those of tools/interop where a loader's files are
# tested as well, others under .peers from the requirements files beside this script. One that cannot be installed on this
# machine is reported and left out.
set -uo pipefail
cd "$(dirname "$0")/../.."
. tools/environments.sh
for library in webdataset mosaicml litdata turboloader ffcv tensorflow; do
  VENV=$venv tools/interop/setup.sh "$library" || say "$library cannot be installed here; it is left out"
done
for wanted in tools/peers/*.txt; do
  library=$(basename "$wanted" .txt)
  folder=".peers/$library"
  cmp -s "$wanted" "$folder/.stamp" && continue
  say "installing $library into $folder (once)"
  [ -x "$folder/bin/python" ] || "$venv/bin/python" -m venv "$folder"
  own=$(purelib "$folder")
  echo "$shared" >"$own/shared.pth"
  install=("$folder/bin/python" -m pip install --quiet --disable-pip-version-check)
  # DALI looks for its decoders beside itself only, not where the shared environment may have them.
  [ "$library" != dali ] || "${install[@]}" --ignore-installed --no-deps nvidia-nvimgcodec-cu12
  if "${install[@]}" -r "$wanted"; then
    cp "$wanted" "$folder/.stamp"
  else
    say "$library cannot be installed here; it is left out"
  fi
done
