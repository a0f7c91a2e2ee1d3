"""Transforms against torchvision on PIL images: the same parameters, the same pixels."""

from __future__ import annotations

import json
import math

import feedline as fl
import numpy as np
import pytest
from feedline import _feedline
from feedline import transforms as T
from feedline.errors import OptionError, SampleError
from made_images import make_image
from PIL import Image

torch = pytest.importorskip("torch")
v2 = pytest.importorskip("torchvision.transforms.v2")
F = v2.functional

SIZES = [(1, 1), (1, 9), (7, 1), (3, 5), (64, 48), (131, 97), (400, 3)]


def images():
    """Images with edges and noise in odd sizes, and one of pure noise."""
    made = [make_image(number, width, height) for number, (width, height) in enumerate(SIZES)]
    return [*made, np.random.default_rng(5).integers(0, 256, (50, 60, 3), dtype=np.uint8)]


def difference(ours, theirs):
    assert ours.shape == theirs.shape
    return np.abs(ours.astype(int) - theirs.astype(int))


def replayed(image, *actions):
    """What the engine makes of these actions."""
    params = {"version": 1, "image": image.shape[:2], "actions": actions, "normalize": None, "channels": 3}
    return T.replay(params, image)


def same(image, action, theirs):
    """Exactly the same pixels."""
    pil = Image.fromarray(image)
    assert difference(replayed(image, action), np.asarray(theirs(pil))).max() == 0, (action, image.shape)


FACTORS = [0.0, 0.3, 0.7, 1.0, 1.3, 1.9, 5.0]


@pytest.mark.parametrize("factor", FACTORS)
@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("Brightness", F.adjust_brightness),
        ("Contrast", F.adjust_contrast),
        ("Saturation", F.adjust_saturation),
        ("Sharpness", F.adjust_sharpness),
    ],
)
def test_enhancements_equal_pil(name, function, factor):
    for image in images():
        same(image, {"do": name, "factor": factor}, lambda pil: function(pil, factor))


@pytest.mark.parametrize("turn", [-0.5, -0.31, -0.1, -0.001, 0.0, 0.1, 0.25, 0.49, 0.5])
def test_hue_equals_pil(turn):
    for image in images():
        same(image, {"do": "Hue", "turn": turn}, lambda pil: F.adjust_hue(pil, turn))


def test_hue_equals_pil_for_every_colour():
    """All colours with 64 levels per channel, and a run of all levels."""
    levels = np.arange(0, 256, 4, dtype=np.uint8) + 1
    colours = np.stack(np.meshgrid(levels, levels, levels), axis=-1).reshape(512, 512, 3)
    same(colours, {"do": "Hue", "turn": 0.1}, lambda pil: F.adjust_hue(pil, 0.1))
    same(colours[::-1] - 1, {"do": "Hue", "turn": -0.2}, lambda pil: F.adjust_hue(pil, -0.2))


def test_point_operations_equal_pil():
    for image in images():
        same(image, {"do": "Gray"}, lambda pil: F.rgb_to_grayscale(pil, 3))
        same(image, {"do": "Invert"}, F.invert)
        same(image, {"do": "Equalize"}, F.equalize)
        same(image, {"do": "Autocontrast"}, F.autocontrast)
        for bits in range(1, 9):
            same(image, {"do": "Posterize", "bits": bits}, lambda pil, bits=bits: F.posterize(pil, bits))
        for threshold in (0, 1, 127.5, 128, 255, 256):
            action = {"do": "Solarize", "threshold": threshold}
            same(image, action, lambda pil, threshold=threshold: F.solarize(pil, threshold))
        assert (replayed(image, {"do": "PermuteChannels", "order": [2, 0, 1]}) == image[..., [2, 0, 1]]).all()


def test_equalize_of_flat_and_of_few_values():
    flat = np.full((20, 20, 3), 77, np.uint8)
    few = np.random.default_rng(1).choice(np.array([3, 3, 3, 90, 250], np.uint8), (31, 17, 3))
    for image in (flat, few):
        same(image, {"do": "Equalize"}, F.equalize)
        same(image, {"do": "Autocontrast"}, F.autocontrast)


