"""The code on the pages that a newcomer reads first runs, in order, from an empty folder."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pictures import make_folder

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("page", ["index.md", "start.md"])
def test_the_code_of_the_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make_folder(tmp_path / "photos", per_class=8)
    blocks = re.findall(r"^```python\n(.*?)^```", (DOCS / page).read_text(), re.MULTILINE | re.DOTALL)
    assert blocks
    names = {}
    for block in blocks:
        exec(compile(block, page, "exec"), names)


def test_every_page_is_in_the_table_of_contents():
    listed = (DOCS.parent / "mkdocs.yml").read_text()
    pages = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    assert {page for page in pages if page not in listed} == set()
