"""feedline beside torch's DataLoader, beside memcpy, and beside its own kernels. One run, ratios.

    python benchmarks/run.py FOLDER [--rounds 5] [--threads 2] [--batch-size 64]

FOLDER has class sub-folders of images. Every comparison alternates between the two sides, round by round, in one
process tree; the best and the median round count. CPU time includes worker processes.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import feedline as fl
from feedline import transforms as T


def cpu() -> float:
    """CPU seconds of this process and of its finished children."""
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


class Measured:
    """Wall and CPU seconds per image of several rounds."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.wall: list[float] = []
        self.cpu: list[float] = []

    def round(self, epoch) -> None:
        wall, used = time.perf_counter(), cpu()
        count = epoch()
        self.wall.append((time.perf_counter() - wall) / count)
        self.cpu.append((cpu() - used) / count)

    def line(self) -> str:
        best, median = 1 / min(self.wall), 1 / statistics.median(self.wall)
        return (
            f"{self.name:<44} {best:8.0f} {median:8.0f} images/s   "
            f"{min(self.cpu) * 1e6:7.0f} {statistics.median(self.cpu) * 1e6:7.0f} CPU us/image"
        )


def train_recipe():
    return [T.RandomResizedCrop(224), T.RandomHorizontalFlip(), T.Normalize.imagenet()]


def torch_loader(folder: Path, batch_size: int, workers: int):
    import torch
    from torchvision.datasets import ImageFolder
    from torchvision.transforms import v2

    recipe = v2.Compose(
        [
            v2.RandomResizedCrop(224),
            v2.RandomHorizontalFlip(),
            v2.PILToTensor(),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
        ]
    )
    dataset = ImageFolder(str(folder), recipe)

    def epoch() -> int:
        # A loader per epoch, so that its workers have ended and their CPU time is counted. Starting them by fork takes
        # a few hundredths of a second of an epoch of seconds.
        loader = torch.utils.data.DataLoader(dataset, batch_size=batch_size, shuffle=True, num_workers=workers)
        return sum(len(labels) for _, labels in loader)

    return epoch


def count(loader) -> int:
    return sum(len(batch["index"]) for batch in loader)


def against_torch(folder: Path, pack: Path, arguments) -> dict[str, float]:
    print("\n== train recipe: RandomResizedCrop 224, flip, normalise, float32")
    knobs = {
        "batch_size": arguments.batch_size,
        "shuffle": True,
        "transforms": train_recipe(),
        "num_workers": arguments.threads,
    }
    sides = {
        "torch": (
            Measured(f"torch DataLoader + torchvision ({arguments.threads} workers)"),
            torch_loader(folder, arguments.batch_size, arguments.threads),
        ),
        "folder": (Measured("feedline, the same folder"), None),
        "pack": (Measured("feedline, pack with seek index"), None),
        "dct": (Measured("feedline, dct pack"), None),
    }
    loaders = {
        "folder": fl.Loader(folder, **knobs),
        "pack": fl.Loader(pack, **knobs),
        "dct": fl.Loader(pack.with_name("dct"), **knobs),
    }
    for _ in range(arguments.rounds):
        for name, (measured, epoch) in sides.items():
            measured.round(epoch or (lambda name=name: count(loaders[name])))
    for measured, _ in sides.values():
        print(measured.line())
    base = sides["torch"][0]
    ratios = {}
    for name in loaders:
        measured = sides[name][0]
        ratios[f"speed_{name}"] = min(base.wall) / min(measured.wall)
        ratios[f"cpu_{name}"] = min(measured.cpu) / min(base.cpu)
        print(
            f"   {measured.name}: {ratios[f'speed_{name}']:.2f} x torch's images/s at {ratios[f'cpu_{name}']:.2f} x its CPU time"
        )
    return ratios


