# environment: torch
"""Hugging Face's Trainer, Accelerate and datasets."""

from __future__ import annotations

import subprocess
import sys

import datasets
import feedline as fl
import pytest
from feedline.huggingface import Trainer
from runs import HERE, check_resume


def check_epochs(whole):
    assert len(whole) == 24
    for epoch in (range(12), range(12, 24)):
        assert sorted(index for step in epoch for index in whole[step]["index"]) == list(range(48))


def test_trainer_killed_and_resumed(packed, tmp_path):
    check_epochs(check_resume("huggingface_run.py", packed.uri, tmp_path))


@pytest.mark.parametrize("flags", ["", "+skip"])
def test_accelerate_killed_and_resumed(packed, tmp_path, flags):
    check_epochs(check_resume("accelerate_run.py", packed.uri, tmp_path, flags))


def test_trainer_on_two_processes(packed, tmp_path):
    """Each rank gets its own half, once."""
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "--master-port=29617"]
    script = HERE / "huggingface_run.py"
    done = subprocess.run(
        [*command, str(script), packed.uri, str(tmp_path), "whole"],
        check=False,
        capture_output=True,
        text=True,
        timeout=250,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    import json

    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"step"')]
    # Rank 0 alone prints: half of each global batch.
    assert [len(line["index"]) for line in lines] == [2] * 24
    assert all(len({i for line in lines[first : first + 12] for i in line["index"]}) == 24 for first in (0, 12))


def test_a_hugging_face_data_set(folder, tmp_path):
    theirs = datasets.load_dataset("imagefolder", data_dir=str(folder), cache_dir=str(tmp_path), split="train")
    ours = fl.open(theirs)
    assert (len(ours), ours.classes) == (48, theirs.features["label"].names)
    assert ours[5]["label"] == theirs[5]["label"]
    chosen = fl.open(theirs.select([7, 3, 40]))
    assert [chosen[n]["label"] for n in range(3)] == [theirs[n]["label"] for n in (7, 3, 40)]


def test_two_sources_are_refused(packed):
    with pytest.raises(fl.OptionError, match="a loader for it already"):
        Trainer(None, None, train_loader=fl.Loader(packed), train_dataset=packed)
