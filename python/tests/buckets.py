"""Real servers on loopback, with a bucket of images."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import feedline as fl
from made_images import make_folder

REPOSITORY = Path(__file__).resolve().parents[2]


class Servers(NamedTuple):
    """Where the test servers are, and the folder that they show."""

    folder: Path
    http: str
    options: dict[str, str]


@contextmanager
def serving(folder: Path) -> Iterator[Servers]:
    """S3 and http over `folder`, with a bucket in it."""
    make_folder(folder / "bucket" / "animals")
    fl.pack(folder / "bucket" / "animals", folder / "bucket" / "packed", progress=False)
    # The packages that `cargo test` builds: others would choose other features and compile everything again.
    chosen = ["--workspace", "--exclude", "feedline-python", "--bin", "feedline-test-servers"]
    subprocess.run(["cargo", "build", "--quiet", "--locked", *chosen], cwd=REPOSITORY, check=True)
    target = Path(os.environ.get("CARGO_TARGET_DIR", REPOSITORY / "target"))
    command = [target / "debug" / "feedline-test-servers", folder]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        s3, http, key, secret = (process.stdout.readline().strip() for _ in range(4))
        yield Servers(folder, http, {"endpoint_url": s3, "key": key, "secret": secret})
        assert process.stdin is not None
        process.stdin.close()
