"""Data sets, loaders and batches in notebooks, and `show`."""

from __future__ import annotations

import base64
import html
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from feedline import _feedline
from feedline._checks import path as check_path
from feedline._checks import whole
from feedline.errors import Error, OptionError

if TYPE_CHECKING:
    from feedline._dataset import Dataset
    from feedline._loader import Loader
    from feedline._paths import Uri

__all__ = ["Shown", "dataset_html", "loader_html", "register", "show"]

Array = np.ndarray[Any, Any]

_COLOURS = (
    "#e6194b",
    "#3cb44b",
    "#ffe119",
    "#0082c8",
    "#f58231",
    "#911eb4",
    "#46f0f0",
    "#f032e6",
    "#d2f53c",
    "#aa6e28",
)
_SIDE = 160
_THUMBNAILS = 8
_CLASSES = 6
_TABLE = "border-collapse:collapse;margin:0.4em 0"


def show(
    batch: Mapping[str, Any],
    *,
    columns: int = 8,
    most: int = 64,
    classes: Sequence[str] | None = None,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
) -> Shown:
    """A batch as a grid of images with labels; masks, boxes and keypoints are drawn over them.

    In a notebook it shows itself; `show(batch).save("batch.html")` writes a page. Images that were normalised need
    `mean` and `std` to look as they did; without them each is stretched to its own range of values.

    >>> import feedline as fl
    >>> from feedline import transforms as T
    >>> with fl.Loader(fl.open(example_folder), batch_size=4, transforms=[T.CenterCrop(32)], output="numpy") as loader:
    ...     shown = fl.show(next(iter(loader)), classes=loader.dataset.classes)
    >>> shown.html.count("<img")
    4
    """
    if not isinstance(batch, Mapping):
        raise OptionError(f"batch: a {type(batch).__name__} is not a batch of a feedline.Loader (a dict of fields)")
    whole("columns", columns, low=1)
    names = [name for name in batch if _is_image(batch[name])]
    if not names:
        raise OptionError(f"batch: no field holds images; there are {', '.join(map(str, batch))}")
    rows = min(len(batch[names[0]]), whole("most", most, low=1))
    cells = [_cell(batch, name, row, classes, (mean, std)) for row in range(rows) for name in names]
    grid = f"display:grid;gap:8px;grid-template-columns:repeat({columns},minmax(0,{_SIDE}px))"
    return Shown(f'<div style="{grid}">{"".join(cells)}</div>')


class Shown:
    """What `show` gives: it shows itself in a notebook."""

    def __init__(self, text: str) -> None:
        self.html = text

    def _repr_html_(self) -> str:
        return self.html

    def save(self, path: Uri) -> None:
        """Writes a page that needs nothing else."""
        with open(check_path("path", path), "w", encoding="utf-8") as out:  # noqa: PTH123 - a path of any kind
            out.write(f'<!doctype html><meta charset="utf-8"><title>batch</title>{self.html}\n')


def _is_image(value: Any) -> bool:
    try:
        first = _array(value[0]) if len(value) else None
    except (TypeError, ValueError, KeyError, IndexError):
        return False
    return first is not None and first.ndim == 3 and 3 in (first.shape[0], first.shape[-1])  # noqa: PLR2004 - colours


def _array(value: Any) -> Array:
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        value = value.float() if str(value.dtype) == "torch.bfloat16" else value
    return np.asarray(value)


def _pixels(image: Array, mean: Sequence[float] | None, std: Sequence[float] | None) -> Array:
    """Bytes of red, green and blue, whatever the image is."""
    channels_first = image.shape[0] == 3 and image.shape[-1] != 3  # noqa: PLR2004 - colours
    image = np.moveaxis(image, 0, -1) if channels_first else image
    if image.dtype == np.uint8:
        return np.ascontiguousarray(image)
    image = image.astype(np.float32)
    if mean is not None or std is not None:
        image = image * np.asarray(1.0 if std is None else std) + np.asarray(0.0 if mean is None else mean)
    elif image.min() < 0 or image.max() > 1:
        low, high = float(image.min()), float(image.max())
        image = (image - low) / max(high - low, 1e-9)
    return np.ascontiguousarray((image.clip(0, 1) * 255).round().astype(np.uint8))


def _cell(
    batch: Mapping[str, Any],
    name: str,
    row: int,
    classes: Sequence[str] | None,
    scale: tuple[Sequence[float] | None, Sequence[float] | None],
) -> str:
    pixels = _pixels(_array(batch[name][row]), *scale)
    height, width = pixels.shape[:2]
    pixels, drawn = _masked(batch, row, pixels), _marks(batch, row, (height, width))
    caption = _caption(batch, name, row, classes)
    over = (
        f'<svg viewBox="0 0 {width} {height}" preserveAspectRatio="none" '
        f'style="position:absolute;inset:0;width:100%;height:100%">{drawn}</svg>'
        if drawn
        else ""
    )
    return (
        f'<figure style="margin:0"><div style="position:relative">{_image(pixels)}{over}</div>'
        f'<figcaption style="font-size:12px;overflow:hidden;text-overflow:ellipsis">{caption}'
        "</figcaption></figure>"
    )


def _image(pixels: Array) -> str:
    height, width = pixels.shape[:2]
    data = base64.b64encode(_feedline.encode_jpeg(pixels.tobytes(), height, width)).decode()
    return f'<img alt="" style="width:100%;display:block" src="data:image/jpeg;base64,{data}">'


