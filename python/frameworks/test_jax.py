# environment: torch
"""JAX on two processes: global arrays, killed and resumed."""

from __future__ import annotations

import feedline as fl
import feedline.jax
import jax
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec
from runs import check_resume


def test_two_processes_killed_and_resumed(packed, tmp_path):
    whole = check_resume("jax_run.py", packed.uri, tmp_path)
    with fl.Loader(packed, batch_size=4, shuffle=True, seed=3, drop_last=True, fields=[], output="numpy") as alone:
        expected = [batch["index"].tolist() for _ in range(2) for batch in alone]
    assert [line["index"] for _, line in sorted(whole.items())] == expected


def test_one_process_and_fields_of_their_own(packed):
    mesh = jax.make_mesh((1,), ("data",))
    rows = NamedSharding(mesh, PartitionSpec("data"))
    with fl.Loader(packed, batch_size=6, decode="none", output="numpy") as loader:
        batch = next(iter(feedline.jax.sharded(loader, {"label": rows})))
    assert isinstance(batch["label"], jax.Array)
    assert isinstance(batch["index"], np.ndarray)
    with fl.Loader(packed, rank=1, world_size=2) as loader, pytest.raises(fl.OptionError, match="process 0 of 1"):
        feedline.jax.sharded(loader, rows)
