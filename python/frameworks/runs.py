"""Trainings as processes of their own: whole, killed, resumed. What they print is compared step by step."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def steps(program, *arguments, mode, fails=False, timeout=280, **environment):
    """Runs a training; its JSON lines by step. Of a step printed twice, the later line counts."""
    ranks = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM", "RANK", "WORLD_SIZE"))}
    done = subprocess.run(
        [sys.executable, str(HERE / program), *map(str, arguments), mode],
        env={**ranks, "OMP_NUM_THREADS": "1", "PYTHONPATH": "", **environment},
        check=False,
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    assert (done.returncode != 0) == fails, (
        f"{mode}: exit code {done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-6000:]}"
    )
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"step"')]
    return {line["step"]: line for line in lines}


def check_resume(program, data, folder, flags="", least=2):
    """A run that is killed and resumed has the losses and the samples of one that is not."""
    whole = steps(program, data, folder / "whole", mode="whole" + flags)
    killed = steps(program, data, folder / "killed", mode="killed" + flags, fails=True)
    resumed = steps(program, data, folder / "killed", mode="resumed" + flags)
    assert 0 < len(killed) < len(whole)
    assert max(killed) - min(resumed) < least, "it resumed near where it was killed"
    assert min(resumed) > 0
    joined = {**killed, **resumed}
    differ = [
        (step, joined.get(step), whole.get(step))
        for step in sorted({*joined, *whole})
        if joined.get(step) != whole.get(step)
    ]
    assert not differ, differ[:4]
    for step, line in killed.items():
        assert line == whole[step]
    return whole
