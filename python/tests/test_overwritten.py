"""Files that are cut or overwritten under a running training: an error, never the end of the process."""

from __future__ import annotations

import json
import subprocess
import sys

import feedline as fl
import pytest

# Opens, reads one sample, cuts every file to nothing or to half, reads on.
SCRIPT = """
import json, os, sys
import feedline as fl

path, keep = sys.argv[1], float(sys.argv[2])
ds = fl.open(path)
loader = fl.Loader(ds, batch_size=50, output="numpy", decode="none", num_workers=2, max_errors=10**6, on_error="skip")
batches = iter(loader)
next(batches)
whole = len(ds)
names = [path] if os.path.isfile(path) else [os.path.join(f, n) for f, _, ns in os.walk(path) for n in ns]
for name in names:
    size = os.path.getsize(name)
    with open(name, "r+b") as file:
        if keep < 0:
            file.write(os.urandom(size))
        else:
            file.truncate(int(size * keep))
bad = 0
for at in range(whole):
    try:
        ds[at]
    except fl.Error:
        bad += 1
try:
    for _ in batches:
        pass
except fl.Error:
    pass
print(json.dumps({"whole": whole, "bad": bad}))
"""


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """So many small samples that every format's index is longer than 64 KiB."""
    made = ({"id": at, "text": f"sample {at}", "data": bytes([at % 256]) * 20} for at in range(20_000))
    return fl.pack(made, tmp_path_factory.mktemp("rows") / "pack", schema=SCHEMA, progress=False)


SCHEMA = {"id": "int", "text": "text", "data": "bytes"}


@pytest.mark.parametrize("keep", [0.0, 0.5, -1.0])
@pytest.mark.parametrize("to", ["pack", "beton", "mds", "litdata"])
def test_files_truncated_in_place_are_errors(rows, tmp_path, to, keep):
    path = tmp_path / ("data.beton" if to == "beton" else "data")
    fl.convert(rows, path, to=to, progress=False)
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(path), str(keep)], capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, (done.returncode, done.stderr[-2000:])
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["whole"] == 20_000
    # Without checksums, other bytes of the same length are other samples.
    assert found["bad"] > 0 or (to != "pack" and keep < 0)
