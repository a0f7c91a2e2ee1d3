"""Windows of audio beside torchaudio and soundfile, in one run.

    python benchmarks/audio.py FOLDER [--windows 200] [--seconds 1.0] [--rounds 5] [--write NAME]

Each library decodes random windows of the folder's files, converts them to 16 kHz and one channel; a second recipe adds a mel
spectrogram. torchaudio's filters and spectrograms are made once and kept; files are read with soundfile, since torchaudio
2.9 and later leave decoding to torchcodec. One thread each, CPU time, in turns, the best round counts.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

import feedline as fl
import numpy as np
import soundfile
import torch
import torchaudio
from feedline import transforms as T

RATE = 16000


@lru_cache(maxsize=8)
def resampler(rate: int) -> torch.nn.Module:
    """torchaudio's filter for a rate, made once."""
    return torchaudio.transforms.Resample(rate, RATE)


def theirs(paths: list[Path], seconds: float, *, mel: bool) -> Callable[[], None]:
    """soundfile's windows with torchaudio's operations."""
    spectrogram = torchaudio.transforms.MelSpectrogram(RATE, n_fft=400, hop_length=160, n_mels=80)
    draw = np.random.default_rng(0)

    def run() -> None:
        for path in paths:
            with soundfile.SoundFile(path) as file:
                length = int(seconds * file.samplerate)
                file.seek(int(draw.integers(0, max(file.frames - length, 0) + 1)))
                wave = torch.from_numpy(file.read(length, dtype="float32", always_2d=True, fill_value=0.0).T)
                wave = resampler(file.samplerate)(wave).mean(dim=0, keepdim=True)
                if mel:
                    spectrogram(wave)

    return run


def ours(folder: Path, count: int, seconds: float, *, mel: bool) -> Callable[[], None]:
    """A loader with one thread."""
    ops = [T.AudioWindow(seconds), T.Resample(RATE), T.Mono()]
    ops += [T.MelSpectrogram(RATE, n_fft=400, hop_length=160, n_mels=80)] if mel else []
    sampler = fl.samplers.Random(replacement=True, num_samples=count)
    loader = fl.Loader(
        folder, transforms={"audio": ops}, batch_size=8, sampler=sampler, num_workers=1, output="numpy", drop_last=False
    )

    def run() -> None:
        for _ in loader:
            pass

    return run


def main() -> None:
    """Runs the comparison."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--windows", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--write", type=Path, help="writes NAME.json and NAME.md")
    args = parser.parse_args()
    torch.set_num_threads(1)
    found = sorted(path for path in args.folder.rglob("*") if path.suffix in {".wav", ".flac", ".mp3", ".ogg"})
    chosen = [found[n] for n in np.random.default_rng(1).integers(0, len(found), args.windows)]
    result = {}
    lines = ["| recipe | feedline, ms | torchaudio and soundfile, ms | feedline is faster by |", "|---|---:|---:|---:|"]
    for name, mel in (("16 kHz, mono", False), ("16 kHz, mono, mel spectrogram", True)):
        runs = {
            "feedline": ours(args.folder, args.windows, args.seconds, mel=mel),
            "torchaudio": theirs(chosen, args.seconds, mel=mel),
        }
        times: dict[str, list[float]] = {library: [] for library in runs}
        for run in runs.values():
            run()
        for _ in range(args.rounds):
            for library, run in runs.items():
                begun = time.process_time()
                run()
                times[library].append((time.process_time() - begun) / args.windows * 1e3)
        best = {library: round(min(rounds), 3) for library, rounds in times.items()}
        result[name] = best
        ratio = best["torchaudio"] / best["feedline"]
        lines.append(f"| {name} | {best['feedline']} | {best['torchaudio']} | {ratio:.2f} x |")
    print("\n".join(lines))
    if args.write:
        args.write.with_suffix(".json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
        about = f"`benchmarks/audio.py`: CPU time per window of {args.seconds} s, one thread each.\n\n"
        args.write.with_suffix(".md").write_text("# Audio\n\n" + about + "\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
