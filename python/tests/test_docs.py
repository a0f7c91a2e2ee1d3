"""The code on the pages runs, each page's blocks one after the other, in a folder with the data that they name."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import feedline as fl
import numpy as np
import pytest
import torch
from buckets import serving
from feedline import transforms as T
from made_images import make_folder
from samples import make_clips, make_scenes, make_sounds

DOCS = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
TABLE = re.compile(r"<!-- keys: checked by test_docs.py -->\n(.*?)<!-- end -->", re.DOTALL)


def named(page):
    return page.relative_to(DOCS).as_posix()


# docs/migrate has blocks for two loaders, which test_migrate.py runs; docs/reference has signatures and doctests.
PAGES = sorted(
    named(page)
    for page in DOCS.rglob("*.md")
    if BLOCK.search(page.read_text()) and not {"migrate", "reference"} & {*page.parts}
)

BEFORE = {
    "cluster.md": "i = 0",
    "looking.md": 'loader = fl.Loader("photos", batch_size=8)\nlist(loader)',
    "order.md": 'ds = fl.open("photos")\ndifficulty = np.random.default_rng(0).random((9, len(ds)))',
    "transforms.md": 'data = "photos"\nops = [T.RandomCrop(8)]\nimage = np.zeros((9, 9, 3), np.uint8)',
    "remote.md": "options = {}",
}
"""What a page takes for granted."""

REMOTE = ("cluster.md", "remote.md")
"""Pages whose code reads or writes s3://bucket."""


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Everything that the pages name, relative to the current folder or below /data."""
    place = tmp_path_factory.mktemp("docs")
    make_folder(place / "photos", per_class=8)
    make_folder(place / "data" / "train")
    make_folder(place / "data" / "imagenet" / "train")
    scenes = make_scenes(place / "scenes")
    shutil.copytree(scenes / "images", place / "images")
    shutil.copytree(scenes / "masks", place / "masks")
    shutil.copytree(scenes / "images", place / "val2017")
    shutil.copy(scenes / "instances.json", place / "instances_val2017.json")
    make_sounds(place / "speech")
    make_clips(place / "clips", frames=40)
    np.arange(40_000, dtype=np.uint16).tofile(place / "train.bin")
    shutil.copytree(place / "photos" / "cat", place / "data" / "images")
    names = sorted(os.listdir(place / "data" / "images"))
    rows = [f"{name},{number % 2},0.5" for number, name in enumerate(names)]
    (place / "train.csv").write_text("\n".join(["filename,label,weight", *rows]))
    return place


@pytest.fixture(scope="module")
def own_servers(tmp_path_factory):
    """A bucket for the pages alone: what they write has names that other tests use, too."""
    with serving(tmp_path_factory.mktemp("served_docs")) as running:
        yield running


def run(page, place, text):
    """Runs the blocks with absolute paths led below `place`."""
    names = {"fl": fl, "T": T, "np": np, "torch": torch}
    exec(BEFORE.get(page, ""), names)
    for block in BLOCK.findall(text):
        exec(compile(re.sub(r'"/(?=[a-z])', f'"{place}/', block), page, "exec"), names)


@pytest.mark.parametrize("page", PAGES)
def test_the_code_of_the_page_runs(page, data, tmp_path, monkeypatch, request):
    if page in REMOTE:
        lead_to_bucket(request.getfixturevalue("own_servers"), monkeypatch)
    place = tmp_path / "here"
    shutil.copytree(data, place, copy_function=os.link)
    monkeypatch.chdir(place)
    run(page, place, (DOCS / page).read_text())


def test_the_code_of_the_readme_runs(data, monkeypatch):
    monkeypatch.chdir(data)
    text = (DOCS.parent / "README.md").read_text()
    assert BLOCK.search(text)
    run("README.md", data, text)


COMMAND = re.compile(r"(?<!install )\bfeedline ([a-z][a-z-]*)((?: [^`\n#|;]*)?)")
CODE = re.compile(r"^```sh\n(.*?)^```|`(feedline [^`\n]+)`", re.MULTILINE | re.DOTALL)


def commands_of_the_pages():
    """Every subcommand that a page calls, with the options that pages give it."""
    found: dict[str, set[str]] = {}
    for page in [*DOCS.rglob("*.md"), DOCS.parent / "README.md"]:
        for block, inline in CODE.findall(page.read_text()):
            for command, rest in COMMAND.findall(block or inline):
                found.setdefault(command, set()).update(re.findall(r"(?<=\s)--[a-z][a-z-]*", rest))
    return found


@pytest.mark.parametrize(("command", "options"), sorted(commands_of_the_pages().items()))
def test_commands_of_the_pages_have_the_options_they_name(command, options):
    asked = subprocess.run(
        [sys.executable, "-m", "feedline", command, "--help"], capture_output=True, text=True, check=False
    )
    assert asked.returncode == 0, asked.stderr
    assert {option for option in options if not re.search(rf"{option}\b(?!-)", asked.stdout)} == set()


def lead_to_bucket(servers, monkeypatch):
    bucket = servers.folder / "bucket"
    for name in ("train", "raw"):
        if not (bucket / name).exists():
            make_folder(bucket / name)
    monkeypatch.setenv("AWS_ENDPOINT_URL", servers.options["endpoint_url"])
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", servers.options["key"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", servers.options["secret"])


def test_every_page_is_in_the_table_of_contents():
    listed = (DOCS.parent / "mkdocs.yml").read_text()
    pages = {named(path) for path in DOCS.rglob("*.md")}
    assert {page for page in pages if page not in listed} == set()


def test_the_page_of_statistics_has_every_key(folder):
    with fl.Loader(folder, batch_size=4, output="numpy", collate="list", map=lambda sample: sample) as loader:
        list(loader)
        stats = loader.stats()
    parts = fl.merge_stats([stats, stats])
    found = {key for key, value in {**stats, **parts}.items() if not isinstance(value, dict)}
    found |= {f"{key}.{inner}" for key, value in stats.items() if isinstance(value, dict) for inner in value}
    table = TABLE.search((DOCS / "stats.md").read_text()).group(1)
    assert set(re.findall(r"^\| `([^`]+)`", table, re.MULTILINE)) == found


def resume_elsewhere(place):
    state = fl.Loader(place / "photos", seed=1).state_dict()
    fl.Loader(place / "photos", seed=2).load_state_dict(state)


TROUBLES = {
    "No such file or directory": lambda place: fl.open(place / "nowhere"),
    "no known format is recognised": lambda place: fl.open(place / "empty"),
    "more than one format is here": lambda place: fl.open(place / "both"),
    "no such knob": lambda place: fl.Loader(place / "photos", batchsize=3),
    "use prefetch=, which counts batches in total, not per worker": lambda place: fl.Loader(
        place / "photos", prefetch_factor=2
    ),
    "already gives the order; leave shuffle off": lambda place: fl.Loader(place / "photos", shuffle=True, sampler=[1]),
    "there is no field": lambda place: fl.Loader(place / "photos", transforms={"picture": [T.Resize(8)]}),
    "torch sees 0 CUDA devices": lambda place: fl.Loader(place / "photos", device="cuda"),
    "local data need no cache": lambda place: fl.Loader(place / "photos", cache_dir=place / "cache"),
    "cannot decode sample": lambda place: next(iter(fl.Loader(place / "damaged"))),
    "cannot be stacked": lambda place: next(iter(fl.Loader(place / "photos", collate="stack"))),
    "saved state does not fit": resume_elsewhere,
}
"""What the page quotes, and what makes it happen."""


@pytest.mark.parametrize("quoted", TROUBLES)
def test_errors_are_as_the_page_quotes_them(quoted, data, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    for folder in ("empty", "both", "damaged"):
        (data / folder).mkdir(exist_ok=True)
    (data / "damaged" / "a.jpg").write_bytes(b"no image")
    shutil.copy(data / "photos" / "cat" / "000.jpg", data / "both")
    (data / "both" / "a.tar").write_bytes(bytes(10240))
    assert f'"{quoted}"' in (DOCS / "troubleshooting.md").read_text()
    with pytest.raises(fl.Error, match=re.escape(quoted)):
        TROUBLES[quoted](data)
