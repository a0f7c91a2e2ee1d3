"""Trains a tiny video classifier on clips: folders are classes.

python examples/clips.py videos/ --steps 100
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
    parser.add_argument("--frames", type=int, default=8)
    parser.add_argument("--size", type=int, default=48)
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--steps", type=int, default=100)
    args = parser.parse_args()

    ds = fl.open(args.folder)
    ops = [T.Clip(args.frames, stride=2), T.RandomResizedCrop(args.size, (0.6, 1.0)), T.Normalize.imagenet()]
    loader = fl.Loader(ds, transforms={"video": ops}, batch_size=args.batch_size, shuffle=True, seed=0)

    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv3d(3, 16, 3, (1, 2, 2), 1),
        nn.ReLU(),
        nn.Conv3d(16, 32, 3, 2, 1),
        nn.ReLU(),
        nn.AdaptiveAvgPool3d(1),
        nn.Flatten(),
        nn.Linear(32, len(ds.classes or ())),
    )
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    losses: list[float] = []
    while len(losses) < args.steps:
        for batch in loader:
            video = batch["video"].transpose(1, 2)  # channels before time
            loss = nn.functional.cross_entropy(model(video), batch["label"])
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
