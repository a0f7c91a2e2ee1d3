"""Clips of videos."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from feedline._checks import choice, real, refuse, whole

from .base import Transform, set_fields

__all__ = ["Clip"]


@dataclass(frozen=True, init=False)
class Clip(Transform):
    """Decodes `frames` frames of a video, `stride` apart: first in the list of a video field.

    Operations on images follow and are done to all frames alike, with one draw: `[B, T, 3, H, W]`, and the frames'
    times in `batch["video.times"]` (seconds, float64). `policy` is where the clip lies: `"random"` (drawn for every
    sample and epoch), `"uniform"` (spread over the whole video), `"start"`, or `"all"` (every `stride`-th frame of the
    video: values of different lengths). With `fps`, strides count in frames of that rate, and the frame shown at each
    time is taken. Past the end, the last frame is repeated (`past_end="repeat"`), the video begins again (`"wrap"`), or
    the sample is bad (`"error"`).

    With `clips` above 1, so many clips of each video: `[B, clips, T, 3, H, W]`, at random places, or with
    `policy="regular"` at equal distances from the beginning to the end.

    >>> Clip(16, stride=2)
    Clip(frames=16, stride=2, policy='random', fps=None, past_end='repeat', clips=1)
    """

    frames: int
    stride: int
    policy: str
    fps: float | None
    past_end: str
    clips: int

    def __init__(
        self,
        frames: int,
        stride: int = 1,
        policy: Literal["random", "uniform", "start", "regular", "all"] = "random",
        fps: float | None = None,
        past_end: Literal["repeat", "wrap", "error"] = "repeat",
        clips: int = 1,
    ) -> None:
        set_fields(self, frames=whole("frames", frames, 1, 2**20), stride=whole("stride", stride, 1, 2**30))
        set_fields(self, policy=choice("policy", policy, ("random", "uniform", "start", "regular", "all")))
        rate = None if fps is None else real("fps", fps, 0.0, 10_000.0)
        if rate == 0:
            refuse("fps", fps, "a number above 0")
        set_fields(self, fps=rate, past_end=choice("past_end", past_end, ("repeat", "wrap", "error")))
        set_fields(self, clips=whole("clips", clips, 1, 2**20))
        if self.clips > 1 and self.policy not in ("random", "regular"):
            refuse("clips", clips, "1, or policy='random' or 'regular'")
        set_fields(self, random=self.policy == "random")
