"""Transforms that contain or select transforms."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from feedline._checks import choice, flag, listed, real, refuse, shown, whole
from feedline.errors import OptionError

from .base import (
    LARGEST,
    BatchTransform,
    Fill,
    Transform,
    colour,
    counts,
    probability,
    set_fields,
    tensor_interpolation,
)

__all__ = [
    "AugMix",
    "AutoAugment",
    "Compose",
    "RandAugment",
    "RandomApply",
    "RandomChoice",
    "RandomOrder",
    "Schedule",
    "SomeOf",
    "ThreeAugment",
    "TrivialAugmentWide",
    "flat",
]

WarpInterpolation = Literal["nearest", "bilinear"]


def _members(where: str, transforms: Sequence[Transform]) -> tuple[Transform, ...]:
    allowed = "a list of feedline.transforms"
    members = (transforms,) if isinstance(transforms, Transform) else tuple(listed("transforms", transforms, allowed))
    if where == "RandomChoice" and members and all(isinstance(member, BatchTransform) for member in members):
        return members
    for member in members:
        if not isinstance(member, Transform):
            raise OptionError(f"transforms: {where}: {shown(member)} is not one of feedline.transforms")
    return members


class _List(Transform):
    transforms: tuple[Transform, ...]

    def to_spec(self) -> dict[str, Any]:
        """The transform as plain data, with those inside."""
        spec = super().to_spec() or {}
        inner = [member.to_spec() for member in self.transforms]
        return {**spec, "transforms": [member for member in inner if member is not None]}


@dataclass(frozen=True, init=False)
class Compose(_List):
    """Applies several transforms one after the other. The same as a list; `a | b` makes one.

    >>> from feedline import transforms as T
    >>> T.Compose([T.CenterCrop(8)])
    Compose(transforms=(CenterCrop(size=(8, 8)),))
    """

    transforms: tuple[Transform, ...]

    def __init__(self, transforms: Sequence[Transform]) -> None:
        set_fields(self, transforms=_members("Compose", transforms))


@dataclass(frozen=True, init=False)
class RandomApply(_List):
    """Applies all of them, one after the other, with probability `p`; else none.

    >>> from feedline import transforms as T
    >>> T.RandomApply([T.ColorJitter(0.4)], p=0.8).p
    0.8
    """

    random = True
    transforms: tuple[Transform, ...]
    p: float

    def __init__(self, transforms: Sequence[Transform], p: float = 0.5) -> None:
        set_fields(self, transforms=_members("RandomApply", transforms), p=probability(p))


@dataclass(frozen=True, init=False)
class RandomChoice(_List):
    """Applies one of them, chosen by the weights `p`.

    >>> from feedline import transforms as T
    >>> T.RandomChoice([T.RandomInvert(1.0), T.RandomEqualize(1.0)], p=[1, 3]).p
    (1.0, 3.0)
    """

    random = True
    transforms: tuple[Transform, ...]
    p: tuple[float, ...] | None

    def __init__(self, transforms: Sequence[Transform], p: Sequence[float] | None = None) -> None:
        given = None if p is None else listed("p", p, "a list of weights")
        weights = None if given is None else tuple(real("p", weight, 0.0) for weight in given)
        set_fields(self, transforms=_members("RandomChoice", transforms), p=weights)

    def to_spec(self) -> dict[str, Any]:
        """The transform as plain data, with those inside."""
        if any(member.to_spec() is None for member in self.transforms):
            raise OptionError("RandomChoice: ToTensor changes nothing and cannot be chosen; leave it out")
        return super().to_spec()


@dataclass(frozen=True, init=False)
class RandomOrder(_List):
    """Applies all of them, in random order.

    >>> from feedline import transforms as T
    >>> len(T.RandomOrder([T.RandomInvert(), T.RandomEqualize()]).transforms)
    2
    """

    random = True
    transforms: tuple[Transform, ...]

    def __init__(self, transforms: Sequence[Transform]) -> None:
        set_fields(self, transforms=_members("RandomOrder", transforms))


@dataclass(frozen=True, init=False)
class AutoAugment(Transform):
    """Applies one of 25 pairs of operations that were learned on `"imagenet"`, `"cifar10"` or `"svhn"`.

    >>> AutoAugment("cifar10").policy
    'cifar10'
    """

    random = True
    policy: str
    interpolation: str
    fill: tuple[int, int, int]

    def __init__(
        self, policy: str = "imagenet", interpolation: WarpInterpolation = "nearest", fill: Fill = None
    ) -> None:
        given = getattr(policy, "value", policy)
        known = ("imagenet", "cifar10", "svhn")
        name = choice("policy", given.lower() if isinstance(given, str) else given, known)
        set_fields(self, policy=name, interpolation=tensor_interpolation(interpolation), fill=colour(fill))


@dataclass(frozen=True, init=False)
class RandAugment(Transform):
    """Applies `num_ops` random operations, all of strength `magnitude` of `num_magnitude_bins`, as in torchvision.

    `like="timm"` is timm's version, which shares only the name: `magnitude` is in tenths, each operation is applied
    with probability `p`, `magnitude_std` varies the magnitude (above 100: uniform from 0), `increasing=True` is its
    `inc1`.

    >>> RandAugment(magnitude=15).magnitude
    15
    >>> RandAugment.timm("rand-m9-mstd0.5-inc1").increasing
    True
    """

    random = True
    num_ops: int
    magnitude: int
    num_magnitude_bins: int
    interpolation: str
    fill: tuple[int, int, int]
    like: str
    p: float
    magnitude_std: float
    magnitude_max: float
    increasing: bool

    def __init__(
        self,
        num_ops: int = 2,
        magnitude: int = 9,
        num_magnitude_bins: int = 31,
        interpolation: WarpInterpolation = "nearest",
        fill: Fill = None,
        *,
        like: Literal["torchvision", "timm"] = "torchvision",
        p: float = 0.5,
        magnitude_std: float = 0.0,
        magnitude_max: float = 10.0,
        increasing: bool = False,
    ) -> None:
        set_fields(self, like=choice("like", like, ("torchvision", "timm")), p=probability(p))
        set_fields(self, magnitude_std=real("magnitude_std", magnitude_std, 0.0))
        set_fields(self, magnitude_max=real("magnitude_max", magnitude_max, 0.0))
        set_fields(self, increasing=flag("increasing", increasing))
        given = (self.p, self.magnitude_std, self.magnitude_max, self.increasing)
        if self.like == "torchvision" and given != (0.5, 0.0, 10.0, False):
            raise OptionError("RandAugment: p, magnitude_std, magnitude_max and increasing go with like='timm'")
        bins, filtered = (
            whole("num_magnitude_bins", num_magnitude_bins, 0, LARGEST),
            tensor_interpolation(interpolation),
        )
        if self.like == "timm" and (bins, filtered) != (31, "nearest"):
            raise OptionError("RandAugment: timm has no bins, and draws bilinear or bicubic each time")
        fill = (128, 128, 128) if fill is None and self.like == "timm" else fill
        counts = {"num_ops": num_ops, "magnitude": magnitude, "num_magnitude_bins": num_magnitude_bins}
        set_fields(self, **{name: whole(name, value, 0, LARGEST) for name, value in counts.items()})
        set_fields(self, interpolation=tensor_interpolation(interpolation), fill=colour(fill))

    @classmethod
    def timm(cls, config: str = "rand-m9-mstd0.5-inc1", fill: Fill = None) -> RandAugment:
        """The version of timm, by its text: `rand`, `mN` magnitude, `nN` operations, `pX`, `mstdX`, `mmaxN`, `inc1`."""
        names = {"m": "magnitude", "n": "num_ops", "p": "p", "mstd": "magnitude_std", "mmax": "magnitude_max"}
        found: dict[str, Any] = {"magnitude": 10}
        variant, *sections = config.split("-")
        for section in sections:
            word, number = re.split("(?![a-z])", section, maxsplit=1) if section[:1].isalpha() else ("", "")
            try:
                if word == "inc":
                    found["increasing"] = bool(int(number))
                else:
                    found[names[word]] = float(number) if word in ("p", "mstd", "mmax") else int(number)
            except (KeyError, ValueError):
                raise OptionError(f"RandAugment.timm: '{section}' of '{config}' has no equivalent here") from None
        if variant != "rand":
            raise OptionError(f"RandAugment.timm: '{config}' does not begin with 'rand'")
        return cls(like="timm", fill=fill, **found)


@dataclass(frozen=True, init=False)
class TrivialAugmentWide(Transform):
    """Applies one random operation of random strength.

    >>> TrivialAugmentWide()
    TrivialAugmentWide(num_magnitude_bins=31, interpolation='nearest', fill=(0, 0, 0))
    """

    random = True
    num_magnitude_bins: int
    interpolation: str
    fill: tuple[int, int, int]

    def __init__(
        self,
        num_magnitude_bins: int = 31,
        interpolation: WarpInterpolation = "nearest",
        fill: Fill = None,
        *,
        like: Literal["torchvision"] = "torchvision",
    ) -> None:
        if not isinstance(like, str) or like != "torchvision":
            refuse("like", like, "'torchvision': timm has no TrivialAugment")
        set_fields(self, num_magnitude_bins=whole("num_magnitude_bins", num_magnitude_bins, 0, LARGEST))
        set_fields(self, interpolation=tensor_interpolation(interpolation), fill=colour(fill))


@dataclass(frozen=True, init=False)
class AugMix(Transform):
    """Mixes chains of random operations with the image by random weights, with torchvision's pixels for tensors.

    >>> AugMix().mixture_width
    3
    """

    random = True
    severity: int
    mixture_width: int
    chain_depth: int
    alpha: float
    all_ops: bool
    interpolation: str
    fill: tuple[int, int, int]

    def __init__(
        self,
        severity: int = 3,
        mixture_width: int = 3,
        chain_depth: int = -1,
        alpha: float = 1.0,
        all_ops: bool = True,
        interpolation: WarpInterpolation = "bilinear",
        fill: Fill = None,
    ) -> None:
        set_fields(self, severity=whole("severity", severity, 0, LARGEST))
        set_fields(self, mixture_width=whole("mixture_width", mixture_width, 0, LARGEST))
        set_fields(self, chain_depth=whole("chain_depth", chain_depth, -(2**31), 2**31 - 1))
        set_fields(self, alpha=real("alpha", alpha, 0.0), all_ops=flag("all_ops", all_ops))
        set_fields(self, interpolation=tensor_interpolation(interpolation), fill=colour(fill))


@dataclass(frozen=True)
class ThreeAugment(Transform):
    """Grey, solarised or blurred (Pillow's blur), then brightness, contrast and saturation, as in DeiT III.

    >>> ThreeAugment()
    ThreeAugment(color_jitter=0.3)
    """

    random = True
    color_jitter: float = 0.3

    def __post_init__(self) -> None:
        set_fields(self, color_jitter=real("color_jitter", self.color_jitter, 0.0))


@dataclass(frozen=True, init=False)
class SomeOf(_List):
    """Applies `n` of them (or from `n[0]` to `n[1]`), in random order; with `replace=True` one may be repeated.

    `ordered=True` keeps them in the list's order.

    >>> from feedline import transforms as T
    >>> T.SomeOf([T.RandomInvert(1.0), T.RandomEqualize(1.0), T.RandomGrayscale(1.0)], 2).n
    (2, 2)
    """

    random = True
    transforms: tuple[Transform, ...]
    n: tuple[int, int]
    replace: bool
    ordered: bool

    def __init__(
        self,
        transforms: Sequence[Transform],
        n: int | Sequence[int] = 1,
        *,
        replace: bool = False,
        ordered: bool = False,
    ) -> None:
        set_fields(self, transforms=_members("SomeOf", transforms), n=counts("n", n))
        set_fields(self, replace=flag("replace", replace), ordered=flag("ordered", ordered))


@dataclass(frozen=True, init=False)
class Schedule(Transform):
    """Other transforms, or other values, in other epochs: `{0: ..., 10: ...}`, each from its epoch on.

    In a list, it contains transforms. As an argument, it contains values, and every epoch's batches have that epoch's
    size: progressive resizing.

    >>> from feedline import transforms as T
    >>> growing = T.RandomResizedCrop(T.Schedule({0: 128, 10: 160, 20: 224}))
    >>> growing.steps[10]
    (RandomResizedCrop(size=(160, 160), scale=(0.08, 1.0), ratio=(0.75, 1.3333333333333333), method='torchvision', \
interpolation='bilinear'),)
    """

    random = True
    schedules: ClassVar[bool] = True
    steps: Mapping[int, Any]

    def __init__(self, steps: Mapping[int, Any] | Sequence[Sequence[Any]]) -> None:
        try:
            given: dict[int, Any] = dict(steps)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            raise OptionError(f"Schedule: steps: {shown(steps)} is not a dict of epochs") from None
        checked = {whole("epoch", epoch, 0, 2**63 - 1): _step(value) for epoch, value in given.items()}
        if min(checked, default=1) != 0:
            raise OptionError("Schedule: must begin with epoch 0")
        set_fields(self, steps={epoch: checked[epoch] for epoch in sorted(checked)})

    def __hash__(self) -> int:
        return hash(tuple(self.steps.items()))

    def spread_over(self, cls: type[Transform], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Schedule:
        """A transform for each of its epochs."""

        def at(value: Any, epoch: int) -> Any:
            if not isinstance(value, Schedule):
                return value
            return value.steps[max(first for first in value.steps if first <= epoch)]

        schedules = [value for value in (*args, *kwargs.values()) if isinstance(value, Schedule)]
        made = {
            epoch: cls(*(at(v, epoch) for v in args), **{name: at(v, epoch) for name, v in kwargs.items()})
            for epoch in sorted({epoch for schedule in schedules for epoch in schedule.steps})
        }
        return Schedule(made)

    def to_spec(self) -> dict[str, Any]:
        """The transform as plain data, with those inside."""
        steps = []
        for epoch, members in self.steps.items():
            if not isinstance(members, tuple) or not all(isinstance(member, Transform) for member in members):
                raise OptionError(f"Schedule: epoch {epoch}: {shown(members)} is not a transform or a list of them")
            inner = [member.to_spec() for member in members]
            steps.append([epoch, [member for member in inner if member is not None]])
        return {"op": "Schedule", "steps": steps}


def _step(value: Any) -> Any:
    """Transforms as a tuple; other values unchanged."""
    if isinstance(value, Transform):
        return (value,)
    if isinstance(value, (list, tuple)) and value and all(isinstance(member, Transform) for member in value):
        return tuple(value)
    return value


def flat(ops: Any) -> list[Any]:
    """A list of transforms in which each `Compose` is replaced by its content."""
    ops = [ops] if not isinstance(ops, Sequence) else list(ops)
    return [inner for op in ops for inner in (flat(op.transforms) if isinstance(op, Compose) else [op])]