def encodings(folder: Path, place: Path, arguments) -> dict[str, float]:
    """What packing takes, and what loading takes beside the `jpeg` pack."""
    print("\n== encodings of a pack: CPU time of packing, and of loading on one thread")
    recipes = {
        "train": train_recipe(),
        "validation": [T.Resize(256), T.CenterCrop(224), T.Normalize.imagenet()],
    }
    files = sum(file.stat().st_size for file in folder.glob("*/*"))
    images = ("jpeg", "compact", "dct")
    packed = {image: Measured(f"packing {image}") for image in images}
    loaded = {(image, recipe): Measured(f"{recipe}, {image} pack") for recipe in recipes for image in images}
    for number in range(arguments.rounds):
        for image, measured in packed.items():
            path = place / f"{image}-{number}"
            measured.round(
                lambda image=image, path=path: len(fl.pack(folder, path, image=image, workers=1, progress=False))
            )
    for number in range(arguments.rounds + 1):
        for (image, recipe), measured in loaded.items():
            knobs = {"shuffle": recipe == "train", "transforms": recipes[recipe]}
            with fl.Loader(place / f"{image}-0", batch_size=arguments.batch_size, num_workers=1, **knobs) as loader:
                loader.set_epoch(number)
                measured.round(lambda loader=loader: count(loader))
    ratios = {}
    for measured in [*packed.values(), *loaded.values()]:
        print(measured.line())
    for image in images:
        size = sum(file.stat().st_size for file in (place / f"{image}-0").iterdir()) / files
        ratios[f"size_{image}"] = size
        for recipe in recipes:
            ratios[f"{recipe}_{image}"] = min(loaded[image, recipe].cpu) / min(loaded["jpeg", recipe].cpu)
        print(
            f"   {image}: {size:.3f} x the files; train {ratios[f'train_{image}']:.3f} x, "
            f"validation {ratios[f'validation_{image}']:.3f} x the jpeg pack's CPU time"
        )
    return ratios


def folder_index(folder: Path, pack: Path, place: Path, arguments) -> dict[str, float]:
    """A folder's epochs: without seek indexes, the first one, which collects them, and later ones, beside the pack."""
    print("\n== train recipe from a folder: seek indexes are collected in the first epochs")
    knobs = {
        "batch_size": arguments.batch_size,
        "shuffle": True,
        "transforms": train_recipe(),
        "num_workers": arguments.threads,
    }

    def fresh(round_: int, **more) -> int:
        os.environ["FEEDLINE_CACHE_DIR"] = str(place / f"round{round_}-{len(more)}")
        with fl.Loader(folder, **knobs, **more) as loader:
            loader.set_epoch(round_)
            return count(loader)

    def second_epoch(round_: int) -> None:
        os.environ["FEEDLINE_CACHE_DIR"] = str(place / f"second{round_}")
        with fl.Loader(folder, **knobs) as loader:
            count(loader)
            second.round(lambda: count(loader))

    os.environ["FEEDLINE_CACHE_DIR"] = str(place / "cache")
    later, packed = fl.Loader(folder, **knobs), fl.Loader(pack, **knobs)
    second = Measured("folder, second epoch")
    for _ in range(3):
        count(later)
    rounds = {
        Measured('folder, index="off"'): lambda r: fresh(r, index="off"),
        Measured("folder, first epoch"): fresh,
        Measured('folder, first epoch, index="build"'): lambda r: fresh(r, index="build"),
        Measured("folder, later epochs"): lambda _: count(later),
        Measured("jpeg pack"): lambda _: count(packed),
    }
    for number in range(arguments.rounds):
        second_epoch(number)
        for measured, epoch in rounds.items():
            measured.round(lambda epoch=epoch, number=number: epoch(number))
    for measured in [second, *rounds]:
        print(measured.line())
    off, first, build, late, base = (min(measured.cpu) for measured in rounds)
    size = sum(file.stat().st_size for file in (place / "cache").glob("index/checkpoints-*/*.seeks"))
    size /= sum(file.stat().st_size for file in folder.glob("*/*"))
    print(
        f"   first epoch {first / off:.3f} x index off (build: {build / off:.3f} x); second {min(second.cpu) / base:.3f} x "
        f"the pack's CPU time, later {late / base:.3f} x ({late / off:.3f} x index off); the indexes take {size:.2%} of the images"
    )
    return {"index_first": first / off, "index_second": min(second.cpu) / base, "index_later": late / base}


