# For scripts that make environments beside .venv, to source from the root: `venv` is .venv, `shared` the folder of its packages.
. tools/packages.sh

purelib() { # environment; prints the folder of its packages
  "$1/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))'
}

venv=${VENV:-.venv}
[ -x "$venv/bin/python" ] || die "$venv is missing; run 'make setup-test' first"
shared=$(purelib "$venv")
