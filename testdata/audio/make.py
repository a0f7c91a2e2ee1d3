"""Records what torchaudio makes of a wave: run with torchaudio 2.11 installed, in this folder."""

import numpy as np
import torch
import torchaudio.functional as F
import torchaudio.transforms as T

RESAMPLED = [(44_100, 16_000), (16_000, 8_000), (8_000, 22_050), (48_000, 44_100)]
MELS = [
    {"sample_rate": 16_000, "n_fft": 400, "n_mels": 40},
    {
        "sample_rate": 16_000,
        "n_fft": 512,
        "win_length": 300,
        "hop_length": 123,
        "n_mels": 23,
        "f_min": 50.0,
        "f_max": 7000.0,
    },
    {"sample_rate": 22_050, "n_fft": 256, "n_mels": 16, "norm": "slaney", "mel_scale": "slaney", "power": 1.0},
    {"sample_rate": 16_000, "n_fft": 400, "n_mels": 20, "center": False},
]

made = {"wave": np.random.default_rng(0).normal(0, 0.2, (2, 3000)).astype(np.float32)}
wave = torch.from_numpy(made["wave"])
for old, new in RESAMPLED:
    made[f"resampled_{old}_{new}"] = F.resample(wave, old, new).numpy()
made["resampled_wide"] = F.resample(wave, 44_100, 16_000, lowpass_filter_width=32, rolloff=0.95).numpy()
for number, knobs in enumerate(MELS):
    made[f"mel_{number}"] = T.MelSpectrogram(**knobs)(wave).numpy()
made["decibels"] = T.AmplitudeToDB(top_db=60.0)(torch.from_numpy(made["mel_0"])).numpy()
np.savez_compressed("torchaudio.npz", **made)
