"""Whole recipes from JPEG files through the loader, beside torch's DataLoader with torchvision's transforms."""

from __future__ import annotations

import resource
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import feedline as fl
from feedline import transforms as T

from .rows import MEAN, STD

BATCH = 64


def ours() -> dict[str, list[Any]]:
    """The recipes in feedline's words; those whose transforms are not there are left out."""
    begin = [T.RandomResizedCrop(224), T.RandomHorizontalFlip()]
    end = [T.Normalize(MEAN, STD)]
    made = {
        "train": [],
        "RandAugment": [T.RandAugment()],
        "SimCLR": [
            T.RandomApply([T.ColorJitter(0.8, 0.8, 0.8, 0.2)], 0.8),
            T.RandomGrayscale(0.2),
            T.RandomApply([T.GaussianBlur(23, (0.1, 2.0))], 0.5),
        ],
        "3-Augment": [
            T.RandomChoice([T.Grayscale(3), T.RandomSolarize(128, 1.0), T.GaussianBlur(9, (0.1, 2.0))]),
            T.ColorJitter(0.3, 0.3, 0.3),
        ],
    }
    if hasattr(T, "AugMix"):
        made["AugMix"] = [T.AugMix()]
    return {name: [*begin, *middle, *end] for name, middle in made.items()}


def theirs(*, tensor: bool) -> dict[str, Any]:
    """The same for torchvision, on PIL images or on tensors."""
    import torch
    from torchvision.transforms import v2

    begin = [
        *([v2.PILToTensor()] if tensor else []),
        v2.RandomResizedCrop(224, antialias=True),
        v2.RandomHorizontalFlip(),
    ]
    end = [
        *([] if tensor else [v2.PILToTensor()]),
        v2.ToDtype(torch.float32, scale=True),
        v2.Normalize(MEAN, STD),
    ]
    made = {
        "train": [],
        "RandAugment": [v2.RandAugment()],
        "SimCLR": [
            v2.RandomApply([v2.ColorJitter(0.8, 0.8, 0.8, 0.2)], 0.8),
            v2.RandomGrayscale(0.2),
            v2.RandomApply([v2.GaussianBlur(23, (0.1, 2.0))], 0.5),
        ],
        "3-Augment": [
            v2.RandomChoice([v2.Grayscale(3), v2.RandomSolarize(128, 1.0), v2.GaussianBlur(9, (0.1, 2.0))]),
            v2.ColorJitter(0.3, 0.3, 0.3),
        ],
        "AugMix": [v2.AugMix()],
    }
    return {name: v2.Compose([*begin, *middle, *end]) for name, middle in made.items()}


def cpu() -> float:
    """CPU seconds of all threads of this process."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def per_image(epoch: Callable[[], int]) -> float:
    begun = cpu()
    count = epoch()
    return (cpu() - begun) / count


def measured(folder: Path, rounds: int) -> list[dict[str, Any]]:
    """CPU microseconds per image, the sides taking turns."""
    import torch
    from torchvision.datasets import ImageFolder

    data = fl.open(str(folder))
    backends = {"torchvision (PIL)": theirs(tensor=False), "torchvision (tensor)": theirs(tensor=True)}
    found = []
    for name, recipe in ours().items():
        loader = fl.Loader(data, batch_size=BATCH, transforms={"image": recipe}, num_workers=1, drop_last=False)
        sides: dict[str, Callable[[], int]] = {"feedline": lambda loader=loader: sum(len(b["index"]) for b in loader)}
        for backend, recipes in backends.items():
            dataset = ImageFolder(str(folder), recipes[name])
            rival = torch.utils.data.DataLoader(dataset, batch_size=BATCH, shuffle=True, num_workers=0)
            sides[backend] = lambda rival=rival: sum(len(labels) for _, labels in rival)
        times: dict[str, list[float]] = {side: [] for side in sides}
        for _ in range(max(2, rounds // 2)):
            for side, epoch in sides.items():
                times[side].append(per_image(epoch) * 1e6)
        entry = {
            "recipe": name,
            "times": {side: {"best": min(all_), "median": statistics.median(all_)} for side, all_ in times.items()},
        }
        found.append(entry)
        print(line(entry), flush=True)
    return found


def ratio(entry: dict[str, Any]) -> float:
    """How many times as many images feedline makes per CPU second as the better of the others."""
    return min(t["best"] for n, t in entry["times"].items() if n != "feedline") / entry["times"]["feedline"]["best"]


def line(entry: dict[str, Any]) -> str:
    times = "   ".join(f"{name} {each['best']:.0f}" for name, each in entry["times"].items())
    return f"{entry['recipe']:<14} CPU us per image: {times}   x {ratio(entry):.1f}"


def markdown(entries: list[dict[str, Any]]) -> list[str]:
    if not entries:
        return []
    names = list(entries[0]["times"])
    text = [
        "## Recipes, from JPEG files to batches of float32",
        "",
        (
            "CPU microseconds per image of one epoch: feedline's loader with one thread, torch's DataLoader in its own process. Each "
            "recipe begins with RandomResizedCrop(224) and a flip and ends with Normalize. The ratio is against the better of the two."
        ),
        "",
        "| recipe | " + " | ".join(names) + " | images per CPU second |",
        "|---|" + "---|" * (len(names) + 1),
    ]
    for entry in entries:
        cells = " | ".join(f"{entry['times'][name]['best']:.0f}" for name in names)
        text.append(f"| {entry['recipe']} | {cells} | {ratio(entry):.1f} x |")
    return text
