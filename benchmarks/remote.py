"""Data in a bucket: feedline beside a plain parallel downloader, beside others, and beside the local disk. One run.

    python benchmarks/remote.py FOLDER [--rounds 3] [--block-bytes 1G] [--others s3torchconnector,s3dlio,litdata]

FOLDER has class sub-folders of images. A real S3 server (feedline-test-servers, release build) runs on loopback and
shares the cores with whoever reads; all sides read the same objects. The plain downloader is `plain-download`, a Rust
program without retries, checks or order. Rounds alternate; best and median count.
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
def servers(folder: Path, delay_ms: int) -> Iterator[dict[str, str]]:
    """S3 over `folder`, each answer begun `delay_ms` later."""
    build = ["cargo", "build", "--release", "--quiet", "--locked", "--package", "feedline-servers"]
    subprocess.run(build, cwd=REPOSITORY, check=True)
    program = target() / "feedline-test-servers"
    command = [program, folder] + (["--delay-ms", str(delay_ms)] if delay_ms else [])
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        s3, _, key, secret = (process.stdout.readline().strip() for _ in range(4))
        yield {"endpoint_url": s3, "key": key, "secret": secret, "region": "us-east-1"}
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

    return Side(f"plain downloader, {threads} connections", run)


def feedline_blocks(options: dict[str, str], uri: str, name: str = "feedline, block order") -> Side:
    def work() -> float:
        ds = fl.open(uri, storage_options=options)
        size = 0
        with fl.Loader(ds, batch_size=16, shuffle="block", decode="none", output="numpy") as loader:
            for batch in loader:
                size += batch["blob"].data.nbytes
        return size / 1e6

    return Side(name, timed(work))


def s3torchconnector_side(options: dict[str, str], bucket: Path, folder: str) -> Side:
    """Whole objects, four at once, as its map-style data set gives them."""
    from concurrent.futures import ThreadPoolExecutor

    from s3torchconnector import S3ClientConfig, S3MapDataset

    os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_SECRET_ACCESS_KEY"] = options["key"], options["secret"]
    config = S3ClientConfig(force_path_style=True)

    def work() -> float:
        ds = S3MapDataset.from_prefix(
            f"s3://{bucket.name}/{folder}/part-",
            region=options["region"],
            endpoint=options["endpoint_url"],
            s3client_config=config,
        )
        with ThreadPoolExecutor(4) as pool:
            return sum(pool.map(lambda n: len(ds[n].read()), range(len(ds)))) / 1e6

    return Side("s3torchconnector, 4 threads", timed(work))


def s3dlio_side(options: dict[str, str], bucket: Path, folder: str) -> Side:
    import s3dlio

    os.environ.update(
        AWS_ACCESS_KEY_ID=options["key"],
        AWS_SECRET_ACCESS_KEY=options["secret"],
        AWS_ENDPOINT_URL=options["endpoint_url"],
        AWS_REGION=options["region"],
    )
    names = sorted(p.name for p in (bucket / folder).iterdir() if p.name.startswith("part-"))
    uris = [f"s3://{bucket.name}/{folder}/{name}" for name in names]

    def work() -> float:
        return sum(len(memoryview(data)) for _, data in s3dlio.get_many(uris)) / 1e6

    return Side("s3dlio, get_many", timed(work))


def train_images(ds: fl.Dataset, batch_size: int = 64) -> Callable[[], float]:
    recipe = [T.RandomResizedCrop(224), T.RandomHorizontalFlip(), T.Normalize.imagenet()]

    def work() -> float:
        with fl.Loader(ds, batch_size=batch_size, shuffle=True, transforms=recipe) as loader:
            return sum(len(batch["label"]) for batch in loader)

    return work


def put_blobs(options: dict[str, str], folder: Path, uri: str, size: int) -> None:
    """Through the server, which then knows the ETags; it hashes files laid in its folder anew for every request."""
    rng = np.random.default_rng(0)
    rows = ({"blob": rng.bytes(256 << 10)} for _ in range(size // (256 << 10)))
    fl.pack(rows, folder, progress=False)
    fl.pack(folder, uri, part_bytes=64 << 20, progress=False, storage_options=options)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--block-bytes", type=int, default=1 << 30)
    parser.add_argument("--others", default="", help="s3torchconnector,s3dlio: installed in this environment")
    args = parser.parse_args()
    print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}")
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        bucket = root / "served" / "bench"
        bucket.mkdir(parents=True)
        fl.pack(args.folder, root / "train", progress=False)
        near = fl.open(root / "train")
        with servers(bucket.parent, 0) as options:
            put_blobs(options, root / "blobs", "s3://bench/blobs", args.block_bytes)
            fl.pack(args.folder, "s3://bench/train", progress=False, storage_options=options)
            sides = [
                plain_download(options, bucket, "blobs", 8, 8 << 20),
                feedline_blocks(options, "s3://bench/blobs"),
            ]
            known = {"s3torchconnector": s3torchconnector_side, "s3dlio": s3dlio_side}
            sides += [known[other](options, bucket, "blobs") for other in args.others.split(",") if other]
            compare("Blocks from S3, no delay", "MB", sides, args.rounds)
            far = fl.open("s3://bench/train", storage_options=options)
            sides = [Side("local pack", timed(train_images(near))), Side("S3, streamed", timed(train_images(far)))]
            cached = far.cached(root / "cache")
            sides.append(Side("S3, packed while training", timed(train_images(cached))))
            compare("Train recipe, batch 64, float32", "image", sides, args.rounds)
            print(f"  local copy: {json.dumps({k: str(v) for k, v in (cached.copy_status or {}).items()})}")
        with servers(bucket.parent, 20) as options:
            sides = [
                plain_download(options, bucket, "blobs", 8, 8 << 20),
                feedline_blocks(options, "s3://bench/blobs", "feedline, block order, 20 ms"),
            ]
            compare("Blocks from S3, 20 ms before each answer", "MB", sides, args.rounds)
            begun = time.perf_counter()
            far = fl.open("s3://bench/train", storage_options=options)
            opened = time.perf_counter() - begun
            begun = time.perf_counter()
            with fl.Loader(far, batch_size=64, shuffle=True, decode="none", output="numpy") as loader:
                next(iter(loader))
            first = time.perf_counter() - begun
            print(f"\nOpening at 20 ms: {opened / 0.02:.1f} round trips; first batch: {first / 0.02:.1f} round trips")


if __name__ == "__main__":
    sys.exit(main())
