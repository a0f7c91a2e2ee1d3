"""Noise from recordings: a stretch of the recording itself, at the ratio that was drawn."""

from __future__ import annotations

import json

import feedline as fl
import numpy as np
import pytest
import soundfile
from feedline import transforms as T
from feedline.errors import OptionError, SampleError
from test_audio import encoded, folder_of, loaded, wave


@pytest.fixture
def noise(tmp_path):
    where = tmp_path / "noise"
    where.mkdir()
    for number, rate in enumerate((16_000, 16_000, 8_000)):
        draw = np.random.default_rng(50 + number)
        soundfile.write(where / f"{number}.wav", draw.normal(0, 0.1, 40_000).astype(np.float32), rate, subtype="FLOAT")
    return where


def test_the_noise_is_a_stretch_of_a_recording(tmp_path, noise):
    (noise / "2.wav").unlink()
    speech = wave(16_000, 2)
    where = folder_of(tmp_path, {"a.wav": encoded(speech, 16_000, "WAV", "FLOAT")})
    recordings = [soundfile.read(noise / f"{n}.wav", dtype="float32")[0] for n in (0, 1)]
    seen, ratios = set(), []
    with fl.Loader(
        where, transforms={"audio": [T.AudioWindow(1.0, "start"), T.BackgroundNoise(noise, (3, 12))]}, output="numpy"
    ) as loader:
        for _ in range(30):
            (batch,) = list(loader)
            added = batch["audio"][0] - speech.T
            # The same in both channels, up to the rounding of the sum.
            assert np.abs(added[0] - added[1]).max() < 1e-6
            scores = [np.abs(np.correlate(recording, added[0], "valid")).max() for recording in recordings]
            chosen = int(np.argmax(scores))
            start = int(np.argmax(np.abs(np.correlate(recordings[chosen], added[0], "valid"))))
            stretch = recordings[chosen][start : start + 16_000]
            scale = (added[0] @ stretch) / (stretch @ stretch)
            assert np.abs(added[0] - scale * stretch).max() < 1e-5
            ratios.append(10 * np.log10((speech**2).sum() / (added**2).sum()))
            seen.add((chosen, start))
    assert min(ratios) >= 3 - 1e-3
    assert max(ratios) <= 12 + 1e-3
    assert max(ratios) - min(ratios) > 4
    assert len({chosen for chosen, _ in seen}) == 2
    assert len(seen) > 20


def test_other_rates_short_recordings_and_resume(tmp_path, noise):
    soundfile.write(noise / "3.wav", np.random.default_rng(9).normal(0, 0.1, 700), 44_100)
    files = {f"{n}.wav": encoded(wave(20_000, seed=n), 16_000, "WAV") for n in range(6)}
    where = folder_of(tmp_path, files)
    ops = [T.AudioWindow(0.5), T.Mono(), T.BackgroundNoise(noise, (0, 10), p=0.7)]
    knobs = {"batch_size": 2, "shuffle": True, "seed": 4, "output": "numpy"}
    whole, states = [], []
    with fl.Loader(where, transforms={"audio": ops}, num_workers=1, **knobs) as loader:
        for _ in range(3):
            whole = []
            states = []
            for batch in loader:
                assert np.isfinite(batch["audio"]).all()
                whole.append(batch["audio"])
                states.append(json.dumps(loader.state_dict()))
    for at, state in enumerate(states[:-1]):
        with fl.Loader(where, transforms={"audio": ops}, num_workers=3, **knobs) as loader:
            loader.load_state_dict(json.loads(state))
            for ours, batch in zip(whole[at + 1 :], loader, strict=True):
                assert np.array_equal(ours, batch["audio"])


def test_never_and_what_cannot_be(tmp_path, noise):
    where = folder_of(tmp_path, {"a.wav": encoded(wave(8000), 16_000, "WAV")})
    ops = [T.AudioWindow(0.5, "start")]
    (plain,) = loaded(where, ops)
    (never,) = loaded(where, [*ops, T.BackgroundNoise(noise, p=0.0)])
    assert np.array_equal(plain["audio"], never["audio"])
    for wrong in ((5, (0, 1)), ("", (0, 1)), (noise, (3, 1))):
        with pytest.raises(OptionError):
            T.BackgroundNoise(*wrong)
    with pytest.raises(OptionError, match="BackgroundNoise"):
        fl.Loader(where, transforms={"audio": [T.BackgroundNoise(tmp_path / "nowhere")]})
    for recording in noise.iterdir():
        recording.write_bytes(b"RIFF, but no more")
    with pytest.raises(SampleError, match=r"the noise .*\.wav"):
        loaded(where, [*ops, T.BackgroundNoise(noise)])
