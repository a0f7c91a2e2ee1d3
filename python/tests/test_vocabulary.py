"""The rest of the vocabulary: pixels beside torchvision, Pillow, timm and albumentations, draws beside torchvision's."""

from __future__ import annotations

import io
import json
import math
import random
from collections import Counter

import feedline as fl
import numpy as np
import pytest
from feedline import _feedline
from feedline import transforms as T
from feedline.errors import OptionError, SampleError
from made_images import make_image
from PIL import Image, ImageFilter

torch = pytest.importorskip("torch")
v2 = pytest.importorskip("torchvision.transforms.v2")
F = v2.functional
BILINEAR = v2.InterpolationMode.BILINEAR

SIZES = [(1, 1), (1, 9), (7, 1), (3, 5), (64, 48), (131, 97), (400, 3)]


def images():
    made = [make_image(number, width, height) for number, (width, height) in enumerate(SIZES)]
    return [*made, np.random.default_rng(5).integers(0, 256, (50, 60, 3), dtype=np.uint8)]


def apart(ours, theirs):
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    assert ours.shape == theirs.shape
    return ours.astype(int) - theirs.astype(int)


def tensor(image):
    return torch.from_numpy(image.transpose(2, 0, 1).copy())


def array(image):
    return image.numpy().transpose(1, 2, 0)


def replayed(image, *actions):
    params = {"version": 1, "image": image.shape[:2], "actions": actions, "normalize": None, "channels": 3}
    return T.replay(params, image)


@pytest.mark.parametrize("radius", [0.0, 0.1, 0.5, 0.9, 1.7, 2.0, 5.3])
def test_pil_blur_equals_pillow(radius):
    for image in images():
        theirs = Image.fromarray(image).filter(ImageFilter.GaussianBlur(radius))
        assert np.abs(apart(T.apply(T.PILGaussianBlur(radius), image), theirs)).max() == 0, image.shape


@pytest.mark.parametrize("quality", [5, 50, 95])
def test_jpeg_equals_pillow(quality):
    for image in images():
        buffer = io.BytesIO()
        Image.fromarray(image).save(buffer, "JPEG", quality=quality)
        assert np.abs(apart(T.apply(T.JPEG(quality), image), Image.open(buffer))).max() == 0, image.shape


@pytest.mark.parametrize("gamma", [0.4, 1.0, 2.2])
def test_gamma_equals_torchvision(gamma):
    for image in images():
        theirs = F.adjust_gamma(Image.fromarray(image), gamma)
        assert np.abs(apart(T.apply(T.RandomGamma(gamma, p=1.0), image), theirs)).max() == 0


@pytest.mark.parametrize("factor", [0.0, 0.3, 1.0, 1.9])
def test_tensor_dialect_of_blends(factor):
    for image in images():
        given = tensor(image)
        ours = replayed(image, {"do": "Contrast", "factor": factor, "like": "tensor"})
        assert np.abs(apart(ours, array(F.adjust_contrast(given, factor)))).max() <= 1
        ours = replayed(image, {"do": "Saturation", "factor": factor, "like": "tensor"})
        off = apart(ours, array(F.adjust_saturation(given, factor)))
        assert np.abs(off).max() <= 1
        assert abs(off.mean()) < 0.02


@pytest.mark.parametrize("turn", [-0.31, 0.0, 0.1, 0.5])
def test_tensor_dialect_of_hue(turn):
    for image in images():
        ours = replayed(image, {"do": "Hue", "turn": turn, "like": "tensor"})
        off = apart(ours, array(F.adjust_hue(tensor(image), turn)))
        assert np.abs(off).max() <= 1
        assert abs(off.mean()) < 0.02


def test_tensor_dialect_of_grey_and_autocontrast():
    for image in images():
        off = apart(T.apply(T.Grayscale(3, "tensor"), image), array(F.rgb_to_grayscale(tensor(image), 3)))
        assert np.abs(off).max() <= 1
        assert np.abs(off).mean() < 0.01
        ours = replayed(image, {"do": "Autocontrast", "like": "tensor"})
        assert np.abs(apart(ours, array(F.autocontrast(tensor(image))))).max() <= 1


