"""The examples train for a few steps."""

from __future__ import annotations

import json
import runpy
import sys
import wave
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


def test_language_model(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    words = ["the cat sat", "a dog ran far away", "owls see at night", "no"]
    lines = [json.dumps({"text": " ".join([words[n % 4]] * (1 + n % 5))}) for n in range(80)]
    (tmp_path / "corpus.jsonl").write_text("\n".join(lines))
    losses = run(monkeypatch, "language_model.py", str(tmp_path / "corpus.jsonl"), "--tokens", "128", "--steps", "30")
    assert np.mean(losses[-3:]) < 0.7 * np.mean(losses[:3])


def test_keywords(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for word, hertz in (("low", 300), ("high", 1500)):
        (tmp_path / word).mkdir()
        for number in range(8):
            wave_of = np.sin(2 * np.pi * (hertz + 20 * number) * np.arange(6000) / 8000)
            with wave.open(str(tmp_path / word / f"{number}.wav"), "wb") as out:
                out.setparams((1, 2, 8000, 0, "NONE", ""))
                out.writeframes((wave_of * 9000).astype("<i2").tobytes())
    losses = run(monkeypatch, "keywords.py", str(tmp_path), "--steps", "24")
    assert np.mean(losses[-3:]) < 0.7 * np.mean(losses[:3])


def test_clips(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import av

    for label, colour in (("red", (200, 40, 40)), ("blue", (40, 40, 200))):
        (tmp_path / label).mkdir()
        for number in range(3):
            with av.open(str(tmp_path / label / f"{number}.mp4"), "w") as file:
                stream = file.add_stream("libx264", rate=25)
                stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
                for at in range(20):
                    pixels = np.full((48, 64, 3), colour, np.uint8)
                    pixels[:, (at * 3 + number) % 64] = 255
                    file.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")))
                file.mux(stream.encode())
    losses = run(monkeypatch, "clips.py", str(tmp_path), "--steps", "16")
    assert np.mean(losses[-3:]) < 0.8 * np.mean(losses[:3])
