"""A tiny training with Accelerate: `accelerate_run.py PACK FOLDER MODE`; see `lightning_run.py`.

`+skip` resumes by `skip_first_batches`, otherwise by the loader's saved state.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import accelerate
import feedline as fl
import torch
from feedline import transforms as T

PACK, FOLDER, MODE = sys.argv[1], Path(sys.argv[2]), sys.argv[3].split("+")
KILL_AT = 14
EPOCHS, STEPS = 2, 12


def main():
    accelerator = accelerate.Accelerator(cpu=True)
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 16 * 16, 8), torch.nn.Linear(8, 3))
    ops = [T.RandomResizedCrop(16), T.RandomHorizontalFlip(), T.Normalize.imagenet()]
    made = fl.Loader(PACK, batch_size=4, shuffle=True, seed=3, transforms=ops)
    model, optimizer, loader = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.01), made)
    assert loader is made, "prepare leaves the loader alone"
    if "skip" not in MODE:
        accelerator.register_for_checkpointing(loader)
    step = 0
    if "resumed" in MODE:
        step = int((FOLDER / "step").read_text())
        accelerator.load_state(str(FOLDER / f"state{step % 2}"))
    for epoch in range(step // STEPS, EPOCHS):
        batches = loader
        if "skip" in MODE:
            loader.set_epoch(epoch)
            batches = accelerate.skip_first_batches(loader, step % STEPS) if step % STEPS else loader
        for batch in batches:
            loss = torch.nn.functional.cross_entropy(model(batch["image"]), batch["label"])
            print(json.dumps({"step": step, "loss": loss.item(), "index": batch["index"].tolist()}), flush=True)
            if "killed" in MODE and step == KILL_AT:
                os.kill(os.getpid(), signal.SIGKILL)
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            step += 1
            accelerator.save_state(str(FOLDER / f"state{step % 2}"))
            (FOLDER / "step.tmp").write_text(str(step))
            (FOLDER / "step.tmp").rename(FOLDER / "step")


if __name__ == "__main__":
    main()