def scaling(pack: Path, arguments) -> dict[str, float]:
    print("\n== threads: train recipe from the pack")
    measured = {n: Measured(f"{n} thread{'s' * (n > 1)}") for n in (1, arguments.threads)}
    knobs = {"batch_size": arguments.batch_size, "shuffle": True, "transforms": train_recipe()}
    loaders = {n: fl.Loader(pack, num_workers=n, **knobs) for n in measured}
    for _ in range(arguments.rounds):
        for n, loader in loaders.items():
            measured[n].round(lambda loader=loader: count(loader))
    for one in measured.values():
        print(one.line())
    ratio = min(measured[1].wall) / min(measured[arguments.threads].wall)
    print(f"   {arguments.threads} threads are {ratio:.2f} x one")
    return {"scaling": ratio}


def engine_cost(pack: Path, arguments) -> dict[str, float]:
    print("\n== engine: CPU time of an epoch against what its kernels take (1 thread)")
    knobs = {"batch_size": arguments.batch_size, "shuffle": True, "transforms": train_recipe(), "num_workers": 1}
    ratios = []
    with fl.Loader(pack, **knobs) as loader:
        count(loader)
        for _ in range(arguments.rounds):
            before, used = loader.stats()["seconds"], cpu()
            count(loader)
            used, after = cpu() - used, loader.stats()["seconds"]
            kernels = sum(after[k] - before[k] for k in ("decode", "transform"))
            ratios.append(used / kernels)
            print(f"   epoch {used * 1e3:7.1f} ms CPU, kernels inside it {kernels * 1e3:7.1f} ms: {used / kernels:.3f}")
    print(f"   best {min(ratios):.3f}, median {statistics.median(ratios):.3f}  (kernels alone: make bench-decode)")
    return {"engine": min(ratios)}


def first_batch(pack: Path, arguments) -> dict[str, float]:
    print("\n== time to first batch, warm pack, new process-wide loader each time")
    times = []
    for _ in range(arguments.rounds):
        begun = time.perf_counter()
        with fl.Loader(pack, batch_size=arguments.batch_size, transforms=train_recipe(), output="numpy") as loader:
            next(iter(loader))
            times.append(time.perf_counter() - begun)
    print(
        f"   best {min(times) * 1e3:.1f} ms, median {statistics.median(times) * 1e3:.1f} ms (opening the data set included)"
    )
    return {"first_batch_ms": min(times) * 1e3}


def raw_path(pack: Path, arguments) -> dict[str, float]:
    print("\n== raw path: undecoded bytes, shuffled, batch 256, against memcpy of the same bytes")
    import numpy as np

    loader = fl.Loader(
        pack,
        batch_size=256,
        shuffle=True,
        decode="none",
        fields=["image", "label"],
        output="numpy",
        num_workers=arguments.threads,
    )
    batches = list(loader)
    total = sum(batch["image"].data.nbytes for batch in batches)
    source = [batch["image"].data.copy() for batch in batches]
    target = [np.empty_like(array) for array in source]
    threads = arguments.threads
    copies, reads, rates = [], [], []
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(threads) as pool:
        for _ in range(max(arguments.rounds, 15)):
            begun = time.perf_counter()
            # np.copyto releases the interpreter; each thread copies its share of every array.
            parts = [(t, s, k) for t, s in zip(target, source, strict=True) for k in range(threads)]
            list(
                pool.map(
                    lambda p: np.copyto(np.array_split(p[0], threads)[p[2]], np.array_split(p[1], threads)[p[2]]), parts
                )
            )
            copies.append(total / (time.perf_counter() - begun) / 1e9)
            begun = time.perf_counter()
            number = 0
            for batch in loader:
                number += len(batch["index"])
            seconds = time.perf_counter() - begun
            reads.append(total / seconds / 1e9)
            rates.append(number / seconds)
    best, middle = max(reads) / max(copies), statistics.median(reads) / statistics.median(copies)
    print(f"   memcpy ({threads} threads) {max(copies):.2f} GB/s best, {statistics.median(copies):.2f} median")
    print(f"   feedline {max(reads):.2f} GB/s best, {statistics.median(reads):.2f} median; {max(rates):.0f} images/s")
    print(f"   ratio of bests {best:.2f}, of medians {middle:.2f}")
    return {"raw_vs_memcpy": best}


