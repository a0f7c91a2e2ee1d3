"""A slow model of order, ranks and resume: plain lists, one sample at a time, written from `docs/order.md`.

It shares no code with the engine. It makes whole epochs as lists and cuts them with slices, so that it can be read and
trusted; `test_model.py` compares the engine with it in random configurations.
"""

from __future__ import annotations

import math
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

MASK = (1 << 64) - 1
STEP = 0x9E3779B97F4A7C15
TABLE_LIMIT, STACK_LIMIT = 1 << 16, 256


def purpose(word: str) -> int:
    """Six letters as the number that separates one use of the seed from the others."""
    return int.from_bytes(word.encode(), "big")


def mix64(x: int) -> int:
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


class Draw:
    """Random numbers that depend on a key alone."""

    def __init__(self, *key: int) -> None:
        self.state = STEP
        for part in key:
            self.state = mix64(((self.state + STEP) & MASK) ^ mix64((part + STEP) & MASK))

    def bits(self) -> int:
        self.state = (self.state + STEP) & MASK
        return mix64(self.state)

    def unit(self) -> float:
        return (self.bits() >> 11) / (1 << 53)

    def below(self, bound: int) -> int:
        while True:
            wide = self.bits() * bound
            if wide & MASK >= (1 << 64) % bound:
                return wide >> 64


def fisher_yates(length: int, draw: Draw) -> list[int]:
    table = list(range(length))
    for last in range(length - 1, 0, -1):
        other = draw.below(last + 1)
        table[last], table[other] = table[other], table[last]
    return table


def feistel(length: int, draw: Draw) -> list[int]:
    bits = (length - 1).bit_length()
    left_bits = bits // 2
    right_bits = bits - left_bits
    keys = [draw.bits() for _ in range(8)]

    def scramble(value: int) -> int:
        left, right = value >> right_bits, value & ((1 << right_bits) - 1)
        for one, two in zip(keys[::2], keys[1::2], strict=True):
            left ^= mix64((right + one) & MASK) & ((1 << left_bits) - 1)
            right ^= mix64((left + two) & MASK) & ((1 << right_bits) - 1)
        return left << right_bits | right

    return [walk(scramble, position, length) for position in range(length)]


def walk(step, value: int, length: int) -> int:
    """Applies `step` until the value is inside."""
    value = step(value)
    while value >= length:
        value = step(value)
    return value


def shuffled(length: int, *key: int) -> list[int]:
    """The order of a whole data set."""
    draw = Draw(purpose("orders"), *key)
    return fisher_yates(length, draw) if length <= TABLE_LIMIT else feistel(length, draw)


def small(length: int, *key: int) -> list[int]:
    """The order of a window, a class, a bucket or a cycle."""
    draw = Draw(*key)
    return fisher_yates(length, draw) if length <= STACK_LIMIT else feistel(length, draw)


@dataclass(frozen=True)
class Config:
    """Everything that batches depend on."""

    kind: str
    samples: int
    seed: int = 0
    batch_size: int = 4
    world_size: int = 1
    drop_last: bool = False
    count: int | None = None
    block: int = 3
    window: int = 2
    weights: tuple[float, ...] = ()
    labels: tuple[int, ...] = ()
    buckets: tuple[int, ...] = ()
    lengths: tuple[int, ...] = ()
    listed: tuple[int, ...] = ()
    shuffle: bool = True

    @property
    def global_batch(self) -> int:
        return self.batch_size * self.world_size

    def with_ranks(self, batch_size: int, world_size: int) -> Config:
        return replace(self, batch_size=batch_size, world_size=world_size)


def positions(config: Config) -> int:
    """Samples per epoch."""
    if config.kind == "listed":
        return len(config.listed)
    return config.samples if config.count is None else config.count


def epoch_order(config: Config, epoch: int) -> list[int]:
    """An epoch over all ranks, as a list of samples."""
    make = {
        "sequential": lambda: list(range(config.samples)),
        "full": lambda: shuffled(config.samples, config.seed, epoch)[: positions(config)],
        "block": lambda: blocks(config, epoch),
        "repeating": lambda: repeating(config, epoch),
        "weighted": lambda: weighted(config, epoch),
        "weighted once": lambda: weighted_once(config, epoch),
        "balanced": lambda: balanced(config, epoch),
        "mix": lambda: mixed(config, epoch),
        "buckets": lambda: bucketed(config, epoch),
        "listed": lambda: list(config.listed),
        "per epoch": lambda: per_epoch(config.samples, epoch),
    }
    return make[config.kind]()


