"""Data that the real libraries wrote, read here: every field of every sample, in any order, alone and in batches."""

import feedline as fl
import numpy as np
import pytest
import values


def check(ds, expected, names=None):
    """Compares every sample with what was written. `names`: how fields are called here, where not as there."""
    names = names or {}
    assert len(ds) == len(expected)
    order = np.random.default_rng(0).permutation(len(ds))
    samples = {int(number): ds[int(number)] for number in order}
    decoded = ds.decoded()
    for number in range(len(ds)):
        for name, theirs in expected[number].items():
            field = names.get(name, name)
            ours = samples[number][field]
            if ds.schema[field] == "image" and isinstance(theirs, np.ndarray):
                ours = decoded[number][field]
            assert values.same(ours, theirs), f"sample {number}, {field}: {ours!r} is not {theirs!r}"
        # What the library left out is there without a value.
        absent = set(ds.schema) - {names.get(name, name) for name in expected[number]}
        assert all(samples[number].get(field) is None for field in absent), f"sample {number}: {absent}"
    check_batches(ds, samples)


def check_batches(ds, samples):
    """Batches hold what single samples hold."""
    optional = {name for one in samples.values() for name, value in one.items() if value is None}
    fields = [name for name in ds.schema if name not in optional]
    whole = {name: kind for name, kind in ds.schema.items() if name in fields}
    with fl.Loader(ds, batch_size=5, shuffle=True, seed=3, decode="none", fields=fields, output="numpy") as loader:
        seen = []
        for batch in loader:
            for row, number in enumerate(batch["index"].tolist()):
                seen.append(number)
                for name, kind in whole.items():
                    compare(batch[name][row], samples[number][name], kind, f"sample {number}, {name}")
    assert sorted(seen) == list(range(len(ds)))


def compare(ours, alone, kind, where):
    """A value from a batch and the same value on its own."""
    if kind in {"bytes", "image"} and isinstance(alone, bytes):
        assert bytes(ours) == alone, where
    elif kind in {"array", "image"}:
        assert np.asarray(ours).tobytes() == np.asarray(alone).tobytes(), where
        assert kind == "image" or np.asarray(ours).shape == np.asarray(alone).shape, where
    else:
        assert ours == alone, where


@pytest.fixture(scope="module")
def written(run, tmp_path_factory):
    """What a library wrote, once."""
    done = {}

    def written(library, environment=None):
        name = environment or library
        if name not in done:
            done[name] = tmp_path_factory.mktemp(name)
            run(library, "write", done[name], environment=environment)
        return done[name]

    return written


def test_webdataset(written):
    folder = written("webdataset")
    ds = fl.open(folder, format="webdataset")
    assert ds.schema["levels.npy"] == "array"
    check(ds, values.load(folder / "expected.json"), {"cls": "label"})


@pytest.mark.parametrize("compression", ["none", "zstd", "gz", "br", "bz2", "snappy"])
def test_mds(written, compression):
    folder = written("mosaicml")
    ds = fl.open(folder / compression, verify_hashes=True)
    assert ds.format == "mds"
    assert len(list((folder / compression).glob("shard.*"))) > 3
    check(ds, values.load(folder / "expected.json"))


LITDATA = ["litdata", "litdata-classic", "litdata-0.2.6", "litdata-0.2.20", "litdata-0.2.39", "litdata-0.2.40"]


@pytest.mark.parametrize("environment", LITDATA)
@pytest.mark.parametrize("chunks", ["small", "large", "zstd"])
@pytest.mark.parametrize("kind", ["everything", "rows"])
def test_litdata(written, environment, chunks, kind):
    folder = written("litdata", environment) / f"{kind}-{chunks}"
    ds = fl.open(folder)
    assert ds.format == "litdata"
    check(ds, [leaves(one, ds.schema) for one in values.load(f"{folder}.json")])


def leaves(sample, schema, above=""):
    """A sample's leaves by their names here: LitData before 0.2.76 takes lists apart, later ones keep them whole."""
    found = {}
    for name, value in sample.items():
        field = f"{above}{name}"
        inside = dict(enumerate(value)) if isinstance(value, list) else value
        if isinstance(inside, dict) and field not in schema:
            found.update(leaves(inside, schema, f"{field}."))
        else:
            found[field] = int(value) if isinstance(value, bool) else value
    return found


