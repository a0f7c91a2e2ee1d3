"""Object detection: a folder of images with COCO, Pascal VOC or YOLO annotations, a small detector without anchors.

python examples/detection.py images/ annotations/
"""

from __future__ import annotations

import argparse
from typing import Any

import feedline as fl
import torch
from feedline import transforms as T
from torch import nn

CELL = 16


class TinyDetector(nn.Module):
    """For every cell of 16 x 16 pixels: scores of all classes, and a box around its middle."""

    def __init__(self, classes: int, width: int = 16) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        before = 3
        for step in range(4):
            after = width * 2**step
            layers += [nn.Conv2d(before, after, 3, stride=2, padding=1), nn.BatchNorm2d(after), nn.ReLU()]
            before = after
        self.body = nn.Sequential(*layers)
        self.head = nn.Conv2d(before, classes + 4, 1)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """`[B, classes + 4, H / 16, W / 16]`."""
        found: torch.Tensor = self.head(self.body(images))
        return found


def goals(batch: dict[str, Any], classes: int, cells: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """For every cell: which class has its middle there, how far its sides are in cells, and whether there is one."""
    size = len(batch["index"])
    scores, sides = torch.zeros(size, classes, cells, cells), torch.zeros(size, 4, cells, cells)
    for row in range(size):
        for box, label in zip(batch["boxes"][row], batch["label"][row], strict=True):
            middle = (box[:2] + box[2:]) / 2 / CELL
            x, y = middle.long().clamp(0, cells - 1).tolist()
            scores[row, int(label), y, x] = 1
            at = torch.tensor([x + 0.5, y + 0.5])
            sides[row, :, y, x] = torch.cat([at - box[:2] / CELL, box[2:] / CELL - at])
    return scores, sides, scores.amax(1, keepdim=True)


def main() -> list[float]:
    """Trains for some steps; gives the losses."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("images")
    parser.add_argument("annotations")
    parser.add_argument("--size", type=int, default=256)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--steps", type=int, default=100)
    args = parser.parse_args()

    ds = fl.open(args.images, annotations=args.annotations)
    loader = fl.Loader(
        ds,
        batch_size=args.batch_size,
        shuffle=True,
        drop_last=len(ds) >= args.batch_size,
        fields=["image", "boxes", "label"],
        transforms=[
            T.RandomResizedCrop(args.size, scale=(0.4, 1.0)),
            T.RandomHorizontalFlip(),
            T.ColorJitter(0.2, 0.2, 0.2),
            T.Normalize.imagenet(),
        ],
        targets={"boxes": T.Boxes(labels="label", min_size=4, min_visibility=0.2)},
    )
    classes, cells = len(ds.classes), args.size // CELL
    torch.manual_seed(0)
    model = TinyDetector(classes)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    losses: list[float] = []
    while len(losses) < args.steps:
        for batch in loader:
            made = model(batch["image"])
            scores, sides, there = goals(batch, classes, cells)
            found = nn.functional.binary_cross_entropy_with_logits(made[:, :classes], scores, reduction="sum")
            apart = (nn.functional.smooth_l1_loss(made[:, classes:], sides, reduction="none") * there).sum()
            loss = (found + apart) / there.sum().clamp(min=1)
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
