"""Audio beside soundfile, and beside values that torchaudio made (testdata/audio)."""

from __future__ import annotations

import io
import json
from pathlib import Path

import feedline as fl
import numpy as np
import pytest
import soundfile
from feedline import transforms as T
from feedline.errors import OptionError, SampleError

RECORDED = Path(__file__).parents[2] / "testdata" / "audio" / "torchaudio.npz"


def wave(frames, channels=1, rate=16_000, seed=0):
    """Tones with a little noise, as a recording has."""
    draw = np.random.default_rng(seed)
    t = np.arange(frames)[:, None] / rate
    tones = sum(
        np.sin(2 * np.pi * f * t + p) for f, p in zip(draw.uniform(80, 3000, 4), draw.uniform(0, 6, 4), strict=True)
    )
    return (0.15 * tones + draw.normal(0, 0.01, (frames, channels))).astype(np.float32)


def encoded(data, rate, kind, subtype=None):
    out = io.BytesIO()
    soundfile.write(out, data, rate, format=kind, subtype=subtype)
    return out.getvalue()


def folder_of(tmp_path, files):
    where = tmp_path / "audio"
    where.mkdir()
    for name, content in files.items():
        (where / name).write_bytes(content)
    return where


def loaded(source, ops, **knobs):
    knobs = {"batch_size": 4, "output": "numpy", **knobs}
    with fl.Loader(source, transforms={"audio": ops}, **knobs) as loader:
        return list(loader)


KINDS = [
    ("WAV", "PCM_16", 0.0), ("WAV", "PCM_24", 0.0), ("WAV", "PCM_32", 1e-7), ("WAV", "PCM_U8", 0.0), ("WAV", "FLOAT", 0.0),
    ("FLAC", "PCM_16", 0.0), ("FLAC", "PCM_24", 0.0), ("OGG", "VORBIS", 1e-4), ("MP3", "MPEG_LAYER_III", 1e-4),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "subtype", "most"), KINDS)
@pytest.mark.parametrize("channels", [1, 2])
def test_whole_files_equal_soundfiles(tmp_path, kind, subtype, most, channels):
    content = encoded(wave(30_000, channels, 44_100), 44_100, kind, subtype)
    theirs, _ = soundfile.read(io.BytesIO(content), dtype="float32", always_2d=True)
    ds = fl.open(folder_of(tmp_path, {f"a.{kind.lower()}": content}))
    assert ds.schema["audio"] == "audio"
    (batch,) = loaded(ds, [])
    ours = batch["audio"][0]
    assert ours.shape == (channels, len(theirs))
    assert np.abs(ours - theirs.T).max() <= most


@pytest.mark.parametrize(("kind", "subtype"), [(kind, subtype) for kind, subtype, _ in KINDS])
def test_windows_equal_the_whole_file(tmp_path, kind, subtype):
    content = encoded(wave(200_000, 2, 44_100), 44_100, kind, subtype)
    ds = fl.open(folder_of(tmp_path, {f"a.{kind.lower()}": content}))
    whole = loaded(ds, [])[0]["audio"][0]
    many = ds.select([0] * 24)
    knobs = {"batch_size": 1, "repeats": 24, "shuffle": True}
    starts = set()
    for batch in loaded(many, [T.AudioWindow(0.1)], **knobs):
        window = batch["audio"][0]
        assert window.shape == (2, 4410)
        # Lossy codecs: what came before the window is decoded too, so only rounding may differ.
        found = np.flatnonzero(np.abs(whole[0, :-4409] - window[0, 0]) < 1e-5)
        fits = [at for at in found if np.abs(whole[:, at : at + 4410] - window).max() < 1e-5]
        assert fits
        starts.add(fits[0])
    assert len(starts) > 12


def test_short_files_and_policies(tmp_path):
    data = wave(1000)
    ds = fl.open(folder_of(tmp_path, {"a.wav": encoded(data, 8000, "WAV", "FLOAT")}))
    one = lambda *args, **knobs: loaded(ds, [T.AudioWindow(*args, **knobs)])[0]["audio"][0, 0]  # noqa: E731
    line = data[:, 0]
    assert np.array_equal(one(0.05, "start"), line[:400])
    assert np.array_equal(one(0.05, "center"), line[300:700])
    assert np.array_equal(one(0.2, "center"), np.pad(line, (0, 600)))
    assert np.array_equal(one(0.2, pad="repeat"), np.concatenate([line, line[:600]]))
    with pytest.raises(SampleError, match="1000 frames"):
        one(0.2, pad="error")


