"""The code in docs/migrate runs: each page's "after" blocks, one after the other, on data in that page's format."""

from __future__ import annotations

import re
from pathlib import Path

import feedline as fl
import pytest
from made_images import make_folder

PAGES = Path(__file__).resolve().parents[2] / "docs" / "migrate"
FENCE = re.compile(r"^```(\w+)(?: (\w+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page, kind):
    """The page's Python blocks of this kind, as one program."""
    found = FENCE.findall((PAGES / f"{page}.md").read_text())
    return "\n".join(code for language, tag, code in found if (language, tag) == ("python", kind))


class Steps:
    """A training step that remembers what it was given."""

    def __init__(self):
        self.shapes = []

    def __call__(self, images, labels):
        self.shapes.append((tuple(images.shape), tuple(labels.shape)))


DATA = {
    "pytorch": ("folder", "train_folder"),
    "ffcv": ("beton", "train_beton"),
    "webdataset": ("webdataset", "train_shards"),
    "litdata": ("litdata", "train_litdata"),
    "mosaicml": ("mds", "train_mds"),
    "dali": ("folder", "train_folder"),
    "turboloader": ("pack", "train_pack"),
}
"""What each page's code reads, and what it calls it."""


@pytest.mark.parametrize("page", DATA)
def test_the_code_of_every_page_runs(page, tmp_path):
    folder = make_folder(tmp_path / "folder")
    to, name = DATA[page]
    if to != "folder":
        fl.convert(folder, tmp_path / f"data.{to}", to=to, progress=False)
        folder = tmp_path / f"data.{to}"
    steps = Steps()
    names = {name: str(folder), "train_step": steps}
    exec(compile(blocks(page, "after"), f"docs/migrate/{page}.md", "exec"), names)
    assert steps.shapes[:6] == [((4, 3, 64, 64), (4,))] * 6
    order = names.get("order")
    if order is not None:
        # The last block continues in the original's order, or at another position: whole batches of samples that are there.
        assert {number for batch in order for number in batch} <= set(range(12))
        assert all(len(batch) == 4 for batch in order)
        assert order


def test_every_page_has_both_sides():
    assert {page.stem for page in PAGES.glob("*.md")} == set(DATA)
    for page in PAGES.glob("*.md"):
        assert blocks(page.stem, "after"), page
        assert blocks(page.stem, "before") or page.stem == "dali", page
        text = page.read_text()
        assert "What differs" in text, page
