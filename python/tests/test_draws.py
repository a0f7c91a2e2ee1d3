"""What random transforms draw, against what torchvision draws: 20,000 of each, Kolmogorov-Smirnov or chi-squared.

Bounds are those that equal distributions miss once in 10,000 times. Seeds are fixed: a test fails always or never.
"""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter

import numpy as np
import pytest
from feedline import _feedline
from feedline import transforms as T
from feedline.transforms.apply import specs

torch = pytest.importorskip("torch")
v2 = pytest.importorskip("torchvision.transforms.v2")
affine_of = pytest.importorskip("torchvision.transforms.functional")._get_inverse_affine_matrix

DRAWS = 20_000
WIDTH, HEIGHT = 40, 30


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(11)
    np.random.seed(11)  # noqa: NPY002 - torchvision's own, where it uses NumPy


def blank(width=WIDTH, height=HEIGHT):
    return torch.zeros(3, height, width, dtype=torch.uint8)


def ours(*ops, width=WIDTH, height=HEIGHT, count=DRAWS):
    """The actions that the engine draws for so many samples."""
    text, pixels = json.dumps(specs("draws", list(ops))), bytes(width * height * 3)
    form = "float32" if any(isinstance(op, T.Normalize) for op in ops) else "uint8"
    drawn = (
        _feedline.apply(text, pixels, (height, width), (5, 0, index), form, "channels_last")[1]
        for index in range(count)
    )
    return [json.loads(params)["actions"] for params in drawn]


def theirs(op, width=WIDTH, height=HEIGHT, count=DRAWS):
    """What torchvision draws for as many calls."""
    given = [blank(width, height)]
    return [op.make_params(given) for _ in range(count)]


def alike(mine, other):
    """Kolmogorov and Smirnov's distance of two samples is what chance allows."""
    mine, other = np.sort(np.asarray(mine, float)), np.sort(np.asarray(other, float))
    both = np.concatenate([mine, other])
    apart = np.abs(
        np.searchsorted(mine, both, side="right") / len(mine) - np.searchsorted(other, both, side="right") / len(other)
    )
    return apart.max() < 2.225 * math.sqrt((len(mine) + len(other)) / (len(mine) * len(other)))


def as_often(mine, other):
    """Counts of two samples of the same length differ by what chance allows: chi-squared."""
    mine, other = Counter(mine), Counter(other)
    keys = set(mine) | set(other)
    # Rare kinds are counted together: the test is for counts that are not small.
    rare = {key for key in keys if mine[key] + other[key] < 20}
    common = [(mine[key], other[key]) for key in keys - rare]
    common.append((sum(mine[key] for key in rare), sum(other[key] for key in rare)))
    found = sum((a - b) ** 2 / (a + b) for a, b in common if a + b)
    degrees = max(1, sum(1 for a, b in common if a + b) - 1)
    bound = degrees * (1 - 2 / (9 * degrees) + 3.719 * math.sqrt(2 / (9 * degrees))) ** 3
    return found < bound


def calls_of(op, image, count=DRAWS):
    """How many of so many calls of a transform with a probability do something."""
    done = []
    op.transform = lambda inpt, _params: done.append(1) or inpt
    for _ in range(count):
        op(image)
    return len(done)


COINS = [
    (T.RandomHorizontalFlip(0.3), v2.RandomHorizontalFlip(0.3), "HorizontalFlip"),
    (T.RandomVerticalFlip(0.6), v2.RandomVerticalFlip(0.6), "VerticalFlip"),
    (T.RandomGrayscale(0.1), v2.RandomGrayscale(0.1), "Gray"),
    (T.RandomInvert(0.25), v2.RandomInvert(0.25), "Invert"),
    (T.RandomPosterize(4, 0.35), v2.RandomPosterize(4, 0.35), "Posterize"),
    (T.RandomSolarize(128, 0.45), v2.RandomSolarize(128, 0.45), "Solarize"),
    (T.RandomAutocontrast(0.55), v2.RandomAutocontrast(0.55), "Autocontrast"),
    (T.RandomEqualize(0.65), v2.RandomEqualize(0.65), "Equalize"),
    (T.RandomAdjustSharpness(2.0, 0.75), v2.RandomAdjustSharpness(2.0, 0.75), "Sharpness"),
    (T.RandomPerspective(0.4, 0.85), v2.RandomPerspective(0.4, 0.85), "Warp"),
]


