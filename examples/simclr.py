"""SimCLR: two views of every image from one decoding, and the loss that tells pairs from strangers.

python examples/simclr.py images/
"""

from __future__ import annotations

import argparse

import feedline as fl
import torch
from feedline import recipes
from torch import nn


def encoder(width: int = 16, features: int = 64) -> nn.Module:
    """A small network, for trying."""
    layers: list[nn.Module] = []
    before = 3
    for step in range(4):
        after = width * 2**step
        layers += [nn.Conv2d(before, after, 3, stride=2, padding=1), nn.BatchNorm2d(after), nn.ReLU()]
        before = after
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, features))


def nt_xent(a: torch.Tensor, b: torch.Tensor, temperature: float = 0.5) -> torch.Tensor:
    """Each view must find the other among all views of the batch."""
    both = nn.functional.normalize(torch.cat([a, b]), dim=1)
    scores = both @ both.T / temperature
    scores.fill_diagonal_(float("-inf"))
    partners = torch.arange(len(both)).roll(len(a))
    return nn.functional.cross_entropy(scores, partners)


def main() -> list[float]:
    """Trains for some steps; gives the losses."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("images")
    parser.add_argument("--size", type=int, default=96)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--steps", type=int, default=100)
    args = parser.parse_args()

    loader = fl.Loader(
        fl.open(args.images),
        batch_size=args.batch_size,
        shuffle=True,
        fields=["image"],
        transforms={"image": recipes.simclr(args.size)},
    )
    torch.manual_seed(0)
    model = encoder()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    losses: list[float] = []
    while len(losses) < args.steps:
        for batch in loader:
            loss = nt_xent(model(batch["image"]["a"]), model(batch["image"]["b"]))
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
