"""Data sets in several folders: partners by name, and annotations of COCO, Pascal VOC and YOLO."""

from __future__ import annotations

import json
import os
import re
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from . import _feedline
from ._checks import refuse, text
from ._paths import Uri, local_text
from ._tables import in_memory
from .errors import DataError, OptionError

__all__ = ["annotated", "by_stem"]

_PLAIN = (".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff", ".ppm", ".pgm", ".pbm")
_IMAGES = (*_PLAIN, ".qoi", ".avif", ".jp2", ".jxl")
_SHOWN = 5


def by_stem(parts: Mapping[str, Uri], picked: Any, storage: str) -> _feedline.Dataset:
    """`{"image": "images/", "mask": "masks/"}`: files with the same path, except for the ending, are one sample.

    A pattern may be given instead of a folder: the parts matched by its stars are the name.
    """
    if not parts:
        raise OptionError("uri: an empty dict; give folders by field, such as {'image': 'images/', 'mask': 'masks/'}")
    found = {text("uri: name of a field", name): _named_files(name, place) for name, place in parts.items()}
    first = next(iter(found))
    complete = [key for key in found[first] if all(key in files for files in found.values())]
    for name, files in found.items():
        others = {key for other in found.values() for key in other}
        _report(f"have no partner in {name} ({os.fsdecode(parts[name])})", sorted(others - files.keys()))
    if not complete:
        raise DataError(f"uri: no file of {first} has a partner of the same name in {', '.join(list(found)[1:])}")
    rows = [{**{name: files[key] for name, files in found.items()}, "key": key} for key in sorted(complete)]
    return in_memory(rows, picked, {"root": None}, dict.fromkeys(found, "image"), storage)


def annotated(images: Any, annotations: Uri, picked: Any, storage: str) -> _feedline.Dataset:
    """Images of a folder with their boxes: COCO's file (with masks), or a folder of Pascal VOC or YOLO files."""
    folder = Path(local_text("uri", images))
    place = Path(local_text("annotations", annotations))
    if not folder.is_dir():
        refuse("uri", images, "with annotations=, a folder of images on this machine")
    if not place.exists():
        raise DataError(f"annotations: {place}: there is no such file or folder")
    if place.is_file():
        rows, classes = _coco(folder, place)
    else:
        files = _files(place, (".xml", ".txt"))
        kinds = {Path(file).suffix.lower() for file in files.values()}
        if ".xml" in kinds:
            rows, classes = _voc(folder, {k: f for k, f in files.items() if f.lower().endswith(".xml")})
        elif ".txt" in kinds:
            rows, classes = _yolo(folder, files, place)
        else:
            raise DataError(f"annotations: {place}: neither Pascal VOC's .xml nor YOLO's .txt in it")
    if not rows:
        raise DataError(f"annotations: no file of {place} belongs to an image in {folder}")
    schema = {"image": "image", "masks": "json"} if "masks" in rows[0] else {"image": "image"}
    return in_memory(rows, picked, {"root": None}, schema, storage, classes)


def _named_files(name: str, place: Uri) -> dict[str, str]:
    where = local_text("uri", place)
    if "://" in where:
        raise OptionError(f"uri: {name}: partners are matched on local disks; {where} is remote")
    if "*" in where:
        return _pattern(where)
    if not Path(where).is_dir():
        refuse("uri", {name: place}, "folders by field, or patterns with a star")
    files = _files(Path(where), _IMAGES)
    if not files:
        raise DataError(f"uri: {name}: no images in {where}")
    return files


def _pattern(where: str) -> dict[str, str]:
    fixed = where[: where.index("*")]
    root = Path(fixed if fixed.endswith(os.sep) else Path(fixed).parent)
    wanted = "".join(
        "(.*)" if part == "**" else "([^/]*)" if part == "*" else re.escape(part) for part in _split(where)
    )
    found = {}
    for file in sorted(path for path in root.rglob("*") if path.is_file()):
        match = re.fullmatch(wanted, file.as_posix())
        if match:
            found["/".join(match.groups())] = str(file)
    return found


def _split(pattern: str) -> list[str]:
    return [part for part in re.split(r"(\*\*|\*)", pattern) if part]


def _files(folder: Path, endings: Sequence[str]) -> dict[str, str]:
    """Files below a folder, by their path without the ending."""
    found: dict[str, str] = {}
    for at, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            stem, ending = Path(name).stem, Path(name).suffix
            if ending.lower() not in endings or name.startswith("."):
                continue
            key = (Path(at).relative_to(folder) / stem).as_posix()
            if key in found:
                raise DataError(f"uri: {found[key]} and {Path(at) / name} have the same name but for their endings")
            found[key] = str(Path(at) / name)
    return found


def _report(what: str, names: Sequence[str]) -> None:
    if names:
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        shown = ", ".join(names[:_SHOWN])
        warnings.warn(f"{len(names)} files {what} and are left out: {shown}{more}", stacklevel=5)


def _boxes(numbers: Sequence[Sequence[float]]) -> np.ndarray[Any, Any]:
    return np.array(numbers, np.float32).reshape(-1, 4)


def _whole(numbers: Sequence[int]) -> np.ndarray[Any, Any]:
    return np.array(numbers, np.int64).reshape(-1)


