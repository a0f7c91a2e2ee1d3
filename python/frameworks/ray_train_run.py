"""A tiny training with Ray Train on two workers: `ray_train_run.py PACK FOLDER MODE`; see `lightning_run.py`."""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
from pathlib import Path

os.environ["RAY_raylet_start_wait_time_s"] = "120"
# On a busy machine two workers that import torch are not there within a minute, and Ray gives them a low priority.
os.environ["RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S"] = "300"
os.environ["RAY_worker_niceness"] = "0"
os.environ.setdefault("RAY_TRAIN_V2_ENABLED", "1")
PACK, FOLDER, MODE = sys.argv[1], Path(sys.argv[2]).absolute(), sys.argv[3].split("+")
KILL_AT = 14


def loop(config):
    import feedline as fl
    import ray.train
    import torch
    from feedline import transforms as T

    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 16 * 16, 8), torch.nn.Linear(8, 3))
    model = torch.nn.parallel.DistributedDataParallel(net)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    ops = [T.RandomResizedCrop(16), T.RandomHorizontalFlip(), T.Normalize.imagenet()]
    loader = fl.Loader(config["pack"], batch_size=2, shuffle=True, seed=3, transforms=ops, num_workers=1)
    rank = ray.train.get_context().get_world_rank()
    assert (loader.options["rank"], loader.options["world_size"]) == (rank, 2)
    step = 0
    kept = Path(config["folder"]) / "state.pt"
    if config["resumed"]:
        saved = torch.load(kept)
        net.load_state_dict(saved["net"])
        loader.load_state_dict(saved["loader"])
        step = saved["step"]
    while step < 24:
        for batch in loader:
            loss = torch.nn.functional.cross_entropy(model(batch["image"]), batch["label"])
            if rank == 0:
                with (Path(config["folder"]) / "losses").open("a") as out:
                    out.write(json.dumps({"step": step, "loss": loss.item(), "index": batch["index"].tolist()}) + "\n")
            if config["killed"] and step == KILL_AT:
                os.kill(config["driver"], signal.SIGKILL)
                os.kill(os.getpid(), signal.SIGKILL)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            step += 1
            if rank == 0:
                state = {"net": net.state_dict(), "loader": loader.state_dict(), "step": step}
                torch.save(state, str(kept) + ".tmp")
                os.replace(str(kept) + ".tmp", kept)
            torch.distributed.barrier()
    with tempfile.TemporaryDirectory() as folder:
        if rank == 0:
            torch.save({"loader": loader.state_dict()}, os.path.join(folder, "state.pt"))
        ray.train.report({"steps": step}, checkpoint=ray.train.Checkpoint.from_directory(folder) if rank == 0 else None)


def main():
    import ray
    import ray.train.torch

    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / "losses").write_text("")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=True, _node_ip_address="127.0.0.1")
    config = {
        "pack": PACK,
        "folder": str(FOLDER),
        "killed": "killed" in MODE,
        "resumed": "resumed" in MODE,
        "driver": os.getpid(),
    }
    trainer = ray.train.torch.TorchTrainer(
        loop,
        train_loop_config=config,
        scaling_config=ray.train.ScalingConfig(num_workers=2, resources_per_worker={"CPU": 1}),
        run_config=ray.train.RunConfig(name="tiny", storage_path=str(FOLDER / "ray")),
    )
    result = trainer.fit()
    import torch

    with result.checkpoint.as_directory() as folder:
        assert torch.load(os.path.join(folder, "state.pt"))["loader"]["epoch"] == 2
    sys.stdout.write((FOLDER / "losses").read_text())
    ray.shutdown()


if __name__ == "__main__":
    main()
