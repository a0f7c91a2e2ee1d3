"""Memory is sized by what is there, within the limits, and is an error when there is none."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import feedline as fl
import numpy as np
import pytest
from feedline import transforms as T
from made_images import encode, make_image

MIB = 1 << 20

# What every script begins with: `limit` bounds address space, `grown` says how far the peak is above the beginning.
PREAMBLE = """
import json, resource, sys
import numpy as np
import feedline as fl
from feedline import transforms as T

def pages(at):
    return int(open("/proc/self/statm").read().split()[at]) * resource.getpagesize()

def limit(more):
    most = pages(0) + more
    resource.setrlimit(resource.RLIMIT_AS, (most, most))

def peak():
    line = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024

begun = peak()

def grown():
    return (peak() - begun) >> 20
"""


def run(script: str, *arguments: object) -> dict:
    """What the script prints last, as JSON. A signal or an abort fails the test."""
    command = [sys.executable, "-c", PREAMBLE + script, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, (done.returncode, done.stderr[-2000:])
    return json.loads(done.stdout.splitlines()[-1])


def png(width: int, height: int) -> bytes:
    """A PNG whose header promises much and whose data hold next to nothing."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


def jpeg(width: int, height: int, progressive: bool) -> bytes:
    """A small JPEG that says it is large."""
    data = bytearray(encode(make_image(1, 160, 120), progressive=progressive))
    at = data.index(b"\xff\xc2" if progressive else b"\xff\xc0")
    data[at + 5 : at + 9] = struct.pack(">HH", height, width)
    return bytes(data)


def tiff(width: int, height: int, bits: int) -> bytes:
    """An uncompressed strip of samples of any width, half a megabyte of it."""
    pixels = bytes(600_000)
    tags = {256: width, 257: height, 258: bits, 259: 1, 262: 1, 273: 122, 277: 1, 278: height, 279: len(pixels)}
    entries = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in tags.items())
    return b"II*\0" + struct.pack("<IH", 8, len(tags)) + entries + bytes(4) + pixels


BOMBS = {
    "png": png(65535, 65535),
    "png-within-the-limit": png(13000, 13000),
    "jpeg": jpeg(13000, 13000, progressive=False),
    "jpeg-progressive": jpeg(13000, 13000, progressive=True),
    "jpeg-of-65500": jpeg(65500, 65500, progressive=False),
    "tiff": tiff(5000, 8000, 143),
}


@pytest.fixture(scope="module")
def bombs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("bombs")
    for number in range(4):
        (root / f"good{number}.jpg").write_bytes(encode(make_image(number, 60, 40)))
    for name, data in BOMBS.items():
        (root / f"{name}.{name.split('-')[0]}").write_bytes(data)
    return root


PATHS = {
    "whole": "None",
    "pad": "[T.Pad(4)]",
    "resize": "[T.Resize(64)]",
    "crop": "[T.CenterCrop(32)]",
    "views": '{"image": {"a": [T.CenterCrop(32)], "b": [T.Resize(48)]}}',
}

LOAD = """
folder, transforms, on_error = sys.argv[1:]
limit(600 << 20)
good = 0
knobs = {"batch_size": 1, "output": "numpy", "num_workers": 2}
if on_error == "skip":
    knobs["max_errors"] = 1000
with fl.Loader(folder, transforms=eval(transforms), on_error=on_error, **knobs) as loader:
    batches = iter(loader)
    while True:
        try:
            good += len(next(batches)["index"])
        except StopIteration:
            break
        except fl.DataError:
            pass
    bad = len({error["index"] for error in loader.errors()})
print(json.dumps({"good": good, "bad": bad, "grown": grown()}))
"""


@pytest.mark.parametrize("on_error", ["raise", "skip"])
@pytest.mark.parametrize("path", PATHS)
def test_a_header_takes_no_memory(bombs, path, on_error):
    found = run(LOAD, bombs, PATHS[path], on_error)
    assert (found["good"], found["bad"]) == (4, len(BOMBS))
    assert found["grown"] < 200, found


