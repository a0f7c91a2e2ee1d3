"""Lists of torchvision's and albumentations' transforms are translated to feedline's."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from feedline import transforms as T
from feedline.errors import OptionError
from feedline.transforms.exchange import _FROM_TORCHVISION

torch = pytest.importorskip("torch")
v2 = pytest.importorskip("torchvision.transforms.v2")


def test_torchvision_lists_are_translated():
    theirs = v2.Compose(
        [
            v2.ScaleJitter((64, 64)),
            v2.RandomZoomOut(),
            v2.ElasticTransform(30.0),
            v2.JPEG((5, 50)),
            v2.GaussianNoise(),
            v2.AugMix(),
            v2.RandomShortestSize([3, 4]),
            v2.Resize(None, max_size=40),
            v2.TenCrop(8),
        ]
    )
    assert T.from_torchvision(theirs) == [
        T.ScaleJitter((64, 64)),
        T.RandomZoomOut(),
        T.ElasticTransform(30.0),
        T.JPEG((5, 50)),
        T.GaussianNoise(),
        T.AugMix(),
        T.RandomShortestSize([3, 4]),
        T.Resize(None, max_size=40),
        T.TenCrop(8),
    ]


def test_every_class_takes_torchvisions_arguments_in_its_order():
    def names(kind):
        found = inspect.signature(kind.__init__).parameters.values()
        return [p.name for p in found if p.name != "self" and p.kind is p.POSITIONAL_OR_KEYWORD]

    shared = [
        name for name in dir(v2) if inspect.isclass(getattr(v2, name)) and name in T.__all__ and name != "Transform"
    ]
    assert len(shared) > 40
    for name in shared:
        theirs = names(getattr(v2, name))
        assert names(getattr(T, name))[: len(theirs)] == theirs, name


def test_every_torchvision_transform_of_images_is_translated_or_named():
    """What is left has no equal: functions of the user's, matrices over whole images, conversions, video."""
    left = {"Transform", "Lambda", "LinearTransformation", "ToPILImage", "UniformTemporalSubsample", "SetClampingMode"}
    # Those of boxes, points and pairs of samples are not for a list of one image.
    left |= {"MixUp", "CutMix", "ClampBoundingBoxes", "ClampKeyPoints", "ConvertBoundingBoxFormat"}
    left |= {"SanitizeBoundingBoxes", "SanitizeKeyPoints"}
    every = {n for n in dir(v2) if inspect.isclass(getattr(v2, n)) and issubclass(getattr(v2, n), torch.nn.Module)}
    assert every - set(_FROM_TORCHVISION) <= left
    with pytest.raises(OptionError, match="antialias"):
        T.from_torchvision(v2.Resize(8, antialias=False))


def test_albumentations_lists_are_translated():
    albumentations = pytest.importorskip("albumentations")
    theirs = albumentations.Compose(
        [
            albumentations.RandomResizedCrop(size=(32, 32)),
            albumentations.HorizontalFlip(p=0.3),
            albumentations.OneOf([albumentations.CLAHE(p=1), albumentations.InvertImg(p=3 / 4)], p=0.6),
            albumentations.ColorJitter(p=0.8),
            albumentations.GaussianBlur(blur_limit=(7, 7), p=0.2),
            albumentations.CoarseDropout(p=0.1),
            albumentations.Normalize(),
        ]
    )
    assert T.from_albumentations(theirs) == [
        T.RandomResizedCrop(32),
        T.RandomHorizontalFlip(0.3),
        T.RandomApply([T.RandomChoice([T.CLAHE(p=1.0), T.RandomInvert(1.0)], [1, 0.75])], 0.6),
        T.RandomApply([T.ColorJitter((0.8, 1.2), (0.8, 1.2), (0.8, 1.2), (-0.5, 0.5))], 0.8),
        T.RandomApply([T.GaussianBlur(7, (0.5, 3.0))], 0.2),
        T.CoarseDropout(p=0.1),
        T.Normalize.imagenet(),
    ]
    lens = albumentations.OpticalDistortion((0.4, 0.4), p=1)
    assert T.from_albumentations(lens) == [T.OpticalDistortion((0.4, 0.4))]
    smooth = np.repeat(np.tile(np.arange(0, 180, 2, dtype=np.uint8), (60, 1))[..., None], 3, axis=2)
    gap = T.apply(T.from_albumentations(lens), smooth).astype(int) - lens(image=smooth)["image"]
    assert np.abs(gap[12:-12, 18:-18]).max() <= 2
    for bad, name in (
        (albumentations.RandomBrightnessContrast(), "RandomBrightnessContrast"),
        (albumentations.Equalize(), "Equalize"),
        (albumentations.Perspective(), "Perspective"),
    ):
        with pytest.raises(OptionError, match=name):
            T.from_albumentations(albumentations.Compose([bad]))