def memory(pack: Path) -> dict[str, float]:
    print("\n== memory: a fresh process, 50 epochs of the train recipe, numpy output")
    script = """
import json, resource, sys
import feedline as fl
from feedline import transforms as T
def rss():
    return int(open('/proc/self/statm').read().split()[1]) * resource.getpagesize()
def peak_bytes():
    # Not getrusage: its peak is inherited from the process that started us.
    return int(open('/proc/self/status').read().split('VmHWM:')[1].split()[0]) * 1024
base = peak_bytes()
knobs = dict(batch_size=64, shuffle=True, prefetch=2, output='numpy',
             transforms=[T.RandomResizedCrop(224), T.RandomHorizontalFlip(), T.Normalize.imagenet()])
seen = []
with fl.Loader(sys.argv[1], **knobs) as loader:
    for epoch in range(50):
        for batch in loader:
            pass
        seen.append(rss())
peak = peak_bytes()
print(json.dumps({'above_start': peak - base, 'allowed': 5 * 64 * 3 * 224 * 224 * 4 + 150 * 2**20, 'after_5': seen[4], 'after_50': seen[-1]}))
"""
    run = subprocess.run([sys.executable, "-c", script, str(pack)], capture_output=True, text=True, check=True)
    figures = json.loads(run.stdout)
    print("   " + ", ".join(f"{k} {v / 2**20:.0f} MiB" for k, v in figures.items()))
    return {
        "peak_mib": figures["above_start"] / 2**20,
        "growth_mib": (figures["after_50"] - figures["after_5"]) / 2**20,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--json", type=Path, help="also write the ratios here")
    parser.add_argument("--only", default="", help="only parts with this in their names, such as encodings")
    arguments = parser.parse_args()
    if not arguments.folder.is_dir():
        parser.error(f"{arguments.folder} is not a folder of class folders; run make bench DATA=...")
    import torch

    print(
        f"{platform.processor() or platform.machine()}, {os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}; feedline {fl.__version__}, torch {torch.__version__}"
    )
    with tempfile.TemporaryDirectory() as place:
        # What earlier runs have saved must not count.
        os.environ["FEEDLINE_CACHE_DIR"] = str(Path(place) / "cache")
        pack = Path(place) / "pack"
        fl.pack(arguments.folder, pack, progress=False)
        fl.pack(arguments.folder, pack.with_name("dct"), image="dct", progress=False)
        results = {}
        parts = {
            "against_torch": lambda: against_torch(arguments.folder, pack, arguments),
            "encodings": lambda: encodings(arguments.folder, Path(place), arguments),
            "folder_index": lambda: folder_index(arguments.folder, pack, Path(place), arguments),
            "scaling": lambda: scaling(pack, arguments),
            "engine_cost": lambda: engine_cost(pack, arguments),
            "first_batch": lambda: first_batch(pack, arguments),
            "raw_path": lambda: raw_path(pack, arguments),
            "memory": lambda: memory(pack),
        }
        for name, part in parts.items():
            if arguments.only in name:
                results.update(part())
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
