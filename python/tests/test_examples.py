"""The examples train for a few steps."""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
from pathlib import Path

import feedline as fl
import numpy as np
import pytest
from samples import make_clips, make_scenes, make_sounds

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(monkeypatch: pytest.MonkeyPatch, name: str, *args: str) -> list[float]:
    monkeypatch.setattr(sys, "argv", [name, *args])
    losses: list[float] = runpy.run_path(str(EXAMPLES / name))["main"]()
    return losses


@pytest.fixture(scope="module")
def scenes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Coloured squares on grey, with masks and annotations."""
    return make_scenes(tmp_path_factory.mktemp("scenes") / "all")


IMAGENET = ("--model", "shufflenet_v2_x0_5", "--size", "32", "--batch-size", "44", "--epochs", "2", "--save-every", "2")


def test_imagenet(monkeypatch: pytest.MonkeyPatch, many: Path, tmp_path: Path) -> None:
    """Stopped in mid-epoch and started again, it has the losses of a run that was not stopped."""
    given = ("--data", str(many), *IMAGENET)
    whole = run(monkeypatch, "imagenet.py", *given, "--checkpoint", str(tmp_path / "whole.pt"))
    assert len(whole) == 2 * (135 // 44)
    assert np.isfinite(whole).all()
    kept = ("--checkpoint", str(tmp_path / "kept.pt"))
    first = run(monkeypatch, "imagenet.py", *given, *kept, "--steps", "2")
    rest = run(monkeypatch, "imagenet.py", *given, *kept)
    assert first + rest == whole


def test_imagenet_on_two_processes(monkeypatch: pytest.MonkeyPatch, many: Path, tmp_path: Path) -> None:
    """What one process began, two finish, from a pack."""
    pack = fl.pack(many, tmp_path / "many.pack", progress=False)
    given = ("--data", pack.uri, "--val", str(many), "--checkpoint", str(tmp_path / "kept.pt"), *IMAGENET)
    given += ("--amp", "bfloat16")
    assert len(run(monkeypatch, "imagenet.py", *given, "--steps", "4")) == 4
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    python_path = os.pathsep.join([str(Path(fl.__file__).parents[1]), *sys.path])
    done = subprocess.run(
        [*launch, str(EXAMPLES / "imagenet.py"), *given],
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": python_path},
        capture_output=True,
        text=True,
        check=False,
        timeout=250,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.count("continuing after step 4") == 1
    assert done.stdout.count("epoch 2 of 2:") == 1


@pytest.mark.skipif(sys.version_info < (3, 11), reason="JAX has no release for this Python any more")
def test_jax(monkeypatch: pytest.MonkeyPatch, many: Path, tmp_path: Path) -> None:
    given = (str(many), "--size", "32", "--batch-size", "25", "--epochs", "4")
    whole = run(monkeypatch, "jax_train.py", *given, "--checkpoint", str(tmp_path / "whole.npz"))
    assert len(whole) == 4 * 6
    assert np.mean(whole[-6:]) < np.mean(whole[:6])
    kept = ("--checkpoint", str(tmp_path / "kept.npz"))
    first = run(monkeypatch, "jax_train.py", *given, *kept, "--steps", "4")
    assert first + run(monkeypatch, "jax_train.py", *given, *kept) == whole


def test_segmentation(monkeypatch: pytest.MonkeyPatch, scenes: Path) -> None:
    folders = (str(scenes / "images"), str(scenes / "masks"))
    losses = run(monkeypatch, "segmentation.py", *folders, "--size", "64", "--classes", "4", "--steps", "12")
    assert len(losses) == 12
    assert np.mean(losses[-3:]) < np.mean(losses[:3])


def test_detection(monkeypatch: pytest.MonkeyPatch, scenes: Path) -> None:
    places = (str(scenes / "images"), str(scenes / "boxes"))
    losses = run(monkeypatch, "detection.py", *places, "--size", "64", "--steps", "12")
    assert len(losses) == 12
    assert np.mean(losses[-3:]) < np.mean(losses[:3])


def test_simclr(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    losses = run(monkeypatch, "simclr.py", str(folder), "--size", "32", "--batch-size", "6", "--steps", "4")
    assert len(losses) == 4
    assert np.isfinite(losses).all()


def test_dino(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    small = ("--size", "48", "--local-size", "24", "--local-crops", "2", "--batch-size", "6", "--steps", "4")
    losses = run(monkeypatch, "dino.py", str(folder), *small)
    assert len(losses) == 4
    assert np.isfinite(losses).all()


def test_language_model(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    words = ["the cat sat", "a dog ran far away", "owls see at night", "no"]
    lines = [json.dumps({"text": " ".join([words[n % 4]] * (1 + n % 5))}) for n in range(80)]
    (tmp_path / "corpus.jsonl").write_text("\n".join(lines))
    losses = run(monkeypatch, "language_model.py", str(tmp_path / "corpus.jsonl"), "--tokens", "128", "--steps", "30")
    assert np.mean(losses[-3:]) < 0.7 * np.mean(losses[:3])


def test_keywords(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    make_sounds(tmp_path / "sounds")
    losses = run(monkeypatch, "keywords.py", str(tmp_path / "sounds"), "--steps", "24")
    assert np.mean(losses[-3:]) < 0.7 * np.mean(losses[:3])


def test_clips(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    make_clips(tmp_path / "clips")
    losses = run(monkeypatch, "clips.py", str(tmp_path / "clips"), "--steps", "16")
    assert np.mean(losses[-3:]) < 0.8 * np.mean(losses[:3])
