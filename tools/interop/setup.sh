#!/usr/bin/env bash
# Makes one environment per library under .interop, from the requirements files beside this script. torch and
# torchvision are shared with .venv (a path file), so that each library costs little. Names of libraries as arguments
# make only those.
set -euo pipefail
cd "$(dirname "$0")/../.."
. tools/environments.sh
libraries=("$@")
[ ${#libraries[@]} -gt 0 ] || libraries=(webdataset wids mosaicml litdata litdata-classic litdata-0.2.{6,20,39,40} datasets datasets-2.{2,14}
  turboloader ffcv tensorflow mxnet lmdb arrays azurite moto)

make_environment() { # library
  local folder=".interop/$1"
  [ -x "$folder/bin/python" ] || "$venv/bin/python" -m venv "$folder"
  local own
  own=$(purelib "$folder")
  # TensorFlow brings all it needs, and is better off without another's protobuf.
  [ "$1" = tensorflow ] || echo "$shared" >"$own/shared.pth"
}

system_packages() { # library; FFCV's compiled part is built here
  [ "$1" = ffcv ] || return 0
  pkg-config --exists opencv4 libturbojpeg 2>/dev/null ||
    apt_install pkg-config libopencv-dev libturbojpeg0-dev || true
  pkg-config --exists opencv4 libturbojpeg ||
    die "OpenCV and libturbojpeg are missing (FFCV is built from source); install libopencv-dev, libturbojpeg0-dev, pkg-config"
}

azurite() { # Azure's own emulator, for node
  local version=3.37.0
  local package=.interop/azurite/node_modules/azurite/package.json
  grep -qs "\"version\": \"$version\"" "$package" && return
  need npm npm "for Azure's emulator"
  say "installing azurite into .interop/azurite (once)"
  mkdir -p .interop/azurite
  npm install --silent --no-audit --no-fund --prefix .interop/azurite "azurite@$version" >/dev/null
}

for library in "${libraries[@]}"; do
  if [ "$library" = azurite ]; then
    azurite
    continue
  fi
  wanted="tools/interop/$library.txt"
  [ -f "$wanted" ] || die "$library: there is no $wanted"
  stamp=".interop/$library/.stamp"
  cmp -s "$wanted" "$stamp" && continue
  say "installing $library into .interop/$library (once)"
  system_packages "$library"
  make_environment "$library"
  python=".interop/$library/bin/python"
  "$python" -m pip install --quiet --disable-pip-version-check -r "$wanted"
  if [ "$library" = ffcv ]; then
    "$python" -m pip install --quiet --disable-pip-version-check setuptools==84.2.1 wheel==0.48.0
    "$python" -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation ffcv==1.0.2
  fi
  cp "$wanted" "$stamp"
done
