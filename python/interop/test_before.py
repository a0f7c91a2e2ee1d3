"""The "before" code of the migration pages runs under the libraries it is for, on data converted here."""

import json

import feedline as fl
import pytest
from conftest import PROJECT
from PIL import Image
from samples import pixels

PAGES = {
    "pytorch": ("webdataset", "train_folder", None),
    "ffcv": ("ffcv", "train_beton", "beton"),
    "webdataset": ("webdataset", "train_shards", "webdataset"),
    "litdata": ("litdata", "train_litdata", "litdata"),
    "mosaicml": ("mosaicml", "train_mds", "mds"),
}
"""Environment, what the code calls its data, and what to convert to. DALI needs a GPU; TurboLoader's file is its own."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    where = tmp_path_factory.mktemp("images") / "folder"
    for number in range(12):
        name = where / f"class{number % 3}"
        name.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels(number)).save(name / f"{number}.jpg")
    return where


@pytest.mark.parametrize("page", PAGES)
def test_the_code_before_runs(run, folder, tmp_path, page):
    environment, name, to = PAGES[page]
    data = folder
    if to is not None:
        data = tmp_path / f"data.{to}"
        fl.convert(fl.open(folder, fields={"image": "image", "label": "label"}), data, to=to, progress=False)
    given = sorted(map(str, data.glob("*.tar"))) if to == "webdataset" else str(data)
    steps = count(run, environment, page, name, given, tmp_path)
    assert sum(steps) == 24, "two epochs of twelve samples"


def test_turboloaders_code_before_runs(run, tmp_path):
    run("turboloader", "write", tmp_path)
    assert len(count(run, "turboloader", "turboloader", "train_tbl", str(tmp_path / "plain.tbl"), tmp_path)) == 46


def count(run, environment, page, name, data, where):
    """The sizes of the steps that the page's code made."""
    code = PROJECT / "docs" / "migrate" / f"{page}.md"
    run("before", code, name, json.dumps(data), where / "steps.json", environment=environment, script="run_before")
    return json.loads((where / "steps.json").read_text())
