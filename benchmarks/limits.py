"""What hostile images cost: every file of the tiers reject and bomb, through every way out, under a limit on memory.

    python benchmarks/limits.py FOLDER --manifest manifest.csv [--more 512]

Each way runs in a process of its own whose address space may grow by `--more` MiB. The table shows the error, the memory
that the peak rose by, and the time; a process that dies is called so.
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import sys
import tempfile
from pathlib import Path

WAYS = {
    "whole": "load(transforms=None)",
    "crop": "load(transforms=[T.CenterCrop(32)])",
    "resize": "load(transforms=[T.Resize(64)])",
    "pad": "load(transforms=[T.Pad(4)])",
    "views": 'load(transforms={"image": {"a": [T.CenterCrop(8)], "b": [T.Resize((9, 9))]}})',
    "skip": 'load(transforms=None, on_error="skip")',
    "replace": 'load(transforms=[T.CenterCrop(8)], on_error="replace")',
    "index": 'load(transforms=None, mode="unchanged")',
    "decoded": 'dataset.decoded()[0]["image"]',
    "verify": "verify()",
    "pack": 'fl.pack(folder, place, check="decode", progress=False)',
    "pack rgb": 'fl.pack(folder, place, image="rgb", progress=False)',
}

SCRIPT = """
import json, resource, sys, time
import feedline as fl
from feedline import transforms as T
from feedline.__main__ import main
folder, place, more = sys.argv[1], sys.argv[2], int(sys.argv[3])
dataset = fl.open(folder)
def load(**knobs):
    with fl.Loader(dataset, output="numpy", dtype="uint8", num_workers=1, **knobs) as loader:
        return [batch["index"] for batch in loader]
def verify():
    import subprocess
    code = subprocess.run([sys.executable, "-m", "feedline", "verify", "--decode", folder], capture_output=True).returncode
    if code == 1:
        raise fl.Error("verify: broken")
def peak():
    line = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
    return int(line.split()[1])
pages = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (pages + (more << 20),) * 2)
before, begun, error = peak(), time.perf_counter(), ""
try:
    {way}
except (fl.Error, MemoryError) as found:
    error = type(found).__name__
print(json.dumps([error, (peak() - before) / 1024, time.perf_counter() - begun]))
"""


def tried(file: Path, way: str, more: int) -> tuple[str, float, float]:
    """The error's name, MiB and seconds."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "data"
        folder.mkdir()
        (folder / f"0{file.suffix}").write_bytes(file.read_bytes())
        script = SCRIPT.replace("{way}", WAYS[way])
        command = [sys.executable, "-c", script, str(folder), f"{place}/pack", str(more)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    if done.returncode != 0:
        return f"died ({done.returncode})", 0, 0
    error, memory, seconds = json.loads(done.stdout.splitlines()[-1])
    return error or "no error", memory, seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--manifest", type=Path, required=True)
    parser.add_argument("--more", type=int, default=512)
    arguments = parser.parse_args()
    with arguments.manifest.open() as opened:
        rows = [row for row in csv.DictReader(opened) if row["tier"] in ("reject", "bomb")]
    files = [arguments.manifest.parent / row["path"] for row in rows]
    files = [file for file in files if arguments.folder in file.parents]
    print(f"{'way':10} {'errors':>6} {'most MiB':>9} {'most s':>7}  other than a clean error")
    for way in WAYS:
        results = {file.name: tried(file, way, arguments.more) for file in files}
        odd = [f"{name}: {error}" for name, (error, *_) in results.items() if not error.endswith("Error")]
        errors = len(results) - len(odd)
        most = max(memory for _, memory, _ in results.values())
        longest = max(seconds for *_, seconds in results.values())
        print(f"{way:10} {errors:3}/{len(results):<3}{most:9.1f} {longest:7.2f}  {'; '.join(odd)}", flush=True)


if __name__ == "__main__":
    main()