@pytest.mark.parametrize("fill", [None, 200])
def test_tensor_dialect_of_warps(fill):
    """Inside, the same to a level and without bias; at the border fill and image blend once."""
    for image in images()[4:6]:
        theirs = array(F.rotate(tensor(image), 17, BILINEAR, fill=fill))
        ours = T.apply(T.RandomRotation((17, 17), "bilinear", fill=fill, like="tensor"), image)
        white = array(F.rotate(tensor(np.full_like(image, 255)), 17, BILINEAR)) == 255
        off = apart(ours, theirs)[white]
        assert np.abs(off).max() <= 1
        assert abs(off.mean()) < 0.05
    flat = np.full((60, 60, 3), 200, np.uint8)
    assert (T.apply(T.RandomRotation((30, 30), "bilinear", fill=200, like="tensor"), flat) == 200).all()


def test_bicubic_warps_equal_pillow():
    for image in images():
        theirs = Image.fromarray(image).rotate(23, Image.BICUBIC, fillcolor=(9, 8, 7))
        ours = T.apply(T.RandomRotation((23, 23), "bicubic", fill=(9, 8, 7)), image)
        assert np.abs(apart(ours, theirs)).max() <= 1, image.shape


def test_sizes_equal_torchvision():
    for image in images()[3:6]:
        pil = Image.fromarray(image)
        assert T.apply(T.Resize(None, max_size=40), image).shape == np.asarray(F.resize(pil, None, max_size=40)).shape
        assert T.apply(T.Resize(None, scale=2.0), image).shape[:2] == (image.shape[0] * 2, image.shape[1] * 2)
    boxed = T.apply(T.Letterbox((40, 60), fill=7), make_image(1, 30, 60))
    assert boxed.shape == (40, 60, 3)
    assert (boxed[:, :20] == 7).all()
    assert (boxed[:, -20:] == 7).all()
    assert (boxed[:, 20:40] != 7).any()


def test_five_and_ten_crops_equal_torchvision():
    image = make_image(2, 50, 40)
    for ours, theirs in (
        (T.FiveCrop(20), F.five_crop),
        (T.TenCrop((20, 30)), F.ten_crop),
        (T.TenCrop(20, vertical_flip=True), lambda pil, size: F.ten_crop(pil, size, vertical_flip=True)),
    ):
        expected = theirs(Image.fromarray(image), list(ours.size))
        found = T.apply(ours, image)
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert np.abs(apart(one, other)).max() == 0


def test_crops_are_a_dimension_of_batches(tmp_path):
    for number in range(4):
        Image.fromarray(make_image(number, 50, 40)).save(tmp_path / f"{number}.png")
    recipe = [T.Resize((40, 50)), T.FiveCrop(20), T.ColorJitter(0.5)]
    with fl.Loader(tmp_path, transforms=recipe, dtype="uint8", output="numpy", batch_size=4) as loader:
        (batch,) = list(loader)
    assert batch["image"].shape == (4, 5, 3, 20, 20)
    for row in range(4):
        crops = T.apply(recipe, make_image(row, 50, 40), index=row)
        for crop, expected in zip(batch["image"][row], crops, strict=True):
            assert (crop == expected.transpose(2, 0, 1)).all()
    with pytest.raises(OptionError, match="FiveCrop"):
        fl.Loader(tmp_path, transforms=[T.FiveCrop(20), T.TenCrop(10)])
    with pytest.raises(OptionError, match="crops"):
        fl.Loader(tmp_path, transforms=[T.RandomApply([T.FiveCrop(20)])])


