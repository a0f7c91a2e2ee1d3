"""A tiny training with JAX on two processes: `jax_run.py PACK FOLDER MODE`; starts itself twice. See `lightning_run.py`."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

PACK, FOLDER, MODE = sys.argv[1], Path(sys.argv[2]), sys.argv[3].split("+")
KILL_AT = 14
EPOCHS = 2


def start_both():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    FOLDER.mkdir(parents=True, exist_ok=True)
    both = [
        subprocess.Popen([sys.executable, __file__, *sys.argv[1:]], env={**os.environ, "TINY_JAX": f"{port} {process}"})
        for process in range(2)
    ]
    codes = []
    for process in both:
        codes.append(process.wait())
        if codes[-1]:
            [other.kill() for other in both]
    sys.exit(1 if any(codes) else 0)


def main():
    port, process = map(int, os.environ["TINY_JAX"].split())
    import feedline.jax
    import jax
    import jax.numpy as jnp
    import numpy as np
    from feedline import Loader
    from feedline import transforms as T
    from jax.sharding import NamedSharding, PartitionSpec

    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(f"127.0.0.1:{port}", num_processes=2, process_id=process)
    assert jax.process_count() == 2
    mesh = jax.make_mesh((jax.device_count(),), ("data",))
    ops = [T.RandomResizedCrop(16), T.RandomHorizontalFlip(), T.Normalize.imagenet()]
    made = Loader(
        PACK,
        batch_size=2,
        shuffle=True,
        seed=3,
        transforms=ops,
        drop_last=True,
        output="numpy",
        fields=["image", "label"],
    )
    batches = feedline.jax.sharded(made, NamedSharding(mesh, PartitionSpec("data")))
    rng = np.random.default_rng(0)
    whole = NamedSharding(mesh, PartitionSpec())

    def everywhere(array):
        return jax.make_array_from_process_local_data(whole, array, array.shape)

    weights = everywhere(rng.standard_normal((768, 3)).astype(np.float32) / 30)

    def loss_of(weights, image, label):
        logits = image.reshape(image.shape[0], -1) @ weights
        return -jnp.mean(jnp.sum(jax.nn.log_softmax(logits) * jax.nn.one_hot(label, 3), axis=1))

    step_of = jax.jit(jax.value_and_grad(loss_of))
    step, kept = 0, FOLDER / f"state{process}.npz"
    if "resumed" in MODE:
        # Both resume from the older of the two: one may have been killed a step earlier.
        step = min(int(np.load(FOLDER / f"state{p}.npz")["step"]) for p in range(2))
        saved = np.load(kept if int(np.load(kept)["step"]) == step else FOLDER / f"before{process}.npz")
        assert int(saved["step"]) == step
        weights = everywhere(saved["weights"])
        batches.load_state_dict(json.loads(str(saved["loader"])))
    while step < EPOCHS * len(batches):
        for batch in batches:
            assert batch["image"].shape == (4, 3, 16, 16)
            loss, gradient = step_of(weights, batch["image"], batch["label"])
            index = jax.experimental.multihost_utils.process_allgather(batch["index"], tiled=True)
            if process == 0:
                print(json.dumps({"step": step, "loss": float(loss), "index": index.tolist()}), flush=True)
            if "killed" in MODE and step == KILL_AT:
                os.kill(os.getpid(), signal.SIGKILL)
            weights = weights - 0.01 * gradient
            step += 1
            state = json.dumps(batches.state_dict())
            if kept.exists():
                kept.rename(FOLDER / f"before{process}.npz")
            np.savez(FOLDER / f"new{process}.npz", step=step, weights=np.asarray(weights), loader=state)
            (FOLDER / f"new{process}.npz").rename(kept)


if __name__ == "__main__":
    import jax.experimental.multihost_utils  # noqa: F401

    main() if "TINY_JAX" in os.environ else start_both()