def test_probabilities():
    """All of one list: their coins are independent as well."""
    mine = ours(*(op for op, _, _ in COINS), width=12, height=8)
    counts = Counter(action["do"] for actions in mine for action in actions)
    for op, other, name in COINS:
        expected = calls_of(other, blank(3, 2))
        assert abs(counts[name] - expected) < 3.9 * math.sqrt(2 * DRAWS * other.p * (1 - other.p)), op
    pairs = Counter(
        (sum(a["do"] == "HorizontalFlip" for a in actions), sum(a["do"] == "VerticalFlip" for a in actions))
        for actions in mine
    )
    both = DRAWS * 0.3 * 0.6
    assert abs(pairs[1, 1] - both) < 4 * math.sqrt(both)


@pytest.mark.parametrize(
    ("width", "height", "scale"), [(WIDTH, HEIGHT, (0.08, 1.0)), (90, 10, (0.5, 1.0)), (9, 80, (0.08, 1.0))]
)
def test_random_resized_crop(width, height, scale):
    """A narrow image takes the way out after ten tries as often, too."""
    expected = theirs(v2.RandomResizedCrop(8, scale, antialias=True), width, height)
    mine = [actions[0] for actions in ours(T.RandomResizedCrop(8, scale), width=width, height=height)]
    for name in ("left", "top", "width", "height"):
        assert alike([a[name] for a in mine], [p[name] for p in expected]), name
    assert as_often([(a["width"], a["height"]) for a in mine], [(p["width"], p["height"]) for p in expected])


@pytest.mark.parametrize("padding", [None, (1, 2, 3, 4)])
def test_random_crop(padding):
    theirs_padding = None if padding is None else list(padding)
    expected = theirs(v2.RandomCrop((9, 12), theirs_padding))
    mine = [actions[-1] for actions in ours(T.RandomCrop((9, 12), padding))]
    assert as_often([a["left"] for a in mine], [p["left"] for p in expected])
    assert as_often([a["top"] for a in mine], [p["top"] for p in expected])


def coefficients(drawn):
    return np.array([[float(c) for c in actions[0]["coefficients"]] for actions in drawn])


def test_random_rotation():
    found = coefficients(ours(T.RandomRotation((-20, 50))))
    angles = np.degrees(np.arctan2(-found[:, 1], found[:, 0]))
    expected = np.array([p["angle"] for p in theirs(v2.RandomRotation((-20, 50)))])
    assert alike(angles, expected) or alike(-angles, expected)
    assert alike(np.abs(angles), np.abs(expected))


def test_random_affine():
    arguments = (25, (0.2, 0.3), (0.7, 1.4), (-5, 10, -8, 3))
    found = coefficients(ours(T.RandomAffine(*arguments)))
    drawn = theirs(v2.RandomAffine(*arguments))
    # Pillow's matrix: about the middle, from the result to the image.
    expected = np.array(
        [
            affine_of(
                [WIDTH * 0.5, HEIGHT * 0.5], p["angle"], [float(t) for t in p["translate"]], p["scale"], p["shear"]
            )
            for p in drawn
        ]
    )
    for at in (0, 1, 3, 4):
        assert alike(found[:, at], expected[:, at]), at
    # Where the middle comes from: whole pixels, moved back through the matrix.
    middle = np.array([WIDTH / 2, HEIGHT / 2])
    moved = [np.linalg.solve(m.reshape(2, 3)[:, :2], middle - m.reshape(2, 3)[:, 2]) - middle for m in found]
    # The engine's map knows pixels by their middles, half a pixel from their corners.
    halves = [np.linalg.solve(m.reshape(2, 3)[:, :2], np.full(2, 0.5)) - 0.5 for m in found]
    for axis in (0, 1):
        other = [p["translate"][axis] for p in drawn]
        plain = [round(float(move[axis]), 6) for move in moved]
        shifted = [round(float(move[axis] - half[axis]), 6) for move, half in zip(moved, halves, strict=True)]
        assert as_often([round(x) for x in plain], other) or as_often([round(x) for x in shifted], other), axis