def test_steps_are_rounded_one_by_one():
    image = make_image(3, 90, 70)
    actions = [{"do": "Brightness", "factor": 1.4}, {"do": "Contrast", "factor": 0.6}, {"do": "Hue", "turn": 0.07}]
    actions += [{"do": "Saturation", "factor": 1.7}, {"do": "Solarize", "threshold": 99}, {"do": "Invert"}]
    pil = F.adjust_hue(F.adjust_contrast(F.adjust_brightness(Image.fromarray(image), 1.4), 0.6), 0.07)
    theirs = F.invert(F.solarize(F.adjust_saturation(pil, 1.7), 99))
    assert difference(replayed(image, *actions), np.asarray(theirs)).max() == 0


@pytest.mark.parametrize(("kernel", "sigma"), [((3, 3), 0.5), ((5, 9), 1.3), ((23, 23), 2.0), ((23, 23), 0.1)])
def test_blur_is_within_a_level(kernel, sigma):
    apart = []
    for image in images():
        if min(image.shape[1] - kernel[0] // 2, image.shape[0] - kernel[1] // 2) <= 0:
            continue
        theirs = np.asarray(F.gaussian_blur(Image.fromarray(image), list(kernel), [sigma, sigma]))
        ours = replayed(image, {"do": "GaussianBlur", "kernel_size": kernel, "sigma": sigma})
        assert difference(ours, theirs).max() <= 1
        apart.append((ours.astype(int) - theirs).ravel())
    assert abs(np.concatenate(apart).mean()) < 0.01


def warped(image, matrix, size, interpolation, fill=(0, 0, 0)):
    width, height = size
    numbers = {"coefficients": list(matrix), "height": height, "width": width, "fill": fill}
    return replayed(image, {"do": "Warp", **numbers, "interpolation": interpolation})


@pytest.mark.parametrize("interpolation", ["nearest", "bilinear"])
def test_warps_equal_pillow(interpolation):
    mode = {"nearest": Image.NEAREST, "bilinear": Image.BILINEAR}[interpolation]
    matrices = [
        (0.9, 0.3, -2.5, -0.3, 0.9, 7.25),
        (1.0, 0.0, 3.0, 0.0, 1.0, -2.0),
        (0.5, 0.0, 0.3, 0.0, 2.0, 0.1),
        (1.0, 0.2, 0.0, 0.0, 1.0, 0.0),
        (0.0, 1.0, 0.0, -1.0, 0.0, 40.0),
    ]
    for image in images():
        for matrix in matrices:
            pil = Image.fromarray(image).transform((61, 43), Image.AFFINE, matrix, mode, fillcolor=(9, 8, 7))
            assert difference(warped(image, matrix, (61, 43), interpolation, (9, 8, 7)), np.asarray(pil)).max() == 0
        bent = (1.1, 0.1, -4.0, 0.05, 0.9, 1.0, 0.001, -0.002)
        pil = Image.fromarray(image).transform((61, 43), Image.PERSPECTIVE, bent, mode)
        assert difference(warped(image, bent, (61, 43), interpolation), np.asarray(pil)).max() == 0


def drawn(ops, image, **key):
    return T.apply(ops, image, return_params=True, **key)


@pytest.mark.parametrize("expand", [False, True])
@pytest.mark.parametrize("angle", [0.0, 17.3, 90.0, -121.5, 180.0, 270.0])
def test_rotation_equals_torchvision(angle, expand):
    for image in images():
        for interpolation in ("nearest", "bilinear"):
            mode = v2.InterpolationMode(interpolation)
            op = T.RandomRotation((angle, angle), interpolation, expand=expand, fill=5)
            theirs = F.rotate(Image.fromarray(image), angle, mode, expand, fill=5)
            assert difference(T.apply(op, image), np.asarray(theirs)).max() == 0, (image.shape, interpolation)


def test_affine_equals_torchvision():
    for image in images():
        for interpolation in ("nearest", "bilinear"):
            op = T.RandomAffine((25, 25), None, (1.3, 1.3), (10, 10, -7, -7), interpolation, fill=(1, 2, 3))
            mode = v2.InterpolationMode(interpolation)
            theirs = F.affine(Image.fromarray(image), 25, [0, 0], 1.3, [10, -7], mode, [1, 2, 3])
            assert difference(T.apply(op, image), np.asarray(theirs)).max() == 0


def test_perspective_equals_torchvision():
    image = make_image(4, 120, 90)
    _, params = drawn(T.RandomPerspective(0.6, p=1.0), image, seed=3)
    (action,) = params["actions"]
    assert len(action["coefficients"]) == 8
    numbers = [float(number) for number in action["coefficients"]]
    theirs = F.perspective(Image.fromarray(image), None, None, coefficients=numbers)
    assert difference(T.replay(params, image), np.asarray(theirs)).max() == 0


def test_perspective_moves_corners_to_corners():
    """The drawn map takes the drawn corners back to the image's own, as torchvision solves it."""
    from torchvision.transforms.functional import _get_perspective_coeffs

    start = [[0, 0], [119, 0], [119, 89], [0, 89]]
    image = make_image(4, 120, 90)
    for seed in range(20):
        _, params = drawn(T.RandomPerspective(0.5, p=1.0), image, seed=seed)
        a, b, c, d, e, f, g, h = map(float, params["actions"][0]["coefficients"])
        inverse = np.linalg.inv([[a, b, c], [d, e, f], [g, h, 1]])
        moved = [inverse @ [x, y, 1] for x, y in start]
        ends = [[round(x / w), round(y / w)] for x, y, w in moved]
        assert np.allclose(_get_perspective_coeffs(start, ends), (a, b, c, d, e, f, g, h), rtol=1e-3, atol=1e-5)
        bound_x, bound_y = int(0.5 * 60) + 1, int(0.5 * 45) + 1
        assert all(min(x, 119 - x) < bound_x and min(y, 89 - y) < bound_y for x, y in ends)


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "symmetric"])
def test_padding_equals_torchvision(mode):
    image = make_image(2, 30, 20)
    for padding in ([3, 4, 5, 6], [0, 1, 2, 0]):
        theirs = F.pad(Image.fromarray(image), padding, fill=7, padding_mode=mode)
        assert difference(T.apply(T.Pad(padding, 7, mode), image), np.asarray(theirs)).max() == 0
    if mode in ("reflect", "symmetric"):
        with pytest.raises(SampleError, match="wider than the image"):
            T.apply(T.Pad(40, 0, mode), image)


