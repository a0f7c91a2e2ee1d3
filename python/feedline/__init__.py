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
from ._feedline import __version__
from .convert import convert
from .dataset import Dataset, Mix, concat, mix, open
from .errors import (
    AccessError,
    ClosedError,
    DataError,
    Error,
    LoaderTimeoutError,
    NotFoundError,
    OptionError,
    SampleError,
    StateError,
    StorageError,
    TooManyBadSamplesError,
)
from .loader import Loader
from .options import LoaderOptions
from .pack import pack
from .ragged import Ragged

__all__ = [
    "AccessError",
    "ClosedError",
    "DataError",
    "Dataset",
    "Error",
    "Loader",
    "LoaderOptions",
    "LoaderTimeoutError",
    "Mix",
    "NotFoundError",
    "OptionError",
    "Ragged",
    "SampleError",
    "StateError",
    "StorageError",
    "TooManyBadSamplesError",
    "__version__",
    "concat",
    "convert",
    "mix",
    "open",
    "pack",
    "samplers",
    "transforms",
]
