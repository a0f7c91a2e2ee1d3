"""Trains a small convolutional network with JAX, over all devices of all processes.

    python examples/jax_train.py images/ --epochs 10
    python examples/jax_train.py images/ --distributed      # on each host, where JAX finds the others by itself

A run saves `--checkpoint` every `--save-every` steps and continues from it with exactly the next batch.
Needs `pip install 'feedline[jax]'`.
"""

from __future__ import annotations

import argparse
import functools
import json
from pathlib import Path
from typing import Any

import feedline as fl
import feedline.jax
import jax
import jax.numpy as jnp
import numpy as np
from feedline import recipes
from jax.sharding import NamedSharding, PartitionSpec

Weights = dict[str, Any]


def network(classes: int, width: int = 16, depth: int = 4) -> Weights:
    """Random weights: convolutions that halve the image, and one matrix."""
    rng = np.random.default_rng(0)
    weights, before = {}, 3
    for layer in range(depth):
        after = width * 2**layer
        weights[f"conv{layer}"] = rng.standard_normal((3, 3, before, after)) * np.sqrt(2 / (9 * before))
        before = after
    weights["last"] = rng.standard_normal((before, classes)) / np.sqrt(before)
    return {name: value.astype(np.float32) for name, value in weights.items()}


def scores(weights: Weights, images: jax.Array) -> jax.Array:
    """Of every class, for images of shape [B, H, W, 3]."""
    layers = (weights[f"conv{layer}"] for layer in range(len(weights) - 1))
    for kernel in layers:
        images = jax.lax.conv_general_dilated(
            images, kernel, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
        images = jax.nn.relu(images)
    return images.mean((1, 2)) @ weights["last"]


def loss_of(weights: Weights, images: jax.Array, labels: jax.Array) -> jax.Array:
    """Cross entropy."""
    log_probabilities = jax.nn.log_softmax(scores(weights, images))
    return -jnp.take_along_axis(log_probabilities, labels[:, None], 1).mean()


@functools.partial(jax.jit, donate_argnums=(0, 1))
def learn(
    weights: Weights, speed: Weights, images: jax.Array, labels: jax.Array, rate: float
) -> tuple[Weights, Weights, jax.Array]:
    """One step of SGD with momentum."""
    loss, gradient = jax.value_and_grad(loss_of)(weights, images, labels)
    speed = jax.tree.map(lambda before, slope: 0.9 * before + slope, speed, gradient)
    weights = jax.tree.map(lambda before, change: before - rate * change, weights, speed)
    return weights, speed, loss


def save(path: Path, weights: Weights, speed: Weights, step: int, loader: fl.Loader) -> None:
    """Puts a complete checkpoint in place of the last one. The loader's state is the same on every process."""
    if jax.process_index() != 0:
        return
    arrays = {f"weights.{name}": value for name, value in weights.items()}
    arrays |= {f"speed.{name}": value for name, value in speed.items()}
    written = path.with_suffix(".new.npz")
    np.savez(written, step=step, loader=json.dumps(loader.state_dict()), **jax.device_get(arrays))
    written.replace(path)


def restore(path: Path, loader: fl.Loader) -> tuple[Weights, Weights, int]:
    """What `save` has written."""
    saved = np.load(path)
    loader.load_state_dict(json.loads(str(saved["loader"])))
    kept: dict[str, Weights] = {"weights": {}, "speed": {}}
    for key in saved.files:
        kind, _, name = key.partition(".")
        if name:
            kept[kind][name] = saved[key]
    return kept["weights"], kept["speed"], int(saved["step"])


def arguments() -> argparse.Namespace:
    """Arguments of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", help="anything that fl.open reads")
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument("--batch-size", type=int, default=64, help="of each process; a multiple of its devices")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--steps", type=int, help="stop after this many steps in all; a later run continues")
    parser.add_argument("--rate", type=float, default=0.02)
    parser.add_argument("--checkpoint", type=Path, default=Path("jax.npz"))
    parser.add_argument("--save-every", type=int, default=100, metavar="STEPS")
    parser.add_argument("--distributed", action="store_true")
    return parser.parse_args()


def main() -> list[float]:
    """Trains, and gives the losses of this run's steps."""
    args = arguments()
    if args.distributed:
        jax.distributed.initialize()  # before the loader is made: it asks JAX which process this is
    ds = fl.open(args.data)
    loader = fl.Loader(
        ds,
        batch_size=args.batch_size,
        shuffle=True,
        drop_last=True,
        fields=["image", "label"],
        transforms=recipes.imagenet_train(args.size),
        memory_format="channels_last",
        output="numpy",
    )
    weights, step = network(len(ds.classes or ())), 0
    speed = jax.tree.map(np.zeros_like, weights)
    if args.checkpoint.exists():
        weights, speed, step = restore(args.checkpoint, loader)
    mesh = jax.make_mesh((jax.device_count(),), ("data",))
    weights, speed = jax.device_put((weights, speed), NamedSharding(mesh, PartitionSpec()))
    batches = feedline.jax.sharded(loader, NamedSharding(mesh, PartitionSpec("data")))
    end = args.steps or args.epochs * len(loader)
    losses: list[float] = []
    while step < end:
        for batch in batches:
            weights, speed, loss = learn(weights, speed, batch["image"], batch["label"], args.rate)
            losses.append(float(loss))
            step += 1
            if step % args.save_every == 0 or step == end:
                save(args.checkpoint, weights, speed, step, loader)
            if step == end:
                break
    print(f"{len(losses)} steps, loss {losses[0]:.3f} -> {losses[-1]:.3f}")
    return losses


if __name__ == "__main__":
    main()