def test_schedules_change_the_size_of_batches(tmp_path):
    for number in range(4):
        Image.fromarray(make_image(number, 50, 40)).save(tmp_path / f"{number}.png")
    recipe = [T.RandomResizedCrop(T.Schedule({0: 16, 2: 24, 3: 32})), T.Normalize(0.5, 0.5)]
    with fl.Loader(tmp_path, transforms=recipe, output="numpy", batch_size=4, shuffle=True) as loader:
        sides = []
        for epoch in range(5):
            loader.set_epoch(epoch)
            (batch,) = list(loader)
            sides.append(batch["image"].shape[-1])
            index = int(batch["index"][0])
            image = np.asarray(Image.open(tmp_path / f"{index}.png"))
            expected = T.apply(recipe, image, epoch=epoch, index=index, seed=0)
            assert (batch["image"][0] == expected.transpose(2, 0, 1)).all()
    assert sides == [16, 16, 24, 32, 32]
    with pytest.raises(OptionError, match="epoch 0"):
        T.Schedule({3: 8})
    with pytest.raises(OptionError, match="from epoch 1.*size"):
        fl.Loader(tmp_path, transforms=[T.Schedule({0: T.CenterCrop(8), 1: T.CenterCrop(0)})])


def test_augmix_chains_equal_torchvision_and_none_is_the_image():
    image = make_image(3, 60, 50)
    chains = [
        [0.3, [{"do": "Equalize"}, {"do": "Posterize", "bits": 3}]],
        [0.2, [{"do": "Saturation", "factor": 1.4, "like": "tensor"}]],
    ]
    ours = replayed(image, {"do": "Mix", "own": 0.5, "chains": chains})
    given = tensor(image)
    first = F.posterize(F.equalize(given), 3)
    theirs = (0.5 * given + 0.3 * first + 0.2 * F.adjust_saturation(given, 1.4)).to(torch.uint8)
    assert np.abs(apart(ours, array(theirs))).max() <= 1
    whole = replayed(image, {"do": "Mix", "own": 1.0, "chains": []})
    assert (whole == image).all()


def ks(ours, theirs):
    """The two-sample Kolmogorov-Smirnov distance, in units of its 0.1 % bound."""
    ours, theirs = np.sort(ours), np.sort(theirs)
    both = np.concatenate([ours, theirs])
    gap = np.abs(
        np.searchsorted(ours, both, side="right") / len(ours)
        - np.searchsorted(theirs, both, side="right") / len(theirs)
    )
    return gap.max() / (1.95 * math.sqrt((len(ours) + len(theirs)) / (len(ours) * len(theirs))))


DRAWS = 20_000


def drawn(op, size=(40, 30), count=DRAWS):
    image = np.zeros((size[1], size[0], 3), np.uint8)
    return [T.apply(op, image, index=index, return_params=True)[1]["actions"] for index in range(count)]


def sizes_of(op, size, count=DRAWS):
    return [(a[-1]["height"], a[-1]["width"]) for a in drawn(op, size, count)]


def test_zoom_out_draws_as_torchvision_does():
    torch.manual_seed(1)
    theirs = [v2.RandomZoomOut(p=1.0).make_params([torch.zeros(3, 30, 40)])["padding"] for _ in range(DRAWS)]
    ours = [actions[0] for actions in drawn(T.RandomZoomOut(p=1.0))]
    assert ks([-a["left"] for a in ours], [p[0] for p in theirs]) < 1
    assert ks([-a["top"] for a in ours], [p[1] for p in theirs]) < 1
    assert ks([a["width"] for a in ours], [p[0] + p[2] + 40 for p in theirs]) < 1


def test_sizes_are_drawn_as_torchvision_does():
    torch.manual_seed(2)
    blank = [torch.zeros(3, 120, 160)]
    for ours, theirs in (
        (T.ScaleJitter((100, 80)), v2.ScaleJitter((100, 80))),
        (T.RandomShortestSize([60, 70, 90], 110), v2.RandomShortestSize([60, 70, 90], 110)),
    ):
        expected = [theirs.make_params(blank)["size"] for _ in range(4000)]
        found = sizes_of(ours, (160, 120), 4000)
        assert ks([s[0] for s in found], [s[0] for s in expected]) < 1
        assert ks([s[1] for s in found], [s[1] for s in expected]) < 1


