"""Operations on audio. Names and parameters follow torchaudio where it has them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from feedline._checks import choice, flag, real, refuse, whole
from feedline._paths import Uri, local_text

from .base import Chance, Transform, low_high, probability, set_fields

__all__ = [
    "AmplitudeToDB",
    "AudioWindow",
    "BackgroundNoise",
    "FrequencyMasking",
    "MelSpectrogram",
    "Mono",
    "RandomGain",
    "RandomNoise",
    "Resample",
    "TimeMasking",
]

LONGEST = 86_400.0
"""The longest window: a day."""


@dataclass(frozen=True, init=False)
class AudioWindow(Transform):
    """Decodes a window of `seconds` seconds: in the list of a field of encoded audio.

    Only the window is decoded. `policy` is where it lies: `"random"` (drawn for every sample and epoch), `"start"` or
    `"center"`. A file that is shorter is filled up with silence (`pad="zeros"`), with itself (`"repeat"`), or is a bad
    sample (`"error"`).

    >>> AudioWindow(1.0, policy="center")
    AudioWindow(seconds=1.0, policy='center', pad='zeros')
    """

    seconds: float
    policy: str
    pad: str

    def __init__(
        self,
        seconds: float,
        policy: Literal["random", "start", "center"] = "random",
        pad: Literal["zeros", "repeat", "error"] = "zeros",
    ) -> None:
        length = real("seconds", seconds, 0.0, LONGEST)
        if length == 0:
            refuse("seconds", seconds, "a number above 0")
        set_fields(self, seconds=length, policy=choice("policy", policy, ("random", "start", "center")))
        set_fields(self, pad=choice("pad", pad, ("zeros", "repeat", "error")), random=policy == "random")


@dataclass(frozen=True)
class Resample(Transform):
    """Converts to `hz` frames per second, by the sums of `torchaudio.functional.resample`.

    >>> Resample(16000)
    Resample(hz=16000, lowpass_filter_width=6, rolloff=0.99)
    """

    hz: int
    lowpass_filter_width: int = 6
    rolloff: float = 0.99

    def __post_init__(self) -> None:
        width = whole("lowpass_filter_width", self.lowpass_filter_width, 1, 1024)
        set_fields(self, hz=whole("hz", self.hz, 1, 10_000_000), lowpass_filter_width=width)
        set_fields(self, rolloff=real("rolloff", self.rolloff, 0.01, 1.0))


@dataclass(frozen=True)
class Mono(Transform):
    """The mean of all channels.

    >>> Mono()
    Mono()
    """


@dataclass(frozen=True, init=False)
class RandomGain(Chance):
    """Makes waves louder or softer by a random number of decibels between `gain`'s two, with probability `p`.

    >>> RandomGain((-6, 6))
    RandomGain(gain=(-6.0, 6.0), p=1.0)
    """

    gain: tuple[float, float]
    p: float

    def __init__(self, gain: tuple[float, float] = (-6.0, 6.0), p: float = 1.0) -> None:
        set_fields(self, gain=low_high("gain", gain), p=probability(p))


@dataclass(frozen=True, init=False)
class RandomNoise(Chance):
    """Adds normal noise: the signal is a random number of decibels between `snr`'s two above it; with probability `p`.

    >>> RandomNoise((10, 30), p=0.5)
    RandomNoise(snr=(10.0, 30.0), p=0.5)
    """

    snr: tuple[float, float]
    p: float

    def __init__(self, snr: tuple[float, float] = (10.0, 30.0), p: float = 1.0) -> None:
        set_fields(self, snr=low_high("snr", snr), p=probability(p))


@dataclass(frozen=True, init=False)
class BackgroundNoise(Chance):
    """Adds noise from recordings: the signal is a random number of decibels between `snr`'s two above it; with
    probability `p`.

    `noise` is a data set of recordings: a folder of audio files, a pack, tar shards. Recording and stretch are drawn
    for every sample and epoch. A recording is brought to the waves' rate and to one channel; a short one is repeated.

    >>> BackgroundNoise("/data/noise", (5, 20), p=0.5)
    BackgroundNoise(noise='/data/noise', snr=(5.0, 20.0), p=0.5)
    """

    noise: str
    snr: tuple[float, float]
    p: float

    def __init__(self, noise: Uri, snr: tuple[float, float] = (10.0, 30.0), p: float = 1.0) -> None:
        set_fields(self, noise=local_text("noise", noise), snr=low_high("snr", snr), p=probability(p))


@dataclass(frozen=True, init=False)
class MelSpectrogram(Transform):
    """A spectrogram on the mel scale, as torchaudio's with a Hann window: `[B, C, n_mels, T]`.

    >>> MelSpectrogram(16000, n_fft=400, n_mels=80).hop_length
    200
    """

    sample_rate: int
    n_fft: int
    win_length: int
    hop_length: int
    f_min: float
    f_max: float
    n_mels: int
    power: float
    center: bool
    mel_scale: str
    norm: str | None

    def __init__(
        self,
        sample_rate: int = 16000,
        n_fft: int = 400,
        win_length: int | None = None,
        hop_length: int | None = None,
        f_min: float = 0.0,
        f_max: float | None = None,
        n_mels: int = 128,
        *,
        power: float = 2.0,
        center: bool = True,
        norm: Literal["slaney"] | None = None,
        mel_scale: Literal["htk", "slaney"] = "htk",
    ) -> None:
        most = 2**20
        rate, size = whole("sample_rate", sample_rate, 2, 10_000_000), whole("n_fft", n_fft, 2, most)
        window = size if win_length is None else whole("win_length", win_length, 1, size)
        hop = window // 2 if hop_length is None else whole("hop_length", hop_length, 1, most)
        high = float(rate // 2) if f_max is None else real("f_max", f_max, 0.0, float(rate))
        set_fields(self, sample_rate=rate, n_fft=size, win_length=window, hop_length=max(hop, 1))
        set_fields(self, f_min=real("f_min", f_min, 0.0, high), f_max=high, n_mels=whole("n_mels", n_mels, 1, 2**14))
        set_fields(self, power=real("power", power, 0.0), center=flag("center", center))
        set_fields(self, norm=None if norm is None else choice("norm", norm, ("slaney",)))
        set_fields(self, mel_scale=choice("mel_scale", mel_scale, ("htk", "slaney")))

    def to_spec(self) -> dict[str, Any]:
        """As plain data."""
        spec = super().to_spec() or {}
        spec["slaney_norm"] = spec.pop("norm") == "slaney"
        return spec


@dataclass(frozen=True, init=False)
class AmplitudeToDB(Transform):
    """Values as decibels, as `torchaudio.transforms.AmplitudeToDB`; `top_db` is counted from the clip's loudest value.

    >>> AmplitudeToDB(top_db=80)
    AmplitudeToDB(stype='power', top_db=80.0)
    """

    stype: str
    top_db: float | None

    def __init__(self, stype: Literal["power", "magnitude"] = "power", top_db: float | None = None) -> None:
        set_fields(self, stype=choice("stype", stype, ("power", "magnitude")))
        set_fields(self, top_db=None if top_db is None else real("top_db", top_db, 0.0))

    def to_spec(self) -> dict[str, Any]:
        """As plain data."""
        return {"op": "AmplitudeToDB", "power": self.stype == "power", "top_db": self.top_db}


@dataclass(frozen=True)
class FrequencyMasking(Transform):
    """Sets a random band of a spectrogram to zero, up to `freq_mask_param` mels wide, as torchaudio's.

    >>> FrequencyMasking(27)
    FrequencyMasking(freq_mask_param=27)
    """

    random = True

    freq_mask_param: int

    def __post_init__(self) -> None:
        set_fields(self, freq_mask_param=whole("freq_mask_param", self.freq_mask_param))


@dataclass(frozen=True)
class TimeMasking(Transform):
    """Sets a random stretch of a spectrogram to zero, up to `time_mask_param` windows and a share `p` of all, as
    torchaudio's.

    >>> TimeMasking(100)
    TimeMasking(time_mask_param=100, p=1.0)
    """

    random = True

    time_mask_param: int
    p: float = 1.0

    def __post_init__(self) -> None:
        set_fields(self, time_mask_param=whole("time_mask_param", self.time_mask_param), p=probability(self.p))
