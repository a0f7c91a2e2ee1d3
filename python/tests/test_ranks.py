"""SLURM without srun, and threads shared among the ranks of a machine."""

from __future__ import annotations

import sys
import warnings
from types import SimpleNamespace

import feedline as fl
import pytest
from feedline import _ranks as ranks

KNOBS = {"decode": "none", "output": "numpy", "batch_size": 4}


@pytest.fixture
def alone(monkeypatch):
    for name in ("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "SLURM_STEP_ID", "SLURM_STEPID", "SLURM_STEP_NUM_TASKS"):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


def batch_script(patch):
    patch.setenv("SLURM_PROCID", "0")
    patch.setenv("SLURM_NTASKS", "8")
    patch.setenv("SLURM_JOB_ID", "4711")


def test_a_batch_script_without_srun_gets_all_the_data_and_a_warning(folder, alone):
    batch_script(alone)
    with pytest.warns(UserWarning, match=r"SLURM_NTASKS=8, but this process was not started by srun") as caught:
        loader = fl.Loader(folder, **KNOBS)
    assert caught[0].filename == __file__
    with loader:
        assert sum(len(batch["index"]) for batch in loader) == 12


def test_a_task_of_srun_gets_its_part_without_a_warning(folder, alone):
    batch_script(alone)
    alone.setenv("SLURM_STEP_ID", "0")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with fl.Loader(folder, **KNOBS) as loader:
            assert (loader.options["rank"], loader.options["world_size"]) == (0, 8)


def test_an_initialised_torch_distributed_needs_no_warning(alone):
    batch_script(alone)
    ready = {"is_available": lambda: True, "is_initialized": lambda: True}
    alone.setitem(
        sys.modules, "torch.distributed", SimpleNamespace(**ready, get_rank=lambda: 0, get_world_size=lambda: 8)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert ranks.discover(None, None) == (0, 8)
        assert ranks.discover(1, 2) == (1, 2)


def test_ranks_of_one_machine_share_its_cores(folder, alone):
    alone.setattr(ranks._feedline, "usable_cores", lambda: 8)
    alone.setattr(ranks, "_bound", lambda: False)
    for local, threads in (("4", 2), ("3", 2), ("100", 1)):
        alone.setenv("LOCAL_WORLD_SIZE", local)
        with fl.Loader(folder, **KNOBS) as loader:
            assert loader.stats()["threads"] == threads
    with fl.Loader(folder, num_workers=5, **KNOBS) as loader:
        assert loader.stats()["threads"] == 5, "who says how many gets them"
    alone.setattr(ranks, "_bound", lambda: True)
    assert ranks.shared_threads() == 0, "this rank has cores of its own"
