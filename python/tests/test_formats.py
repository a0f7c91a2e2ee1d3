"""What Python makes of formats' peculiarities: warnings, JSON that it cannot read, units of times."""

import io
import lzma
import shutil
import subprocess
import tarfile
import warnings
from pathlib import Path

import feedline as fl
import numpy as np
import pytest

TESTDATA = Path(__file__).parents[2] / "testdata"


def tar_of(members):
    """A tar of these members."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as tar:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return file.getvalue()


def test_members_without_a_sample_are_reported(tmp_path):
    (tmp_path / "a.tar").write_bytes(tar_of({"cats/1": b"x", "a.txt": b"y", "b.txt": b"z", "a.cls": b"3"}))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ds = fl.open(tmp_path)
    messages = [str(warning.message) for warning in caught]
    assert ["no extension" in messages[0], "joined" in messages[1], len(messages)] == [True, True, 2]
    assert caught[0].filename == __file__
    assert len(ds) == 2
    assert ds[0]["txt"] == "y"
    assert ds[0]["label"] == 3
    assert any("no extension" in problem["reason"] for problem in ds.problems)


def test_tars_made_by_tar_keep_every_sample(tmp_path):
    """A folder in the order that its disk lists it, hard links, and two tars in one file."""
    if shutil.which("tar") is None:
        pytest.skip("there is no tar here")
    folder = tmp_path / "files"
    folder.mkdir()
    for number in np.random.default_rng(0).permutation(40):
        (folder / f"{number:03}.txt").write_text(f"t{number}")
    for number in np.random.default_rng(1).permutation(40):
        (folder / f"{number:03}.cls").write_text(str(number))
    for number in range(40, 50):
        (folder / f"{number:03}.txt").hardlink_to(folder / f"{number - 40:03}.txt")
    subprocess.run(["tar", "cf", "x.tar", "-C", "files", "."], cwd=tmp_path, check=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ds = fl.open(tmp_path / "x.tar")
        found = {one["key"]: (one["txt"], one["label"]) for one in ds}
        (tmp_path / "twice.tar").write_bytes((tmp_path / "x.tar").read_bytes() * 2)
        twice = fl.open(tmp_path / "twice.tar")
    expected = {f"./{n:03}": (f"t{n}", n) for n in range(40)}
    expected |= {f"./{n:03}": (f"t{n - 40}", None) for n in range(40, 50)}
    assert found == expected
    assert len(twice) == 100


def test_ordinary_tars_are_opened_without_warnings(tmp_path):
    (tmp_path / "a.tar").write_bytes(tar_of({"a.txt": b"y", "a.cls": b"3", "b.txt": b"z"}))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(fl.open(tmp_path)) == 2


def test_tars_in_xz_are_read(tmp_path):
    (tmp_path / "a.tar.xz").write_bytes(lzma.compress(tar_of({"a.txt": b"y", "b.txt": b"z"})))
    assert [one["txt"] for one in fl.open(tmp_path / "a.tar.xz")] == ["y", "z"]


@pytest.mark.parametrize("text", [b"[" * 100_000, b"9" * 10_000, b"{"])
def test_json_that_python_cannot_read_is_a_bad_sample(tmp_path, text):
    (tmp_path / "a.tar").write_bytes(tar_of({"a.json": b"[1]", "b.json": text}))
    ds = fl.open(tmp_path)
    assert ds[0]["json"] == [1]
    with pytest.raises(fl.DataError, match="sample 1, field 'json'") as caught:
        ds[1]
    assert (caught.value.sample, caught.value.field) == (1, "json")
    with fl.Loader(ds, batch_size=2, output="numpy", shuffle=False) as loader:
        values = next(iter(loader))["json"]
    assert values[0] == [1]
    with pytest.raises(fl.DataError, match="sample 1, field 'json'") as caught:
        values[1]
    assert (caught.value.sample, caught.value.field) == (1, "json")


def test_units_of_times_are_known():
    ds = fl.open(TESTDATA / "formats/parquet/times.parquet")
    assert ds.units["seconds"] == "timestamp[s]"
    assert ds.units["micros"] == "timestamp[us, tz=UTC]"
    assert ds[0]["seconds"] == 1_700_000_000
    assert "plain" not in ds.units


def test_lists_with_nulls_are_read():
    ds = fl.open(TESTDATA / "formats/parquet/missing.parquet")
    assert np.isnan(ds[0]["l"][1])
    assert [one["l"].shape for one in ds] == [(2,), (0,), (1,)]
