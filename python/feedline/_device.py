"""Images decoded on the device: it gets compressed bytes and decodes the drawn box; torch does the rest.

The decoder is nvImageCodec's, imported only here. Tests run it with its CPU back end; it has not been run on a GPU yet.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from . import _feedline
from ._augment import done
from ._callback import Finished
from ._callback.columns import Made, picked, rows_of
from ._callback.passes import SUBSTITUTES
from .errors import DataError, OptionError
from .transforms.apply import specs
from .transforms.function import Python
from .transforms.policy import flat
from .transforms.views import unyoked

__all__ = ["DeviceImages"]

_ALONE = ("targets", "batch_transforms", "return_params", "map", "batch_map", "as_tuple")


class DeviceImages:
    """Decoding of a loader with `decode="device"`."""

    @classmethod
    def of(cls, knobs: Mapping[str, Any], by_field: Mapping[str, Any], images: Sequence[str]) -> DeviceImages | None:
        """Creates it for a loader, if its images are decoded on the device."""
        return cls(knobs, by_field, images) if knobs["decode"] == "device" else None

    def __init__(self, knobs: Mapping[str, Any], by_field: Mapping[str, Any], images: Sequence[str]) -> None:
        used = next((name for name in _ALONE if knobs[name]), None)
        if used is not None:
            raise OptionError(f"{used}: cannot be used with decode='device', where the engine has no pixels")
        if knobs["device"] is None:
            raise OptionError("decode: 'device' needs device=, such as device='cuda'")
        if knobs["dtype"] != "float32" or knobs["memory_format"] != "channels_first":
            raise OptionError("decode: 'device' returns float32, channels first; convert the tensors afterwards")
        self._knobs = knobs
        self.lists: dict[str, dict[str, str]] = {}
        for field in images:
            value = by_field.get(field, [])
            views = unyoked(field, value) if isinstance(value, Mapping) else {"": value}
            if any(isinstance(op, Python) for ops in views.values() for op in flat(ops)):
                raise OptionError(f"transforms: {field}: T.Python runs on the host, not with decode='device'")
            self.lists[field] = {view: json.dumps(specs(f"{field}.{view}", ops)) for view, ops in views.items()}
        # Views are numbered in the order of their names, as in the engine.
        self.numbers = {
            field: {view: at for at, view in enumerate(sorted(views))} for field, views in self.lists.items()
        }
        self._decoder: Any = None

    def names(self) -> list[str]:
        """Names of the steps, for saved states."""
        return [f"{field}.{view}: {text}" for field, views in self.lists.items() for view, text in views.items()]

    def epoch(self, core: Any, epoch: int, convert: Callable[[Any], Any]) -> DeviceEpoch:
        """One pass over an epoch; `convert` turns the engine's batches into the user's."""
        if self._decoder is None:
            self._decoder = Decoder(self._knobs["device"])
        return DeviceEpoch(self, core, epoch, convert, self._knobs, self._decoder)


def codec() -> Any:
    """The nvImageCodec module."""
    try:
        return importlib.import_module("nvidia.nvimgcodec")
    except ImportError as error:
        raise OptionError(
            f"decode: 'device' needs nvImageCodec: pip install nvidia-nvimgcodec-cu12 ({error})"
        ) from None


class Decoder:
    """nvImageCodec's decoder, with regions of interest."""

    def __init__(self, device: Any) -> None:
        import torch  # noqa: PLC0415 - optional, imported only where used

        self._module, self._device = codec(), torch.device(device)
        # Regions are those of the upright image then, as the engine's are.
        self._params = self._module.DecodeParams(apply_exif_orientation=True)
        if self._device.type == "cpu":
            only = self._module.Backend(self._module.BackendKind.CPU_ONLY)
            self._decoder = self._module.Decoder(self._module.NVIMGCODEC_DEVICE_CPU_ONLY, backends=[only])
        else:
            number = self._device.index if self._device.index is not None else torch.cuda.current_device()
            self._decoder = self._module.Decoder(number)

    def decode(self, wanted: Sequence[tuple[bytes, tuple[int, int, int, int] | None]]) -> list[Any]:
        """Decodes to images `[H, W, 3]` of bytes; `None` for those that fail. Boxes are top, left, bottom, right."""
        sources = []
        for data, box in wanted:
            stream = self._module.CodeStream(data)
            sources.append(stream if box is None else stream.get_sub_code_stream(0, self._module.Region(*box)))
        return [self._tensor(image) for image in self._decoder.decode(sources, params=self._params)]

    def _tensor(self, image: Any) -> Any:
        import torch  # noqa: PLC0415 - optional, imported only where used

        if image is None:
            return None
        if image.buffer_kind == self._module.ImageBufferKind.STRIDED_HOST:
            # Without a GPU, nvImageCodec's DLPack does not work even for memory of the host.
            return torch.from_numpy(np.array(image)).to(self._device)
        return torch.utils.dlpack.from_dlpack(image).to(self._device)


