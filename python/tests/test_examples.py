"""The examples train for a few steps."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(monkeypatch: pytest.MonkeyPatch, name: str, *args: str) -> list[float]:
    monkeypatch.setattr(sys, "argv", [name, *args])
    losses: list[float] = runpy.run_path(str(EXAMPLES / name))["main"]()
    return losses


@pytest.fixture(scope="module")
def scenes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Coloured boxes on grey, with masks and annotations."""
    root = tmp_path_factory.mktemp("scenes")
    for folder in ("images", "masks", "boxes"):
        (root / folder).mkdir()
    rng = np.random.default_rng(0)
    for number in range(16):
        image, mask = np.full((72, 96, 3), 90, np.uint8), np.zeros((72, 96), np.uint8)
        objects = ""
        for label in range(1, 4):
            x, y = (int(v) for v in rng.integers(4, [60, 40]))
            image[y : y + 24, x : x + 24, label - 1] = 240
            mask[y : y + 24, x : x + 24] = label
            box = f"<xmin>{x}</xmin><ymin>{y}</ymin><xmax>{x + 24}</xmax><ymax>{y + 24}</ymax>"
            objects += f"<object><name>c{label}</name><bndbox>{box}</bndbox></object>"
        Image.fromarray(image).save(root / "images" / f"{number}.jpg")
        Image.fromarray(mask).save(root / "masks" / f"{number}.png")
        (root / "boxes" / f"{number}.xml").write_text(f"<annotation>{objects}</annotation>")
    return root


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
