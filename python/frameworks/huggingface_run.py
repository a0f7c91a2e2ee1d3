"""A tiny training with the Hugging Face Trainer: `huggingface_run.py PACK FOLDER MODE`; see `lightning_run.py`."""

from __future__ import annotations

import json
import os
import signal
import sys

import feedline as fl
import torch
from feedline import transforms as T
from feedline.huggingface import Trainer
from transformers import TrainingArguments

PACK, FOLDER, MODE = sys.argv[1], sys.argv[2], sys.argv[3].split("+")
KILL_AT = 14


class Tiny(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 16 * 16, 8), torch.nn.Linear(8, 3))

    def forward(self, image, label, index):
        logits = self.net(image)
        return {"loss": torch.nn.functional.cross_entropy(logits, label), "logits": logits, "index": index}


class Told(Trainer):
    def compute_loss(self, model, inputs, return_outputs=False, **more):
        loss, outputs = super().compute_loss(model, inputs, return_outputs=True, **more)
        if model.training and self.args.process_index == 0:
            step = self.state.global_step
            print(json.dumps({"step": step, "loss": loss.item(), "index": inputs["index"].tolist()}), flush=True)
            if "killed" in MODE and step == KILL_AT:
                os.kill(os.getpid(), signal.SIGKILL)
        return (loss, outputs) if return_outputs else loss


def main():
    arguments = TrainingArguments(
        FOLDER, num_train_epochs=2, save_steps=1, save_total_limit=2, learning_rate=0.01, report_to="none", use_cpu=True,
        disable_tqdm=True, logging_strategy="no", eval_strategy="epoch", remove_unused_columns=False, seed=0,
    )  # fmt: skip
    ops = [T.RandomResizedCrop(16), T.RandomHorizontalFlip(), T.Normalize.imagenet()]
    size = 4 // arguments.world_size
    knobs = {"batch_size": size, "seed": 3, "transforms": ops, "fields": ["image", "label"]}
    trainer = Told(
        Tiny(),
        arguments,
        train_loader=lambda: fl.Loader(PACK, shuffle=True, **knobs),
        eval_loader=lambda: fl.Loader(PACK, **knobs),
    )
    trainer.train(resume_from_checkpoint="resumed" in MODE)


if __name__ == "__main__":
    main()
