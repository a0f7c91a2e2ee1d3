"""Data in a bucket: feedline beside a plain parallel downloader, beside others, and beside the local disk. One run.

    python benchmarks/remote.py FOLDER [--rounds 5] [--block-bytes BYTES] [--others s3torchconnector,s3dlio,litdata]
        [--repeat 8] [--only published,fast,latency,training]

FOLDER has class sub-folders of images. A real S3 server (feedline-test-servers, release build) runs on loopback and
shares the cores with whoever reads; all sides read the same objects. The plain downloader is `plain-download`, a Rust
program without retries, checks or order. Rounds alternate; best and median count. For training the images are packed
`--repeat` times over: a shuffled epoch's first batch touches most blocks of a small set, and the rest must outlast that.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime as dt
import hashlib
import hmac
import json
import os
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.parse
from collections.abc import Callable, Iterator
from pathlib import Path

import feedline as fl
import numpy as np
from feedline import transforms as T

REPOSITORY = Path(__file__).resolve().parents[1]


def cpu() -> float:
    """CPU seconds of this process and of its finished children."""
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


class Side:
    """One competitor: rounds of (units, seconds, CPU seconds)."""

    def __init__(self, name: str, run: Callable[[], tuple[float, float, float]]) -> None:
        self.name, self.run = name, run
        self.rates: list[float] = []
        self.costs: list[float] = []

    def round(self) -> None:
        units, seconds, used = self.run()
        self.rates.append(units / seconds)
        self.costs.append(used / units)


def timed(work: Callable[[], float]) -> Callable[[], tuple[float, float, float]]:
    """Wall and CPU seconds of this process around `work`, which says how many units it did."""

    def run() -> tuple[float, float, float]:
        begun, used = time.perf_counter(), cpu()
        units = work()
        return units, time.perf_counter() - begun, cpu() - used

    return run


def compare(title: str, unit: str, sides: list[Side], rounds: int) -> None:
    for _ in range(rounds):
        for side in sides:
            side.round()
    print(f"\n{title} ({rounds} rounds, best and median)")
    first = statistics.median(sides[0].rates)
    for side in sides:
        best, middle = max(side.rates), statistics.median(side.rates)
        print(
            f"  {side.name:<44} {best:9.0f} {middle:9.0f} {unit}/s  {middle / first:6.2f} x"
            f"   {statistics.median(side.costs) * 1000:8.2f} CPU ms/{unit}"
        )


@contextlib.contextmanager
def servers(folder: Path, *options: str) -> Iterator[dict[str, str]]:
    """S3 over `folder`; `options` are those of feedline-test-servers."""
    command = [target() / "feedline-test-servers", folder, *options]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        s3, _, key, secret = (process.stdout.readline().strip() for _ in range(4))
        try:
            yield {"endpoint_url": s3, "key": key, "secret": secret, "region": "us-east-1"}
        finally:
            assert process.stdin is not None
            process.stdin.close()


def target() -> Path:
    return Path(os.environ.get("CARGO_TARGET_DIR", REPOSITORY / "target")) / "release"


def presigned(options: dict[str, str], bucket: str, name: str) -> str:
    """A url that the S3 server answers without further ado (signature version 4 in the query)."""
    now = dt.datetime.now(dt.timezone.utc)
    day, stamp = now.strftime("%Y%m%d"), now.strftime("%Y%m%dT%H%M%SZ")
    scope = f"{day}/{options['region']}/s3/aws4_request"
    host = options["endpoint_url"].removeprefix("http://")
    path = urllib.parse.quote(f"/{bucket}/{name}")
    query = urllib.parse.urlencode(
        {
            "X-Amz-Algorithm": "AWS4-HMAC-SHA256",
            "X-Amz-Credential": f"{options['key']}/{scope}",
            "X-Amz-Date": stamp,
            "X-Amz-Expires": "3600",
            "X-Amz-SignedHeaders": "host",
        }
    )
    request = f"GET\n{path}\n{query}\nhost:{host}\n\nhost\nUNSIGNED-PAYLOAD"
    to_sign = f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
    key = f"AWS4{options['secret']}".encode()
    for part in (day, options["region"], "s3", "aws4_request"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    signature = hmac.new(key, to_sign.encode(), hashlib.sha256).hexdigest()
    return f"{options['endpoint_url']}{path}?{query}&X-Amz-Signature={signature}"


def plain_download(options: dict[str, str], bucket: Path, folder: str, threads: int, part: int) -> Side:
    files = [p for p in (bucket / folder).iterdir() if p.name.startswith("part-")]

    def run() -> tuple[float, float, float]:
        lines = [f"{presigned(options, bucket.name, f'{folder}/{p.name}')} {p.stat().st_size}" for p in files]
        command = [target() / "plain-download", str(threads), str(part)]
        done = subprocess.run(command, input="\n".join(lines), capture_output=True, text=True, check=True)
        size, seconds, used = map(float, done.stdout.split())
        return size / 1e6, seconds, used

    return Side(f"plain downloader, {threads} x {part >> 20} MiB", run)


SEQUENTIAL: dict[str, object] = {}
# 32 samples of 256 KiB are 8 MiB, as much as a request of the plain downloader asks for.
LARGE_BLOCKS: dict[str, object] = {"sampler": fl.samplers.Block(block=32, window=8)}
BLOCK_SHUFFLE: dict[str, object] = {"shuffle": "block"}


def feedline_blocks(options: dict[str, str], name: str, order: dict[str, object]) -> Side:
    """A data set opened and read once, every byte of it handed over in batches."""

    def work() -> float:
        ds = fl.open("s3://bench/blobs", storage_options=options)
        size = 0
        with fl.Loader(ds, batch_size=16, decode="none", output="numpy", **order) as loader:
            for batch in loader:
                size += batch["blob"].data.nbytes
        return size / 1e6

    return Side(f"feedline, {name}", timed(work))


def library_side(name: str, options: dict[str, str], bucket: Path, folder: str) -> Side:
    """Another library on the same objects, in its own environment (tools/interop/setup.sh s3clients)."""
    python = REPOSITORY / ".interop/s3clients/bin/python"
    if not python.exists():
        sys.exit(f"{python} is missing; run tools/interop/setup.sh s3clients, or --others ''")
    script = REPOSITORY / "benchmarks/libraries/bench_s3.py"
    names = sorted(p.name for p in (bucket / folder).iterdir() if p.name.startswith("part-"))
    where = [options["endpoint_url"], options["key"], options["secret"], bucket.name, folder, *names]

    def run() -> tuple[float, float, float]:
        done = subprocess.run([python, script, name, *where], stdout=subprocess.PIPE, text=True, check=True)
        size, seconds, used = map(float, done.stdout.split()[-3:])
        return size / 1e6, seconds, used

    return Side(name, run)


def train_images(ds: fl.Dataset, threads: int = 0) -> Callable[[], float]:
    recipe = [T.RandomResizedCrop(224), T.RandomHorizontalFlip(), T.Normalize.imagenet()]

    def work() -> float:
        with fl.Loader(ds, batch_size=64, shuffle=True, transforms=recipe, num_workers=threads) as loader:
            return sum(len(batch["label"]) for batch in loader)

    return work


def wait_for_pack(ds: fl.Dataset) -> None:
    """Packing has the lower priority and outlasts a short epoch; it must not slow down the next side."""
    while not (status := ds.copy_status or {})["complete"]:
        if status["failure"]:
            sys.exit(status["failure"])
        time.sleep(0.05)


@contextlib.contextmanager
def on_core(core: int) -> Iterator[None]:
    """This process and what it starts, on one core."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def put_blobs(options: dict[str, str], folder: Path, uri: str, size: int) -> None:
    """Through the server, which then knows the ETags; it hashes files laid in its folder again for every request."""
    rng = np.random.default_rng(0)
    rows = ({"blob": rng.bytes(256 << 10)} for _ in range(size // (256 << 10)))
    fl.pack(rows, folder, progress=False)
    fl.pack(folder, uri, part_bytes=64 << 20, progress=False, storage_options=options)


SERVERS: dict[str, tuple[str, list[str]]] = {
    "published": ("S3 server as published (sends 4 KiB at a time)", []),
    "fast": ("the same server sending 256 KiB at a time", ["--large-pieces"]),
}


def blocks(served: Path, wanted: list[str], others: list[str], rounds: int) -> None:
    """Feedline beside a plain downloader and beside other libraries, on the same objects."""
    bucket = served / "bench"
    for title, flags in (SERVERS[name] for name in SERVERS if name in wanted):
        with servers(served, *flags) as options:
            sides = [
                plain_download(options, bucket, "blobs", 8, 8 << 20),
                feedline_blocks(options, "in order", SEQUENTIAL),
                plain_download(options, bucket, "blobs", 64, 1 << 20),
                feedline_blocks(options, "blocks of 8 MiB", LARGE_BLOCKS),
                feedline_blocks(options, "block shuffle (1 MiB)", BLOCK_SHUFFLE),
            ]
            sides += [library_side(other, options, bucket, "blobs") for other in others]
            compare(f"Blocks, {title}", "MB", sides, rounds)


def latency(served: Path, rounds: int) -> None:
    """Through a proxy that holds every answer back, by nothing and by 20 ms."""
    pieces = "--large-pieces"
    with servers(served, pieces, "--delay-ms", "0") as local, servers(served, pieces, "--delay-ms", "20") as remote:
        sides = [
            feedline_blocks(local, "answers at once", BLOCK_SHUFFLE),
            feedline_blocks(remote, "answers 20 ms later", BLOCK_SHUFFLE),
        ]
        compare("Blocks through the delaying proxy", "MB", sides, rounds)
    with servers(served, pieces, "--delay-ms", "200") as remote:
        begun = time.perf_counter()
        ds = fl.open("s3://bench/train", storage_options=remote)
        with fl.Loader(ds, batch_size=64, shuffle=True, decode="none", output="numpy") as loader:
            next(iter(loader))
        print(f"\nFrom fl.open to the first batch: {(time.perf_counter() - begun) / 0.2:.1f} round trips of 200 ms")


def training(served: Path, folder: Path, local: fl.Dataset, rounds: int) -> None:
    """The reader has a core of its own and the server the other, as if it were another machine."""
    with on_core(1), servers(served, "--large-pieces") as options, on_core(0):
        remote = fl.open("s3://bench/train", storage_options=options)
        epoch = 0

        def packed_while_training() -> tuple[float, float, float]:
            nonlocal epoch
            epoch += 1
            ds = remote.cached(folder / f"cache{epoch}")
            measured = timed(train_images(ds, 1))()
            wait_for_pack(ds)
            # The next round writes into the memory that this one's files had in the page cache: on a virtual machine,
            # memory that was never used before costs ten times as much to write.
            shutil.rmtree(folder / f"cache{epoch}")
            return measured

        cached = remote.cached(folder / "cache0")
        train_images(cached, 1)()
        wait_for_pack(cached)
        print(f"\nlocal copy: {json.dumps({k: str(v) for k, v in (cached.copy_status or {}).items()})}")
        sides = [
            Side("local pack", timed(train_images(local, 1))),
            Side("S3, streamed", timed(train_images(remote, 1))),
            Side("S3, packed while training, first epoch", packed_while_training),
            Side("S3, packed while training, later epochs", timed(train_images(cached, 1))),
        ]
        compare("Train recipe, batch 64, one thread on one core", "image", sides, rounds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--block-bytes", type=int, default=2 << 30)
    parser.add_argument("--repeat", type=int, default=8)
    parser.add_argument("--only", default="published,fast,latency,training", help="what to measure")
    parser.add_argument("--others", default="s3torchconnector,s3dlio,litdata", help="libraries to compare with")
    args = parser.parse_args()
    print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}")
    build = ["cargo", "build", "--release", "--quiet", "--locked", "--package", "feedline-servers"]
    subprocess.run(build, cwd=REPOSITORY, check=True)
    others = [other for other in args.others.split(",") if other]
    wanted = args.only.split(",")
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        served = root / "served"
        (served / "bench").mkdir(parents=True)
        local = fl.pack(fl.concat([fl.open(args.folder)] * args.repeat), root / "train", progress=False)
        with servers(served) as options:
            if {"published", "fast", "latency"} & {*wanted}:
                put_blobs(options, root / "blobs", "s3://bench/blobs", args.block_bytes)
            fl.pack(local, "s3://bench/train", progress=False, storage_options=options)
        blocks(served, wanted, others, args.rounds)
        if "latency" in wanted:
            latency(served, args.rounds)
        if "training" in wanted:
            training(served, root, local, args.rounds)


if __name__ == "__main__":
    sys.exit(main())