def per_epoch(samples: int, epoch: int) -> list[int]:
    """Some order that the test's own sampler gives."""
    return [(at * 7 + epoch) % samples for at in range(samples)]


def blocks(config: Config, epoch: int) -> list[int]:
    window = purpose("window")
    block = min(config.block, config.samples)
    count = -(-config.samples // block)
    places = shuffled(count, config.seed, epoch, window)
    whole, span = count * block, block * min(config.window, count)
    table = []
    for number, start in enumerate(range(0, whole, span)):
        inside = small(min(span, whole - start), window, config.seed, epoch, number)
        table += [places[(start + at) // block] * block + (start + at) % block for at in inside]
    return [walk(table.__getitem__, position, config.samples) for position in range(config.samples)]


def repeating(config: Config, epoch: int) -> list[int]:
    draws = (Draw(purpose("repeat"), config.seed, epoch, position) for position in range(positions(config)))
    return [draw.below(config.samples) for draw in draws]


def weighted(config: Config, epoch: int) -> list[int]:
    table = alias(config.weights)
    result = []
    for position in range(positions(config)):
        draw = Draw(purpose("weight"), config.seed, epoch, position)
        at = draw.below(len(table))
        stay, other = table[at]
        result.append(at if draw.unit() < stay else other)
    return result


def alias(weights: tuple[float, ...]) -> list[tuple[float, int]]:
    total = 0.0
    for weight in weights:
        total += weight
    chance = [weight * (len(weights) / total) for weight in weights]
    other = list(range(len(weights)))
    poor = [at for at, value in enumerate(chance) if value < 1.0]
    rich = [at for at, value in enumerate(chance) if value >= 1.0]
    while poor and rich:
        low, high = poor.pop(), rich[-1]
        other[low] = high
        chance[high] -= 1.0 - chance[low]
        if chance[high] < 1.0:
            poor.append(rich.pop())
    heaviest = max(range(len(weights)), key=lambda at: (weights[at], at))
    for at in poor + rich:
        chance[at], other[at] = (1.0, at) if weights[at] > 0 else (0.0, heaviest)
    return list(zip(chance, other, strict=True))


def weighted_once(config: Config, epoch: int) -> list[int]:
    keys = []
    for sample, weight in enumerate(config.weights):
        if weight > 0:
            unit = Draw(purpose("weight"), config.seed, epoch, sample, 1).unit()
            keys.append((-math.log(1.0 - unit) / weight, sample))
    return [sample for _, sample in sorted(keys)][: positions(config)]


def grouped(groups: tuple[int, ...]) -> list[list[int]]:
    """Samples by group, groups in ascending order."""
    return [[at for at, group in enumerate(groups) if group == wanted] for wanted in sorted(set(groups))]


def balanced(config: Config, epoch: int) -> list[int]:
    word, classes = purpose("balanc"), grouped(config.labels)
    result = []
    for position in range(positions(config)):
        turn, place = divmod(position, len(classes))
        chosen = small(len(classes), word, config.seed, epoch, 0, turn)[place]
        cycle, within = divmod(turn, len(classes[chosen]))
        members = classes[chosen]
        result.append(members[small(len(members), word, config.seed, epoch, 1 + chosen, cycle)[within]])
    return result


def shares(config: Config) -> list[int]:
    """Samples of each member of a mix: exact, the largest remainders rounded up."""
    total, count = 0.0, positions(config)
    for weight in config.weights:
        total += weight
    exact = [weight / total * count for weight in config.weights]
    result = [int(value) for value in exact]
    by_rest = sorted(
        (at for at, weight in enumerate(config.weights) if weight > 0), key=lambda at: (-(exact[at] % 1.0), at)
    )
    for turn in range(count - sum(result)):
        result[by_rest[turn % len(by_rest)]] += 1
    return result


def mixed(config: Config, epoch: int) -> list[int]:
    word = purpose("mixtur")
    places: list[int] = []
    first = 0
    for number, (share, length) in enumerate(zip(shares(config), config.lengths, strict=True)):
        for had in range(epoch * share, (epoch + 1) * share):
            cycle, within = divmod(had, length)
            places.append(first + small(length, word, config.seed, number, cycle)[within])
        first += length
    return [places[at] for at in shuffled(len(places), word, config.seed, epoch)]


def bucketed(config: Config, epoch: int) -> list[int]:
    result = []
    for number, members in enumerate(grouped(config.buckets)):
        inside = range(len(members))
        if config.shuffle:
            inside = small(len(members), purpose("bucket"), config.seed, epoch, number)
        result += [members[at] for at in inside]
    return result


def global_batches(config: Config, epoch: int) -> list[list[int]]:
    """An epoch cut into global batches."""
    order, size = epoch_order(config, epoch), config.global_batch
    if config.kind != "buckets":
        cut = [order[at : at + size] for at in range(0, len(order), size)]
        return [batch for batch in cut if len(batch) == size or not config.drop_last]
    cut = []
    start = 0
    for members in grouped(config.buckets):
        part = order[start : start + len(members)]
        cut += [part[at : at + size] for at in range(0, len(part), size)]
        start += len(members)
    cut = [batch for batch in cut if len(batch) == size or not config.drop_last]
    if config.shuffle:
        cut = [cut[at] for at in shuffled(len(cut), purpose("bucket"), config.seed, epoch)]
    return cut


def part_of_rank(batch: list[int], rank: int, world_size: int) -> list[int]:
    """Rank `rank`'s samples of a global batch: slices as equal as can be, the first ones longer, none empty."""
    share, extra = divmod(len(batch), world_size)
    if share == 0:
        return [batch[rank % len(batch)]]
    start = rank * share + min(rank, extra)
    return batch[start : start + share + (rank < extra)]


def rank_batches(config: Config, epoch: int, rank: int) -> list[list[int]]:
    """What one rank receives in an epoch."""
    return [part_of_rank(batch, rank, config.world_size) for batch in global_batches(config, epoch)]


def candidates(config: Config, epoch: int, sample: int) -> list[int]:
    """Who may take the place of bad sample `sample`, in turn: others of this epoch, of its bucket, of its mix's member."""
    order = epoch_order(config, epoch)
    if config.kind == "buckets":
        group = config.buckets[sample]
        order = [other for other in order if config.buckets[other] == group]
    if config.kind == "mix":
        order = member_of_mix(config, epoch, sample)
    # Every candidate's number is drawn from the sample, so that ranks and batches do not matter.
    drawn = small(len(order), purpose("substi"), config.seed, epoch, sample)
    found = [order[at] for at in drawn[:64]]
    return list(dict.fromkeys(other for other in found if other != sample))[:16]


def member_of_mix(config: Config, epoch: int, sample: int) -> list[int]:
    """An epoch's samples of the member that has `sample`, before they are spread over the epoch."""
    first = 0
    for number, (share, length) in enumerate(zip(shares(config), config.lengths, strict=True)):
        if first <= sample < first + length:
            had = range(epoch * share, (epoch + 1) * share)
            return [
                first + small(length, purpose("mixtur"), config.seed, number, at // length)[at % length] for at in had
            ]
        first += length
    raise AssertionError(sample)


def survivors(
    config: Config, epoch: int, batch: list[int], bad: set[int], on_error: str, refused: AbstractSet[int] = frozenset()
) -> list[int] | None:
    """A batch as it is delivered with bad samples among its own, and others that a function `refused` afterwards; `None`
    where that is an error."""
    if on_error == "skip":
        return [sample for sample in batch if sample not in bad | refused] or None
    result = [stand_in(config, epoch, stand_in(config, epoch, sample, bad), bad, refused) for sample in batch]
    return None if None in result else result


def stand_in(
    config: Config, epoch: int, sample: int | None, bad: set[int], refused: AbstractSet[int] = frozenset()
) -> int | None:
    """The sample itself, or who takes its place; `None` where nobody does."""
    if sample is None or sample not in bad | refused:
        return sample
    return next((other for other in candidates(config, epoch, sample) if other not in bad | refused), None)
