"""The decoders that are built in, beside FFmpeg's: the same frames to the last bit."""

from __future__ import annotations

import json
import subprocess
import sys

import feedline as fl
import numpy as np
import pytest
from feedline import transforms as T
from feedline.errors import SampleError
from test_video import encoded, folder_of

VARIABLE = "FEEDLINE_VIDEO_DECODER"

BUILT_IN = {
    "h264 with b-frames": {"g": 12, "bf": 3},
    "h264 pyramid": {"g": 30, "bf": 8, "x264-params": "b-pyramid=normal:ref=6"},
    "h264 open groups": {"g": 10, "bf": 3, "x264-params": "open-gop=1"},
    "h264 one key frame": {"g": 400},
    "h264 baseline": {"profile": "baseline", "g": 9},
    "h264 odd size": {"size": (98, 66)},
    "h264 weighted, cavlc": {"x264-params": "weightp=2:cabac=0", "g": 15},
    "h264 in mkv": {"kind": "matroska", "g": 12, "bf": 2},
    "h264 709, full range": {"x264-params": "colormatrix=bt709:fullrange=on"},
    "av1": {"codec": "libsvtav1", "g": 10, "frames": 30},
    "av1 in webm": {"codec": "libsvtav1", "kind": "webm", "g": 12, "frames": 30},
    "av1 10 bits": {"codec": "libsvtav1", "pix_fmt": "yuv420p10le", "g": 10, "frames": 20},
    "av1 odd size": {"codec": "libsvtav1", "size": (98, 66), "frames": 12},
}


def frames(content, wanted):
    return fl._feedline.Video(content).frames(wanted)


@pytest.mark.parametrize("kind", BUILT_IN)
def test_frames_are_those_of_ffmpeg(kind, monkeypatch):
    content = encoded(**BUILT_IN[kind])
    monkeypatch.setenv(VARIABLE, "ffmpeg")
    theirs = frames(content, list(range(len(fl._feedline.Video(content)))))
    monkeypatch.setenv(VARIABLE, "built-in")
    video = fl._feedline.Video(content)
    draw = np.random.default_rng(0)
    for _ in range(40):
        wanted = draw.integers(0, len(theirs), draw.integers(1, 6)).tolist()
        assert np.array_equal(video.frames(wanted), theirs[wanted]), wanted
    assert np.array_equal(video.frames(list(range(len(theirs)))), theirs)


def test_one_decoder_for_many_files(monkeypatch, tmp_path):
    """A decoder that is kept returns nothing of the file before."""
    files = {f"{n}.mp4": encoded(20, g=4 + n, bf=n % 3, codec=("libx264", "libsvtav1")[n % 2]) for n in range(6)}
    ds = fl.open(folder_of(tmp_path, files))
    ops = {"video": [T.Clip(5, 2), T.Resize((24, 32))]}
    found = []
    for decoder in ("ffmpeg", "built-in"):
        monkeypatch.setenv(VARIABLE, decoder)
        with fl.Loader(ds, transforms=ops, shuffle=True, batch_size=2, num_workers=1, output="numpy") as loader:
            found.append([batch["video"] for _ in range(3) for batch in loader])
    for ours, theirs in zip(*found, strict=True):
        assert np.array_equal(ours, theirs)


@pytest.mark.parametrize("kind", ["h264", "av1"])
def test_damage_is_an_error(kind, monkeypatch):
    """A damaged frame is never returned: it is an error, or (where the bits still say something) a frame of its own."""
    monkeypatch.setenv(VARIABLE, "built-in")
    content = encoded(30, g=30, codec={"h264": "libx264", "av1": "libsvtav1"}[kind])
    count = len(fl._feedline.Video(content))
    failed = 0
    draw = np.random.default_rng(3)
    for _ in range(60):
        damaged = bytearray(content)
        start = int(draw.integers(48, len(content) - 64))
        damaged[start : start + 48] = draw.bytes(48)
        try:
            frames(bytes(damaged), list(range(count)))
        except fl.Error:
            failed += 1
    assert failed > 10


def test_what_needs_ffmpeg_says_so(monkeypatch, tmp_path):
    monkeypatch.setenv(VARIABLE, "built-in")
    for options, words in [
        ({"pix_fmt": "yuv444p"}, "4:4:4 of 8 bits needs FFmpeg"),
        ({"pix_fmt": "yuv420p10le"}, "4:2:0 of 10 bits needs FFmpeg"),
        ({"codec": "libx265", "x265-params": "log-level=none"}, "no decoder for HEVC"),
        ({"codec": "mpeg4"}, "no decoder for MPEG-4"),
        ({"flags": "+ildct+ilme"}, "interlaced H.264 needs FFmpeg"),
    ]:
        with pytest.raises(fl.Error, match=words):
            frames(encoded(4, **options), [0])
    monkeypatch.setenv(VARIABLE, "best")
    with pytest.raises(fl.Error, match="FEEDLINE_VIDEO_DECODER='best'"):
        frames(encoded(4), [0])
    ds = fl.open(folder_of(tmp_path, {"a.mp4": encoded(4)}))
    with pytest.raises(SampleError, match="auto, ffmpeg or built-in"):
        list(fl.Loader(ds, transforms={"video": [T.Clip(2)]}))


def test_doctor_names_the_decoders(monkeypatch):
    def asked(decoder):
        monkeypatch.setenv(VARIABLE, decoder)
        command = [sys.executable, "-m", "feedline", "doctor", "--json"]
        found = subprocess.run(command, check=True, capture_output=True, text=True)
        return dict(json.loads(found.stdout)["video_decoders"])

    assert asked("built-in") == {
        "H.264": "OpenH264 (built in)", "HEVC": None, "VP8": None, "VP9": None, "AV1": "dav1d (built in)", "MPEG-4": None,
    }  # fmt: skip
    assert all(decoder.startswith("FFmpeg ") for decoder in asked("ffmpeg").values())
    assert asked("auto") == asked("ffmpeg")
