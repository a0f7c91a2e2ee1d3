"""What the examples in docstrings find around them. Not part of the installed package's interface."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import Any

import pytest

# Modules for frameworks that are not installed here; `make test-frameworks` has them.
_NEEDS = {
    "dask": "distributed",
    "ray": "ray",
    "spark": "pyspark",
    "huggingface": "transformers",
    "jax": "jax",
    "keras": "keras",
    "lightning": "lightning",
    "torchdata": "torchdata",
}
collect_ignore = [
    f"feedline/{module}.py" for module, package in _NEEDS.items() if importlib.util.find_spec(package) is None
]


@pytest.fixture(autouse=True)
def _example_data(doctest_namespace: dict[str, Any], tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    from PIL import Image  # noqa: PLC0415 - only when examples run

    folder = tmp_path_factory.mktemp("examples")
    for name in ("cat", "dog", "owl"):
        (folder / name).mkdir()
        for number in range(4):
            Image.new("RGB", (40 + number, 30), (60 * number, 90, 120)).save(folder / name / f"{number}.jpg")
    doctest_namespace["example_folder"] = folder
    doctest_namespace["tmp_path"] = tmp_path


@pytest.fixture(autouse=True, scope="session")
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Indexes that tests make are nobody else's."""
    os.environ["FEEDLINE_CACHE_DIR"] = str(tmp_path_factory.mktemp("cache"))
