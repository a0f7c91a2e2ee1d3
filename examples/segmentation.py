"""Semantic segmentation: images and masks of the same names in two folders, a small U-Net.

python examples/segmentation.py images/ masks/ --classes 12
"""

from __future__ import annotations

import argparse

import feedline as fl
import torch
from feedline import recipes
from feedline import transforms as T
from torch import nn

IGNORED = 255


class TinyUNet(nn.Module):
    """Two steps down, two up."""

    def __init__(self, classes: int, width: int = 16) -> None:
        super().__init__()

        def block(before: int, after: int) -> nn.Module:
            return nn.Sequential(nn.Conv2d(before, after, 3, padding=1), nn.BatchNorm2d(after), nn.ReLU())

        self.down = nn.ModuleList([block(3, width), block(width, 2 * width), block(2 * width, 4 * width)])
        self.up = nn.ModuleList([block(6 * width, 2 * width), block(3 * width, width)])
        self.last = nn.Conv2d(width, classes, 1)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Scores of every class for every pixel."""
        kept = [self.down[0](images)]
        for step in self.down[1:]:
            kept.append(step(nn.functional.max_pool2d(kept[-1], 2)))
        found = kept.pop()
        for step in self.up:
            found = step(torch.cat([nn.functional.interpolate(found, scale_factor=2), kept.pop()], 1))
        scores: torch.Tensor = self.last(found)
        return scores


def main() -> list[float]:
    """Trains for some steps; gives the losses."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("images")
    parser.add_argument("masks")
    parser.add_argument("--classes", type=int, default=12)
    parser.add_argument("--size", type=int, default=256)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--steps", type=int, default=100)
    args = parser.parse_args()

    ds = fl.open({"image": args.images, "mask": args.masks})
    loader = fl.Loader(
        ds,
        batch_size=args.batch_size,
        shuffle=True,
        drop_last=len(ds) >= args.batch_size,
        transforms={"image": recipes.segmentation(args.size)},
        targets={"mask": T.Mask(fill=IGNORED)},
    )
    torch.manual_seed(0)
    model = TinyUNet(args.classes)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    losses: list[float] = []
    while len(losses) < args.steps:
        for batch in loader:
            scores = model(batch["image"])
            loss = nn.functional.cross_entropy(scores, batch["mask"], ignore_index=IGNORED)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            if len(losses) >= args.steps:
                break
    print(f"{len(losses)} steps, loss {losses[0]:.3f} -> {losses[-1]:.3f}")
    return losses


if __name__ == "__main__":
    main()
