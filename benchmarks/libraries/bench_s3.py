"""Reads every object below an S3 prefix with one library; prints bytes, seconds and CPU seconds.

    python bench_s3.py LIBRARY ENDPOINT KEY SECRET BUCKET PREFIX NAME...

Run in the environment of tools/interop/s3clients.txt. Importing and connecting are not counted.
"""

from __future__ import annotations

import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

REGION = "us-east-1"


def with_s3dlio(bucket: str, prefix: str, names: list[str]) -> Callable[[], int]:
    import s3dlio

    uris = [f"s3://{bucket}/{prefix}/{name}" for name in names]
    return lambda: sum(len(memoryview(data)) for _, data in s3dlio.get_many(uris))


def with_s3torchconnector(bucket: str, prefix: str, names: list[str]) -> Callable[[], int]:
    """Whole objects, four at once, as its map-style data set gives them."""
    from s3torchconnector import S3ClientConfig, S3MapDataset

    uris = [f"s3://{bucket}/{prefix}/{name}" for name in names]
    config = S3ClientConfig(force_path_style=True)
    endpoint = os.environ["AWS_ENDPOINT_URL"]
    ds = S3MapDataset.from_objects(uris, region=REGION, endpoint=endpoint, s3client_config=config)

    def read() -> int:
        with ThreadPoolExecutor(4) as pool:
            return sum(pool.map(lambda n: len(ds[n].read()), range(len(ds))))

    return read


def with_litdata(bucket: str, prefix: str, names: list[str]) -> Callable[[], int]:
    """Its data set of raw objects, asked for all at once, large ones in parallel ranges."""
    from litdata import StreamingRawDataset
    from litdata.raw.indexer import BaseIndexer, FileMetadata

    class Listed(BaseIndexer):
        """Its own index asks through s3fs, with other option names; the names are known here."""

        def build_or_load_index(self, *_: object, **__: object) -> list[FileMetadata]:
            return self.discover_files()

        def discover_files(self, *_: object) -> list[FileMetadata]:
            import boto3

            store = boto3.client("s3", endpoint_url=os.environ["AWS_ENDPOINT_URL"], region_name=REGION)
            keys = [f"{prefix}/{name}" for name in names]
            sizes = [store.head_object(Bucket=bucket, Key=key)["ContentLength"] for key in keys]
            return [FileMetadata(f"s3://{bucket}/{key}", size) for key, size in zip(keys, sizes, strict=True)]

    options = {
        "aws_access_key_id": os.environ["AWS_ACCESS_KEY_ID"],
        "aws_secret_access_key": os.environ["AWS_SECRET_ACCESS_KEY"],
        "endpoint_url": os.environ["AWS_ENDPOINT_URL"],
        "region_name": REGION,
    }
    ds = StreamingRawDataset(
        f"s3://{bucket}/{prefix}",
        cache_dir=tempfile.mkdtemp(),
        indexer=Listed(),
        storage_options=options,
        range_parallel_threshold=16 << 20,
    )
    return lambda: sum(len(item) for item in ds.__getitems__(list(range(len(ds)))))


LIBRARIES = {"s3dlio": with_s3dlio, "s3torchconnector": with_s3torchconnector, "litdata": with_litdata}


def cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def main() -> None:
    library, endpoint, key, secret, bucket, prefix, *names = sys.argv[1:]
    os.environ.update(
        AWS_ACCESS_KEY_ID=key,
        AWS_SECRET_ACCESS_KEY=secret,
        AWS_ENDPOINT_URL=endpoint,
        AWS_REGION=REGION,
        AWS_DEFAULT_REGION=REGION,
        AWS_EC2_METADATA_DISABLED="true",
    )
    read = LIBRARIES[library](bucket, prefix, names)
    begun, used = time.perf_counter(), cpu()
    size = read()
    print(size, time.perf_counter() - begun, cpu() - used)


if __name__ == "__main__":
    main()