@pytest.mark.parametrize("interpolation", ["box", "lanczos", "bicubic"])
def test_resizes_are_within_a_level(interpolation):
    image = make_image(6, 131, 97)
    mode = v2.InterpolationMode(interpolation)
    theirs = F.resize(Image.fromarray(image), [40, 50], mode)
    assert difference(T.apply(T.Resize((40, 50), interpolation), image), np.asarray(theirs)).max() <= 1


def ks(ours, theirs):
    """The two-sample Kolmogorov-Smirnov distance, in units of its 0.1 % bound."""
    ours, theirs = np.sort(ours), np.sort(theirs)
    both = np.concatenate([ours, theirs])
    apart = np.abs(
        np.searchsorted(ours, both, side="right") / len(ours)
        - np.searchsorted(theirs, both, side="right") / len(theirs)
    )
    return apart.max() / (1.95 * math.sqrt((len(ours) + len(theirs)) / (len(ours) * len(theirs))))


DRAWS = 4000


def many(ops, size=(40, 30)):
    image = np.zeros((size[1], size[0], 3), np.uint8)
    return [drawn(ops, image, index=index)[1]["actions"] for index in range(DRAWS)]


def test_jitter_draws_as_torchvision_does():
    torch.manual_seed(1)
    theirs = [v2.ColorJitter(0.4, 0.3, 0.2, 0.1).make_params([]) for _ in range(DRAWS)]
    ours = many(T.ColorJitter(0.4, 0.3, 0.2, 0.1))
    names = ["Brightness", "Contrast", "Saturation", "Hue"]
    for name in names:
        key = "turn" if name == "Hue" else "factor"
        mine = [next(a[key] for a in actions if a["do"] == name) for actions in ours]
        assert ks(mine, [p[f"{name.lower()}_factor"] for p in theirs]) < 1, name
    orders = {}
    for actions in ours:
        order = tuple(a["do"] for a in actions)
        orders[order] = orders.get(order, 0) + 1
    assert len(orders) == math.factorial(4)
    expected = DRAWS / math.factorial(4)
    assert sum((count - expected) ** 2 / expected for count in orders.values()) < 55  # chi-squared, 23 degrees, 0.02 %


