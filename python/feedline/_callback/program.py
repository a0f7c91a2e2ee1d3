"""The work on a sample in Python: the user's functions, and the engine's transforms between them.

Plain data, made once by the loader and sent to every worker. [`Program.run`][] is the whole work of a worker.
"""

from __future__ import annotations

import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from feedline import _feedline

from .calls import IMAGE_DIMENSIONS, Call, is_pil, is_tensor, of_pil, plain, seed_everything, turned

__all__ = ["Bad", "Chain", "Ops", "Program"]

MAP_STREAM = 0x6D6170
"""Separates the random numbers of `map` from those of any view."""
RGB = 3


@dataclass(frozen=True)
class Ops:
    """Transforms of the engine on pixels that come from Python."""

    column: str
    spec: str
    view: int
    place: int
    """Number of transforms of the list before these."""
    dtype: str
    memory_format: str

    @cached_property
    def made(self) -> Any:
        """The engine's object."""
        return _feedline.ImageOps(self.column, self.spec, self.view, self.place, self.dtype, self.memory_format)

    @property
    def layout(self) -> str:
        """Order of the result's dimensions."""
        return "hwc" if self.memory_format == "channels_last" else "chw"

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "made"}

    def apply(self, image: Any, layout: str | None, origin: tuple[int, int, int]) -> Any:
        """Applies the transforms to an image that a function returned."""
        if not isinstance(image, np.ndarray) or image.ndim != IMAGE_DIMENSIONS or image.dtype != np.uint8:
            shown = f"{image.dtype} {list(image.shape)}" if isinstance(image, np.ndarray) else type(image).__name__
            raise TypeError(f"the transforms after T.Python take 8-bit images, not {shown}")
        pixels = turned(image, layout or "hwc", "hwc")
        if pixels.shape[2] == 1:
            pixels = np.repeat(pixels, RGB, axis=2)
        if pixels.shape[2] != RGB:
            raise TypeError(f"the transforms after T.Python take 3 channels, not {pixels.shape[2]}")
        shape, elements = self.made.apply(pixels.tobytes(), pixels.shape[:2], origin)
        return np.frombuffer(elements, dtype=self.dtype).reshape(shape)


@dataclass(frozen=True)
class Chain:
    """The steps for one image column."""

    column: str
    view: int
    """Separates the random numbers of several columns."""
    steps: tuple[Call | Ops, ...]
    raw: bool
    """Whether the engine passes on 8-bit rows, columns, channels instead of the loader's own form."""
    finish: Ops
    """Converts pixels to the loader's own form."""
    ends_raw: bool
    """Whether the input of the last step was such pixels."""

    def run(self, image: Any, key: tuple[int, int, int], *, seeded: bool) -> tuple[Any, str | None]:
        """The image after all steps, and the order of its dimensions."""
        value, layout = image, self._layout()
        calls = [step for step in self.steps if isinstance(step, Call)]
        if not calls:
            return value, layout
        drawn = (*key, self.view)
        if seeded:
            seed_everything(drawn, tuple(call.function for call in calls))
        generator = np.random.default_rng(drawn)
        for step in self.steps:
            if isinstance(step, Ops):
                value, layout = step.apply(value, layout, key), step.layout
            else:
                given = step.give(value, layout, self.finish.layout)
                value, layout = step.take(step(given, generator), self.finish.layout)
        return value, layout

    def _layout(self) -> str | None:
        return "hwc" if self.raw else self.finish.layout

    def end(self, value: Any, layout: str | None, key: tuple[int, int, int]) -> Any:
        """The image as it is in the batch: 8-bit pixels are converted to the loader's form."""
        if not isinstance(value, np.ndarray) or value.ndim != IMAGE_DIMENSIONS or layout is None:
            return plain_value(value)
        if not self.ends_raw or value.dtype != np.uint8:
            return turned(value, layout, self.finish.layout)
        if value.shape[2 if layout == "hwc" else 0] == RGB:
            return self.finish.apply(value, layout, key)
        array = turned(value, layout, self.finish.layout)
        # Grey or with alpha: the engine does not support it, but it is scaled in the same way.
        return array if self.finish.dtype == "uint8" else (array * np.float32(1 / 255)).astype(self.finish.dtype)


