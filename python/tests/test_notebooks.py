"""The notebooks run from the first cell to the last, and are kept without outputs."""

from __future__ import annotations

import asyncio
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
NAMES = ["quickstart", "augmentation_gallery", "find_the_bottleneck", "train_from_s3"]

# What Jupyter's own packages say about each other.
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """One folder for all of them: the first draws the data."""
    return tmp_path_factory.mktemp("notebooks")


def executed(name, place):
    book = nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4)
    client = NotebookClient(book, timeout=200, kernel_name="python3", resources={"metadata": {"path": str(place)}})
    asyncio.run(client.async_execute())
    return book


def test_every_notebook_is_tested():
    assert {path.stem for path in NOTEBOOKS.glob("*.ipynb")} == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_notebooks_are_stored_without_outputs(name):
    book = nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4)
    nbformat.validate(book)
    for cell in book.cells:
        if cell.cell_type == "code":
            assert (cell.outputs, cell.execution_count, dict(cell.metadata)) == ([], None, {}), cell.source


@pytest.mark.parametrize("name", NAMES[:3])
def test_a_notebook_runs(name, place):
    book = executed(name, place)
    shown = [output for cell in book.cells if cell.cell_type == "code" for output in cell.outputs]
    assert any("<img" in output.get("data", {}).get("text/html", "") for output in shown) or name.startswith("find")
    assert not [output for output in shown if output.get("name") == "stderr" and "Warning" in output.text]


def test_training_from_a_bucket(place, servers, monkeypatch):
    monkeypatch.setenv("DATA_URI", "s3://bucket/animals")
    monkeypatch.setenv("AWS_ENDPOINT_URL", servers.options["endpoint_url"])
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", servers.options["key"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", servers.options["secret"])
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    book = executed("train_from_s3", place)
    printed = "".join(output.get("text", "") for cell in book.cells for output in cell.get("outputs", []))
    assert "12 samples, folder" in printed
    assert "epoch 2: loss" in printed
    assert "continued with" in printed
