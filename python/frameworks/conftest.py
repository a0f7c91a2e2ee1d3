"""Tests that run with the real frameworks, each file in the environment that its first line names.

`make test-frameworks` runs every file in its own environment (`run.py`): a framework that is missing there is a failure.
"""

from __future__ import annotations

import feedline as fl
import pytest
from made_images import make_folder


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """48 small images in three classes."""
    return make_folder(tmp_path_factory.mktemp("data") / "animals", per_class=16, size=(40, 32))


@pytest.fixture(scope="session")
def packed(folder, tmp_path_factory):
    """The same as a pack of several parts."""
    return fl.pack(folder, tmp_path_factory.mktemp("data") / "pack", part_bytes=8000, progress=False)