@dataclass(frozen=True)
class Bad:
    """Why a sample could not be made."""

    field: str | None
    reason: str


@dataclass(frozen=True)
class Program:
    """Everything that happens to a sample in Python."""

    seed: int
    chains: tuple[Chain, ...]
    map: Call | None
    views: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Columns that are views: field and view of each."""

    def columns(self) -> list[str] | None:
        """Columns that it needs; `None` for all."""
        return None if self.map is not None else [chain.column for chain in self.chains]

    def functions(self) -> list[Any]:
        """The user's functions."""
        calls = [step for chain in self.chains for step in chain.steps if isinstance(step, Call)]
        return [call.function for call in (*calls, *((self.map,) if self.map is not None else ()))]

    def run(self, epoch: int, rows: Sequence[dict[str, Any]], *, seeded: bool) -> list[dict[str, Any] | Bad]:
        """Runs the functions on samples. A failure is a result, not an exception."""
        return [self._sample(epoch, row, seeded=seeded) for row in rows]

    def _sample(self, epoch: int, row: dict[str, Any], *, seeded: bool) -> dict[str, Any] | Bad:
        key = (self.seed, epoch, int(row["index"]))
        where: str | None = None
        try:
            images = {}
            for chain in self.chains:
                where = chain.column
                images[where] = chain.run(row[where], key, seeded=seeded)
            if self.map is None:
                made = {chain.column: chain.end(*images[chain.column], key) for chain in self.chains}
                return {**made, "index": row["index"]}
            where = None
            return self._mapped(row, images, key, seeded=seeded)
        except BaseException as error:  # noqa: BLE001 - whatever the user's function raises is reported
            return Bad(where, _reason(error))

    def _mapped(
        self, row: dict[str, Any], images: dict[str, tuple[Any, str | None]], key: tuple[int, int, int], *, seeded: bool
    ) -> dict[str, Any]:
        call = self.map
        if call is None:
            return row
        loader = self.chains[0].finish.layout if self.chains else "chw"
        given = {name: call.give(*images[name], loader) if name in images else value for name, value in row.items()}
        drawn = (*key, MAP_STREAM)
        if seeded:
            seed_everything(drawn, (call.function,))
        result = call.whole(self._nested(given), np.random.default_rng(drawn))
        if not isinstance(result, Mapping):
            hint = "; did it forget to return the sample?" if result is None else ""
            raise TypeError(f"map must return a dict of fields, but returned a {type(result).__name__}{hint}")
        chains = {chain.column: chain for chain in self.chains}
        made = {}
        for name, value in self._flat(result).items():
            chain = chains.get(name)
            made[name] = plain_value(value) if chain is None else chain.end(*call.take(value, loader), key)
        return {**made, "index": row["index"]}

    def _nested(self, flat: dict[str, Any]) -> dict[str, Any]:
        nested: dict[str, Any] = {}
        for name, value in flat.items():
            if name in self.views:
                owner, view = self.views[name]
                nested.setdefault(owner, {})[view] = value
            else:
                nested[name] = value
        return nested

    def _flat(self, nested: Mapping[str, Any]) -> dict[str, Any]:
        fields = {owner for owner, _ in self.views.values()}
        flat: dict[str, Any] = {}
        for name, value in nested.items():
            if name in fields and isinstance(value, Mapping):
                flat.update({f"{name}.{view}": image for view, image in value.items()})
            else:
                flat[str(name)] = value
        return flat


def plain_value(value: Any) -> Any:
    """A result that can be sent between processes: no torch, no PIL."""
    if is_tensor(value):
        return plain(value)
    if is_pil(value):
        return of_pil(value)
    if isinstance(value, np.ndarray):
        # The receiver cannot use a subclass or a foreign byte order.
        value = np.ascontiguousarray(value)
        return value.astype(value.dtype.newbyteorder("=")) if not value.dtype.isnative else value
    return value


def _reason(error: BaseException) -> str:
    """The error with its traceback, without the frames of this package; only the reason if it is the engine's."""
    own = getattr(error, "reason", None)
    if isinstance(own, str):
        return own
    here, trace = str(Path(__file__).parent), error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(here):
        trace = trace.tb_next
    if trace is None:
        return f"{type(error).__name__}: {error}"
    return "".join(traceback.format_exception(type(error), error, trace)).rstrip()
