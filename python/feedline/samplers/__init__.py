"""Samplers: which samples an epoch has, in which order, beyond `shuffle`.

Feedline's own samplers are functions of (seed, epoch, position): starting in the middle of an epoch costs no time,
and they give the same global batches on any number of ranks.

The others follow another loader sample for sample, so that its experiment can be continued:
`fl.Loader(ds, sampler=samplers.TorchDistributed(seed=0))`. They are lists, computed for every epoch with the
original's own random generator, and take 8 bytes per sample and the time to shuffle. `docs/order.md` lists the cost
and the original of each.
"""

from .epochs import Order, PerEpoch, Split, SubsetRandom
from .ffcv import FfcvQuasiRandom, FfcvRandom
from .litdata import LitData
from .mosaic import Mosaic
from .own import Balanced, Block, Buckets, Indices, Packed, Random, Sampler, Sequential, Weighted
from .slipstream import Slipstream
from .torch import TorchDistributed, TorchRandom

__all__ = [
    "Balanced",
    "Block",
    "Buckets",
    "FfcvQuasiRandom",
    "FfcvRandom",
    "Indices",
    "LitData",
    "Mosaic",
    "Order",
    "Packed",
    "PerEpoch",
    "Random",
    "Sampler",
    "Sequential",
    "Slipstream",
    "Split",
    "SubsetRandom",
    "TorchDistributed",
    "TorchRandom",
    "Weighted",
]


def __dir__() -> list[str]:
    return sorted(__all__)
