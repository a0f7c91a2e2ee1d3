"""Trains an image classifier the classic way: SGD, cosine schedule, mixed precision, any number of processes.

    python examples/imagenet.py --data /data/imagenet/train --val /data/imagenet/val
    torchrun --nproc-per-node=8 examples/imagenet.py --data train.pack --val val.pack
    python examples/imagenet.py --data s3://bucket/train --val s3://bucket/val --cache /scratch

`--data` and `--val` are anything that `fl.open` reads: a folder, a pack, tar files, a bucket. Without `--val`, a tenth
of the data is kept for validation.

A run saves `--checkpoint` every `--save-every` steps. Started again, it continues from there with exactly the next
batch, also on another number of processes, if `--batch-size` (over all of them) is the same. To try it without data:

    feedline demo --dir demo
    python examples/imagenet.py --data demo/images --model resnet18 --size 64 --batch-size 32 --epochs 2
"""

from __future__ import annotations

import argparse
import math
import os
import time
from pathlib import Path
from typing import Any

import feedline as fl
import torch
import torchvision
from feedline import recipes
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

AMP = {"off": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def arguments() -> argparse.Namespace:
    """Arguments of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="training data: folder, pack, tar files, bucket")
    parser.add_argument("--val", help="validation data; without it, a tenth of --data")
    parser.add_argument("--cache", help="folder for a copy of remote data")
    parser.add_argument("--model", default="resnet50", help="a name of torchvision.models")
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--batch-size", type=int, default=256, help="over all processes")
    parser.add_argument("--epochs", type=int, default=90)
    parser.add_argument("--steps", type=int, help="stop after this many steps in all; a later run continues")
    parser.add_argument("--lr", type=float, default=0.1, help="for a batch of 256")
    parser.add_argument("--amp", choices=AMP, default="off", help="element type of the forward pass")
    parser.add_argument("--checkpoint", type=Path, default=Path("imagenet.pt"))
    parser.add_argument("--save-every", type=int, default=1000, metavar="STEPS")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def start_processes() -> tuple[int, torch.device]:
    """Joins the other processes if torchrun started several; the number of processes, and this one's device."""
    cuda = torch.cuda.is_available()
    if "WORLD_SIZE" not in os.environ:
        return 1, torch.device("cuda" if cuda else "cpu")
    distributed.init_process_group("nccl" if cuda else "gloo")
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(device)
    return distributed.get_world_size(), device


def loaders(args: argparse.Namespace, world: int, device: torch.device) -> tuple[fl.Loader, fl.Loader, int]:
    """The training and the validation loader, and the number of classes. Each process loads its own part."""
    train = fl.open(args.data, cache_dir=args.cache)
    classes = len(train.classes or ())
    if args.val:
        val = fl.open(args.val, cache_dir=args.cache)
    else:
        train, val = train.split(0.9, seed=args.seed)
    knobs: dict[str, Any] = {
        "batch_size": args.batch_size // world,
        "fields": ["image", "label"],
        "memory_format": "channels_last",
        "device": str(device),
        "pin_memory": device.type == "cuda",
        "on_error": "replace",
    }
    crops = recipes.imagenet_train(args.size)
    feed = fl.Loader(train, shuffle=True, seed=args.seed, drop_last=True, transforms=crops, **knobs)
    return feed, fl.Loader(val, transforms=recipes.imagenet_val(args.size), **knobs), classes


class Run:
    """A model in training: everything that a checkpoint has to keep."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.world, self.device = start_processes()
        self.train, self.val, classes = loaders(args, self.world, self.device)
        torch.manual_seed(args.seed)
        self.network = torchvision.models.get_model(args.model, num_classes=classes)
        self.network = self.network.to(self.device, memory_format=torch.channels_last)
        several = self.world > 1
        self.model: nn.Module = DistributedDataParallel(self.network) if several else self.network
        self.optimizer = torch.optim.SGD(
            self.network.parameters(), args.lr, momentum=0.9, nesterov=True, weight_decay=5e-5
        )
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=args.amp == "float16")
        self.loss = nn.CrossEntropyLoss(label_smoothing=0.1)
        self.step = 0
        self.last = args.epochs * len(self.train)
        self.rank = distributed.get_rank() if several else 0

    def parts(self) -> dict[str, Any]:
        """What has a state. The loader's is the same on every process."""
        return {"model": self.network, "optimizer": self.optimizer, "scaler": self.scaler, "loader": self.train}

    def save(self) -> None:
        """Puts a complete checkpoint in place of the last one: a run that is killed meanwhile loses neither."""
        if self.rank != 0:
            return
        states = {name: part.state_dict() for name, part in self.parts().items()}
        written = self.args.checkpoint.with_suffix(".new")
        torch.save({**states, "step": self.step}, written)
        written.replace(self.args.checkpoint)

    def resume(self) -> None:
        """Continues where the checkpoint was saved."""
        saved = torch.load(self.args.checkpoint, map_location=self.device)
        for name, part in self.parts().items():
            part.load_state_dict(saved[name])
        self.step = saved["step"]
        self.tell(f"continuing after step {self.step}")

    def tell(self, text: str) -> None:
        """Prints on the first process alone."""
        if self.rank == 0:
            print(text, flush=True)

    def rate(self) -> float:
        """The learning rate of this step: five epochs of warm-up, then a cosine. It has no state of its own."""
        top = self.args.lr * self.args.batch_size / 256
        warm = min(5 * len(self.train), self.last // 10)
        if self.step < warm:
            return top * (self.step + 1) / warm
        return top * 0.5 * (1 + math.cos(math.pi * (self.step - warm) / max(1, self.last - warm)))

    def forward(self, batch: dict[str, Any]) -> torch.Tensor:
        """Scores of the classes."""
        with torch.autocast(self.device.type, AMP[self.args.amp], enabled=self.args.amp != "off"):
            scores: torch.Tensor = self.model(batch["image"])
        return scores.float()

    def learn(self, batch: dict[str, Any]) -> float:
        """One step. What the network itself draws (dropout) depends on the step and the process alone."""
        torch.manual_seed((self.args.seed + self.step) * self.world + self.rank)
        for group in self.optimizer.param_groups:
            group["lr"] = self.rate()
        loss = self.loss(self.forward(batch), batch["label"])
        self.optimizer.zero_grad()
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.step += 1
        return float(loss.item())

    def epoch(self) -> list[float]:
        """The rest of an epoch, or as much of it as `--steps` allows."""
        losses, began = [], time.perf_counter()
        for batch in self.train:
            losses.append(self.learn(batch))
            if self.step % 50 == 0:
                speed = len(losses) * self.args.batch_size / (time.perf_counter() - began)
                self.tell(f"step {self.step} of {self.last}: loss {losses[-1]:.3f}, {speed:.0f} images/s")
            if self.step % self.args.save_every == 0:
                self.save()
            if self.step == self.args.steps:
                break
        self.tell(str(self.train.stats()["bottleneck"]))
        return losses

    @torch.no_grad()
    def validate(self) -> float:
        """The share of validation images whose class was found. The last ones may count twice on several processes."""
        self.model.eval()
        self.val.set_epoch(0)
        found = torch.zeros(2, device=self.device)
        for batch in self.val:
            right = (self.forward(batch).argmax(1) == batch["label"]).sum()
            found += torch.stack([right, torch.tensor(len(batch["label"]), device=self.device)])
        self.model.train()
        if self.world > 1:
            distributed.all_reduce(found)
        return float(found[0] / found[1])


def main() -> list[float]:
    """Trains until the last epoch or `--steps`; gives the losses of this run's steps."""
    args = arguments()
    run = Run(args)
    if args.checkpoint.exists():
        run.resume()
    losses: list[float] = []
    end = min(run.last, args.steps or run.last)
    while run.step < end:
        losses += run.epoch()
        run.save()
        if run.step % len(run.train) == 0:
            share = run.validate()
            run.tell(
                f"epoch {run.step // len(run.train)} of {args.epochs}: {100 * share:.1f} % of the validation right"
            )
    if losses:
        run.tell(f"{len(losses)} steps, loss {losses[0]:.3f} -> {losses[-1]:.3f}; saved in {args.checkpoint}")
    if run.world > 1:
        distributed.destroy_process_group()
    return losses


if __name__ == "__main__":
    main()