def test_noise_is_normal_and_clipped_as_in_torchvision():
    grey = np.full((150, 150, 3), 128, np.uint8)
    ours = T.apply(T.GaussianNoise(0.02, 0.1), grey).astype(int).ravel() - 128
    torch.manual_seed(3)
    theirs = array(F.gaussian_noise(tensor(grey), 0.02, 0.1)).astype(int).ravel() - 128
    assert ks(ours, theirs) < 1
    assert abs(ours.mean() - theirs.mean()) < 0.4
    wide = T.apply(T.GaussianNoise(sigma=2.0), grey)
    assert wide.min() == 0
    assert wide.max() == 255


def test_elastic_fields_are_as_wide_and_smooth_as_in_torchvision():
    """Offsets show in a ramp: its level is the column."""
    ramp = np.repeat(np.tile(np.arange(200, dtype=np.uint8), (120, 1))[..., None], 3, axis=2)
    ours = np.stack([T.apply(T.ElasticTransform(80.0, 4.0), ramp, seed=s)[20:-20, 40:-40, 0] for s in range(20)])
    torch.manual_seed(4)
    theirs = np.stack([array(v2.ElasticTransform(80.0, 4.0)(tensor(ramp)))[20:-20, 40:-40, 0] for _ in range(20)])
    moves = [(made.astype(float) - np.arange(200)[40:-40]) for made in (ours, theirs)]
    assert moves[0].std() == pytest.approx(moves[1].std(), rel=0.1)
    steps = [np.diff(move, axis=1).std() for move in moves]
    assert steps[0] == pytest.approx(steps[1], rel=0.1)


def timm_ops(config, count):
    """How often timm does which operation, and with what argument."""
    auto = pytest.importorskip("timm.data.auto_augment")
    seen = []
    augment = auto.rand_augment_transform(config, {"translate_const": 100, "img_mean": (128, 128, 128)})
    for op in augment.ops:
        op.aug_fn = lambda img, *args, name=op.name, **_: seen.append((name, args)) or img
    random.seed(5)
    np.random.seed(5)  # noqa: NPY002 - timm's own
    for _ in range(count):
        augment(Image.new("RGB", (40, 30)))
    return seen


def test_timm_randaugment_draws_as_timm_does():
    count = 6000
    theirs = timm_ops("rand-m9-mstd0.5-inc1", count)
    ours = [a for actions in drawn(T.RandAugment.timm("rand-m9-mstd0.5-inc1"), count=count) for a in actions]
    names = {"ColorIncreasing": "Saturation", "ContrastIncreasing": "Contrast", "BrightnessIncreasing": "Brightness"}
    names |= {"SharpnessIncreasing": "Sharpness", "SolarizeIncreasing": "Solarize", "AutoContrast": "Autocontrast"}
    names |= {"PosterizeIncreasing": "Posterize"}
    warps = {"Rotate", "ShearX", "ShearY", "TranslateXRel", "TranslateYRel"}
    expected = Counter("Warp" if name in warps else names.get(name, name) for name, _ in theirs)
    found = Counter(action["do"] for action in ours)
    assert set(found) == set(expected)
    for name in found:
        assert abs(found[name] - expected[name]) < 6 * math.sqrt(expected[name]), name
    for mine, other in (("Saturation", "ColorIncreasing"), ("Brightness", "BrightnessIncreasing")):
        values = [args[0] for name, args in theirs if name == other]
        assert ks([a["factor"] for a in ours if a["do"] == mine], values) < 1
    bits = Counter(args[0] for name, args in theirs if name == "PosterizeIncreasing")
    mine = Counter(a["bits"] for a in ours if a["do"] == "Posterize")
    for level in set(bits) | set(mine):
        assert abs(bits[level] - mine[level]) < 6 * math.sqrt(max(bits[level], mine[level], 4)), level


def test_timm_erasing_draws_its_own_values():
    _, params = T.apply(
        [T.Normalize(0.5, 0.5), T.RandomErasing.timm(1.0, "rand", 3)],
        np.zeros((60, 60, 3), np.uint8),
        return_params=True,
        seed=3,
    )
    assert 1 <= len(params["actions"]) <= 3
    assert all(action["noise"] is None and any(action["value"]) for action in params["actions"])
    with pytest.raises(OptionError, match="needs? Normalize|need Normalize"):
        T.apply(T.RandomErasing.timm(1.0, "pixel"), np.zeros((60, 60, 3), np.uint8))


