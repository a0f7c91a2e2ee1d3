"""feedline feeds training: it turns stored samples into batches of tensors.

>>> import feedline as fl
>>> ds = fl.open(example_folder)
>>> with fl.Loader(ds, batch_size=6, output="numpy", decode="none") as loader:
...     for batch in loader:
...         print(batch["label"], len(batch["image"]))
[0 0 0 0 1 1] 6
[1 1 2 2 2 2] 6
"""

from . import samplers, transforms
from ._convert import convert
from ._dataset import Dataset, Mix, concat, mix
from ._feedline import __version__
from ._loader import Loader
from ._looking import Stats, headspace, merge_stats, progress, show
from ._opening import open
from ._options import LoaderOptions
from ._pack import pack
from ._parts import ConvertPlan, PackPlan, commit_pack, convert_plan, merge, pack_plan, write_part
from ._ragged import Ragged
from .errors import (
    AccessError,
    ArgumentError,
    ClosedError,
    DataError,
    Error,
    LoaderTimeoutError,
    NotFoundError,
    OptionError,
    OutOfMemoryError,
    OutOfRangeError,
    RepeatedEpochWarning,
    SampleError,
    StateError,
    StorageError,
    TooManyBadSamplesError,
)

__all__ = [
    "AccessError",
    "ArgumentError",
    "ClosedError",
    "ConvertPlan",
    "DataError",
    "Dataset",
    "Error",
    "Loader",
    "LoaderOptions",
    "LoaderTimeoutError",
    "Mix",
    "NotFoundError",
    "OptionError",
    "OutOfMemoryError",
    "OutOfRangeError",
    "PackPlan",
    "Ragged",
    "RepeatedEpochWarning",
    "SampleError",
    "StateError",
    "Stats",
    "StorageError",
    "TooManyBadSamplesError",
    "__version__",
    "commit_pack",
    "concat",
    "convert",
    "convert_plan",
    "headspace",
    "merge",
    "merge_stats",
    "mix",
    "open",
    "pack",
    "pack_plan",
    "progress",
    "samplers",
    "show",
    "transforms",
    "write_part",
]


def __dir__() -> list[str]:
    """The public names; everything else in the package is private."""
    return sorted(__all__)


# A class's `__module__` is the module where users find it: in `help`, in errors and in pickles.
for _name in __all__:
    if isinstance(globals()[_name], type) and globals()[_name].__module__ != "feedline.errors":
        globals()[_name].__module__ = __name__
del _name
