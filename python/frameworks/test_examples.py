# environment: torch
"""The examples for Lightning and the Hugging Face Trainer train, stop and continue, as processes of their own."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
SMALL = ("--size", "28", "--batch-size", "8", "--save-every", "2")


def trained(name, *args):
    """How many steps the example says it has made, and what it printed."""
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name), *map(str, args)],
        check=False,
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    steps, right = re.search(r"^(\d+) steps, ([\d.]+) of the validation right", done.stdout, re.MULTILINE).groups()
    assert 0 <= float(right) <= 1
    return int(steps), done.stdout + done.stderr


@pytest.mark.parametrize(
    ("name", "more", "again"),
    [
        ("lightning_train.py", ("--devices", "1"), ()),
        ("hf_trainer.py", ("--width", "24", "--layers", "2"), ("--resume",)),
    ],
)
def test_an_example_trains_and_continues(name, more, again, packed, tmp_path):
    given = (packed.uri, "--checkpoints", tmp_path, *SMALL, *more)
    assert trained(name, *given, "--epochs", "1")[0] == 5
    assert trained(name, *given, *again, "--epochs", "2")[0] == 10