def _coco(folder: Path, file: Path) -> tuple[list[dict[str, Any]], list[str] | None]:
    try:
        parsed = json.loads(file.read_text(encoding="utf-8"))
        categories = sorted(parsed.get("categories", []), key=lambda category: category["id"])
        numbers = {category["id"]: number for number, category in enumerate(categories)}
        classes = [str(category["name"]) for category in categories]
        by_image: dict[Any, list[dict[str, Any]]] = {image["id"]: [] for image in parsed["images"]}
        for annotation in parsed["annotations"]:
            by_image[annotation["image_id"]].append(annotation)
        rows = [_coco_row(folder, image, by_image[image["id"]], numbers) for image in parsed["images"]]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(f"annotations: {file}: not COCO's annotations: {type(error).__name__} {error}") from error
    missing = [row["image"] for row in rows if not Path(row["image"]).is_file()]
    _report(f"are named in {file} and not there", missing)
    gone = set(missing)
    for name, empty in (("keypoints", np.zeros((0, 1, 3), np.float32)), ("masks", [])):
        if any(name in row for row in rows):
            for row in rows:
                row.setdefault(name, empty)
    return [row for row in rows if row["image"] not in gone], classes or None


def _coco_row(
    folder: Path, image: Mapping[str, Any], found: Sequence[Mapping[str, Any]], numbers: Mapping[Any, int]
) -> dict[str, Any]:
    corners = [[x, y, x + w, y + h] for x, y, w, h in (annotation["bbox"] for annotation in found)]
    row: dict[str, Any] = {
        "image": str(folder / image["file_name"]),
        "boxes": _boxes(corners),
        "label": _whole([numbers[annotation["category_id"]] for annotation in found]),
        "iscrowd": _whole([int(annotation.get("iscrowd", 0)) for annotation in found]),
        "image_id": int(image["id"]),
    }
    if any("keypoints" in annotation for annotation in found):
        row["keypoints"] = np.array([annotation["keypoints"] for annotation in found], np.float32).reshape(
            len(found), -1, 3
        )
    if any(annotation.get("segmentation") for annotation in found):
        row["masks"] = [annotation.get("segmentation") or [] for annotation in found]
    return row


def _voc(folder: Path, files: Mapping[str, str]) -> tuple[list[dict[str, Any]], list[str] | None]:
    images = _files(folder, _IMAGES)
    _report("have no annotation", sorted(images.keys() - files.keys()))
    _report("annotate images that are not there", sorted(files.keys() - images.keys()))
    annotated_images = {key: _voc_objects(files[key]) for key in sorted(images.keys() & files.keys())}
    classes = sorted({name for objects in annotated_images.values() for name, _, _ in objects})
    numbers = {name: number for number, name in enumerate(classes)}
    rows = [
        {
            "image": images[key],
            "boxes": _boxes([corners for _, corners, _ in objects]),
            "label": _whole([numbers[name] for name, _, _ in objects]),
            "difficult": _whole([difficult for _, _, difficult in objects]),
            "key": key,
        }
        for key, objects in annotated_images.items()
    ]
    return rows, classes or None


def _voc_objects(file: str) -> list[tuple[str, list[float], int]]:
    import xml.etree.ElementTree as ET  # noqa: PLC0415 - slow to import, and only for these

    try:
        root = ET.parse(file).getroot()  # noqa: S314 - expat bounds what entities may grow to
        found = []
        for each in root.iter("object"):
            box = each.find("bndbox")
            corners = [float(box.findtext(side, "")) for side in ("xmin", "ymin", "xmax", "ymax")]  # type: ignore[union-attr]
            found.append((each.findtext("name", ""), corners, int(each.findtext("difficult", "0") or 0)))
    except (ET.ParseError, ValueError, AttributeError, OSError) as error:
        raise DataError(f"annotations: {file}: not an annotation of Pascal VOC: {error}") from error
    return found


def _yolo(folder: Path, files: Mapping[str, str], place: Path) -> tuple[list[dict[str, Any]], list[str] | None]:
    images = _files(folder, _IMAGES)
    lists = {key: file for key, file in files.items() if key != "classes"}
    _report("annotate images that are not there", sorted(lists.keys() - images.keys()))
    names = place / "classes.txt"
    classes = names.read_text(encoding="utf-8").split("\n") if names.is_file() else []
    classes = [name.strip() for name in classes if name.strip()]
    rows = []
    for key in sorted(images):
        # An image without a file has no objects.
        objects = _yolo_objects(lists[key]) if key in lists else []
        if classes and any(number >= len(classes) for number, *_ in objects):
            raise DataError(f"annotations: {lists[key]}: a class past the {len(classes)} of {names}")
        rows.append(
            {
                "image": images[key],
                "boxes": _boxes([four for _, *four in objects]),
                "label": _whole([int(number) for number, *_ in objects]),
                "key": key,
            }
        )
    return rows, classes or None


def _yolo_objects(file: str) -> list[tuple[float, ...]]:
    found: list[tuple[float, ...]] = []
    for at, line in enumerate(Path(file).read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip():
            continue
        try:
            numbers = tuple(float(word) for word in line.split())
        except ValueError as error:
            raise DataError(f"annotations: {file}, line {at}: {error}") from error
        if len(numbers) != 5 or not numbers[0].is_integer() or numbers[0] < 0:  # noqa: PLR2004 - class and four numbers
            raise DataError(f"annotations: {file}, line {at}: not a class and four numbers: {line.strip()!r}")
        found.append(numbers)
    return found