def test_a_header_takes_no_memory_in_single_samples_and_verify(bombs):
    script = """
limit(600 << 20)
ds, bad = fl.open(sys.argv[1]).decoded(), []
for at in range(len(ds)):
    try:
        ds[at]
    except fl.SampleError as error:
        bad.append(error.reason)
print(json.dumps({"bad": len(bad), "grown": grown()}))
"""
    found = run(script, bombs)
    assert found["bad"] == len(BOMBS)
    assert found["grown"] < 200, found
    script = """
limit(600 << 20)
from feedline import _feedline
code = _feedline.run_cli(["feedline", "verify", "--decode", sys.argv[1]])
print(json.dumps({"code": code, "grown": grown()}))
"""
    found = run(script, bombs)
    assert found["code"] == 1
    assert found["grown"] < 200, found


def test_the_limit_is_on_results_too(tmp_path):
    (tmp_path / "long.png").write_bytes(encode(np.zeros((1, 65535, 3), np.uint8), "PNG"))
    script = """
limit(1 << 30)
texts = []
for list in ([T.Resize(256)], [T.Pad(65536)], [T.Resize(65536), T.CenterCrop(8)]):
    with fl.Loader(sys.argv[1], batch_size=1, transforms=list, output="numpy", max_pixels=10**7) as loader:
        try:
            next(iter(loader))
        except fl.SampleError as error:
            texts.append(error.reason)
with fl.Loader(sys.argv[1], batch_size=1, transforms=[T.Resize(256), T.CenterCrop(8)], output="numpy") as loader:
    shape = next(iter(loader))["image"].shape
print(json.dumps({"texts": texts, "shape": shape, "grown": grown()}))
"""
    found = run(script, tmp_path)
    assert len(found["texts"]) == 3, found
    assert "256x16776960" in found["texts"][0]
    assert "max_pixels" in found["texts"][0]
    assert found["shape"] == [1, 3, 8, 8]
    assert found["grown"] < 200, found


def test_impossible_batches_are_refused_at_once(folder):
    with pytest.raises(fl.OptionError, match=r"transforms: image: CenterCrop makes 43200000000 bytes a sample"):
        fl.Loader(folder, batch_size=8, transforms=[T.CenterCrop(60000)])
    with pytest.raises(fl.OptionError, match="padding must be between 0 and 65536"):
        fl.Loader(folder, transforms=[T.RandomCrop(8, padding=4294967295)])
    # Few samples in a batch that could hold more are no reason to refuse.
    with fl.Loader(folder, batch_size=10**7, transforms=[T.CenterCrop(8)], output="numpy") as loader:
        assert next(iter(loader))["image"].shape == (12, 3, 8, 8)


@pytest.mark.parametrize("on_error", ["raise", "skip", "replace"])
@pytest.mark.parametrize("transforms", ["[T.CenterCrop(3000)]", "[T.Resize(3000)]"])
def test_a_failed_allocation_is_a_memory_error(folder, transforms, on_error):
    script = """
folder, transforms, on_error = sys.argv[1:]
knobs = {"batch_size": 12, "output": "numpy", "num_workers": 2, "on_error": on_error}
loader = fl.Loader(folder, transforms=eval(transforms), **knobs)
batches = iter(fl.Loader(folder, transforms=[T.CenterCrop(8)], **knobs))
next(batches)
limit(300 << 20)
try:
    next(iter(loader))
    said = "nothing"
except MemoryError as error:
    said = str(error)
    assert isinstance(error, fl.errors.OutOfMemoryError) and isinstance(error, fl.Error)
print(json.dumps({"said": said}))
"""
    assert "out of memory" in run(script, folder, transforms, on_error)["said"]


def test_the_budget_counts_whole_images(tmp_path):
    for number in range(60):
        pixels = np.full((1000, 1000, 3), number, np.uint8)
        (tmp_path / f"{number:02}.png").write_bytes(encode(pixels, "PNG"))
    script = """
import time
knobs = {"batch_size": 2, "output": "numpy", "num_workers": 2, "prefetch": 20, "memory_budget": 96 << 20}
with fl.Loader(sys.argv[1], **knobs) as loader:
    seen = []
    for number, batch in enumerate(loader):
        seen += batch["index"].tolist()
        if number < 3:
            # Long enough to fill everything that may be filled.
            before = -1
            while before != (before := pages(1)):
                time.sleep(1.5)
print(json.dumps({"seen": seen, "grown": grown()}))
"""
    found = run(script, tmp_path)
    assert found["seen"] == list(range(60))
    # Batches of 24 MB: the budget, what one of them takes twice while it is sealed, and two threads' scratch.
    assert found["grown"] < 230, found
