# environment: ray
"""Ray Train: two workers find their ranks; killed and resumed."""

from __future__ import annotations

import json

import pytest
from runs import steps


@pytest.mark.timeout(1900)
def test_two_workers_killed_and_resumed(packed, tmp_path):
    whole = steps("ray_train_run.py", packed.uri, tmp_path / "whole", mode="whole", timeout=600)
    steps("ray_train_run.py", packed.uri, tmp_path / "killed", mode="killed", fails=True, timeout=600)
    lines = map(json.loads, (tmp_path / "killed" / "losses").read_text().splitlines())
    killed = {line["step"]: line for line in lines}
    assert max(killed) == 14
    resumed = steps("ray_train_run.py", packed.uri, tmp_path / "killed", mode="resumed", timeout=600)
    assert min(resumed) == 14
    assert {**killed, **resumed} == whole
    assert len(whole) == 24
