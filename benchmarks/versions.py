"""Two builds of feedline beside each other: CPU time of the same workloads, in turn.

    python benchmarks/versions.py FOLDER BEFORE AFTER [--rounds 7] [--only train]

FOLDER has class sub-folders of images. BEFORE and AFTER are folders with a package `feedline` inside, built with
optimisation (`python/` of two checkouts). Each build has one process; the processes take turns, epoch by epoch, on one
thread. What both read is written by BEFORE, so the older one can read it.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

WORKLOADS = {
    "train, folder": ("folder", "train", {"shuffle": True}),
    "train, jpeg pack": ("jpeg", "train", {"shuffle": True}),
    "train, dct pack": ("dct", "train", {"shuffle": True}),
    "train, block shuffle": ("jpeg", "train", {"shuffle": "block"}),
    "train, WebDataset": ("tar", "train", {"shuffle": True}),
    "train, MDS": ("mds", "train", {"shuffle": True}),
    "train, Parquet": ("parquet", "train", {"shuffle": True}),
    "validation, jpeg pack": ("jpeg", "validation", {}),
    "validation, dct pack": ("dct", "validation", {}),
    "whole images, jpeg pack": ("jpeg", None, {"dtype": "uint8"}),
    "undecoded bytes, jpeg pack": ("jpeg", None, {"decode": "none", "shuffle": True}),
}


def serve() -> None:
    """Runs one epoch for each line of standard input, and answers with CPU microseconds per image."""
    import feedline as fl
    from feedline import transforms as T

    recipes = {
        "train": [T.RandomResizedCrop(224), T.RandomHorizontalFlip(), T.Normalize.imagenet()],
        "validation": [T.Resize(256), T.CenterCrop(224), T.Normalize.imagenet()],
        None: None,
    }
    loaders: dict = {}
    for line in sys.stdin:
        asked = json.loads(line)
        name = asked["name"]
        if name not in loaders:
            knobs = dict(
                asked["knobs"], batch_size=64, num_workers=1, output="numpy", transforms=recipes[asked["recipe"]]
            )
            loaders[name] = fl.Loader(fl.open(asked["data"]), **knobs)
        began, count = time.process_time(), 0
        for batch in loaders[name]:
            count += len(batch["index"])
        print(json.dumps((time.process_time() - began) / count * 1e6), flush=True)


def write_data(folder: Path, into: Path) -> dict[str, str]:
    """The same samples in every form that the workloads name."""
    import feedline as fl

    paths = {"folder": str(folder)}
    for image in ("jpeg", "dct"):
        paths[image] = str(into / image)
        fl.pack(str(folder), paths[image], image=image, progress=False)
    for name, to in (("tar", "webdataset"), ("mds", "mds"), ("parquet", "parquet")):
        paths[name] = str(into / name)
        fl.convert(str(folder), paths[name], to=to, progress=False)
    return paths


def run(package: str, *arguments: str, **more) -> subprocess.Popen:
    # Without this, Python would look for the package beside this file first.
    environment = dict(os.environ, PYTHONPATH=package, PYTHONSAFEPATH="1")
    return subprocess.Popen([sys.executable, __file__, *arguments], env=environment, text=True, **more)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("before", nargs="?")
    parser.add_argument("after", nargs="?")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", default="", help="workloads whose name contains this")
    parser.add_argument("--write", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.write:
        print(json.dumps(write_data(options.folder, options.write)))
        return
    with tempfile.TemporaryDirectory() as into:
        writer = run(options.before, str(options.folder), "--write", into, stdout=subprocess.PIPE)
        paths = json.loads(writer.communicate()[0].splitlines()[-1])
        builds = [
            run(p, "serve", stdin=subprocess.PIPE, stdout=subprocess.PIPE) for p in (options.before, options.after)
        ]
        print(f"{'CPU us/image':<30} {'before':>8} {'after':>8}   ratio: best  median   ({options.rounds} rounds)")
        for name, (data, recipe, knobs) in WORKLOADS.items():
            if options.only in name:
                asked = json.dumps({"name": name, "data": paths[data], "recipe": recipe, "knobs": knobs})
                compare(name, builds, asked, options.rounds)
        for build in builds:
            build.stdin.close()
            build.wait()


def compare(name: str, builds: list[subprocess.Popen], asked: str, rounds: int) -> None:
    times: list[list[float]] = [[], []]
    for turn in range(rounds + 1):
        for build, found in zip(builds, times, strict=True):
            print(asked, file=build.stdin, flush=True)
            answer = float(build.stdout.readline())
            if turn:  # The first epoch fills caches.
                found.append(answer)
    before, after = times
    best = min(after) / min(before)
    median = statistics.median(after) / statistics.median(before)
    print(f"{name:<30} {min(before):8.1f} {min(after):8.1f}          {best:5.3f}   {median:5.3f}", flush=True)


if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        serve()
    else:
        main()
