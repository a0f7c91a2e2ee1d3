"""Transforms of images and their targets. Names and parameters follow torchvision v2.

A transform is a value: it prints, compares and pickles, and does nothing by itself. The loader reads the list once,
decodes only what the crop needs and does the rest in as few passes as possible. Pixels are those of torchvision
for PIL images.

>>> from feedline import transforms as T
>>> T.CenterCrop(224)
CenterCrop(size=(224, 224))
>>> T.Normalize.imagenet() == T.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
True
"""

from __future__ import annotations

from . import audio, bends, colour, damage, geometric, pixel, scenes, sizes, tints
from .albumentations import from_albumentations
from .apply import apply, replay
from .arrays import ArrayWindow
from .audio import *
from .base import BatchTransform, Transform
from .bends import *
from .colour import *
from .damage import *
from .exchange import from_json, from_torchvision, to_json
from .function import Python
from .geometric import *
from .mix import CopyPaste, CutMix, LabelSmoothing, MixUp, Mosaic, OneHot
from .pixel import *
from .policy import (
    AugMix,
    AutoAugment,
    Compose,
    RandAugment,
    RandomApply,
    RandomChoice,
    RandomOrder,
    Schedule,
    SomeOf,
    ThreeAugment,
    TrivialAugmentWide,
)
from .scenes import *
from .sizes import *
from .targets import Boxes, Keypoints, Mask
from .tints import *
from .tokens import TokenWindow
from .video import Clip
from .views import MultiCrop, Yoked

__all__ = [
    "ArrayWindow",
    "AugMix",
    "AutoAugment",
    "BatchTransform",
    "Boxes",
    "Clip",
    "Compose",
    "CopyPaste",
    "CutMix",
    "Keypoints",
    "LabelSmoothing",
    "Mask",
    "MixUp",
    "Mosaic",
    "MultiCrop",
    "OneHot",
    "Python",
    "RandAugment",
    "RandomApply",
    "RandomChoice",
    "RandomOrder",
    "Schedule",
    "SomeOf",
    "ThreeAugment",
    "TokenWindow",
    "Transform",
    "TrivialAugmentWide",
    "Yoked",
    "apply",
    "from_albumentations",
    "from_json",
    "from_torchvision",
    "replay",
    "to_json",
]
# Operations on one image or on audio are listed in their files alone.
__all__ += audio.__all__
__all__ += bends.__all__
__all__ += colour.__all__
__all__ += damage.__all__
__all__ += geometric.__all__
__all__ += pixel.__all__
__all__ += scenes.__all__
__all__ += sizes.__all__
__all__ += tints.__all__


def __dir__() -> list[str]:
    return sorted(__all__)