@pytest.mark.parametrize("environment", LITDATA)
def test_litdata_tokens(written, environment):
    folder = written("litdata", environment) / "tokens"
    ds = fl.open(folder)
    stream = np.concatenate([one["value"] for one in values.load(f"{folder}.json")])
    (field,) = ds.schema
    assert np.array_equal(np.concatenate([np.asarray(ds[number][field]) for number in range(len(ds))]), stream)


@pytest.mark.parametrize("mode", ["raw", "jpg", "proportion", "smart"])
def test_beton(written, mode):
    folder = written("ffcv")
    ds = fl.open(folder / f"{mode}.beton")
    expected = values.load(folder / "expected.json")
    images = [one.pop("picture") for one in expected]
    decoded = ds.decoded()
    for number, image in enumerate(images):
        ours = decoded[number]["image"]
        assert ours.shape == image.shape
        off = np.abs(ours.astype(int) - image).mean()
        assert off == 0 if mode == "raw" else off < 4, f"sample {number}: off by {off}"
    check(ds, [{**one, "image": ds[number]["image"]} for number, one in enumerate(expected)])


@pytest.mark.parametrize("name", ["data.parquet", "disk"])
def test_datasets(written, name):
    folder = written("datasets")
    ds = fl.open(folder / name)
    assert ds.classes == ["ant", "bee", "cat"]
    check(ds, [flags(one) for one in values.load(folder / "expected.json")])


def flags(sample):
    """Truth is a number here."""
    return {**sample, "flag": int(sample["flag"])}


def test_datasets_with_splits(written):
    folder = written("datasets")
    expected = [flags(one) for one in values.load(folder / "expected.json")]
    check(fl.open(folder / "splits", split="train"), expected[:15])
    check(fl.open(folder / "splits", split="test"), expected[15:])


@pytest.mark.parametrize("name", ["plain", "gzip", "zlib", "package"])
def test_tfrecord(written, name):
    folder = written("tensorflow")
    ds = fl.open(folder / f"{name}.tfrecord")
    check(ds, values.load(folder / "expected.json"), {"image/encoded": "image", "image/class/label": "label"})


@pytest.mark.parametrize("name", ["plain", "lz4"])
def test_tbl(written, name):
    folder = written("turboloader")
    check(fl.open(folder / f"{name}.tbl"), values.load(folder / "expected.json"))


@pytest.mark.parametrize("name", ["one", "several"])
def test_recordio(written, name):
    folder = written("mxnet")
    ds = fl.open(folder / f"{name}.rec")
    assert (ds.format, ds.problems) == ("recordio", [])
    check(ds, values.load(folder / f"{name}.json"))


@pytest.mark.parametrize("name", ["files", "sizes", "changed"])
def test_lmdb(written, name):
    folder = written("lmdb")
    ds = fl.open(folder / ("changed.lmdb" if name == "changed" else name))
    assert ds.format == "lmdb"
    check(ds, values.load(folder / f"{name}.json"))


@pytest.mark.parametrize("version", ["earliest", "latest"])
@pytest.mark.parametrize("layout", ["contiguous", "chunked", "gzip", "offset"])
def test_hdf5(written, layout, version):
    folder = written("arrays")
    ds = fl.open(folder / f"{layout}-{version}.h5")
    assert (ds.format, ds.problems) == ("hdf5", [])
    check(ds, values.load(folder / "arrays.json"))


@pytest.mark.parametrize("name", ["v2", "v3", "shards"])
def test_zarr(written, name):
    folder = written("arrays")
    ds = fl.open(folder / f"{name}.zarr")
    assert (ds.format, ds.problems) == ("zarr", [])
    check(ds, values.load(folder / "arrays.json"))


@pytest.mark.parametrize("name", ["zstd", "groups"])
def test_array_record(written, name):
    folder = written("arrays")
    ds = fl.open(folder / f"{name}.array_record")
    assert (ds.format, ds.problems) == ("arrayrecord", [])
    check(ds, values.load(folder / "records.json"))