def test_some_of_draws_each_equally_often():
    ops = [T.RandomInvert(1.0), T.RandomEqualize(1.0), T.RandomAutocontrast(1.0), T.RandomPosterize(4, 1.0)]
    lists = [tuple(a["do"] for a in actions) for actions in drawn(T.SomeOf(ops, 2), count=6000)]
    assert all(len(set(one)) == 2 for one in lists)
    counts = Counter(lists)
    assert len(counts) == 12
    assert sum((n - 500) ** 2 / 500 for n in counts.values()) < 31  # chi-squared, 11 degrees, 0.1 %
    ordered = {tuple(a["do"] for a in actions) for actions in drawn(T.SomeOf(ops, (1, 3), ordered=True), count=500)}
    rank = {"Invert": 0, "Equalize": 1, "Autocontrast": 2, "Posterize": 3}
    assert all([rank[name] for name in one] == sorted(rank[name] for name in one) for one in ordered)
    assert {len(one) for one in ordered} == {1, 2, 3}


def test_translate_poison_and_cutout_equal_ffcv():
    image = make_image(5, 32, 32)
    padded = np.pad(image, ((4, 4), (4, 4), (0, 0)))
    windows = {padded[y : y + 32, x : x + 32].tobytes() for y in range(9) for x in range(9)}
    assert {T.apply(T.RandomTranslate(4), image, index=i).tobytes() for i in range(300)} <= windows
    mask, alpha = np.full((32, 32, 3), 200.0), np.full((32, 32), 0.25)
    poison = T.Poison(mask, alpha, [3])
    assert (T.apply(poison, image, index=2) == image).all()
    assert (T.apply(poison, image, index=3) == (image * 0.75 + 200 * 0.25).astype(np.uint8)).all()
    assert T.from_json(T.to_json([poison])) == [poison]
    with pytest.raises(SampleError, match="32x32"):
        T.apply(poison, make_image(5, 30, 32), index=3)
    hole = T.apply(T.Cutout(8, fill=(1, 2, 3)), np.full((32, 32, 3), 255, np.uint8))
    assert (hole == (1, 2, 3)).all(axis=2).sum() == 64


def test_patches_and_grids_keep_their_pixels():
    image = make_image(6, 48, 48)
    shuffled = T.apply(T.RandomPatchShuffle(16, 1.0), image, seed=2)

    def pieces(made):
        return sorted(made[y : y + 16, x : x + 16].tobytes() for y in range(0, 48, 16) for x in range(0, 48, 16))

    assert pieces(shuffled) == pieces(image)
    assert (shuffled != image).any()
    white = np.full((100, 100, 3), 255, np.uint8)
    holes = (T.apply(T.GridMask(0.2, 0.5, 1.0), white) == 0).all(axis=2).mean()
    assert holes == pytest.approx(0.25, abs=0.05)
    masked = T.apply(T.CircularMask(4), white)
    assert masked[50, 50, 0] == 255
    assert masked[0, 0, 0] == 0


def test_scenes_place_images_as_described():
    white = np.full((20, 20, 3), 255, np.uint8)
    made = T.apply(T.RandomEmbed((60, 80), 0.5, 0.5, "constant", fill=9), white)
    assert made.shape == (60, 80, 3)
    assert (made[20:40, 30:50] == 255).all()
    assert (made[:20] == 9).all()
    noisy = T.apply(
        T.RandomBackgroundBlend("power_law", fade_mode="cosine"), np.repeat(white, 4, axis=0).repeat(4, axis=1)
    )
    assert noisy[40, 40].min() > 240
    assert noisy[:10].std() > 10


