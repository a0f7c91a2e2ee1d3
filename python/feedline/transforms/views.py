"""Several views of one image."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from feedline._checks import listed, numbers, refuse, shown, texts, whole
from feedline._signatures import Called
from feedline.errors import OptionError

from .base import Interpolation, Transform, low_high
from .geometric import RandomResizedCrop
from .policy import flat

__all__ = ["MultiCrop", "Yoked", "unyoked"]


class Yoked(metaclass=Called):
    """A view that shares some draws with another: for example the same crop with other colours.

    `view` is the other view's name, or its list. `share` names the transforms whose draws are the other's, at the same
    place of the list. `ops` is this view's own list; the other's if it is not given.

    >>> from feedline import transforms as T
    >>> crops = [T.RandomResizedCrop(224), T.ColorJitter(0.4)]
    >>> views = {"a": crops, "b": T.Yoked("a", share=["RandomResizedCrop"])}
    """

    def __init__(
        self, view: str | Sequence[Transform], share: Sequence[str], ops: Sequence[Transform] | None = None
    ) -> None:
        self.view = view
        self.share = tuple(texts("share", [share] if isinstance(share, str) else share))
        self.ops = ops
        if not self.share:
            refuse("share", share, "names of transforms, such as ['RandomResizedCrop']")

    def __repr__(self) -> str:
        return f"Yoked({self.view!r}, share={list(self.share)!r})"

    def __eq__(self, other: object) -> bool:
        mine = (self.view, self.share, self.ops)
        return isinstance(other, Yoked) and mine == (other.view, other.share, other.ops)

    __hash__ = None  # type: ignore[assignment]


class _Shared(Transform):
    """One transform with the draws of another view."""

    random = True

    def __init__(self, view: int, place: int, op: Transform) -> None:
        self.view, self.place, self.transforms = view, place, (op,)

    def to_spec(self) -> dict[str, Any]:
        return {
            "op": "Yoked",
            "view": self.view,
            "place": self.place,
            "transforms": [op.to_spec() for op in self.transforms],
        }


def unyoked(field: str, views: Mapping[str, Any]) -> dict[str, Any]:
    """The views of a field as plain lists; each yoked transform has the place that it draws from."""
    names = sorted(views)
    return {
        name: _one(field, name, ops, views, names) if isinstance(ops, Yoked) else ops for name, ops in views.items()
    }


def _one(field: str, name: str, yoked: Yoked, views: Mapping[str, Any], names: list[str]) -> list[Any]:
    where = f"transforms: {field}.{name}"
    if isinstance(yoked.view, str):
        other = yoked.view if yoked.view in views else None
    else:
        other = next((view for view, ops in views.items() if ops is yoked.view or ops == yoked.view), None)
    if other is None or other == name or isinstance(views[other], Yoked):
        raise OptionError(
            f"{where}: yoked to {shown(yoked.view)}, which is not a plain view; there are {', '.join(names)}"
        )
    theirs = [op for op in flat(views[other]) if not isinstance(op, Transform) or op.to_spec() is not None]
    mine = theirs if yoked.ops is None else list(flat(yoked.ops))
    result = []
    for op in mine:
        called = type(op).__name__
        place = next((at for at, their in enumerate(theirs) if type(their).__name__ == called), None)
        shared = called in yoked.share and place is not None
        result.append(_Shared(names.index(other), place or 0, op) if shared else op)
    missing = set(yoked.share) - {type(op).__name__ for op in theirs}
    if missing:
        raise OptionError(f"{where}: {', '.join(sorted(missing))} is not in {other}, so there is no draw to share")
    return result


class MultiCrop(Mapping[str, Any]):
    """Several crops of one image: views for `transforms={"image": T.MultiCrop(...)}`.

    `sizes`, `counts` and `scales` have one entry for each kind of crop, `names` names them. `ops` follows each
    crop: one list for all, or one list per kind, or one per view. Each view has its own draws; all come from one
    decoding.

    >>> from feedline import transforms as T
    >>> views = T.MultiCrop((224, 96), (2, 6), ((0.4, 1.0), (0.05, 0.4)), ops=[T.RandomHorizontalFlip()])
    >>> list(views)[:3], len(views)
    (['global0', 'global1', 'local0'], 8)
    """

    def __init__(
        self,
        sizes: Sequence[int] = (224, 96),
        counts: Sequence[int] = (2, 6),
        scales: Sequence[tuple[float, float]] = ((0.4, 1.0), (0.05, 0.4)),
        *,
        ops: Sequence[Any] = (),
        names: Sequence[str] | None = None,
        ratio: tuple[float, float] = (3 / 4, 4 / 3),
        interpolation: Interpolation = "bilinear",
    ) -> None:
        sides = [whole("sizes", side, 1, 2**16) for side in numbers(sizes)]
        many = [whole("counts", count, 1, 100) for count in numbers(counts)]
        areas = [low_high("scales", scale, 0.0) for scale in listed("scales", scales, "a list of (low, high)")]
        default = ["global", "local"] if len(sides) == 2 else [f"crop{at}_" for at in range(len(sides))]  # noqa: PLR2004
        called = default if names is None else list(texts("names", names))
        if not len(sides) == len(many) == len(areas) == len(called):
            raise OptionError(
                f"MultiCrop: {len(sides)} sizes, {len(many)} counts, {len(areas)} scales, {len(called)} names"
            )
        views = [(kind, number) for kind, count in enumerate(many) for number in range(count)]
        lists = _lists(ops, len(sides), views)
        self._views = {
            f"{called[kind]}{number}": [
                RandomResizedCrop(sides[kind], areas[kind], ratio, interpolation=interpolation),
                *after,
            ]
            for (kind, number), after in zip(views, lists, strict=True)
        }

    def __getitem__(self, name: str) -> Any:
        return self._views[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._views)

    def __len__(self) -> int:
        return len(self._views)

    def __repr__(self) -> str:
        return f"MultiCrop({', '.join(self._views)})"


def _lists(ops: Sequence[Any], kinds: int, views: list[tuple[int, int]]) -> list[list[Any]]:
    """The transforms after each crop."""
    given = listed("ops", ops, "a list of transforms, or of such lists")
    nested = [isinstance(op, (list, tuple)) for op in given]
    if not any(nested):
        return [given for _ in views]
    if all(nested) and len(given) == len(views):
        return [list(each) for each in given]
    if all(nested) and len(given) == kinds:
        return [list(given[kind]) for kind, _ in views]
    refuse("ops", ops, f"one list, {kinds} lists or {len(views)}")
    return None