def test_erasing_draws_as_torchvision_does():
    torch.manual_seed(2)
    blank = torch.zeros(3, 30, 40)
    theirs = [v2.RandomErasing(p=1.0).make_params([blank]) for _ in range(DRAWS)]
    ours = [actions[0] for actions in many([T.Normalize.imagenet(), T.RandomErasing(p=1.0)]) if actions]
    for mine, other in (("top", "i"), ("left", "j"), ("height", "h"), ("width", "w")):
        found = [p[other] for p in theirs if p["v"] is not None]
        assert ks([a[mine] for a in ours], found) < 1, mine


def test_policies_choose_as_often_as_torchvision():
    ours = many(T.RandAugment(num_ops=1))
    kinds = {}
    for actions in ours:
        name = actions[0]["do"] if actions else "Identity"
        kinds[name] = kinds.get(name, 0) + 1
    # 14 choices, of which five are warps.
    for name, count in kinds.items():
        share = 5 / 14 if name == "Warp" else 1 / 14
        assert abs(count - DRAWS * share) < 5 * math.sqrt(DRAWS * share), name
    assert kinds.keys() == {
        "Identity", "Warp", "Brightness", "Saturation", "Contrast", "Sharpness", "Posterize", "Solarize",
        "Autocontrast", "Equalize",
    }  # fmt: skip


MAGNITUDES = {"Brightness": "factor", "Saturation": "factor", "Contrast": "factor", "Sharpness": "factor"}


@pytest.mark.parametrize(
    ("ours", "theirs"), [(T.RandAugment(1), v2.RandAugment(1)), (T.TrivialAugmentWide(), v2.TrivialAugmentWide())]
)
def test_policies_are_as_strong_as_in_torchvision(ours, theirs):
    """Every drawn result is one of those that torchvision's space gives at some level and sign."""
    image = make_image(8, 64, 48)
    pil = Image.fromarray(image)
    levels = range(31) if isinstance(theirs, v2.TrivialAugmentWide) else [9]
    possible = [pil]
    for name, (magnitudes, signed) in theirs._AUGMENTATION_SPACE.items():
        values = magnitudes(31, 48, 64)
        for level in levels if values is not None else [0]:
            for sign in (1, -1) if signed else (1,):
                value = 0.0 if values is None else float(values[level]) * sign
                made = theirs._apply_image_or_video_transform(
                    pil, name, value, v2.InterpolationMode.NEAREST, {Image.Image: None}
                )
                possible.append(made)
    known = {np.asarray(made).tobytes() for made in possible}
    for index in range(150):
        assert T.apply(ours, image, index=index).tobytes() in known, drawn(ours, image, index=index)[1]


def test_auto_augment_pairs_equal_torchvision():
    image = make_image(8, 64, 48)
    pil = Image.fromarray(image)
    theirs = v2.AutoAugment(v2.AutoAugmentPolicy.CIFAR10)
    known = set()
    for pair in theirs._policies:
        results = [pil]
        for name, _, level in pair:
            magnitudes, signed = theirs._AUGMENTATION_SPACE[name]
            values = magnitudes(10, 48, 64)
            options = (
                [0.0] if values is None else [float(values[level]) * sign for sign in ((1, -1) if signed else (1,))]
            )
            results += [
                theirs._apply_image_or_video_transform(
                    made, name, value, v2.InterpolationMode.NEAREST, {Image.Image: None}
                )
                for made in results
                for value in options
            ]
        known |= {np.asarray(made).tobytes() for made in results}
    for index in range(150):
        assert T.apply(T.AutoAugment("cifar10"), image, index=index).tobytes() in known


def test_classes_are_those_of_the_engine():
    ours = {name for name in T.__all__ if isinstance(getattr(T, name), type)}
    beside = {"Transform", "Python", "ToTensor", "BatchTransform", "MultiCrop", "Mask", "Boxes", "Keypoints"}
    mixing = {"MixUp", "CutMix", "Mosaic", "CopyPaste", "LabelSmoothing", "OneHot"}
    assert ours - beside - mixing == set(_feedline.transform_names())


