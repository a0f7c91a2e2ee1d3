"""Divides a loader's knobs between the engine and Python."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from feedline.errors import OptionError
from feedline.transforms import Normalize, Python, Transform
from feedline.transforms.policy import flat

from .calls import Call, call_of
from .program import Chain, Ops, Program

__all__ = ["Plan", "leading", "plan"]

Views = Mapping[str, tuple[str, str]]


@dataclass(frozen=True)
class Plan:
    """The work of Python for one loader."""

    program: Program | None
    batch_map: Call | None
    pixels: list[str]
    """Columns that the engine passes on as 8-bit pixels."""
    threads: bool


def leading(ops: Any) -> list[Any]:
    """The part of a list of transforms before the first function."""
    listed = _listed(ops)
    return listed[: next((at for at, op in enumerate(listed) if isinstance(op, Python)), len(listed))]


def plan(knobs: Mapping[str, Any], by_field: Mapping[str, Any], images: Sequence[str]) -> Plan | None:
    """The checked plan, or `None` if there is nothing to do in Python. `images` are the decoded image fields."""
    whole = None if knobs["map"] is None else call_of("map", knobs["map"], knobs["as_"])
    batches = None if knobs["batch_map"] is None else call_of("batch_map", knobs["batch_map"], None)
    lists = _columns(by_field, images)
    chosen = sorted(name for name, (_, _, ops) in lists.items() if any(isinstance(op, Python) for op in ops))
    _check_knobs(knobs, python=bool(chosen) or whole is not None)
    if not chosen and whole is None:
        return None if batches is None else Plan(None, batches, [], threads=False)
    views = {name: (field, view) for name, (field, view, _) in lists.items() if view is not None}
    numbers = _view_numbers(lists)
    chains = []
    for name in chosen if whole is None else lists:
        # Columns with functions draw as usual; others have no functions that could draw.
        stream = chosen.index(name) if name in chosen else 0
        chains.append(_ChainBuilder(name, numbers[name], knobs, whole).chain(lists[name][2], stream))
    program = Program(int(knobs["seed"]), tuple(chains), whole, views)
    threads = _threads(knobs["map_workers"])
    if threads:
        _warn_of_globals(program)
    return Plan(program, batches, [chain.column for chain in chains if chain.raw], threads=threads)


def _check_knobs(knobs: Mapping[str, Any], *, python: bool) -> None:
    if knobs["as_"] is not None and knobs["map"] is None:
        raise OptionError("as_: is the form of images for map=, and there is no map=; T.Python has its own as_=")
    if knobs["map_workers"] not in (None, "processes", "threads"):
        raise OptionError(f"map_workers: {knobs['map_workers']!r} is not one of None, 'processes', 'threads'")
    if python and (isinstance(knobs["dtype"], Mapping) or knobs["mode"] not in (None, "RGB")):
        knob = "dtype" if isinstance(knobs["dtype"], Mapping) else "mode"
        raise OptionError(
            f"{knob}: functions in Python get red, green and blue bytes, and all images have one dtype after them"
        )
    if python and knobs["dtype"] == "bfloat16":
        reason = "dtype: functions in Python get NumPy arrays, and NumPy has no bfloat16"
        raise OptionError(f"{reason}\nhint: dtype='float32', and batch_map=fn to convert whole batches")
    if python and knobs["multiprocessing_context"] != "forkserver" and _threads(knobs["map_workers"]):
        raise OptionError("multiprocessing_context: functions run in threads here\nhint: map_workers='processes'")
    if python:
        return
    if knobs["map_workers"] is not None:
        raise OptionError("map_workers: only for map= and T.Python transforms, of which there are none here")
    if knobs["multiprocessing_context"] != "forkserver":
        raise OptionError(
            "multiprocessing_context: only for T.Python transforms and map=, of which there are none here"
        )


def _threads(workers: str | None) -> bool:
    if workers is None:
        return not getattr(sys, "_is_gil_enabled", lambda: True)()
    return workers == "threads"


def _warn_of_globals(program: Program) -> None:
    steps = [step for chain in program.chains for step in chain.steps]
    calls = [step for step in (*steps, program.map) if isinstance(step, Call)]
    shared = next((call.function for call in calls if call.foreign), None)
    if shared is not None:
        warnings.warn(
            f"map_workers: {type(shared).__name__} draws from random numbers that all threads share, so its "
            "results depend on timing; map_workers='processes' seeds them for every sample",
            stacklevel=6,
        )


def _columns(by_field: Mapping[str, Any], images: Sequence[str]) -> dict[str, tuple[str, str | None, list[Any]]]:
    """Every image column: field, view and transforms."""
    found: dict[str, tuple[str, str | None, list[Any]]] = {}
    for field in dict.fromkeys((*by_field, *images)):
        value = by_field.get(field, [])
        if isinstance(value, Mapping):
            found.update({f"{field}.{view}": (field, str(view), _listed(ops)) for view, ops in value.items()})
        else:
            found[field] = (field, None, _listed(value))
    return found


def _listed(ops: Any) -> list[Any]:
    return flat(ops)


def _view_numbers(lists: Mapping[str, tuple[str, str | None, list[Any]]]) -> dict[str, int]:
    """Number of each view of its field, as the engine counts them."""
    numbers = {}
    for name, (field, view, _) in lists.items():
        others = sorted(other for owner, other, _ in lists.values() if owner == field and other is not None)
        numbers[name] = 0 if view is None else others.index(view)
    return numbers


class _ChainBuilder:
    """Makes the chain of one column."""

    def __init__(self, column: str, number: int, knobs: Mapping[str, Any], whole: Call | None) -> None:
        self._column = column
        self._number = number
        self._final = (str(knobs["dtype"]), str(knobs["memory_format"]))
        self._whole = whole

    def chain(self, ops: list[Any], stream: int) -> Chain:
        """The chain of this list."""
        segments = self._segments(ops)
        raws, normalised = [], False
        for at, (kind, part, _) in enumerate(segments):
            if kind == "ops":
                normalised = normalised or any(isinstance(op, Normalize) for op in part)
                raws.append(self._raw(segments[at + 1 :], normalised=normalised))
        places = iter(raws)
        steps: list[Call | Ops] = []
        raw = ends_raw = next(places)
        for kind, part, place in segments[1:]:
            if kind == "call":
                steps.append(part)
                continue
            ends_raw = next(places)
            steps.append(self._ops(part, place, raw=ends_raw))
        return Chain(self._column, stream, tuple(steps), raw, self._ops([], len(ops), raw=False), ends_raw)

    def _segments(self, ops: list[Any]) -> list[tuple[str, Any, int]]:
        """Runs of engine transforms, and functions between them; the first is always a run, which may be empty."""
        segments: list[tuple[str, Any, int]] = [("ops", [], 0)]
        for place, op in enumerate(ops):
            if isinstance(op, Python):
                call = call_of(f"transforms: {self._column}: T.Python", op.function, op.as_)
                segments.append(("call", call, place))
            elif segments[-1][0] == "ops":
                segments[-1][1].append(op)
            else:
                segments.append(("ops", [op], place))
        return segments

    def _raw(self, after: Sequence[tuple[str, Any, int]], *, normalised: bool) -> bool:
        """Whether a run of transforms must return 8-bit pixels for the next step."""
        later = any(kind == "ops" for kind, _, _ in after)
        if later and normalised:
            raise OptionError(f"transforms: {self._column}: Normalize must come last, and once")
        calls = [part for kind, part, _ in after if kind == "call"]
        calls += [self._whole] if self._whole is not None else []
        if normalised and any(call.form == "pil" for call in calls):
            raise OptionError(
                f"transforms: {self._column}: PIL images have bytes, but Normalize returns floats\n"
                "hint: put T.Python before T.Normalize, or use as_='torch'"
            )
        return later or (not normalised and any(call.pixels for call in calls))

    def _ops(self, part: list[Any], place: int, *, raw: bool) -> Ops:
        odd = next((op for op in part if not isinstance(op, Transform)), None)
        if odd is not None:
            hint = " (call it: add parentheses)" if isinstance(odd, type) and issubclass(odd, Transform) else ""
            raise OptionError(f"transforms: {self._column}: {odd!r} is not one of feedline.transforms{hint}")
        specs = [spec for spec in (op.to_spec() for op in part) if spec is not None]
        dtype, memory_format = ("uint8", "channels_last") if raw else self._final
        if dtype == "bfloat16":
            dtype = "float32"
        ops = Ops(self._column, json.dumps(specs), self._number, place, dtype, memory_format)
        ops.made  # noqa: B018 - checks the transforms now, not in a worker
        return ops
