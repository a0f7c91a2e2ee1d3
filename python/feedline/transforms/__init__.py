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

from .albumentations import from_albumentations
from .apply import apply, replay
from .base import BatchTransform, Transform
from .bends import (
    ElasticTransform,
    OpticalDistortion,
    RandomPatchShuffle,
    RandomRotate,
    RandomRotateObject,
    RandomZoom,
)
from .colour import (
    ColorJitter,
    Grayscale,
    RandomAdjustSharpness,
    RandomAutocontrast,
    RandomChannelPermutation,
    RandomEqualize,
    RandomGrayscale,
    RandomInvert,
    RandomPhotometricDistort,
    RandomPosterize,
    RandomSolarize,
)
from .damage import (
    JPEG,
    CoarseDropout,
    Cutout,
    Defocus,
    GaussianNoise,
    GridMask,
    MotionBlur,
    PILGaussianBlur,
    SaltAndPepper,
)
from .exchange import from_json, from_torchvision, to_json
from .function import Python
from .geometric import (
    BucketResize,
    CenterCrop,
    Pad,
    RandomAffine,
    RandomCrop,
    RandomHorizontalFlip,
    RandomPerspective,
    RandomResizedCrop,
    RandomRotation,
    RandomVerticalFlip,
    Resize,
    ResizedCenterCrop,
)
from .mix import CopyPaste, CutMix, LabelSmoothing, MixUp, Mosaic, OneHot
from .pixel import GaussianBlur, Normalize, RandomErasing, ToTensor
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
from .scenes import (
    CircularMask,
    Poison,
    PowerLawNoise,
    RandomBackgroundBlend,
    RandomEmbed,
    ReplaceLabel,
    RGBToLGN,
    RGBToMagno,
)
from .sizes import (
    FiveCrop,
    Letterbox,
    RandomIoUCrop,
    RandomResize,
    RandomShortestSize,
    RandomTranslate,
    RandomZoomOut,
    ScaleJitter,
    TenCrop,
)
from .targets import Boxes, Keypoints, Mask
from .tints import (
    CLAHE,
    ChannelDropout,
    RandomBrightness,
    RandomColorJitterHSV,
    RandomColorJitterYIQ,
    RandomContrast,
    RandomGamma,
    RandomHue,
    RandomSaturation,
    RGBShift,
)
from .tokens import TokenWindow
from .views import MultiCrop, Yoked

__all__ = [
    "CLAHE",
    "JPEG",
    "AugMix",
    "AutoAugment",
    "BatchTransform",
    "Boxes",
    "BucketResize",
    "CenterCrop",
    "ChannelDropout",
    "CircularMask",
    "CoarseDropout",
    "ColorJitter",
    "Compose",
    "CopyPaste",
    "CutMix",
    "Cutout",
    "Defocus",
    "ElasticTransform",
    "FiveCrop",
    "GaussianBlur",
    "GaussianNoise",
    "Grayscale",
    "GridMask",
    "Keypoints",
    "LabelSmoothing",
    "Letterbox",
    "Mask",
    "MixUp",
    "Mosaic",
    "MotionBlur",
    "MultiCrop",
    "Normalize",
    "OneHot",
    "OpticalDistortion",
    "PILGaussianBlur",
    "Pad",
    "Poison",
    "PowerLawNoise",
    "Python",
    "RGBShift",
    "RGBToLGN",
    "RGBToMagno",
    "RandAugment",
    "RandomAdjustSharpness",
    "RandomAffine",
    "RandomApply",
    "RandomAutocontrast",
    "RandomBackgroundBlend",
    "RandomBrightness",
    "RandomChannelPermutation",
    "RandomChoice",
    "RandomColorJitterHSV",
    "RandomColorJitterYIQ",
    "RandomContrast",
    "RandomCrop",
    "RandomEmbed",
    "RandomEqualize",
    "RandomErasing",
    "RandomGamma",
    "RandomGrayscale",
    "RandomHorizontalFlip",
    "RandomHue",
    "RandomInvert",
    "RandomIoUCrop",
    "RandomOrder",
    "RandomPatchShuffle",
    "RandomPerspective",
    "RandomPhotometricDistort",
    "RandomPosterize",
    "RandomResize",
    "RandomResizedCrop",
    "RandomRotate",
    "RandomRotateObject",
    "RandomRotation",
    "RandomSaturation",
    "RandomShortestSize",
    "RandomSolarize",
    "RandomTranslate",
    "RandomVerticalFlip",
    "RandomZoom",
    "RandomZoomOut",
    "ReplaceLabel",
    "Resize",
    "ResizedCenterCrop",
    "SaltAndPepper",
    "ScaleJitter",
    "Schedule",
    "SomeOf",
    "TenCrop",
    "ThreeAugment",
    "ToTensor",
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


def __dir__() -> list[str]:
    return sorted(__all__)