EVERY = [
    T.RandomResizedCrop(32, (0.2, 1.0), interpolation="bicubic"),
    T.Resize(40, max_size=60),
    T.Resize((30, 40), "lanczos"),
    T.RandomCrop(24, 4, pad_if_needed=True, fill=3, padding_mode="edge"),
    T.Pad(2, padding_mode="reflect"),
    T.CenterCrop(28),
    T.RandomRotation(20, "bilinear", fill=9),
    T.RandomAffine(10, (0.1, 0.2), (0.8, 1.2), 5),
    T.RandomPerspective(),
    T.RandomApply([T.ColorJitter(0.4, 0.4, 0.4, 0.1), T.RandomGrayscale(0.5)], 0.8),
    T.RandomChoice([T.RandomPosterize(3, 1.0), T.RandomSolarize(100, 1.0)], [1, 2]),
    T.RandomOrder([T.RandomEqualize(), T.RandomAutocontrast(), T.RandomAdjustSharpness(2.0), T.RandomInvert()]),
    T.RandomPhotometricDistort(),
    T.RandomChannelPermutation(),
    T.AutoAugment(),
    T.RandAugment(3, 12),
    T.TrivialAugmentWide(),
    T.GaussianBlur(5, (0.1, 2.0)),
    T.BucketResize([(16, 24), (24, 16)]),
    T.ResizedCenterCrop(16),
    T.RandomHorizontalFlip(),
    T.RandomVerticalFlip(),
    T.Grayscale(1),
    T.Normalize(0.5, 0.25),
    T.RandomErasing(1.0, value="random"),
]


def test_every_class_round_trips_and_replays():
    assert {type(op).__name__ for op in EVERY} | {"Compose", "ColorJitter", "RandomGrayscale"} >= {
        "RandomErasing", "Normalize", "RandAugment",
    }  # fmt: skip
    assert T.from_json(T.to_json(EVERY)) == EVERY
    image = make_image(1, 90, 70)
    for seed in range(5):
        once, params = T.apply(EVERY, image, seed=seed, return_params=True)
        assert once.dtype == np.float32
        assert once.shape == (16, 16, 1)
        assert np.array_equal(T.replay(json.loads(json.dumps(params)), image), once)
        assert np.array_equal(T.apply(EVERY, image, seed=seed), once)


def test_the_loader_equals_apply(tmp_path):
    (tmp_path / "in").mkdir()
    images = [make_image(number, 90 + number, 70) for number in range(6)]
    for number, pixels in enumerate(images):
        Image.fromarray(pixels).save(tmp_path / "in" / f"{number}.png")
    knobs = {"batch_size": 6, "seed": 4, "output": "numpy", "memory_format": "channels_last", "num_workers": 2}
    with fl.Loader(tmp_path / "in", transforms=T.Compose(EVERY), **knobs) as loader:
        (batch,) = list(loader)
    for number, pixels in enumerate(images):
        assert np.array_equal(batch["image"][number], T.apply(EVERY, pixels, seed=4, index=number)), number


def test_the_type_of_an_image_is_kept():
    image = make_image(1, 20, 10)
    ops = [T.RandomInvert(1.0)]
    expected = 255 - image
    assert (np.asarray(T.apply(ops, Image.fromarray(image))) == expected).all()
    tensor = T.apply(ops, torch.from_numpy(image).permute(2, 0, 1))
    assert torch.equal(tensor.permute(1, 2, 0), torch.from_numpy(expected))
    assert T.apply([T.Grayscale()], Image.fromarray(image)).mode == "L"
    with pytest.raises(OptionError, match="cannot contain floats"):
        T.apply([T.Normalize(0.5, 0.5)], Image.fromarray(image))