def test_random_perspective():
    found = coefficients(ours(T.RandomPerspective(0.4, 1.0)))
    expected = np.array([p["coefficients"] for p in theirs(v2.RandomPerspective(0.4, 1.0))])
    for at in range(8):  # corners are whole pixels, so many maps are alike but for the last bits of single precision
        assert alike(found[:, at].round(4), expected[:, at].round(4)), at


def test_sizes():
    for mine, other in (
        (T.ScaleJitter((60, 50), (0.3, 1.5)), v2.ScaleJitter((60, 50), (0.3, 1.5))),
        (T.RandomShortestSize([20, 25, 35], 60), v2.RandomShortestSize([20, 25, 35], 60)),
        (T.RandomResize(8, 21), v2.RandomResize(8, 21)),
    ):
        expected = [p["size"] for p in theirs(other)]
        if isinstance(other, v2.RandomResize):  # a shorter side
            assert as_often([min(a[-1]["height"], a[-1]["width"]) for a in ours(mine)], [s[0] for s in expected])
            continue
        whole = (HEIGHT, WIDTH)  # an image that has the size already is not resized
        found = [(a[-1]["height"], a[-1]["width"]) if a else whole for a in ours(mine)]
        assert as_often(found, [tuple(size) for size in expected]), mine


def test_zoom_out():
    expected = [p["padding"] for p in theirs(v2.RandomZoomOut(side_range=(1.0, 3.0), p=1.0))]
    mine = [actions[0] for actions in ours(T.RandomZoomOut(side_range=(1.0, 3.0), p=1.0))]
    assert alike([-a["left"] for a in mine], [p[0] for p in expected])
    assert alike([-a["top"] for a in mine], [p[1] for p in expected])
    assert alike([a["width"] for a in mine], [p[0] + p[2] + WIDTH for p in expected])
    assert alike([a["height"] for a in mine], [p[1] + p[3] + HEIGHT for p in expected])


def test_color_jitter():
    arguments = (0.4, (0.5, 0.9), 0.2, (-0.1, 0.3))
    drawn = ours(T.ColorJitter(*arguments), width=4, height=3)
    expected = theirs(v2.ColorJitter(*arguments))
    names = ["Brightness", "Contrast", "Saturation", "Hue"]
    for name in names:
        key = "turn" if name == "Hue" else "factor"
        mine = [next(a[key] for a in actions if a["do"] == name) for actions in drawn]
        assert alike(mine, [p[f"{name.lower()}_factor"] for p in expected]), name
    orders = [tuple(names.index(a["do"]) for a in actions) for actions in drawn]
    assert as_often(orders, [tuple(p["fn_idx"].tolist()) for p in expected])


def test_photometric_distort():
    drawn = ours(T.RandomPhotometricDistort(p=0.4), width=4, height=3)
    expected = theirs(v2.RandomPhotometricDistort(p=0.4))
    keys = {"Brightness": "brightness_factor", "Contrast": "contrast_factor", "Saturation": "saturation_factor"}
    keys |= {"Hue": "hue_factor", "PermuteChannels": "channel_permutation"}
    mine = [frozenset(a["do"] for a in actions) for actions in drawn]
    assert as_often(mine, [frozenset(n for n, key in keys.items() if p[key] is not None) for p in expected])
    for name, key in keys.items():
        if name == "PermuteChannels":
            continue
        value = "turn" if name == "Hue" else "factor"
        values = [a[value] for actions in drawn for a in actions if a["do"] == name]
        assert alike(values, [float(p[key]) for p in expected if p[key] is not None]), name
    early = [
        [a["do"] for a in actions].index("Contrast") == 0
        or {a["do"] for a in actions[: [a["do"] for a in actions].index("Contrast")]} <= {"Brightness"}
        for actions in drawn
        if {"Contrast", "Saturation"} <= {a["do"] for a in actions}
    ]
    before = [
        p["contrast_before"]
        for p in expected
        if p["contrast_factor"] is not None and p["saturation_factor"] is not None
    ]
    assert abs(np.mean(early) - np.mean(before)) < 0.05
    orders = [tuple(a["order"]) for actions in drawn for a in actions if a["do"] == "PermuteChannels"]
    assert uniform(orders, list(itertools.permutations(range(3))))