def test_rates_and_channels_are_made_equal(tmp_path):
    files = {
        "a.wav": encoded(wave(4410, 1, 44_100), 44_100, "WAV"),
        "b.flac": encoded(wave(1600, 2, 16_000), 16_000, "FLAC"),
        "c.wav": encoded(wave(900, 2, 8_000), 8_000, "WAV"),
    }
    ds = fl.open(folder_of(tmp_path, files))
    (batch,) = loaded(ds, [T.AudioWindow(0.1, "start"), T.Resample(16_000), T.Mono()])
    assert (batch["audio"].shape, batch["audio"].dtype) == ((3, 1, 1600), np.float32)
    with pytest.raises(SampleError, match="T.Resample"):
        loaded(ds, [T.AudioWindow(0.1), T.Mono()])
    with pytest.raises(SampleError, match="T.Mono"):
        loaded(ds, [T.AudioWindow(0.1), T.Resample(16_000)])


def recorded(tmp_path, rate, ops):
    values = np.load(RECORDED)
    content = encoded(values["wave"].T, rate, "WAV", "FLOAT")
    return values, loaded(fl.open(folder_of(tmp_path, {"a.wav": content})), ops)[0]["audio"][0]


@pytest.mark.parametrize(("old", "new"), [(44_100, 16_000), (16_000, 8_000), (8_000, 22_050), (48_000, 44_100)])
def test_resampling_is_torchaudios(tmp_path, old, new):
    values, ours = recorded(tmp_path, old, [T.Resample(new)])
    theirs = values[f"resampled_{old}_{new}"]
    assert ours.shape == theirs.shape
    assert np.abs(ours - theirs).max() < 2e-5


def test_resampling_takes_torchaudios_parameters(tmp_path):
    values, ours = recorded(tmp_path, 44_100, [T.Resample(16_000, 32, 0.95)])
    assert np.abs(ours - values["resampled_wide"]).max() < 2e-5


MELS = [
    {"sample_rate": 16_000, "n_fft": 400, "n_mels": 40},
    {"sample_rate": 16_000, "n_fft": 512, "win_length": 300, "hop_length": 123, "n_mels": 23, "f_min": 50.0, "f_max": 7000.0},
    {"sample_rate": 22_050, "n_fft": 256, "n_mels": 16, "norm": "slaney", "mel_scale": "slaney", "power": 1.0},
    {"sample_rate": 16_000, "n_fft": 400, "n_mels": 20, "center": False},
]  # fmt: skip


@pytest.mark.parametrize("number", range(4))
def test_mel_spectrograms_are_torchaudios(tmp_path, number):
    values, ours = recorded(tmp_path, MELS[number]["sample_rate"], [T.MelSpectrogram(**MELS[number])])
    theirs = values[f"mel_{number}"]
    assert ours.shape == theirs.shape
    assert np.abs(ours - theirs).max() < 1e-4 * np.abs(theirs).max()


def test_decibels_are_torchaudios(tmp_path):
    values, ours = recorded(tmp_path, 16_000, [T.MelSpectrogram(**MELS[0]), T.AmplitudeToDB(top_db=60.0)])
    assert np.abs(ours - values["decibels"]).max() < 1e-2