def test_from_torchvision():
    theirs = v2.Compose(
        [
            v2.RandomResizedCrop(32, antialias=True),
            v2.RandomHorizontalFlip(),
            v2.RandomApply([v2.ColorJitter(0.4, 0.4, 0.4, 0.1)], p=0.8),
            v2.RandomGrayscale(0.2),
            v2.GaussianBlur(9, (0.1, 2.0)),
            v2.RandomCrop(20, padding=[1, 2, 3, 4], padding_mode="reflect"),
            v2.RandomAffine(10, shear=3),
            v2.RandAugment(),
            v2.ToImage(),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize([0.1, 0.2, 0.3], [0.4, 0.5, 0.6]),
            v2.RandomErasing(0.3, value="random"),
        ]
    )
    assert T.from_torchvision(theirs) == [
        T.RandomResizedCrop(32),
        T.RandomHorizontalFlip(),
        T.RandomApply([T.ColorJitter(0.4, 0.4, 0.4, 0.1)], 0.8),
        T.RandomGrayscale(0.2),
        T.GaussianBlur(9, (0.1, 2.0)),
        T.RandomCrop(20, [1, 2, 3, 4], padding_mode="reflect"),
        T.RandomAffine(10, shear=3),
        T.RandAugment(),
        T.Normalize([0.1, 0.2, 0.3], [0.4, 0.5, 0.6]),
        T.RandomErasing(0.3, value="random"),
    ]
    with pytest.raises(OptionError, match="LinearTransformation"):
        T.from_torchvision(v2.LinearTransformation(torch.eye(12), torch.zeros(12)))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: [T.RandomHorizontalFlip(2)], "p: 2 is not a number of at least 0 and at most 1"),
        (lambda: [T.RandomHorizontalFlip(float("nan"))], "p: nan is not a number"),
        (lambda: [T.CenterCrop(8), T.RandomApply([T.RandomInvert(float("inf"))])], "p: inf is not a number"),
        (lambda: [T.CenterCrop(8), T.RandomPosterize(9)], "number 2 (RandomPosterize): bits"),
        (lambda: [T.CenterCrop(-3)], "size"),
        (lambda: [T.ColorJitter(hue=0.7)], "hue must be"),
        (lambda: [T.ColorJitter(brightness=-1)], "brightness"),
        (lambda: [T.GaussianBlur(4)], "kernel_size"),
        (lambda: [T.CenterCrop(8), T.GaussianBlur(23)], "number 2 (GaussianBlur): a kernel of 23x23"),
        (lambda: [T.Normalize(0.5, 0.5), T.RandomInvert()], "number 2 (RandomInvert): Normalize must come last"),
        (lambda: [T.RandomApply([T.Normalize(0.5, 0.5)])], "outermost"),
        (lambda: [T.RandomErasing(value="random")], "needs Normalize in front"),
        (lambda: [T.Grayscale(1), T.Normalize([0.1, 0.2, 0.3], 0.5)], "number 2 (Normalize)"),
        (lambda: [T.Grayscale(2)], "num_output_channels"),
        (lambda: [T.RandomApply([T.Grayscale(1)])], "channels would be random"),
        (lambda: [T.RandAugment(magnitude=31)], "magnitude"),
        (lambda: [T.RandomRotation(10, "lanczos")], "interpolation"),
        (lambda: [T.RandomAffine(0, scale=(0, 1))], "scale"),
        (lambda: [T.RandomChoice([T.RandomInvert()], [0])], "weights"),
    ],
)
def test_bad_parameters_are_refused_when_the_loader_is_made(tmp_path, make, message):
    Image.fromarray(make_image(1, 20, 20)).save(tmp_path / "a.png")
    with pytest.raises(OptionError) as caught:
        fl.Loader(tmp_path, transforms=make())
    assert message in str(caught.value)


@pytest.mark.parametrize("views", [False, True])
def test_fast_decoding_works_for_several_steps_and_views(tmp_path, views):
    """DCT scaling moves pixels a little: that it does shows that it is used, that it is little that it is right."""
    y, x = np.mgrid[0:1200, 0:1600]
    smooth = np.stack([x * 255 / 1600, y * 255 / 1200, (x + y) * 255 / 2800], axis=-1).astype(np.uint8)
    for number, exif in enumerate((1, 6)):
        header = Image.Exif()
        header[0x0112] = exif
        Image.fromarray(smooth).save(tmp_path / f"{number}.jpg", quality=95, exif=header)
    recipe = [T.Resize((100, 120)), T.RandomInvert(1.0), T.Resize((60, 60))]
    transforms = {"image": {"a": recipe, "b": recipe[:1]} if views else recipe}
    made = {}
    for decode in ("exact", "fast"):
        with fl.Loader(tmp_path, transforms=transforms, dtype="uint8", output="numpy", decode=decode) as loader:
            (batch,) = list(loader)
        made[decode] = batch["image"]["a"] if views else batch["image"]
    apart = difference(made["exact"], made["fast"])
    assert apart[0].max() > 0
    assert apart[1].max() > 0
    assert apart.max() <= 4
