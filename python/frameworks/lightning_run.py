"""A tiny training with Lightning: `lightning_run.py PACK FOLDER MODE`. Prints one loss a step as JSON lines.

MODE: `whole`, `killed` (kill -9 in the middle of the second epoch) or `resumed` (from the latest checkpoint).
`+estimate` reads `trainer.estimated_stepping_batches` where users do, in `configure_optimizers`; `+ddp` runs two
processes on gloo.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import warnings

import lightning as L
import torch
from feedline import transforms as T
from feedline.lightning import DataModule
from lightning.pytorch.callbacks import ModelCheckpoint

PACK, FOLDER, MODE = sys.argv[1], sys.argv[2], sys.argv[3].split("+")
KILL_AT = 14  # of 2 * 12 steps: in the middle of the second epoch


class Tiny(L.LightningModule):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 16 * 16, 8), torch.nn.Linear(8, 3))

    def training_step(self, batch, _):
        loss = torch.nn.functional.cross_entropy(self.net(batch["image"]), batch["label"])
        if self.trainer.global_rank == 0:
            print(
                json.dumps({"step": self.global_step, "loss": loss.item(), "index": batch["index"].tolist()}),
                flush=True,
            )
        if "killed" in MODE and self.global_step == KILL_AT and self.trainer.global_rank == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return loss

    def validation_step(self, batch, _):
        self.log("val", torch.nn.functional.cross_entropy(self.net(batch["image"]), batch["label"]), sync_dist=True)

    def configure_optimizers(self):
        steps = self.trainer.estimated_stepping_batches if "estimate" in MODE else 100
        optimizer = torch.optim.SGD(self.parameters(), lr=0.01)
        schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.1, total_iters=100)
        assert steps > 0
        return [optimizer], [{"scheduler": schedule, "interval": "step"}]


def main():
    warnings.simplefilter("error", UserWarning)
    # Lightning's own remarks about this tiny run; anything about data loading stays an error.
    for text in (
        ".*tensorboard.*",
        ".*litlogger.*",
        ".*Checkpoint directory.*",
        ".*logging interval.*",
        ".*litmodels.*",
        ".*GPU.*",
        ".*weights_only.*",
        ".*isolation.*",
        ".*srun.*",
        ".*overridden the.*",
        ".*lr_scheduler.step.*",
    ):
        warnings.filterwarnings("ignore", text)
    ops = [T.RandomResizedCrop(16), T.RandomHorizontalFlip(), T.Normalize.imagenet()]
    data = DataModule(train=PACK, val=PACK, batch_size=2 if "ddp" in MODE else 4, seed=3, transforms=ops)
    keep = ModelCheckpoint(FOLDER, every_n_train_steps=1, save_top_k=1, save_last=True, filename="{step}")
    processes = {"devices": 2, "strategy": "ddp"} if "ddp" in MODE else {"devices": 1}
    trainer = L.Trainer(
        accelerator="cpu", max_epochs=2, logger=False, enable_progress_bar=False, enable_model_summary=False,
        callbacks=[keep], num_sanity_val_steps=0, val_check_interval=0.5, use_distributed_sampler=True, **processes,
    )  # fmt: skip
    last = os.path.join(FOLDER, "last.ckpt")
    trainer.fit(Tiny(), data, ckpt_path=last if "resumed" in MODE else None)


if __name__ == "__main__":
    main()