def uniform(values, kinds):
    """Each kind as often as chance allows."""
    counts, expected = Counter(values), len(values) / len(kinds)
    assert set(counts) <= set(kinds)
    degrees = len(kinds) - 1
    bound = degrees * (1 - 2 / (9 * degrees) + 3.719 * math.sqrt(2 / (9 * degrees))) ** 3
    return sum((counts[kind] - expected) ** 2 / expected for kind in kinds) < bound


def test_channel_permutation():
    mine = [tuple(actions[0]["order"]) for actions in ours(T.RandomChannelPermutation(), width=4, height=3)]
    expected = [tuple(p["permutation"].tolist()) for p in theirs(v2.RandomChannelPermutation())]
    assert as_often(mine, expected)


def test_blur_jpeg_and_erasing():
    mine = [a[0]["sigma"] for a in ours(T.GaussianBlur(3, (0.3, 1.7)), width=4, height=3)]
    assert alike(mine, [p["sigma"][0] for p in theirs(v2.GaussianBlur(3, (0.3, 1.7)))])
    mine = [a[0]["quality"] for a in ours(T.JPEG((10, 60)), width=8, height=8)]
    assert as_often(mine, [p["quality"] for p in theirs(v2.JPEG((10, 60)))])
    mine = [a[0] for a in ours(T.Normalize(0.5, 0.5), T.RandomErasing(1.0, (0.02, 0.6))) if a]
    expected = [p for p in theirs(v2.RandomErasing(1.0, (0.02, 0.6))) if p["v"] is not None]
    assert abs(len(mine) - len(expected)) < 4 * math.sqrt(DRAWS / 2)
    for name, other in (("top", "i"), ("left", "j"), ("height", "h"), ("width", "w")):
        assert alike([a[name] for a in mine], [p[other] for p in expected]), name


def test_compositions():
    """How often, which and in which order: as torchvision's containers decide."""
    kinds = ["Invert", "Equalize", "Autocontrast"]
    mine = [T.RandomInvert(1.0), T.RandomEqualize(1.0), T.RandomAutocontrast(1.0)]
    seen = []
    other = [v2.Lambda(lambda image, name=name: seen.append(name) or image) for name in kinds]
    small = {"width": 4, "height": 3}
    for ours_op, theirs_op in (
        (T.RandomApply(mine, 0.3), v2.RandomApply(other, 0.3)),
        (T.RandomChoice(mine, [1, 2, 5]), v2.RandomChoice(other, [1, 2, 5])),
        (T.RandomOrder(mine), v2.RandomOrder(other)),
    ):
        expected = []
        for _ in range(DRAWS):
            seen.clear()
            theirs_op(blank(4, 3))
            expected.append(tuple(seen))
        found = [tuple(a["do"] for a in actions) for actions in ours(ours_op, **small)]
        assert as_often(found, expected), ours_op


def kind(action):
    """An action in torchvision's words; warps that move nothing have no name of their own."""
    name = {"Saturation": "Color", "Autocontrast": "AutoContrast"}.get(action["do"], action["do"])
    if name == "Sample":
        action = action["whence"]
    if name not in ("Warp", "Sample"):
        return name
    a, b, c, d, e, f = (float(value) for value in action["coefficients"])
    if abs(a - 1) + abs(b) + abs(c) + abs(d) + abs(e - 1) + abs(f) < 1e-9:
        return "Still"
    if abs(a - 1) + abs(e - 1) > 1e-9:
        return "Rotate"
    return "ShearX" if b else "ShearY" if d else "TranslateX" if c else "TranslateY"