def _box(params: Mapping[str, Any]) -> tuple[int, int, int, int] | None:
    """The box of the first action, if it is inside the image: top, left, bottom, right."""
    first = params["actions"][0] if params["actions"] else {}
    if first.get("do") != "Crop":
        return None
    height, width = params["image"]
    top, left = first["top"], first["left"]
    bottom, right = top + first["height"], left + first["width"]
    inside = top >= 0 and left >= 0 and bottom <= height and right <= width
    return (top, left, bottom, right) if inside else None


class DeviceEpoch:
    """A pass over an epoch whose images the device decodes."""

    def __init__(
        self,
        images: DeviceImages,
        core: Any,
        epoch: int,
        convert: Callable[[Any], Any],
        knobs: Mapping[str, Any],
        decoder: Decoder,
    ) -> None:
        self._images, self._core, self._epoch, self._convert = images, core, epoch, convert
        self._seed, self._replace = int(knobs["seed"]), knobs["on_error"] == "replace"
        self._decoder = decoder

    def __len__(self) -> int:
        return len(self._core)

    def close(self) -> None:
        """Stops the pass."""
        self._core.close()

    def next(self) -> Finished | None:
        """The next batch, or `None` at the end."""
        made = self._core.next()
        if made is None:
            return None
        results = self._decoded(rows_of(made, None))
        failures: list[tuple[int, int, str | None, str]] = []
        places: list[tuple[Made, int]] = []
        kept: dict[int, Any] = {}
        for row, result in enumerate(results):
            found, place = self._or_substitute(row, result, made, failures)
            if found is not None:
                kept[row] = found
                places.append(place)
        if failures:
            self._core.record(made[0], list(kept), failures)
            made = picked(made, places)
        return Finished(self._joined(made, list(kept.values())))

    def _or_substitute(
        self, row: int, result: Any, made: Made, failures: list[tuple[int, int, str | None, str]]
    ) -> tuple[dict[str, dict[str, Any]] | None, tuple[Made, int]]:
        """A row's images, or those of its substitute, and the batch and row of its other values."""
        first = sample = int(rows_of(made, ["index"])[row]["index"])
        tries, place = 0, (made, row)
        while isinstance(result, _Bad):
            failures.append((row, sample, result.field, result.reason))
            tries += 1
            if not self._replace or tries > SUBSTITUTES:
                return None, place
            try:
                other = self._core.substitute(first, tries)
            except DataError as error:
                result = _Bad(error.field, str(error))
                continue
            given = rows_of(other, None)
            sample, place = int(given[0]["index"]), (other, 0)
            result = self._decoded(given)[0]
        return result, place

    def _decoded(self, rows: Sequence[Mapping[str, Any]]) -> list[Any]:
        """Every row's images by field and view, or its error."""
        results: list[Any] = [{field: {} for field in self._images.lists} for _ in rows]
        for field, views in self._images.lists.items():
            for view, text in views.items():
                number = self._images.numbers[field][view]
                drawn = [self._params(text, row, field, number) for row in rows]
                wanted = [(bytes(row[field]), _box(params)) for row, params in zip(rows, drawn, strict=True)]
                for at, (image, params) in enumerate(zip(self._decoder.decode(wanted), drawn, strict=True)):
                    if isinstance(results[at], _Bad):
                        continue
                    if image is None:
                        results[at] = _Bad(field, "the device cannot decode it")
                    else:
                        results[at][field][view] = _finished(image, params, boxed=wanted[at][1] is not None)
        return results

    def _params(self, text: str, row: Mapping[str, Any], field: str, view: int) -> dict[str, Any]:
        height, width = (int(side) for side in row[f"{field}_size"])
        origin = (self._seed, self._epoch)
        drawn: dict[str, Any] = json.loads(
            _feedline.draw_params(text, (height, width), origin, [int(row["index"])], view)[0]
        )
        return drawn

    def _joined(self, made: Made, kept: Sequence[Mapping[str, Mapping[str, Any]]]) -> Any:
        import torch  # noqa: PLC0415 - optional, imported only where used

        hidden = {name for field in self._images.lists for name in (field, f"{field}_size")}
        batch = self._convert((made[0], [column for column in made[1] if column[0] not in hidden]))
        for field, views in self._images.lists.items():
            stacked = {view: _stacked(torch, field, [row[field][view] for row in kept]) for view in views}
            batch[field] = stacked.get("", stacked)
        return batch


class _Bad:
    """Why a row has no image."""

    def __init__(self, field: str | None, reason: str) -> None:
        self.field, self.reason = field, reason


def _finished(image: Any, params: Mapping[str, Any], *, boxed: bool) -> Any:
    actions = params["actions"][1:] if boxed else params["actions"]
    return done(image.permute(2, 0, 1).float() / 255, {**params, "actions": actions})


def _stacked(torch: Any, field: str, images: Sequence[Any]) -> Any:
    different = next((image.shape for image in images if image.shape != images[0].shape), None)
    if different is not None:
        raise OptionError(f"decode: {field}: {tuple(images[0].shape)} and {tuple(different)}: crop images to one size")
    return torch.stack(list(images))
