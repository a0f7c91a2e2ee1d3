"""Every format's own loader beside feedline on the same files. One run, ratios.

    python benchmarks/formats.py FOLDER [--rounds 3] [--repeat 3] [--threads 2] [--batch-size 64] [--only mds,beton]

FOLDER has class sub-folders of JPEG photographs. Each library (in its own environment, see tools/interop/setup.sh)
writes them in its format, `--repeat` times over, so that an epoch outlasts the start of worker processes. Then both
sides take turns, an epoch each, after one that does not count; the best round of each counts. The recipe is
RandomResizedCrop 224, flip, normalise to float32. Last, feedline's own pack without a seek index, as the measure of what
a format costs. CPU time includes worker processes.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import feedline as fl
from feedline import transforms as T

PROJECT = Path(__file__).resolve().parent.parent
ENVIRONMENTS = Path(os.environ.get("FEEDLINE_INTEROP", PROJECT / ".interop"))
FORMATS = {
    "webdataset": ("webdataset", "webdataset", ""),
    "mds": ("mosaicml", "mosaicml-streaming", ""),
    "litdata": ("litdata", "litdata", ""),
    "beton": ("ffcv", "ffcv", "data.beton"),
    "parquet": ("datasets", "datasets", "data.parquet"),
    "tfrecord": ("tensorflow", "tensorflow-cpu", "data.tfrecord"),
    "tar": ("turboloader", "turboloader", "data.tar"),
}
"""By format: environment, package, and what feedline opens."""


def environment(library: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in {"VIRTUAL_ENV", "PYTHONPATH"}}
    return {**kept, "TF_CPP_MIN_LOG_LEVEL": "3", "HF_HUB_OFFLINE": "1", "LIBRARY": library}


def command(library: str, *arguments: object) -> list[str]:
    python = ENVIRONMENTS / library / "bin" / "python"
    if not python.exists():
        sys.exit(f"{python} is missing: run tools/interop/setup.sh")
    script = PROJECT / "benchmarks" / "libraries" / f"bench_{library}.py"
    return [str(python), str(script), *map(str, arguments)]


def version(library: str, package: str) -> str:
    code = f"from importlib.metadata import version; print(version({package!r}))"
    python = ENVIRONMENTS / library / "bin" / "python"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True, env=environment(library))
    return f"{package} {done.stdout.strip()}"


class Theirs:
    """A library's loader in a process of its own that does an epoch when asked."""

    def __init__(self, library: str, folder: Path, options: argparse.Namespace) -> None:
        started = command(library, "serve", folder, options.batch_size, options.threads)
        self.log = tempfile.TemporaryFile()
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": self.log, "text": True}
        self.process = subprocess.Popen(started, env=environment(library), **pipes)

    def epoch(self) -> tuple[int, float, float]:
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            self.log.seek(0)
            sys.exit(f"{self.process.args} failed:\n{self.log.read().decode()[-4000:]}")
        images, wall, used = json.loads(line)
        return images, wall, used

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait()


class Ours:
    """feedline's loader on the same files."""

    def __init__(self, source: Path, options: argparse.Namespace) -> None:
        recipe = [T.RandomResizedCrop(224), T.RandomHorizontalFlip(), T.Normalize.imagenet()]
        knobs = {"batch_size": options.batch_size, "num_workers": options.threads, "shuffle": True}
        self.loader = fl.Loader(fl.open(source), transforms=recipe, fields=["image", "label"], **knobs)

    def epoch(self) -> tuple[int, float, float]:
        wall, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF)
        images = sum(len(batch["label"]) for batch in self.loader)
        wall, after = time.perf_counter() - wall, resource.getrusage(resource.RUSAGE_SELF)
        return images, wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    def close(self) -> None:
        self.loader.close()


def best(rounds: list[tuple[int, float, float]], expected: int) -> tuple[float, float]:
    """Images per second and CPU microseconds per image of the best round."""
    for images, _, _ in rounds:
        if images != expected:
            sys.exit(f"an epoch had {images} images, not {expected}")
    return max(images / wall for images, wall, _ in rounds), min(1e6 * used / images for images, _, used in rounds)


def take_turns(sides: list, rounds: int, expected: int) -> list[tuple[float, float]]:
    for side in sides:
        side.epoch()
    found: list[list[tuple[int, float, float]]] = [[] for _ in sides]
    for _ in range(rounds):
        for side, its in zip(sides, found, strict=True):
            its.append(side.epoch())
    for side in sides:
        side.close()
    return [best(its, expected) for its in found]


def write(library: str, options: argparse.Namespace, out: Path) -> None:
    out.mkdir()
    done = command(library, "write", options.folder, options.repeat, out)
    made = subprocess.run(done, env=environment(library), capture_output=True, text=True, check=False, timeout=1800)
    if made.returncode:
        sys.exit(f"{done} failed:\n{made.stderr[-4000:]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--only", default=",".join(FORMATS))
    parser.add_argument("--work", type=Path, default=None, help="where to write the data sets")
    options = parser.parse_args()
    options.folder = options.folder.resolve()
    chosen = options.only.split(",")
    with tempfile.TemporaryDirectory(dir=options.work) as work:
        compare(chosen, options, Path(work))


def compare(chosen: list[str], options: argparse.Namespace, work: Path) -> None:
    once = fl.open(options.folder)
    expected = len(once) * options.repeat
    pack = work / "pack"
    fl.pack(fl.concat([once] * options.repeat), pack, image="as-is", progress=False)
    model = next((line.split(": ")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "?")
    print(
        f"{platform.machine()}, {model}, {os.cpu_count()} CPUs, Python {platform.python_version()}, feedline {fl.__version__}"
    )
    load = os.getloadavg()[0]
    print(
        f"{expected} images an epoch, batches of {options.batch_size}, {options.threads} threads or workers; load {load:.1f}"
    )
    print(
        f"{'format':<11} {'its own loader':<27} {'theirs':>8} {'ours':>8} {'ratio':>6}   {'CPU us':>7} {'ours':>7}   x pack"
    )
    short = []
    for name in chosen:
        library, package, inside = FORMATS[name]
        folder = work / name
        write(library, options, folder)
        sides = [Theirs(library, folder, options), Ours(folder / inside, options), Ours(pack, options)]
        theirs, ours, own = take_turns(sides, options.rounds, expected)
        ratio, cost = ours[0] / theirs[0], ours[0] / own[0]
        print(
            f"{name:<11} {version(library, package):<27} {theirs[0]:8.0f} {ours[0]:8.0f} {ratio:6.2f}   "
            f"{theirs[1]:7.0f} {ours[1]:7.0f}   {cost:6.2f}",
            flush=True,
        )
        short += [f"{name}: {ratio:.2f} times its own loader, 3 are wanted"] if ratio < 3 else []
        short += [f"{name}: {cost:.2f} of the pack's speed, 0.85 are wanted"] if cost < 0.85 else []
    print("theirs, ours: images/s, best round; CPU us: per image; x pack: beside feedline's pack without a seek index")
    print("\n".join(short) or "every format is at least 3 times its own loader and 0.85 of the pack")
    sys.exit(bool(short))


if __name__ == "__main__":
    main()
