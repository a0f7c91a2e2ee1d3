"""The engine against a slow model: random configurations, walks over epochs, and resumes on other ranks.

`FEEDLINE_MODEL_CASES` sets how many (the default is small enough for every run; `make fuzz` asks for many more), and
`FEEDLINE_MODEL_SEED` where they begin. A failure names the case: run it alone by setting both.
"""

from __future__ import annotations

import io
import json
import os
import random
from collections import Counter

import feedline as fl
import order_model as model
import pytest
from feedline import samplers
from feedline import transforms as T
from PIL import Image

CASES = int(os.environ.get("FEEDLINE_MODEL_CASES", "300"))
FIRST = int(os.environ.get("FEEDLINE_MODEL_SEED", "0"))
SHAPES = [(24, 16), (16, 24), (30, 20)]
SAMPLES = 320


def images_of_every_shape():
    images = []
    for size in SHAPES:
        buffer = io.BytesIO()
        Image.new("RGB", size, (9, 99, 199)).save(buffer, "PNG")
        images.append(buffer.getvalue())
    return images


@pytest.fixture(scope="module")
def everything(tmp_path_factory):
    """A pack of tiny images with labels: three shapes, unequal classes."""
    rng = random.Random(7)
    images = images_of_every_shape()
    rows = [{"image": images[rng.randrange(3)], "label": int(rng.triangular(0, 6, 0))} for _ in range(SAMPLES)]
    return fl.pack(
        rows, tmp_path_factory.mktemp("model") / "pack", schema={"image": "image", "label": "int"}, progress=False
    )


def size_of(image):
    return None if image.startswith(b"bad") else Image.open(io.BytesIO(image)).size