def test_masks_gain_and_noise(tmp_path):
    content = encoded(wave(16_000), 16_000, "WAV", "FLOAT")
    ds = fl.open(folder_of(tmp_path, {"a.wav": content}))
    plain = [T.AudioWindow(1.0, "start")]
    base = loaded(ds, plain)[0]["audio"][0]
    louder = loaded(ds, [*plain, T.RandomGain((6.0, 6.0))])[0]["audio"][0]
    assert np.allclose(louder, base * 10 ** (6 / 20), atol=1e-6)
    noise = loaded(ds, [*plain, T.RandomNoise((20.0, 20.0))])[0]["audio"][0] - base
    assert abs(10 * np.log10((base**2).sum() / (noise**2).sum()) - 20) < 0.01
    mel = [*plain, T.MelSpectrogram(n_mels=32)]
    masked = loaded(ds, [*mel, T.FrequencyMasking(8), T.TimeMasking(20)], seed=4)[0]["audio"][0, 0]
    unmasked = loaded(ds, mel)[0]["audio"][0, 0]
    bands, times = (masked == 0).all(axis=1), (masked == 0).all(axis=0)
    assert 0 < bands.sum() <= 8
    assert 0 < times.sum() <= 20
    kept = masked[~bands][:, ~times]
    assert np.array_equal(kept, unmasked[~bands][:, ~times])


def test_draws_repeat_and_resume(tmp_path):
    files = {f"{n}.wav": encoded(wave(8000 + 100 * n, seed=n), 8000, "WAV") for n in range(12)}
    ds = fl.open(folder_of(tmp_path, files))
    ops = {"audio": [T.AudioWindow(0.25), T.RandomGain(), T.RandomNoise(p=0.5)]}
    knobs = {"transforms": ops, "batch_size": 2, "shuffle": True, "seed": 3, "output": "numpy"}
    whole, states = [], []
    with fl.Loader(ds, num_workers=1, **knobs) as loader:
        for batch in loader:
            whole.append(batch["audio"])
            states.append(json.dumps(loader.state_dict()))
        second = [batch["audio"] for batch in loader]
    assert not np.array_equal(whole[0], second[0])
    for at, state in enumerate(states[:-1]):
        with fl.Loader(ds, num_workers=2, **knobs) as loader:
            loader.load_state_dict(json.loads(state))
            assert all(np.array_equal(a, b["audio"]) for a, b in zip(whole[at + 1 :], loader, strict=True))


def test_damaged_files_are_named(tmp_path):
    good = {f"{n}.flac": encoded(wave(4000, seed=n), 8000, "FLAC") for n in range(4)}
    cut = {"4.wav": encoded(wave(4000), 8000, "WAV")[:-1000], "5.mp3": b"nothing", "6.flac": good["0.flac"][:300]}
    ds = fl.open(folder_of(tmp_path, {**good, **cut}))
    ops = [T.AudioWindow(0.5, "start"), T.Resample(8000), T.Mono()]
    with pytest.raises(SampleError, match="4.wav"):
        loaded(ds, ops)
    with fl.Loader(ds, transforms={"audio": ops}, on_error="skip", batch_size=7, output="numpy") as loader:
        (batch,) = list(loader)
        assert batch["index"].tolist() == [0, 1, 2, 3]
        assert len(loader.errors()) == 3


def test_bytes_of_any_format_are_audio(tmp_path):
    samples = [{"sound": encoded(wave(800, seed=n), 8000, "WAV"), "label": n} for n in range(3)]
    ds = fl.pack(samples, tmp_path / "pack", progress=False)
    with fl.Loader(ds, transforms={"sound": [T.AudioWindow(0.1, "start")]}, output="numpy") as loader:
        (batch,) = list(loader)
    assert batch["sound"].shape == (3, 1, 800)
    assert batch["label"].tolist() == [0, 1, 2]


def test_impossible_settings_are_refused(tmp_path):
    ds = fl.open(folder_of(tmp_path, {"a.wav": encoded(wave(800), 8000, "WAV")}))
    for ops, words in [
        ([T.AudioWindow(0.1), T.CenterCrop(8)], "not for audio"),
        ([T.TimeMasking(3)], "MelSpectrogram"),
        ([T.MelSpectrogram(8000), T.Mono()], "follow MelSpectrogram"),
        ([T.Resample(16_000), T.MelSpectrogram(8000)], "8000 Hz"),
    ]:
        with pytest.raises(OptionError, match=words):
            fl.Loader(ds, transforms={"audio": ops})
    for make in (lambda: T.AudioWindow(0), lambda: T.Resample(0), lambda: T.MelSpectrogram(n_fft=1)):
        with pytest.raises(OptionError):
            make()
