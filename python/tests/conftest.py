"""Data the tests make for themselves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from buckets import Servers, serving
from made_images import make_folder


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve small JPEGs in three classes."""
    return make_folder(tmp_path_factory.mktemp("data") / "animals")


@pytest.fixture(scope="session")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """150 small JPEGs in three classes."""
    return make_folder(tmp_path_factory.mktemp("data") / "many", per_class=50, size=(64, 48))


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """S3 and http over one folder with a bucket in it."""
    with serving(tmp_path_factory.mktemp("served")) as running:
        yield running