def test_blurs_keep_the_mean_and_constant_images():
    flat = np.full((40, 50, 3), 123, np.uint8)
    photo = make_image(7, 120, 90)
    for op in (T.MotionBlur((9, 15), p=1.0), T.Defocus((3, 6), p=1.0), T.PILGaussianBlur(3.0)):
        for seed in range(5):
            assert np.abs(T.apply(op, flat, seed=seed).astype(int) - 123).max() <= 1, op
            assert T.apply(op, photo, seed=seed).mean() == pytest.approx(photo.mean(), abs=2.0), op


def test_clahe_is_close_to_opencv():
    cv2 = pytest.importorskip("cv2")
    for image in (make_image(4, 160, 120), make_image(5, 131, 97)):
        lab = cv2.cvtColor(image, cv2.COLOR_RGB2LAB)
        lab[..., 0] = cv2.createCLAHE(3.0, (8, 8)).apply(lab[..., 0])
        theirs = cv2.cvtColor(lab, cv2.COLOR_LAB2RGB)
        off = np.abs(apart(T.apply(T.CLAHE((3.0, 3.0), (8, 8), 1.0), image), theirs))
        # The way back from Lab differs by a level for one colour in a hundred.
        assert off.mean() < 0.05
        assert off.max() <= 5


def test_neutral_colour_jitter_changes_nothing():
    for image in images():
        for op in (T.RandomColorJitterHSV(1.0), T.RandomColorJitterYIQ(1.0), T.RGBShift(0, 0, 0, 1.0)):
            assert np.abs(apart(T.apply(op, image), image)).max() <= 1, op
    red = np.zeros((2, 2, 3), np.uint8) + np.array([255, 0, 0], np.uint8)
    assert (T.apply(T.RandomColorJitterHSV(1.0, hue=(1 / 3, 1 / 3)), red) == (0, 255, 0)).all()
    assert (T.apply(T.ChannelDropout(fill=7, p=1.0), red) == 7).all(axis=(0, 1)).sum() == 1


ALL = [
    T.ElasticTransform(),
    T.OpticalDistortion(),
    T.RandomRotate(1.0),
    T.RandomZoom(1.0),
    T.RandomRotateObject(1.0),
    T.RandomPatchShuffle(4, 1.0),
    T.CLAHE(p=1.0),
    T.RandomHue(0.2, 1.0),
    T.RandomColorJitterYIQ(1.0, 30, 0.4),
    T.MotionBlur(p=1.0),
    T.Defocus(p=1.0),
    T.GaussianNoise(),
    T.SaltAndPepper(p=1.0),
    T.PowerLawNoise(p=1.0),
    T.JPEG((5, 95)),
    T.CoarseDropout(p=1.0),
    T.GridMask(p=1.0),
    T.CircularMask(),
    T.RandomBackgroundBlend("power_law", fade_mode="circular"),
    T.AugMix(),
    T.ThreeAugment(),
    T.RandAugment.timm(),
]


@pytest.mark.parametrize("op", ALL, ids=lambda op: type(op).__name__)
def test_every_transform_replays_round_trips_and_takes_any_size(op):
    for image in images():
        made, params = T.apply(op, image, seed=9, return_params=True)
        assert (T.replay(json.loads(json.dumps(params)), image) == made).all(), image.shape
        assert (T.apply(op, image, seed=9) == made).all()
    assert T.from_json(T.to_json([op])) == [op]


