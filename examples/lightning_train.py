"""Trains an image classifier with Lightning, which saves and restores the loader's place with its checkpoints.

    python examples/lightning_train.py images/ --epochs 10
    python examples/lightning_train.py images/ --epochs 10 --devices 2     # started again, it continues

Needs `pip install 'feedline[lightning]' torchvision`.
"""

from __future__ import annotations

import argparse
from typing import Any

import feedline as fl
import lightning as L
import torch
import torchvision
from feedline import recipes
from feedline.lightning import DataModule
from lightning.pytorch.callbacks import ModelCheckpoint
from torch import nn


class Classifier(L.LightningModule):
    """A network of torchvision, and the usual loss."""

    def __init__(self, classes: int, model: str = "resnet18", lr: float = 0.01) -> None:
        super().__init__()
        self.rate = lr
        self.network = torchvision.models.get_model(model, num_classes=classes)
        self.losses: list[float] = []

    def training_step(self, batch: dict[str, Any], _: int) -> torch.Tensor:
        """The loss of a batch: a dict of tensors, as from any feedline loader."""
        loss = nn.functional.cross_entropy(self.network(batch["image"]), batch["label"])
        self.losses.append(loss.item())
        self.log("loss", loss, prog_bar=True)
        return loss

    def validation_step(self, batch: dict[str, Any], _: int) -> None:
        """The share of images whose class was found."""
        right = (self.network(batch["image"]).argmax(1) == batch["label"]).float().mean()
        self.log("right", right, prog_bar=True, sync_dist=True, batch_size=len(batch["label"]))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """The simplest."""
        return torch.optim.SGD(self.parameters(), self.rate, momentum=0.9)


def main() -> list[float]:
    """Trains, and gives the losses of this run's steps."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", help="anything that fl.open reads")
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--batch-size", type=int, default=64, help="of each device")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--devices", default="auto")
    parser.add_argument("--checkpoints", default="checkpoints")
    parser.add_argument("--save-every", type=int, default=100, metavar="STEPS")
    args = parser.parse_args()

    train, val = fl.open(args.data).split(0.9, seed=0)
    data = DataModule(
        train=train,
        val=val,
        batch_size=args.batch_size,
        fields=["image", "label"],
        transforms=recipes.imagenet_train(args.size),
        drop_last=True,
        eval_knobs={"transforms": recipes.imagenet_val(args.size), "drop_last": False},
    )
    keep = ModelCheckpoint(args.checkpoints, every_n_train_steps=args.save_every, save_last=True)
    trainer = L.Trainer(max_epochs=args.epochs, devices=args.devices, callbacks=[keep], logger=False)
    torch.manual_seed(0)
    model = Classifier(len(train.classes or ()))
    trainer.fit(model, data, ckpt_path="last")  # without a checkpoint it begins at the beginning
    print(f"{trainer.global_step} steps, {trainer.callback_metrics['right']:.2f} of the validation right")
    return model.losses


if __name__ == "__main__":
    main()
