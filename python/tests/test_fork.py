"""Forks while threads run: in the child, the locks they hold are never released."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import feedline as fl
import pytest
from buckets import Servers
from made_images import make_folder

FORMATS = Path(__file__).resolve().parents[2] / "testdata" / "formats"

# Forks while threads iterate over data that were opened just now, so that pieces are being fetched and inflated; each child
# iterates and reads single samples for itself.
SCRIPT = """
import json, os, signal, sys, threading, time
import feedline as fl

uri, options, knobs = json.loads(sys.argv[1])
cache, source = knobs.pop("cache", None), knobs.pop("source", None)
if source is not None:
    fl.pack(source, uri, progress=False)

def fresh(number):
    ds = fl.open(uri, **options)
    if cache is not None:
        ds = ds.cached(os.path.join(cache, str(number)), pack=False)
    return ds, fl.Loader(ds, batch_size=2, output="numpy", decode="none", num_workers=8, shuffle=True, **knobs)

expected = sum(len(batch["index"]) for batch in fresh(0)[1])
children, kept = [], []
for number in range(12):
    ds, loader = fresh(number + 1)
    begun = threading.Event()
    # One more iteration and a batch of it, which the child lets go of.
    own = iter(loader)
    batch = next(own)

    def forever(loader=loader, begun=begun):
        batches = iter(loader)
        begun.set()
        for _ in batches:
            pass

    threading.Thread(target=forever, daemon=True).start()
    begun.wait()
    time.sleep(0.004 * (number % 4))
    pid = os.fork()
    if pid == 0:
        signal.alarm(90)
        code = 3
        try:
            del own, batch
            assert len(ds) and len(ds[0]) and ds.select([0]).schema
            count = sum(len(batch["index"]) for batch in loader)
            assert loader.stats() and len(loader) and loader.state_dict() and loader.errors() == []
            code = 0 if count == expected else 2
        finally:
            os._exit(code)
    children.append(pid)
    kept.append((ds, loader))
print(json.dumps([os.waitpid(pid, 0)[1] for pid in children]))
sys.stdout.flush()
os._exit(0)
"""


def forked(uri: object, options: dict | None = None, **knobs: object) -> list[int]:
    arguments = json.dumps([str(uri), options or {}, knobs])
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", SCRIPT, arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    codes: list[int] = json.loads(done.stdout.splitlines()[-1])
    return codes


PIECES = {
    "arrow/types-zstd.arrows": {"image": "pic", "text": "text"},
    "parquet/types-zstd.parquet": {"image": "pic", "text": "text"},
    "mds/zstd": {"image": "jpeg", "text": "str"},
    "litdata/zstd-chunk": {"image": "image", "label": "label"},
}


@pytest.mark.parametrize("name", PIECES)
def test_children_read_compressed_pieces(name):
    assert forked(FORMATS / name, {"fields": PIECES[name]}) == [0] * 12


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """Pieces that take a while to inflate."""
    made = ({"id": at, "text": f"sample {at} " * 20_000} for at in range(60))
    schema = {"id": "int", "text": "text"}
    return fl.pack(made, tmp_path_factory.mktemp("rows") / "pack", schema=schema, progress=False)


@pytest.mark.parametrize("to", ["parquet", "pack", "webdataset"])
def test_children_read_converted_data(rows, tmp_path, to):
    fl.convert(rows, tmp_path / "data", to=to, shard_bytes=3 << 20, progress=False)
    assert forked(tmp_path / "data") == [0] * 12


def test_children_read_compressed_shards(rows, tmp_path):
    fl.convert(rows, tmp_path / "data", to="mds", shard_bytes=3 << 20, progress=False)
    index = json.loads((tmp_path / "data" / "index.json").read_text())
    for shard in index["shards"]:
        raw = tmp_path / "data" / shard["raw_data"]["basename"]
        packed = gzip.compress(raw.read_bytes(), 1)
        raw.with_name(raw.name + ".gz").write_bytes(packed)
        raw.unlink()
        shard["compression"] = "gz"
        shard["zip_data"] = {"basename": raw.name + ".gz", "bytes": len(packed), "hashes": {}}
    (tmp_path / "data" / "index.json").write_text(json.dumps(index))
    assert forked(tmp_path / "data") == [0] * 12


@pytest.fixture(scope="module")
def forked_bucket(servers: Servers) -> dict[str, object]:
    make_folder(servers.folder / "bucket" / "forked", per_class=20)
    return {"storage_options": servers.options}


def test_children_read_from_a_bucket(forked_bucket):
    assert forked("s3://bucket/forked", forked_bucket) == [0] * 12


@pytest.mark.parametrize("turn", range(3))
def test_children_read_through_a_cache(forked_bucket, tmp_path, turn):
    """A child has the open files of its parent, and with them the locks that they are under."""
    del turn
    assert forked("s3://bucket/forked", forked_bucket, cache=str(tmp_path)) == [0] * 12


def test_children_read_from_shared_memory(folder):
    assert forked("memory://forked", source=str(folder)) == [0] * 12


@pytest.mark.usefixtures("forked_bucket")
def test_a_child_does_not_hold_its_parents_cache_lock(servers: Servers, tmp_path):
    """A child that was forked while a cache was being filled does not block it."""
    script = f"""
import os, sys, threading, time
import feedline as fl
children = []
for turn in range(20):
    ds = fl.open("s3://bucket/forked", storage_options={servers.options!r}).cached(sys.argv[1] + str(turn), pack=False)
    thread = threading.Thread(target=lambda: list(fl.Loader(ds, batch_size=2, decode="none", output="numpy")))
    thread.start()
    time.sleep(0.002 * turn)
    pid = os.fork()
    if pid == 0:
        time.sleep(60)
        os._exit(0)
    children.append(pid)
    thread.join()
    # A data set of its own: it counts what is there, under the lock.
    begun = time.monotonic()
    again = fl.open("s3://bucket/forked", storage_options={servers.options!r}).cached(sys.argv[1] + str(turn), pack=False)
    again[0]
    assert time.monotonic() - begun < 10, turn
for pid in children:
    os.kill(pid, 9)
    os.waitpid(pid, 0)
"""
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", script, str(tmp_path / "cache")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


def test_the_parents_data_sets_stay_usable(folder):
    ds = fl.open(folder)
    pid = os.fork()
    if pid == 0:
        os._exit(0 if len(ds[0]) == 3 else 1)
    assert os.waitpid(pid, 0)[1] == 0
    assert len(ds[0]) == 3
