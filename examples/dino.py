"""DINO: two large and several small crops of every image from one decoding; the student meets its own average.

python examples/dino.py images/
"""

from __future__ import annotations

import argparse
import copy

import feedline as fl
import torch
from feedline import recipes
from torch import nn


def network(width: int = 16, prototypes: int = 64) -> nn.Module:
    """A small network that takes images of any size."""
    layers: list[nn.Module] = []
    before = 3
    for step in range(4):
        after = width * 2**step
        layers += [nn.Conv2d(before, after, 3, stride=2, padding=1), nn.GroupNorm(4, after), nn.GELU()]
        before = after
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, prototypes))


def main() -> list[float]:
    """Trains for some steps; gives the losses."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("images")
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--local-size", type=int, default=96)
    parser.add_argument("--local-crops", type=int, default=6)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--steps", type=int, default=100)
    args = parser.parse_args()

    loader = fl.Loader(
        fl.open(args.images),
        batch_size=args.batch_size,
        shuffle=True,
        fields=["image"],
        transforms={"image": recipes.dino(args.size, args.local_size, args.local_crops)},
    )
    torch.manual_seed(0)
    student = network()
    teacher = copy.deepcopy(student).requires_grad_(requires_grad=False)
    optimizer = torch.optim.AdamW(student.parameters(), 1e-3)
    center = torch.zeros(1, 64)
    losses: list[float] = []
    while len(losses) < args.steps:
        for batch in loader:
            views = batch["image"]
            with torch.no_grad():
                scored = {name: teacher(view) for name, view in views.items() if name.startswith("global")}
                goals = {name: ((scores - center) / 0.04).softmax(1) for name, scores in scored.items()}
            made = {name: (student(view) / 0.1).log_softmax(1) for name, view in views.items()}
            pairs = [(goal, made[view]) for name, goal in goals.items() for view in made if view != name]
            loss = torch.stack([-(goal * found).sum(1).mean() for goal, found in pairs]).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            with torch.no_grad():
                center = 0.9 * center + 0.1 * torch.cat(list(scored.values())).mean(0, keepdim=True)
                for slow, fast in zip(teacher.parameters(), student.parameters(), strict=True):
                    slow.mul_(0.99).add_(fast, alpha=0.01)
            losses.append(loss.item())
            if len(losses) >= args.steps:
                break
    print(f"{len(losses)} steps, loss {losses[0]:.3f} -> {losses[-1]:.3f}")
    return losses


if __name__ == "__main__":
    main()
