"""What the engine itself costs: samples so small that nothing else counts.

    python benchmarks/stress.py [--samples 200000] [--rounds 5] [--threads 1,2]

Packs of tiny samples, in order and shuffled: 64 bytes; an 8 x 8 image stored as pixels, cropped and normalised; and
undecoded views of the mapped file. Samples/s by wall time, and CPU time per sample, best and median round. The ratio of
the last to the first number of threads shows what threads cost each other.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import feedline as fl
import numpy as np
from feedline import transforms as T


def prepared(place: Path, samples: int) -> dict[str, tuple[Path, dict[str, Any]]]:
    """The packs and how to load them."""
    noise = np.random.default_rng(0)
    data = noise.integers(0, 256, (samples, 64), dtype=np.uint8)
    fl.pack(
        ({"data": row.tobytes(), "label": number % 1000} for number, row in enumerate(data)),
        place / "bytes",
        schema={"data": "bytes", "label": "int"},
        progress=False,
    )
    images = noise.integers(0, 256, (samples, 8, 8, 3), dtype=np.uint8)
    fl.pack(
        ({"image": image, "label": number % 1000} for number, image in enumerate(images)),
        place / "rgb",
        schema={"image": "image", "label": "int"},
        image="rgb",
        progress=False,
    )
    crop = {"transforms": [T.CenterCrop(8), T.Normalize.imagenet()]}
    return {
        "64 bytes": (place / "bytes", {"decode": "none"}),
        "8 x 8 pixels": (place / "rgb", crop),
        "views": (place / "bytes", {"decode": "none", "views": True}),
    }


def cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def epoch(loader: fl.Loader, number: int) -> tuple[float, float]:
    """Wall and CPU seconds per sample."""
    loader.set_epoch(number)
    begun, used, count = time.perf_counter(), cpu(), 0
    for batch in loader:
        count += len(batch["label"])
    return (time.perf_counter() - begun) / count, (cpu() - used) / count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--batch-size", type=int, default=256)
    arguments = parser.parse_args()
    counts = [int(count) for count in arguments.threads.split(",")]
    with tempfile.TemporaryDirectory(dir=".") as folder:
        for name, (path, knobs) in prepared(Path(folder), arguments.samples).items():
            for shuffle in (False, True):
                common: dict[str, Any] = {"batch_size": arguments.batch_size, "output": "numpy", "shuffle": shuffle}
                loaders = {n: fl.Loader(fl.open(path), num_workers=n, **common, **knobs) for n in counts}
                found: dict[int, list[tuple[float, float]]] = {n: [] for n in counts}
                for number in range(arguments.rounds + 1):
                    for threads, loader in loaders.items():
                        found[threads].append(epoch(loader, number))
                rates = {}
                for threads, times in found.items():
                    walls, used = ([each[at] for each in times[1:]] for at in (0, 1))
                    rates[threads] = 1 / min(walls)
                    print(
                        f"{name:13} {'shuffled' if shuffle else 'in order':9} {threads} threads: "
                        f"{1 / min(walls):9.0f} samples/s ({1 / statistics.median(walls):9.0f} median), "
                        f"{min(used) * 1e6:5.2f} CPU us"
                    )
                if len(counts) > 1:
                    print(f"{'':13} {counts[-1]} threads are {rates[counts[-1]] / rates[counts[0]]:.2f} x {counts[0]}")
                for loader in loaders.values():
                    loader.close()


if __name__ == "__main__":
    main()
