"""Whole images as they are stored, beside OpenCV and torchvision.io.

    python benchmarks/whole.py FOLDER [--rounds 7]

FOLDER has class sub-folders of JPEGs. OpenCV and torchvision.io decode bytes that are in memory already; feedline reads
them too, from the folder or from packs of it. One thread each, CPU time, libraries in turns.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import cv2
import feedline as fl
import numpy as np
import torch
from torchvision.io import ImageReadMode, decode_image


def opencv(files: list[bytes]) -> int:
    return sum(cv2.imdecode(np.frombuffer(f, np.uint8), cv2.IMREAD_COLOR_RGB).shape[0] > 0 for f in files)


def torchvision_io(tensors: list[torch.Tensor]) -> int:
    return sum(decode_image(t, ImageReadMode.RGB).shape[0] == 3 for t in tensors)


def epoch(loader: fl.Loader) -> int:
    return sum(len(batch["index"]) for batch in loader)


def ways(folder: Path, into: Path) -> dict[str, Callable[[], int]]:
    files = [p.read_bytes() for p in sorted(folder.rglob("*")) if p.suffix.lower() in {".jpg", ".jpeg"}]
    tensors = [torch.frombuffer(bytearray(f), dtype=torch.uint8) for f in files]
    found: dict[str, Callable[[], int]] = {
        "opencv imdecode": lambda: opencv(files),
        "torchvision.io": lambda: torchvision_io(tensors),
    }
    knobs = {"batch_size": 16, "num_workers": 1, "output": "numpy", "dtype": "uint8", "memory_format": "channels_last"}
    for name in ("folder", "jpeg", "compact", "dct"):
        source = str(folder) if name == "folder" else str(into / name)
        if name != "folder":
            fl.pack(str(folder), source, image=name, progress=False)
        loader = fl.Loader(fl.open(source), **knobs)
        found[f"feedline, {name}"] = lambda loader=loader: epoch(loader)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    cv2.setNumThreads(1)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as into:
        found = ways(options.folder, Path(into))
        times: dict[str, list[float]] = {name: [] for name in found}
        for turn in range(options.rounds + 2):
            for name, run in found.items():
                began = time.process_time()
                count = run()
                if turn > 1:  # Two epochs fill caches and collect the folder's seek indexes.
                    times[name].append((time.process_time() - began) / count * 1e6)
    base = times["opencv imdecode"]
    print(f"{'':<24}{'best us':>9}{'median':>9}   x opencv: best  median")
    for name, found_times in times.items():
        best, median = min(found_times), statistics.median(found_times)
        print(
            f"{name:<24}{best:9.0f}{median:9.0f}             {best / min(base):5.3f}   {median / statistics.median(base):5.3f}"
        )


if __name__ == "__main__":
    main()
