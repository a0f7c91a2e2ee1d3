"""What hostile images cost: every file of the tiers reject and bomb, and some made ones, through every way out.

    python benchmarks/limits.py FOLDER --manifest manifest.csv [--more 256]

Each file lies among three good ones, in a process whose address space may grow by `--more` MiB over what it has after
three good samples (`RLIMIT_AS`, what `ulimit -v` sets). A way is right if `raise` raises a feedline error, if `skip` and
`replace` deliver the good samples and list the bad one, and if single samples, `verify` and packing refuse it by name.
The table shows how many were right, and the most memory and time that a way took. A process that dies is called so.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import struct
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path

from PIL import Image

SCRIPT = """
import contextlib, io, json, resource, shutil, sys, time
import feedline as fl
from feedline import _feedline, transforms as T
folder, place, more, knobs = sys.argv[1], sys.argv[2], int(sys.argv[3]), json.loads(sys.argv[4])
dataset = fl.open(folder)
PATHS = {
    "whole": None,
    "crop": [T.CenterCrop(32)],
    "resize": [T.Resize((64, 64))],
    "pad": [T.Pad(4)],
    "views": {"image": {"a": [T.CenterCrop(8)], "b": [T.Resize((9, 9))]}},
    "random": [T.RandomResizedCrop(32)],
}
def load(path, on_error):
    with fl.Loader(dataset, transforms=PATHS[path], on_error=on_error, output="numpy", dtype="uint8",
                   batch_size=4, num_workers=1, **knobs) as loader:
        count = sum(len(batch["index"]) for batch in loader)
        listed = [error for error in loader.errors() if "bad." in str(error)]
        return (count, len(listed)) == (3 if on_error == "skip" else 4, 1)
def command(*words):
    with contextlib.redirect_stdout(io.StringIO()):
        return _feedline.run_cli(["feedline", *words])
def packed(**options):
    shutil.rmtree(place, ignore_errors=True)
    return len(fl.pack(folder, place, on_error="skip", progress=False, **options)) == 3
WAYS = {f"{path} {on_error}": (lambda p=path, e=on_error: load(p, e)) for path in PATHS for on_error in ("raise", "skip", "replace")}
WAYS |= {
    "decoded()": lambda: [dataset.decoded()[at]["image"] for at in range(4)] and False,
    "verify": lambda: command("verify", "--decode", folder) == 1,
    "pack": lambda: packed(),
    "pack as-is": lambda: packed(image="as-is", check="decode"),
    "pack rgb": lambda: packed(image="rgb"),
}
def peak():
    return int(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1])
def tried(run):
    # Makes the peak what is used now.
    open("/proc/self/clear_refs", "w").write("5")
    before, begun = peak(), time.perf_counter()
    try:
        said = "right" if run() else "no error"
    except MemoryError:
        said = "MemoryError"
    except fl.Error as error:
        said = "right" if "bad." in str(error) else f"{type(error).__name__} without a name"
    except Exception as error:
        said = type(error).__name__
    return said, (peak() - before) / 1024, time.perf_counter() - begun
# The bad one is the first.
with fl.Loader(dataset.select([1, 2, 3]), transforms=[T.CenterCrop(8)], output="numpy", num_workers=1) as loader:
    list(loader)
pages = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (pages + (more << 20),) * 2)
for way, run in WAYS.items():
    print(json.dumps([way, *tried(run)]), flush=True)
"""


def small(size=(40, 30), kind="JPEG") -> bytes:
    buffer = io.BytesIO()
    Image.linear_gradient("L").resize(size).convert("RGB").save(buffer, kind)
    return buffer.getvalue()


def png(width: int, height: int) -> bytes:
    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


def jpeg(width: int, height: int) -> bytes:
    data = bytearray(small((160, 120)))
    at = data.index(b"\xff\xc0")
    data[at + 5 : at + 9] = struct.pack(">HH", height, width)
    return bytes(data)


def tiff(bits: int) -> bytes:
    """Half a megabyte of samples of any number of bits."""
    pixels = bytes(600_000)
    tags = {256: 5000, 257: 8000, 258: bits, 259: 1, 262: 1, 273: 122, 277: 1, 278: 8000, 279: len(pixels)}
    entries = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in tags.items())
    return b"II*\0" + struct.pack("<IH", 8, len(tags)) + entries + bytes(4) + pixels


def made() -> dict[str, tuple[bytes, dict[str, int]]]:
    """Files that once cost much: their bytes, and the knobs of the loader."""
    start = jpeg(12000, 12000)
    return {
        "png of 69 bytes, 65535x65535.png": (png(65535, 65535), {}),
        "png within the limit, 13000x13000.png": (png(13000, 13000), {}),
        "jpeg of 20000x20000, max_pixels=1e6.jpg": (jpeg(20000, 20000), {"max_pixels": 1_000_000}),
        "jpeg of 13000x13000 in 2 KB.jpg": (jpeg(13000, 13000), {}),
        "jpeg of 60 bytes.jpg": (start[:2] + start[start.index(b"\xff\xc0") :][:58], {}),
        "tiff of 143 bits.tif": (tiff(143), {}),
        "avif cut in half.avif": (small((300, 200), "AVIF")[:-200], {}),
    }


def tried(data: bytes, suffix: str, knobs: dict[str, int], more: int) -> dict[str, tuple[str, float, float]]:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "data"
        folder.mkdir()
        for number in range(3):
            (folder / f"good{number}.jpg").write_bytes(small())
        (folder / f"bad{suffix}").write_bytes(data)
        results: dict[str, tuple[str, float, float]] = {}
        command = [sys.executable, "-c", SCRIPT, str(folder), f"{place}/pack", str(more), json.dumps(knobs)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
        for line in done.stdout.splitlines():
            if line.startswith("["):
                way, *result = json.loads(line)
                results[way] = tuple(result)
        if done.returncode != 0:
            results[f"after {len(results)} ways"] = (f"died ({done.returncode}) {done.stderr[-300:]}", 0, 0)
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--manifest", type=Path, required=True)
    parser.add_argument("--more", type=int, default=256)
    arguments = parser.parse_args()
    with arguments.manifest.open() as opened:
        rows = [row for row in csv.DictReader(opened) if row["tier"] in ("reject", "bomb")]
    files = [arguments.manifest.parent / row["path"] for row in rows]
    cases = {file.name: (file.read_bytes(), {}) for file in files if arguments.folder in file.parents} | made()
    ways: dict[str, dict[str, tuple[str, float, float]]] = {}
    print(f"{'file':62} {'right':>7} {'most MiB':>9} {'most s':>7}  otherwise")
    for name, (data, knobs) in cases.items():
        results = tried(data, Path(name).suffix or ".jpg", knobs, arguments.more)
        report(f"{name[:62]:62}", results)
        for way, result in results.items():
            ways.setdefault(way, {})[name] = result
    print(f"\n{'way':62} {'right':>7} {'most MiB':>9} {'most s':>7}  otherwise")
    for way, results in ways.items():
        report(f"{way:62}", results)


def report(label: str, results: dict[str, tuple[str, float, float]]) -> None:
    odd = [f"{name}: {said}" for name, (said, *_) in results.items() if said != "right"]
    most = max(memory for _, memory, _ in results.values())
    longest = max(seconds for *_, seconds in results.values())
    right = f"{len(results) - len(odd)}/{len(results)}"
    print(f"{label} {right:>7} {most:9.1f} {longest:7.2f}  {'; '.join(odd)}", flush=True)


if __name__ == "__main__":
    main()
