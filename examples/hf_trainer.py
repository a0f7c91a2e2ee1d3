"""Trains a small vision transformer with the Hugging Face Trainer.

    python examples/hf_trainer.py images/ --epochs 10
    torchrun --nproc-per-node=2 examples/hf_trainer.py images/ --resume

Needs `pip install 'feedline[huggingface]'`. The batch size is the loader's, not that of `TrainingArguments`.
"""

from __future__ import annotations

import argparse
from typing import Any

import feedline as fl
import numpy as np
from feedline import recipes
from feedline.huggingface import Trainer
from transformers import TrainingArguments, ViTConfig, ViTForImageClassification


def inputs(batch: dict[str, Any]) -> dict[str, Any]:
    """A batch under the names that the model knows."""
    return {"pixel_values": batch["image"], "labels": batch["label"]}


def right(predicted: Any) -> dict[str, float]:
    """The share of images whose class was found."""
    return {"right": float(np.mean(predicted.predictions.argmax(1) == predicted.label_ids))}


def main() -> list[float]:
    """Trains, and gives the losses of this run's steps."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", help="anything that fl.open reads")
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--width", type=int, default=192)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--batch-size", type=int, default=64, help="of each process")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--checkpoints", default="checkpoints")
    parser.add_argument("--save-every", type=int, default=100, metavar="STEPS")
    parser.add_argument("--resume", action="store_true", help="continue from the latest checkpoint")
    args = parser.parse_args()

    settings = TrainingArguments(
        args.checkpoints,
        num_train_epochs=args.epochs,
        save_steps=args.save_every,
        save_total_limit=2,
        eval_strategy="epoch",
        logging_steps=1,
        learning_rate=1e-3,
        report_to="none",
        remove_unused_columns=False,
    )
    train, val = fl.open(args.data).split(0.9, seed=0)
    knobs: dict[str, Any] = {"batch_size": args.batch_size, "fields": ["image", "label"], "batch_map": inputs}
    crops, whole = recipes.imagenet_train(args.size), recipes.imagenet_val(args.size)
    config = ViTConfig(
        image_size=args.size,
        patch_size=args.size // 14,
        hidden_size=args.width,
        intermediate_size=4 * args.width,
        num_hidden_layers=args.layers,
        num_attention_heads=3,
        num_labels=len(train.classes or ()),
    )
    trainer = Trainer(
        ViTForImageClassification(config),
        settings,
        # Functions, because TrainingArguments must have started the processes before a loader is made.
        train_loader=lambda: fl.Loader(train, shuffle=True, seed=0, drop_last=True, transforms=crops, **knobs),
        eval_loader=lambda: fl.Loader(val, transforms=whole, **knobs),
        compute_metrics=right,
    )
    trainer.train(resume_from_checkpoint=args.resume)
    log = trainer.state.log_history
    print(f"{trainer.state.global_step} steps, {log[-2].get('eval_right', 0):.2f} of the validation right")
    return [line["loss"] for line in log if "loss" in line]


if __name__ == "__main__":
    main()
