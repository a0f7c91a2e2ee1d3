"""A tiny training with Keras on TensorFlow: `keras_run.py PACK FOLDER MODE`; see `lightning_run.py`."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import feedline as fl
import feedline.keras
import keras
from feedline import transforms as T

PACK, FOLDER, MODE = sys.argv[1], Path(sys.argv[2]), sys.argv[3].split("+")
KILL_AT = 14
EPOCHS, STEPS = 2, 12


class Keep(keras.callbacks.Callback):
    def __init__(self, data):
        super().__init__()
        self.data = data

    def on_train_batch_end(self, batch, logs=None):  # noqa: ARG002
        # Keras's loss is a mean over the epoch so far; the weights tell more.
        state = self.data.state_dict()
        step = state["epoch"] * STEPS + state["samples"] // 4 - 1
        total = float(sum(abs(w).sum() for w in self.model.get_weights()))
        print(json.dumps({"step": step, "loss": total}), flush=True)
        if "killed" in MODE and step == KILL_AT:
            os.kill(os.getpid(), signal.SIGKILL)
        self.model.save_weights(FOLDER / f"{step % 2}.weights.h5")
        (FOLDER / "tmp").write_text(json.dumps({"slot": step % 2, "state": state}))
        (FOLDER / "tmp").rename(FOLDER / "place")


def main():
    FOLDER.mkdir(parents=True, exist_ok=True)
    keras.utils.set_random_seed(0)
    model = keras.Sequential(
        [keras.Input((3, 16, 16)), keras.layers.Flatten(), keras.layers.Dense(8), keras.layers.Dense(3)]
    )
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    ops = [T.RandomResizedCrop(16), T.RandomHorizontalFlip(), T.Normalize.imagenet()]
    made = fl.Loader(PACK, batch_size=4, shuffle=True, seed=3, transforms=ops, output="numpy")
    data = feedline.keras.dataset(made)
    knobs = {"shuffle": False, "verbose": 0, "callbacks": [data.callback(), Keep(data)]}
    if "resumed" in MODE:
        saved = json.loads((FOLDER / "place").read_text())
        model.load_weights(FOLDER / f"{saved['slot']}.weights.h5")
        data.load_state_dict(saved["state"])
        model.fit(data, initial_epoch=data.epoch, epochs=data.epoch + 1, **knobs)
    if data.epoch < EPOCHS:
        model.fit(data, initial_epoch=data.epoch, epochs=EPOCHS, **knobs)


if __name__ == "__main__":
    main()