class Walk:
    """One random case: a configuration, its data, and how far each rank came."""

    def __init__(self, everything, number):
        self.rng = random.Random(number)
        self.data, self.config, self.knobs = self.configuration(everything)
        self.epoch = 0
        self.batch = 0
        # A mix's weights in epochs that begin from now on; `config` has those of this one.
        self.coming = self.config.weights

    def configuration(self, everything):
        rng = self.rng
        samples = rng.choice([1, 2, 3, 7, 24, 60, rng.randrange(1, SAMPLES)])
        chosen = [rng.randrange(SAMPLES) for _ in range(samples)]
        kinds = ["sequential", "full", "block", "repeating", "weighted", "weighted once", "balanced", "mix"]
        kind = rng.choice([*kinds, "buckets", "listed", "per epoch"])
        config = model.Config(
            kind,
            samples,
            seed=rng.choice([0, 1, rng.randrange(1 << 63)]),
            batch_size=rng.randrange(1, 9),
            world_size=rng.choice([1, 1, 2, 3, 4]),
            drop_last=rng.random() < 0.4,
        )
        data, config, knobs = getattr(self, "data_" + kind.replace(" ", "_"))(everything, chosen, config)
        return data, config, knobs

    def selected(self, everything, chosen):
        """The samples, as one selection or as several joined."""
        if len(chosen) < 4 or self.rng.random() < 0.5:
            return everything.select(chosen)
        middle = self.rng.randrange(1, len(chosen))
        return fl.concat([everything.select(chosen[:middle]), everything.select(chosen[middle:])])

    def some_count(self, most=None):
        return self.rng.choice([None, self.rng.randrange(1, 40 if most is None else most + 1)])

    def data_sequential(self, everything, chosen, config):
        knobs = self.rng.choice([{}, {"sampler": samplers.Sequential()}])
        return self.selected(everything, chosen), config, knobs

    def data_full(self, everything, chosen, config):
        count = self.some_count(len(chosen))
        knobs = {"shuffle": True} if count is None else {"sampler": samplers.Random(num_samples=count)}
        return self.selected(everything, chosen), model.replace(config, count=count), knobs

    def data_block(self, everything, chosen, config):
        block, window = self.rng.randrange(1, 70), self.rng.randrange(1, 9)
        knobs = {"sampler": samplers.Block(block, window)}
        return self.selected(everything, chosen), model.replace(config, block=block, window=window), knobs

    def data_repeating(self, everything, chosen, config):
        count = self.some_count()
        knobs = {"sampler": samplers.Random(replacement=True, num_samples=count)}
        return self.selected(everything, chosen), model.replace(config, count=count), knobs

    def some_weights(self, count):
        weights = [self.rng.choice([0.0, 1.0, self.rng.random() * 9]) for _ in range(count)]
        weights[self.rng.randrange(count)] = 2.5
        return tuple(weights)

    def data_weighted(self, everything, chosen, config):
        count, weights = self.some_count(), self.some_weights(len(chosen))
        knobs = {"sampler": samplers.Weighted(weights, num_samples=count)}
        return self.selected(everything, chosen), model.replace(config, count=count, weights=weights), knobs

    def data_weighted_once(self, everything, chosen, config):
        weights = self.some_weights(len(chosen))
        count = self.rng.randrange(1, sum(weight > 0 for weight in weights) + 1)
        knobs = {"sampler": samplers.Weighted(weights, num_samples=count, replacement=False)}
        return self.selected(everything, chosen), model.replace(config, count=count, weights=weights), knobs

    def data_balanced(self, everything, chosen, config):
        count = self.some_count()
        labels = tuple(everything[at]["label"] for at in chosen)
        knobs = {"sampler": samplers.Balanced(num_samples=count)}
        return self.selected(everything, chosen), model.replace(config, count=count, labels=labels), knobs

    def data_mix(self, everything, chosen, config):
        members = self.rng.randrange(1, min(4, len(chosen)) + 1)
        cuts = sorted(self.rng.sample(range(1, len(chosen)), members - 1))
        parts = [chosen[low:high] for low, high in zip([0, *cuts], [*cuts, len(chosen)], strict=True)]
        weights, count = self.some_weights(members), self.rng.randrange(1, 60)
        mixed = fl.mix(
            [(everything.select(part), weight) for part, weight in zip(parts, weights, strict=True)],
            epoch_samples=count,
        )
        lengths = tuple(map(len, parts))
        return mixed, model.replace(config, count=count, weights=weights, lengths=lengths), {}

    def data_buckets(self, everything, chosen, config):
        shuffle = self.rng.random() < 0.7
        # Buckets are numbered by when a shape is first met.
        shapes = [size_of(everything[at]["image"]) for at in chosen]
        numbers = {shape: number for number, shape in enumerate(dict.fromkeys(filter(None, shapes)))}
        buckets = tuple(numbers.get(shape) for shape in shapes)
        knobs = {"sampler": samplers.Buckets(shuffle=shuffle)}
        return self.selected(everything, chosen), model.replace(config, buckets=buckets, shuffle=shuffle), knobs

    def data_listed(self, everything, chosen, config):
        listed = tuple(self.rng.randrange(len(chosen)) for _ in range(self.rng.randrange(1, 50)))
        knobs = {"sampler": list(listed)}
        return self.selected(everything, chosen), model.replace(config, listed=listed), knobs

    def data_per_epoch(self, everything, chosen, config):
        class Own:
            name = "own"

            def indices(self, epoch):
                return model.per_epoch(len(chosen), epoch)

        return self.selected(everything, chosen), config, {"sampler": Own()}

    def loaders(self):
        """One loader per rank."""
        plain = {"output": "numpy", "decode": "none", "fields": ["label"]}
        threads = self.rng.randrange(1, 4)
        config = self.config
        same = {
            "batch_size": config.batch_size,
            "world_size": config.world_size,
            "drop_last": config.drop_last,
            "seed": config.seed,
            "num_workers": threads,
            "prefetch": self.rng.choice([None, 1, 3]),
        }
        return [fl.Loader(self.data, **{**plain, **same, **self.knobs}, rank=rank) for rank in range(config.world_size)]

    def step(self, loaders):
        """Some batches of an epoch on every rank: equal to the model's. Then, perhaps, a jump."""
        wanted = [self.wanted(rank)[self.batch :] for rank in range(len(loaders))]
        left = len(wanted[0])
        take = self.rng.choice([left, self.rng.randrange(left + 1)])
        for loader, batches in zip(loaders, wanted, strict=True):
            iteration = iter(loader)
            assert [self.received(iteration) for _ in range(take)] == batches[:take]
            if take == left:
                assert next(iteration, None) is None
        self.batch += take
        if self.config.kind == "mix" and self.rng.random() < 0.4:
            self.coming = self.some_weights(len(self.config.weights))
            for loader in loaders:
                loader.set_weights(self.coming)
        if take == left:
            self.begin(self.epoch + 1, 0)

    def wanted(self, rank):
        """A rank's batches of this epoch."""
        return model.rank_batches(self.config, self.epoch, rank)

    def received(self, iteration):
        return next(iteration)["index"].tolist()

    def begin(self, epoch, batch):
        """From here on, in an epoch that was not begun yet."""
        self.epoch, self.batch = epoch, batch
        self.config = model.replace(self.config, weights=self.coming)

    def resume(self, loaders):
        """Other loaders, with as many samples in a global batch but perhaps other ranks, from a saved state."""
        states = [json.dumps(self.state(loader)) for loader in loaders]
        assert len(set(states)) == 1
        size = self.config.global_batch
        fitting = [(size // world, world) for world in range(1, 5) if size % world == 0]
        self.config = self.config.with_ranks(*self.rng.choice(fitting))
        for loader in loaders:
            loader.close()
        loaders = self.loaders()
        for loader in loaders:
            loader.load_state_dict(json.loads(states[0]))
        return loaders

    def state(self, loader):
        return loader.state_dict()

    def jump(self, loaders):
        """A place of its own choice."""
        count = len(model.global_batches(self.config, 0))
        self.begin(self.rng.choice([0, 1, 5, 1000]), self.rng.randrange(count + 1))
        for loader in loaders:
            loader.seek(self.epoch, self.batch)
        if self.batch == count and count:
            # The place after the last batch: an epoch with nothing in it.
            assert all(list(loader) == [] for loader in loaders)
            self.begin(self.epoch + 1, 0)

    def go_on(self, loaders):
        """A broken-off epoch is finished from its state, as `skip(0)` does."""
        for loader in loaders:
            loader.skip(0)
        return loaders


@pytest.mark.parametrize("block", range(10))
def test_random_walks_equal_a_slow_model(everything, block):
    for number in range(FIRST + block, FIRST + CASES, 10):
        walk = Walk(everything, number)
        try:
            run(walk)
        except BaseException:
            print(f"case {number}: {walk.config} {walk.knobs}")
            raise


def run(walk):
    loaders = walk.loaders()
    counts = {len(loader) for loader in loaders}
    assert counts == {len(model.global_batches(walk.config, 0))}
    for _ in range(walk.rng.randrange(1, 5)):
        walk.step(loaders)
        choice = walk.rng.random()
        if choice < 0.6:
            loaders = walk.resume(loaders)
        elif choice < 0.8:
            walk.jump(loaders)
        else:
            loaders = walk.go_on(loaders)
    for loader in loaders:
        loader.close()


def test_the_model_is_not_empty():
    """A model that gave nothing would agree with an engine that gives nothing."""
    config = model.Config("full", 10, seed=3, batch_size=2, world_size=2)
    batches = [model.rank_batches(config, 0, rank) for rank in range(2)]
    assert sorted(sum(batches[0] + batches[1], [])) == list(range(10))
    assert batches[0] != model.rank_batches(config, 1, 0)


class MixedWalk(Walk):
    """The same with samples that are mixed: MixUp, CutMix or both with their neighbours, Mosaic with three of them."""

    def __init__(self, everything, number):
        super().__init__(everything, number)
        classes = 7
        self.group = self.rng.choice([2, 4])
        pairs = [T.MixUp(0.8, classes, per=self.rng.choice(["batch", "pair", "sample"])), T.CutMix(1.0, classes)]
        mixing = self.rng.choice([*pairs, T.RandomChoice(pairs)]) if self.group == 2 else T.Mosaic(p=0.8)
        self.config = self.config.with_ranks(self.config.batch_size * self.group, self.config.world_size)
        self.knobs |= {"fields": ["image", "label"], "transforms": [T.Resize((8, 8))], "decode": "exact"}
        self.knobs |= {"batch_transforms": [mixing], "dtype": "float32"}
        self.labels = [self.data[at]["label"] for at in range(len(self.data))]

    def resume(self, loaders):
        """Ranks whose batches are whole groups."""
        states = [json.dumps(self.state(loader)) for loader in loaders]
        assert len(set(states)) == 1
        size = self.config.global_batch
        fitting = [(size // world, world) for world in range(1, 5) if size % (world * self.group) == 0]
        self.config = self.config.with_ranks(*self.rng.choice(fitting))
        for loader in loaders:
            loader.close()
        loaders = self.loaders()
        for loader in loaders:
            loader.load_state_dict(json.loads(states[0]))
        return loaders

    def received(self, iteration):
        """A mixed label has the class of its sample and at most one other."""
        batch = next(iteration)
        index = batch["index"].tolist()
        if self.group == 2:
            for row, soft in enumerate(batch["label"]):
                classes = set(soft.nonzero()[0].tolist())
                assert abs(float(soft.sum()) - 1) < 1e-5
                # The partner is the neighbour in the global order, which may be another rank's.
                assert len(classes) <= 2
                assert len(classes) == 1 or self.labels[index[row]] in classes
        return index


@pytest.mark.parametrize("block", range(5))
def test_mixing_changes_neither_orders_nor_resumes(everything, block):
    for number in range(FIRST + block, FIRST + CASES // 5, 5):
        walk = MixedWalk(everything, number)
        try:
            run(walk)
        except BaseException:
            print(f"case {number}: {walk.config} {walk.knobs}")
            raise


class Refusing:
    """A function of samples that finds some of them bad."""

    def __init__(self, refused):
        self.refused = sorted(refused)

    def __call__(self, sample):
        if sample["index"] in self.refused:
            raise ValueError("not this one")
        return sample


class BadWalk(Walk):
    """The same with bad samples among the data, and perhaps a function that finds others bad: left out, or replaced."""

    def __init__(self, everything, number):
        super().__init__(everything, number)
        self.knobs["on_error"] = self.on_error = self.rng.choice(["skip", "replace"])
        self.knobs |= {"max_errors": 10_000, "fields": ["image"], "transforms": [T.CenterCrop(8)], "decode": "exact"}
        self.bad = {at for at in range(len(self.data)) if self.data[at]["image"][:3] == b"bad"}
        self.refused = set()
        if self.rng.random() < 0.3:
            self.refused = {at for at in range(len(self.data)) if self.rng.random() < 0.15} - self.bad
            self.knobs |= {"map": Refusing(self.refused), "map_workers": "threads"}

    def selected(self, everything, chosen):
        return everything.select(chosen)

    def data_buckets(self, everything, chosen, config):
        """One that has no size waits in the bucket with the most samples, the first of them."""
        data, config, knobs = super().data_buckets(everything, chosen, config)
        counts = Counter(bucket for bucket in config.buckets if bucket is not None)
        fullest = max(counts, key=lambda bucket: (counts[bucket], -bucket), default=0)
        buckets = tuple(fullest if bucket is None else bucket for bucket in config.buckets)
        return data, model.replace(config, buckets=buckets), knobs

    def wanted(self, rank):
        return [
            model.survivors(self.config, self.epoch, batch, self.bad, self.on_error, self.refused)
            for batch in super().wanted(rank)
        ]

    def received(self, iteration):
        """A batch that cannot be is an error, and the next one comes after it."""
        try:
            return super().received(iteration)
        except fl.TooManyBadSamplesError:
            return None

    def state(self, loader):
        """Which bad samples a rank has met differs; the place does not."""
        return {name: value for name, value in loader.state_dict().items() if name != "bad"}


@pytest.fixture(scope="module")
def partly_bad(tmp_path_factory):
    """As `everything`, but one image in six is none."""
    rng = random.Random(8)
    images = images_of_every_shape()
    rows = [
        {"image": b"bad" + images[0] if rng.random() < 1 / 6 else images[rng.randrange(3)], "label": rng.randrange(4)}
        for _ in range(SAMPLES)
    ]
    kinds = {"image": "image", "label": "int"}
    return fl.pack(rows, tmp_path_factory.mktemp("bad") / "pack", schema=kinds, image="as-is", progress=False)


@pytest.mark.parametrize("block", range(5))
def test_bad_samples_are_skipped_or_replaced_as_in_the_model(partly_bad, block):
    for number in range(FIRST + block, FIRST + CASES // 3, 5):
        walk = BadWalk(partly_bad, number)
        try:
            check_bad(walk)
            run(walk)
        except BaseException:
            print(f"case {number}: {walk.config} {walk.knobs}")
            raise


def test_a_function_counts_substitutes_as_the_engine_does(partly_bad):
    """Three samples at 23 positions: a repeated candidate is not another try."""
    check_bad(BadWalk(partly_bad, 357))


def check_bad(walk):
    """Whole epochs, batch by batch."""
    for epoch in (0, 3):
        for rank, loader in enumerate(walk.loaders()):
            loader.set_epoch(epoch)
            iteration = iter(loader)
            for batch in model.rank_batches(walk.config, epoch, rank):
                wanted = model.survivors(walk.config, epoch, batch, walk.bad, walk.on_error, walk.refused)
                if wanted is None:
                    with pytest.raises(fl.TooManyBadSamplesError):
                        next(iteration)
                else:
                    assert next(iteration)["index"].tolist() == wanted
            assert next(iteration, None) is None
            loader.close()