def _masked(batch: Mapping[str, Any], row: int, pixels: Array) -> Array:
    """The image with its class masks laid over it."""
    for name, value in batch.items():
        if name == "index" or not hasattr(value, "shape") or len(value.shape) != 3:  # noqa: PLR2004 - B, H, W
            continue
        mask = _array(value[row])
        if mask.shape != pixels.shape[:2] or mask.dtype.kind not in "iu":
            continue
        colours = np.array([[int(c[at : at + 2], 16) for at in (1, 3, 5)] for c in _COLOURS], dtype=np.float32)
        painted = colours[(mask - 1) % len(_COLOURS)]
        mixed = np.where((mask > 0)[..., None], 0.5 * pixels + 0.5 * painted, pixels)
        pixels = np.ascontiguousarray(mixed.astype(np.uint8))
    return pixels


def _marks(batch: Mapping[str, Any], row: int, size: tuple[int, int]) -> str:
    """Boxes and keypoints as SVG."""
    marks: list[str] = []
    line = max(size) / 120
    for name, value in batch.items():
        kind = "box" if "box" in name else "point" if "point" in name else None
        if kind is None or not len(value):
            continue
        numbers = _array(value[row])
        if numbers.ndim != 2 or numbers.shape[0] == 0:  # noqa: PLR2004 - a row for each
            continue
        for number, item in enumerate(numbers.astype(float).tolist()):
            colour = _COLOURS[number % len(_COLOURS)]
            if kind == "box" and len(item) == 4:  # noqa: PLR2004 - corners
                x, y, right, bottom = item
                marks.append(
                    f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(right - x, 0):.1f}" height="{max(bottom - y, 0):.1f}" '
                    f'fill="none" stroke="{colour}" stroke-width="{line:.1f}"/>'
                )
            elif kind == "point":
                marks.append(f'<circle cx="{item[0]:.1f}" cy="{item[1]:.1f}" r="{1.5 * line:.1f}" fill="{colour}"/>')
    return "".join(marks)


def _caption(batch: Mapping[str, Any], name: str, row: int, classes: Sequence[str] | None) -> str:
    words: list[str] = []
    if "index" in batch:
        words.append(str(int(batch["index"][row])))
    label = batch.get("label")
    if label is not None:
        value = _array(label[row])
        if value.ndim:
            words.append(", ".join(f"{c}: {v:.2f}" for c, v in enumerate(value.tolist()) if v > 0.01))  # noqa: PLR2004
        else:
            number = int(value)
            words.append(str(classes[number]) if classes is not None and 0 <= number < len(classes) else str(number))
    if name != "image":
        words.append(name)
    return html.escape(" · ".join(words))


def _table(rows: Iterable[tuple[str, str]]) -> str:
    lines = "".join(
        f'<tr><th style="text-align:left;padding-right:1em">{html.escape(name)}</th>'
        f'<td style="text-align:left">{html.escape(value)}</td></tr>'
        for name, value in rows
    )
    return f'<table style="{_TABLE}">{lines}</table>'


def dataset_html(dataset: Dataset) -> str:
    """What a data set is, with its first images."""
    classes = dataset.classes
    rows = [
        ("data set", dataset.uri),
        ("format", dataset.format),
        ("samples", f"{len(dataset):,}"),
        ("fields", ", ".join(f"{name}: {kind}" for name, kind in dataset.schema.items())),
    ]
    if classes:
        more = " …" if len(classes) > _CLASSES else ""
        rows.append(("classes", f"{len(classes):,}: {', '.join(classes[:_CLASSES])}{more}"))
    return _table(rows) + _thumbnails(dataset)


def _thumbnails(dataset: Dataset) -> str:
    image = next((name for name, kind in dataset.schema.items() if kind == "image"), None)
    if image is None:
        return ""
    field = list(dataset.schema).index(image)
    cells = []
    for index in range(min(len(dataset), _THUMBNAILS)):
        try:
            made = dataset._core.thumbnail(index, field, _SIDE)  # noqa: SLF001 - same package
        except Error as error:
            cells.append(f'<span style="color:#c33;font-size:12px">{index}: {html.escape(str(error)[:80])}</span>')
            continue
        data = base64.b64encode(made).decode()
        cells.append(f'<img alt="sample {index}" title="{index}" src="data:image/jpeg;base64,{data}">')
    return f'<div style="display:flex;flex-wrap:wrap;gap:6px">{"".join(cells)}</div>'


def loader_html(loader: Loader) -> str:
    """What a loader does and what limits its speed."""
    stats = loader.stats()
    rows = [
        ("loader", loader.dataset.uri),
        ("batches", f"{len(loader):,} of {loader.batch_size}"),
        ("next epoch", str(loader.epoch)),
        ("speed", f"{stats['samples_per_second']:,.0f} samples/s"),
        ("bottleneck", stats["bottleneck"]),
    ]
    shares = "".join(
        f'<span title="{name} {share:.0%}" style="display:inline-block;height:12px;width:{300 * share:.0f}px;'
        f'background:{_COLOURS[number]}"></span>'
        for number, (name, share) in enumerate(stats["occupancy"].items())
    )
    return _table(rows) + f"<div>{shares}</div>"


def batch_html(batch: Any) -> str | None:
    """A batch of a loader as HTML; `None` for any other dict, which is then shown as usual."""
    if not isinstance(batch, dict) or "index" not in batch or not any(map(_is_image, batch.values())):
        return None
    rows = [(str(name), _form(value)) for name, value in batch.items()]
    return _table(rows) + show(batch, most=16).html


def _form(value: Any) -> str:
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    return f"{type(value).__name__} {tuple(shape)} {dtype}" if shape is not None else f"{type(value).__name__}"


def register() -> None:
    """Tells IPython, where it runs, how batches look. They are plain dicts, which frameworks rely on."""
    import sys  # noqa: PLC0415 - only asked here

    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None and hasattr(ipython, "get_ipython") else None
    if shell is not None:
        shell.display_formatter.formatters["text/html"].for_type(dict, batch_html)
