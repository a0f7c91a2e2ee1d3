"""Data sets that were converted here, read by the real libraries: every field of every sample."""

import feedline as fl
import numpy as np
import pytest
import values

FIELDS = {
    "image": "jpeg",
    "label": "small",
    "integer": "integer",
    "number": "number",
    "text": "text",
    "blob": "blob",
    "matrix": "fixed",
    "levels": "typed",
    "json": "json",
}
"""Fields of the source, and their columns in the data set that MosaicML wrote."""


@pytest.fixture(scope="module")
def source(run, tmp_path_factory):
    """Everything but what a format cannot hold."""
    folder = tmp_path_factory.mktemp("source")
    run("mosaicml", "write", folder)

    def source(*without):
        return fl.open(folder / "none", fields={name: FIELDS[name] for name in FIELDS if name not in without})

    return source


def there(run, library, ds, to, folder, **how):
    """Converts, and says what the library finds."""
    made = fl.convert(ds, folder, to=to, progress=False, **how)
    assert len(made) == len(ds)
    if "shard_bytes" in how:
        assert len([file for file in folder.rglob("*.*") if file.suffix != ".json"]) > 1
    dump = folder.parent / f"{folder.name}.json"
    run(library, "read", folder, dump, **({"environment": how["environment"]} if "environment" in how else {}))
    return values.load(dump)


def check(ds, found, names):
    """The library's values are the source's."""
    assert len(found) == len(ds)
    for number, theirs in enumerate(found):
        for field, name in names.items():
            ours = ds[number][field]
            assert values.same(theirs[name], ours), f"sample {number}, {field}: {theirs[name]!r} is not {ours!r}"


def test_webdataset(run, source, tmp_path):
    ds = source()
    found = there(run, "webdataset", ds, "webdataset", tmp_path / "shards", shard_bytes=20_000)
    by_name = {suffix.partition(".")[0]: suffix for suffix in found[0]}
    suffixes = {"image": "jpg", "label": "cls", **{name: by_name.get(name, name) for name in ds.schema}}
    suffixes |= {name: kind for name, kind in {"image": "jpg", "label": "cls"}.items() if kind in found[0]}
    plain = {
        name: suffix for name, suffix in suffixes.items() if name in {"image", "label", "blob", "matrix", "levels"}
    }
    check(ds, found, plain)
    for number, theirs in enumerate(found):
        for name in ("integer", "number", "text", "json"):
            assert same_text(theirs[suffixes[name]], ds[number][name]), f"sample {number}, {name}"


def test_wids(run, source, tmp_path):
    """The index beside the shards is what webdataset's random access reads."""
    ds = source()
    fl.convert(ds, tmp_path / "shards", to="webdataset", progress=False, shard_bytes=20_000)
    run("webdataset", "read_wids", tmp_path / "shards", tmp_path / "found.json", environment="wids")
    found = values.load(tmp_path / "found.json")
    blob = next(name for name in found[0] if name.startswith(".blob"))
    check(ds, found, {"image": ".jpg", "blob": blob})


def same_text(theirs, ours):
    """A value that a suffix says is text may be one all the same."""
    if isinstance(theirs, bytes):
        theirs = theirs.decode()
    return theirs == ours or (isinstance(theirs, str) and type(ours)(theirs) == ours)


def test_mds(run, source, tmp_path):
    ds = source()
    found = there(run, "mosaicml", ds, "mds", tmp_path / "mds", shard_bytes=20_000)
    images = [one.pop("image") for one in found]
    check(ds, found, {name: name for name in ds.schema if name != "image"})
    decoded = ds.decoded()
    assert all(np.array_equal(image, decoded[number]["image"]) for number, image in enumerate(images))


@pytest.mark.parametrize("environment", ["litdata", "litdata-classic"])
def test_litdata(run, source, tmp_path, environment):
    ds = source()
    made = fl.convert(ds, tmp_path / "lit", to="litdata", progress=False, shard_bytes=20_000)
    assert len(made) == len(ds)
    run("litdata", "read", tmp_path / "lit", tmp_path / "found.json", environment=environment)
    found = values.load(tmp_path / "found.json")
    exact = ["label", "integer", "number", "text", "blob", "matrix", "levels"]
    check(ds, found, {name: name for name in exact})


def test_beton(run, source, tmp_path):
    ds = source("levels", "text")
    found = there(run, "ffcv", ds, "beton", tmp_path / "made.beton")
    check(ds, found, {name: name for name in ds.schema})


def test_parquet(run, source, tmp_path):
    ds = source("matrix", "levels", "json")
    found = there(run, "datasets", ds, "parquet", tmp_path / "parquet", shard_bytes=20_000)
    check(ds, found, {name: name for name in ds.schema})


@pytest.mark.parametrize("environment", ["datasets-2.2", "datasets-2.14", "datasets"])
def test_parquet_with_every_kind_of_column(run, source, tmp_path, environment):
    """Older releases of datasets want each column among the features."""
    ds = source()
    fl.convert(ds, tmp_path / "parquet", to="parquet", progress=False, shard_bytes=20_000)
    run("datasets", "read", tmp_path / "parquet", tmp_path / "found.json", environment=environment)
    found = values.load(tmp_path / "found.json")
    check(ds, found, {name: name for name in ("image", "label", "integer", "number", "text", "blob")})
