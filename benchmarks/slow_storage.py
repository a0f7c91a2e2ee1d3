"""Slow local storage: what a loader keeps of its speed if every read takes milliseconds, and what reading ahead costs if
none does.

    python benchmarks/slow_storage.py FOLDER [--rounds 3] [--delay 5] [--threads 2] [--copies 4]

FOLDER has class sub-folders of images. Three questions, each answered in one run, round by round in turn:

- every `pread` delayed (`tools/slow_reads.c`, built here with `cc`): the train recipe from a pack and a folder, with
  `read_ahead` off and auto, against the rate without a delay;
- everything in the page cache: CPU time with auto against off;
- a cold epoch (`posix_fadvise(DONTNEED)`) of undecoded bytes against plain parallel reads of the same bytes, through the
  page cache and past it.
"""

from __future__ import annotations

import argparse
import json
import mmap
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import feedline as fl
from feedline import transforms as T

TOOL = Path(__file__).resolve().parent.parent / "tools/slow_reads.c"
RECIPE = [T.RandomResizedCrop(224), T.RandomHorizontalFlip(), T.Normalize.imagenet()]

CHILD = """
import json, resource, sys, time
import feedline as fl
from feedline import transforms as T
path, knobs, seconds = sys.argv[1], json.loads(sys.argv[2]), float(sys.argv[3])
recipe = [T.RandomResizedCrop(224), T.RandomHorizontalFlip(), T.Normalize.imagenet()]
def cpu():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
with fl.Loader(fl.open(path), batch_size=64, shuffle=True, transforms=recipe, output="numpy", **knobs) as loader:
    def epoch(number):
        loader.set_epoch(number)
        begun, used, count = time.perf_counter(), cpu(), 0
        for batch in loader:
            count += len(batch["index"])
        return count, time.perf_counter() - begun, cpu() - used
    first = epoch(0)
    later, number = [], 1
    while sum(each[1] for each in later) < seconds:
        later.append(epoch(number))
        number += 1
    count, wall, used = (sum(column) for column in zip(*later))
    print(json.dumps({"first": first[0] / first[1], "rate": count / wall, "cpu": used / count * 1000,
                      "ahead": loader.stats()["read_ahead"], "said": loader.stats()["bottleneck"]}))
"""


def built(place: Path) -> Path:
    """The library that delays reads."""
    library = place / "slow_reads.so"
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", library, TOOL, "-ldl", "-lpthread"], check=True)
    return library


def prepared(folder: Path, place: Path, copies: int) -> dict[str, Path]:
    """The images several times, as a folder and as a pack."""
    images = place / "images"
    for copy in range(copies):
        for path in sorted(p for p in folder.rglob("*") if p.is_file()):
            target = images / path.parent.name / f"{copy}-{path.name}"
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())
    fl.pack(images, place / "pack", progress=False)
    return {"pack": place / "pack", "folder": images}


def child(path: Path, knobs: dict[str, Any], library: Path, delay: int, seconds: float) -> dict[str, Any]:
    environment = dict(os.environ, LD_PRELOAD=str(library), SLOW_READS_US=str(delay))
    command = [sys.executable, "-c", CHILD, str(path), json.dumps(knobs), str(seconds)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr)
    return dict(json.loads(done.stdout))


def slow(paths: dict[str, Path], library: Path, arguments: argparse.Namespace) -> None:
    """Rates with delayed reads as shares of the rate without."""
    delay = int(arguments.delay * 1000)
    ways = {"no delay, off": (0, "off"), "no delay, auto": (0, "auto")}
    ways |= {f"{arguments.delay:g} ms, off": (delay, "off"), f"{arguments.delay:g} ms, auto": (delay, "auto")}
    print(f"every read {arguments.delay:g} ms, train recipe, {arguments.threads} threads")
    for name, path in paths.items():
        found: dict[str, list[dict[str, Any]]] = {way: [] for way in ways}
        for _ in range(arguments.rounds):
            for way, (wait, ahead) in ways.items():
                knobs = {"num_workers": arguments.threads, "read_ahead": ahead}
                found[way].append(child(path, knobs, library, wait, arguments.seconds))
        base = statistics.median(each["rate"] for each in found["no delay, off"])
        for way, runs in found.items():
            rate, first, used = (statistics.median(run[key] for run in runs) for key in ("rate", "first", "cpu"))
            print(
                f"  {name:7} {way:14} {rate:7.0f} images/s ({rate / base:4.2f}), first epoch {first:7.0f} "
                f"({first / base:4.2f}), {used:5.2f} CPU s per 1000"
            )
            if ahead_reads := runs[-1]["ahead"]["reads"]:
                print(f"          {ahead_reads} reads ahead; {runs[-1]['said'][:100]}")


def cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def cached(paths: dict[str, Path], arguments: argparse.Namespace) -> None:
    """CPU time of data in the page cache, with auto and off, epoch by epoch in turn."""
    print("in the page cache: CPU time of auto as a share of off (median of pairs)")
    recipes = {"train recipe": {"transforms": RECIPE}, "bytes": {"decode": "none", "fields": ["image"]}}
    for name, path in paths.items():
        for recipe, knobs in recipes.items():
            shares = []
            both: list[fl.Loader] = []
            for ahead in ("off", "auto"):
                common: dict[str, Any] = {"batch_size": 64, "shuffle": True, "output": "numpy", **knobs}
                both.append(fl.Loader(fl.open(path), num_workers=arguments.threads, read_ahead=ahead, **common))
            for number in range(2 + 4 * arguments.rounds):
                times = []
                for loader in both if number % 2 else both[::-1]:
                    loader.set_epoch(number)
                    begun = cpu()
                    for _ in loader:
                        pass
                    times.append(cpu() - begun)
                off, auto = times if number % 2 else times[::-1]
                if number >= 2:
                    shares.append(auto / off)
            print(f"  {name:7} {recipe:13} {statistics.median(shares):5.3f}")
            for loader in both:
                loader.close()


def cool(files: list[Path]) -> None:
    """Takes files out of the page cache."""
    for path in files:
        file = os.open(path, os.O_RDONLY)
        os.fsync(file)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(file)


def plain(pieces: list[tuple[Path, int, int]], threads: int) -> None:
    """Reads all pieces with so many threads."""
    opened = {path: os.open(path, os.O_RDONLY) for path in {path for path, _, _ in pieces}}

    def read(piece: tuple[Path, int, int]) -> None:
        path, start, length = piece
        os.pread(opened[path], length, start)

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(read, pieces))
    for file in opened.values():
        os.close(file)


def plain_direct(pieces: list[tuple[Path, int, int]], threads: int) -> None:
    """The same past the page cache: whole pages, into memory that begins on a page."""
    opened = {path: os.open(path, os.O_RDONLY | os.O_DIRECT) for path in {path for path, _, _ in pieces}}
    longest = max(length for _, _, length in pieces)
    own = threading.local()

    def read(piece: tuple[Path, int, int]) -> None:
        path, start, length = piece
        if not hasattr(own, "pages"):
            own.pages = memoryview(mmap.mmap(-1, longest + 2 * mmap.PAGESIZE))
        first = start // mmap.PAGESIZE * mmap.PAGESIZE
        end = -(-(start + length) // mmap.PAGESIZE) * mmap.PAGESIZE
        os.preadv(opened[path], [own.pages[: end - first]], first)

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(read, pieces))
    for file in opened.values():
        os.close(file)


def pieces_of(name: str, files: list[Path]) -> list[tuple[Path, int, int]]:
    """What to read: whole files, or pieces of a pack of about an image, in random order."""
    found = []
    for file in files:
        size = file.stat().st_size
        step = 110_000 if name == "pack" else max(size, 1)
        found += [(file, start, min(step, size - start)) for start in range(0, size, step)]
    random.Random(0).shuffle(found)
    return found


def cold_load(path: Path, files: list[Path], threads: int, ahead: str, shuffle: bool | str) -> float:
    """Seconds of a cold epoch."""
    dataset = fl.open(path)
    cool(files)
    knobs: dict[str, Any] = {"batch_size": 64, "decode": "none", "output": "numpy", "fields": ["image"]}
    begun = time.perf_counter()
    with fl.Loader(dataset, num_workers=threads, shuffle=shuffle, read_ahead=ahead, **knobs) as loader:
        for _ in loader:
            pass
    return time.perf_counter() - begun


def cold_reads(
    files: list[Path], pieces: list[tuple[Path, int, int]], way: Callable[[list[tuple[Path, int, int]], int], None]
) -> float:
    """Seconds of plain reads."""
    cool(files)
    begun = time.perf_counter()
    way(pieces, 32)
    return time.perf_counter() - begun


def cold(paths: dict[str, Path], arguments: argparse.Namespace) -> None:
    """MB/s of a cold epoch beside plain parallel reads."""
    print("a cold epoch of undecoded bytes, MB/s, against 32 threads that only read")
    for name, path in paths.items():
        files = sorted(p for p in path.rglob("*") if p.is_file())
        pieces = pieces_of(name, files)
        ways: dict[str, Callable[[], float]] = {
            "plain reads": partial(cold_reads, files, pieces, plain),
            "plain, O_DIRECT": partial(cold_reads, files, pieces, plain_direct),
        }
        for shuffle, word in ((True, "shuffled"), ("block", "blocks")):
            for ahead in ("off", "auto"):
                ways[f"{word}, {ahead}"] = partial(cold_load, path, files, arguments.threads, ahead, shuffle)
        seconds: dict[str, list[float]] = {way: [] for way in ways}
        for _ in range(arguments.rounds):
            for way, run in ways.items():
                seconds[way].append(run())
        base, total = statistics.median(seconds["plain reads"]), sum(length for _, _, length in pieces)
        for way, found in seconds.items():
            each = statistics.median(found)
            print(f"  {name:7} {way:15} {total / each / 1e6:7.0f} MB/s ({base / each:4.2f})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--delay", type=float, default=5.0, help="milliseconds a read")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--copies", type=int, default=4, help="how often each image is taken")
    parser.add_argument("--seconds", type=float, default=1.5, help="of each measurement")
    parser.add_argument("--only", choices=("slow", "cached", "cold"))
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=".") as folder:
        place = Path(folder)
        library, paths = built(place), prepared(arguments.folder, place, arguments.copies)
        if arguments.only in (None, "slow"):
            slow(paths, library.resolve(), arguments)
        if arguments.only in (None, "cached"):
            cached(paths, arguments)
        if arguments.only in (None, "cold"):
            cold(paths, arguments)


if __name__ == "__main__":
    main()