STILL = {"Rotate", "ShearX", "ShearY", "TranslateX", "TranslateY"}


def recorded(policy, image, count):
    """The operations of so many calls, by torchvision's names, with their strengths."""
    seen = []

    def note(given, name, magnitude, *_, **__):
        seen.append((name, float(magnitude)))
        return given

    policy._apply_image_or_video_transform = note
    found = []
    for _ in range(count):
        seen.clear()
        policy(image)
        found.append([("Still", 0.0) if name in STILL and not value else (name, value) for name, value in seen])
    return found


POLICIES = [
    (T.RandAugment(2, 9), v2.RandAugment(2, 9)),
    (T.TrivialAugmentWide(), v2.TrivialAugmentWide()),
    (T.AutoAugment("imagenet"), v2.AutoAugment(v2.AutoAugmentPolicy.IMAGENET)),
    (T.AutoAugment("cifar10"), v2.AutoAugment(v2.AutoAugmentPolicy.CIFAR10)),
    (T.AutoAugment("svhn"), v2.AutoAugment(v2.AutoAugmentPolicy.SVHN)),
]


@pytest.mark.parametrize(("mine", "other"), POLICIES, ids=lambda op: type(op).__name__)
def test_policies(mine, other):
    found = ours(mine)
    expected = recorded(other, blank(), DRAWS)
    names = [tuple(kind(action) for action in actions) for actions in found]
    # Translations are cut to whole pixels, so a weak one moves nothing.
    weak = {"TranslateX", "TranslateY"}
    wanted = [
        tuple("Still" if name in weak and abs(value) < 1 else name for name, value in ops if name != "Identity")
        for ops in expected
    ]
    assert as_often(names, wanted)
    for name in ("Brightness", "Contrast", "Sharpness"):
        factors = [round(a["factor"], 4) for actions in found for a in actions if a["do"] == name]
        assert as_often(factors, [round(1 + value, 4) for ops in expected for n, value in ops if n == name]), name
    bits = [a["bits"] for actions in found for a in actions if a["do"] == "Posterize"]
    assert as_often(bits, [int(value) for ops in expected for name, value in ops if name == "Posterize"])


def test_augmix():
    """Shares of the image and of its chains, how long those are, and of what."""
    count = DRAWS // 2
    found = [actions[0] for actions in ours(T.AugMix(), width=16, height=12, count=count)]
    policy = v2.AugMix()
    shares, seen, depths, names = [], [], [], []

    def note(given, name, _magnitude, *_, **__):
        seen.append(name)
        return given

    dirichlet = policy._sample_dirichlet

    def draw(params):
        drawn = dirichlet(params)
        shares.append(drawn.flatten().tolist())
        return drawn

    policy._apply_image_or_video_transform, policy._sample_dirichlet = note, draw
    for _ in range(count):
        seen.clear()
        policy(blank(16, 12))
        names.extend(seen)
        depths.append(len(seen))
    own = [pair[0] for pair in shares if len(pair) == 2]
    chains = [share for three in shares if len(three) == 3 for share in three]
    assert alike([a["own"] for a in found], own)
    mine = [weight / (1 - a["own"]) for a in found for weight, _ in a["chains"] if a["own"] < 0.999]
    assert alike(mine, chains)
    lists = [[kind(action) for _, chain in a["chains"] for action in chain] for a in found]
    assert as_often([kind_ for kinds in lists for kind_ in kinds if kind_ not in STILL | {"Still"}],
                    [name for name in names if name not in STILL])  # fmt: skip
    moved = sum(kind_ in STILL | {"Still"} for kinds in lists for kind_ in kinds)
    other = sum(name in STILL for name in names)
    assert abs(moved - other) < 4 * math.sqrt(2 * max(moved, other))
    assert as_often([len(kinds) for kinds in lists], depths)