def test_every_transform_of_the_engine_has_its_class():
    assert set(_feedline.transform_names()) <= set(T.__all__)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: T.GaussianNoise(sigma=-1.0), "sigma"),
        (lambda: T.JPEG(0), "quality"),
        (lambda: T.JPEG((50, 20)), "quality"),
        (lambda: T.CoarseDropout(0), "num_holes_range"),
        (lambda: T.GridMask(0.0), "d must be"),
        (lambda: T.MotionBlur((1, 2)), "blur_limit"),
        (lambda: T.Defocus(0), "radius"),
        (lambda: T.CLAHE(tile_grid_size=(0, 8)), "tile_grid_size"),
        (lambda: T.RandomZoomOut(side_range=(0.5, 2)), "side_range"),
        (lambda: T.RandomResize(20, 10), "min_size"),
        (lambda: T.RandomPatchShuffle([]), "sizes"),
        (lambda: T.AugMix(severity=11), "severity"),
        (lambda: T.AugMix(alpha=0.0), "alpha"),
        (lambda: T.SomeOf([T.RandomInvert()], 2), "n must be"),
        (lambda: T.RandomRotation(10, "bicubic", like="tensor"), "bicubic"),
        (lambda: T.RandAugment(p=0.3), "like='timm'"),
        (lambda: T.RandomGamma(float("nan")), "gamma"),
        (lambda: T.ElasticTransform(sigma=1e9), "sigma"),
        (lambda: T.Letterbox(-3), "size"),
        (lambda: T.RandomEmbed(99999, background="power_law"), "canvas_size|sizes must be"),
        (lambda: T.Poison(np.zeros((3, 3)), np.zeros((3, 3)), [1]), "mask"),
    ],
)
def test_bad_parameters_are_refused_with_their_name(tmp_path, make, message):
    Image.fromarray(make_image(1, 20, 20)).save(tmp_path / "a.png")
    with pytest.raises(OptionError, match=message):
        fl.Loader(tmp_path, transforms=[make()])


def test_opponent_channels_come_last_and_replay(tmp_path):
    image = make_image(4, 40, 30)
    for op, count in ((T.RGBToLGN(), 5), (T.RGBToMagno(), 2)):
        made, params = T.apply([T.CenterCrop(24), op], image, return_params=True)
        assert made.shape == (24, 24, count)
        assert made.dtype == np.float32
        assert made.min() == 0
        assert made.max() > 0.01
        assert (T.replay(params, image) == made).all()
        assert T.from_json(T.to_json([op])) == [op]
    grey = T.apply(T.RGBToLGN(rectify=False), np.full((20, 20, 3), 90, np.uint8))
    assert np.abs(grey).max() < 1e-3
    scaled = T.apply(T.RGBToLGN(mean=0.2, std=0.2), image)
    assert np.allclose(scaled, (T.apply(T.RGBToLGN(), image) - 0.2) / 0.2, atol=1e-5)
    Image.fromarray(image).save(tmp_path / "a.png")
    with fl.Loader(tmp_path, transforms=[T.CenterCrop(24), T.RGBToLGN()], output="numpy") as loader:
        (batch,) = list(loader)
    assert batch["image"].shape == (1, 5, 24, 24)
    for bad, why in (
        ([T.RGBToLGN(), T.CenterCrop(8)], "last"),
        ([T.Grayscale(1), T.RGBToLGN()], "three channels"),
        ([T.RGBToMagno(), T.RandomErasing()], "opponent"),
    ):
        with pytest.raises(OptionError, match=why):
            fl.Loader(tmp_path, transforms=bad)
    with pytest.raises(OptionError, match="float dtype"):
        fl.Loader(tmp_path, transforms=[T.RGBToMagno()], dtype="uint8")


def test_labels_are_replaced(tmp_path):
    for number in range(6):
        folder = tmp_path / f"class{number % 2}"
        folder.mkdir(exist_ok=True)
        Image.fromarray(make_image(number, 20, 20)).save(folder / f"{number}.png")
    recipe = {"image": [T.CenterCrop(8)], "label": [T.ReplaceLabel([1, 4], 9)]}
    labels = {}
    for transforms in (recipe, {"image": recipe["image"]}):
        with fl.Loader(tmp_path, transforms=transforms, output="numpy", shuffle=True) as loader:
            (batch,) = list(loader)
        labels[len(transforms)] = dict(zip(batch["index"].tolist(), batch["label"].tolist(), strict=True))
    assert labels[2] == {**labels[1], 1: 9, 4: 9}
    with pytest.raises(OptionError, match="integer field"):
        fl.Loader(tmp_path, transforms=[T.ReplaceLabel([1], 2)])
    with pytest.raises(OptionError, match="CenterCrop is for images"):
        fl.Loader(tmp_path, transforms={"label": [T.CenterCrop(8)]})
