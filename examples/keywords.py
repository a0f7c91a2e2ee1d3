"""Trains a keyword spotter: one word in each audio file, folders are words.

python examples/keywords.py speech/ --steps 200
"""

from __future__ import annotations

import argparse

import feedline as fl
import torch
from feedline import transforms as T
from torch import nn


def main() -> list[float]:
    """Trains, and returns the losses."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--steps", type=int, default=200)
    args = parser.parse_args()

    ds = fl.open(args.folder)
    ops = [
        T.AudioWindow(args.seconds),
        T.Resample(8000),
        T.Mono(),
        T.RandomGain((-6, 6)),
        T.MelSpectrogram(8000, n_fft=256, hop_length=80, n_mels=32),
        T.AmplitudeToDB(top_db=80),
        T.TimeMasking(5),
        T.FrequencyMasking(4),
    ]
    knobs = {"transforms": {"audio": ops}, "batch_size": args.batch_size, "shuffle": True, "seed": 0}
    loader = fl.Loader(ds, **knobs)

    torch.manual_seed(0)
    model = nn.Sequential(
        nn.BatchNorm2d(1),
        nn.Conv2d(1, 16, 3, 2, 1),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, 2, 1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d((4, 1)),
        nn.Flatten(),
        nn.Linear(128, len(ds.classes or ())),
    )
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    losses: list[float] = []
    while len(losses) < args.steps:
        for batch in loader:
            loss = nn.functional.cross_entropy(model(batch["audio"]), batch["label"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            if len(losses) == args.steps:
                break
    print(f"loss {losses[0]:.3f} -> {losses[-1]:.3f}")
    return losses


if __name__ == "__main__":
    main()
