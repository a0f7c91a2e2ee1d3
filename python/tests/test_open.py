"""Everything that `fl.open` takes besides the formats with pages of their own tests."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import zipfile
from pathlib import Path

import feedline as fl
import numpy as np
import pytest
import torch
from made_images import encode, make_image


def same(a, b):
    """The same samples in another process."""
    return all(np.array_equal(a[name], b[name]) for name in a) and set(a) == set(b)


def test_paths_are_resolved_when_opened(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(folder.parent)
    monkeypatch.setenv("HOME", str(folder.parent))
    relative, home, raw = fl.open(folder.name), fl.open(f"~/{folder.name}"), fl.open(os.fsencode(folder))
    pattern = fl.open([f"{folder.name}/*/000.jpg"])
    packed = fl.pack(folder.name, "~/packed", progress=False)
    monkeypatch.chdir(tmp_path)
    for ds in (relative, home, raw):
        assert ds.uri == str(folder)
        assert ds[3]["image"] == pickle.loads(pickle.dumps(ds))[3]["image"] == (folder / "cat/003.jpg").read_bytes()
    assert pattern[1]["image"] == (folder / "dog/000.jpg").read_bytes()
    assert len(packed) == 12
    assert Path(packed.uri) == folder.parent / "packed"
    with fl.Loader(relative, batch_size=12, decode="none") as loader:
        assert len(next(iter(loader))["index"]) == 12


def test_impossible_names_are_refused():
    with pytest.raises(fl.OptionError, match="uri: .* is not UTF-8"):
        fl.open(b"/tmp/\xff")
    with pytest.raises(fl.OptionError, match="uri: a int cannot be opened"):
        fl.open(3)
    with pytest.raises(fl.OptionError, match="uri: 3 is a int, not a path"):
        fl.open([3])


def test_slices_columns_masks(folder):
    ds = fl.open(folder)
    part = ds[2:8:3]
    assert [sample["path"] for sample in part] == ["cat/002.jpg", "dog/001.jpg"]
    assert [s["path"] for s in ds[-2:]] == ["owl/002.jpg", "owl/003.jpg"]
    assert len(ds[5:5]) == 0
    labels = ds["label"]
    assert labels.dtype == np.int64
    assert labels.tolist() == [0] * 4 + [1] * 4 + [2] * 4
    assert ds["path"][4] == "dog/000.jpg"
    assert ds[:2]["image"] == [ds[0]["image"], ds[1]["image"]]
    assert ds.decoded()[:1]["image"][0].ndim == 3
    assert ds.select(labels == 2)["label"].tolist() == [2] * 4
    assert len(ds.select(torch.tensor([True, False] * 6))) == 6
    with pytest.raises(fl.OptionError, match="there is no field 'labels'; the data set has: image, label, path"):
        ds["labels"]
    with pytest.raises(fl.OptionError, match="a mask of 3 for a data set of 12"):
        ds.select([True, False, True])


def test_split_is_a_stable_partition(folder):
    ds = fl.open(folder)
    train, test = ds.split(0.75, seed=0)
    assert (len(train), len(test)) == (9, 3)
    assert sorted(train["path"] + test["path"]) == ds["path"]
    # The same for ever, whatever the version of NumPy: these are written down.
    assert test["path"] == ["cat/000.jpg", "cat/003.jpg", "owl/001.jpg"]
    assert [len(p) for p in ds.split(0.5, 0.25, 0.25)] == [6, 3, 3]
    assert [len(p) for p in ds.split([0.5, 0.25])] == [6, 3, 3]
    assert [len(p) for p in ds.split(1 / 3, 1 / 3, 1 / 3)] == [4, 4, 4]
    assert [len(p) for p in ds.split(10)] == [10, 2]
    assert ds.split(0.5, seed=None)[0]["path"] == ds["path"][:6]
    assert ds.split(0.5, seed=1)[0]["path"] != ds.split(0.5, seed=2)[0]["path"]
    assert pickle.loads(pickle.dumps(test))["path"] == test["path"]
    for wrong in ((0.9, 0.2), (-0.1,), (), ("0.5",), (13,), (float("nan"),)):
        with pytest.raises(fl.OptionError, match="split: "):
            ds.split(*wrong)


def test_ragged_slices(folder):
    for output in ("numpy", "torch"):
        with fl.Loader(folder, batch_size=4, dtype="uint8", output=output) as loader:
            ragged = next(iter(loader))["image"]
        for part in (slice(2), slice(1, 3), slice(None, None, -1), slice(0, 4, 2), slice(2, 2)):
            chosen = ragged[part]
            expected = list(ragged)[part]
            assert isinstance(chosen, fl.Ragged)
            assert len(chosen) == len(expected)
            assert all((a == b).all() for a, b in zip(chosen, expected, strict=True))
            assert chosen.offsets.tolist()[0] == 0


def test_batches_as_tuples_text_and_paths(folder):
    with fl.Loader(folder, batch_size=4, as_tuple=True, dtype="uint8") as loader:
        image, label = next(iter(loader))
    assert isinstance(image, fl.Ragged)
    assert label.tolist() == [0] * 4
    with fl.Loader(folder, batch_size=4, as_tuple=("label", "path", "index"), output="numpy") as loader:
        label, path, index = next(iter(loader))
    assert path == [f"cat/00{n}.jpg" for n in range(4)]
    assert index.tolist() == [0, 1, 2, 3]
    with fl.Loader(folder, batch_size=4, decode="none", as_tuple=("label", "image_size")) as loader:
        assert next(iter(loader))[1].shape == (4, 2)
    with fl.Loader(folder, batch_size=4, fields=["label", "path"]) as loader:
        batch = next(iter(loader))
        assert batch["path"][0] == "cat/000.jpg"
        assert isinstance(batch["path"], list)
    with fl.Loader(folder, batch_size=4, fields=["path"], collate="ragged", output="numpy") as loader:
        assert isinstance(next(iter(loader))["path"], fl.Ragged)
    with fl.Loader(folder, batch_size=4, decode="none") as loader:
        assert "path" not in next(iter(loader))
    for wrong in ("image", (), ("image", "nobody")):
        with pytest.raises(fl.OptionError, match="as_tuple: "):
            fl.Loader(folder, as_tuple=wrong)
    with pytest.raises(fl.OptionError, match="as_tuple: there is no field 'image'"):
        fl.Loader(folder, fields=["label"], as_tuple=("image",))


def test_lists_and_globs_of_images(folder, tmp_path):
    ds = fl.open([folder / "dog/001.jpg", folder / "cat/000.jpg"])
    assert (ds.format, ds.schema) == ("files", {"image": "image", "path": "text"})
    assert ds[0]["image"] == (folder / "dog/001.jpg").read_bytes()
    assert len(fl.open(str(folder / "*" / "*.jpg"))) == 12
    assert len(fl.open(folder / "cat/000.jpg")) == 1
    with pytest.raises(FileNotFoundError, match=r"gone\.jpg"):
        fl.open([folder / "cat/000.jpg", tmp_path / "gone.jpg"])
    with fl.Loader(pickle.loads(pickle.dumps(ds)), batch_size=2, dtype="uint8") as loader:
        assert len(next(iter(loader))["image"]) == 2


@pytest.fixture
def table(folder, tmp_path):
    """A table of the folder's images in a folder of its own."""
    path = tmp_path / "tables" / "train.csv"
    path.parent.mkdir()
    rows = [(file.relative_to(folder).as_posix(), file.parent.name) for file in sorted(folder.glob("*/*.jpg"))]
    path.write_text(
        "filename,label,weight\n" + "".join(f"{file},{name},{n / 4}\n" for n, (file, name) in enumerate(rows))
    )
    return path


def test_tables(folder, table):
    ds = fl.open(table, root=folder)
    whole = fl.open(folder)
    assert ds.format == "table"
    assert ds.schema == {"image": "image", "label": "int", "weight": "float", "path": "text"}
    assert (ds.classes, ds["label"].tolist()) == (whole.classes, whole["label"].tolist())
    assert ds["image"] == whole["image"]
    tabs, lines = table.with_suffix(".tsv"), table.with_suffix(".jsonl")
    tabs.write_text(table.read_text().replace(",", "\t"))
    rows = [{"filename": ds[n]["path"], "label": ds.classes[ds[n]["label"]], "weight": n / 4} for n in range(12)]
    lines.write_text("\n".join(map(json.dumps, rows)))
    for other in (tabs, lines):
        again = pickle.loads(pickle.dumps(fl.open(other, root=folder)))
        assert again.classes == ds.classes
        assert all(same(a, b) for a, b in zip(again, ds, strict=True))
    with fl.Loader(ds, batch_size=12, dtype="uint8", output="numpy", shuffle=True) as loader:
        batch = next(iter(loader))
    assert batch["label"].tolist() == (batch["index"] // 4).tolist()
    renamed = fl.open(table, root=folder, fields={"picture": "filename", "y": "label"})
    assert renamed.schema == {"picture": "image", "y": "int"}


def test_faulty_tables(folder, table):
    with pytest.raises(fl.DataError, match="(?s)none of the 12 files.*root="):
        fl.open(table)
    missing = table.with_name("missing.csv")
    missing.write_text(table.read_text() + "cat/gone.jpg,cat,3\n")
    ds = fl.open(missing, root=folder)
    assert "gone.jpg" in ds.problems[0]["message"]
    with pytest.raises(fl.DataError, match=r"gone\.jpg.*there is no such file"):
        ds[12]
    for decode in ("none", "exact"):
        with fl.Loader(ds, batch_size=13, on_error="skip", dtype="uint8", decode=decode) as loader:
            assert next(iter(loader))["index"].tolist() == list(range(12))
            assert "gone.jpg" in loader.errors()[0]["message"]
    bare = table.with_name("bare.csv")
    bare.write_text("".join(table.read_text().splitlines(keepends=True)[1:]))
    with pytest.raises(fl.DataError, match="line 1 has no column names: 'cat/000.jpg' is a file"):
        fl.open(bare, root=folder)
    bare.write_text("name,label\nx,1\n")
    with pytest.raises(fl.DataError, match="no column holds paths of images; the columns are name, label"):
        fl.open(bare)
    with pytest.raises(fl.OptionError, match="root: only for tables"):
        fl.open(folder, root=folder)
    with pytest.raises(fl.OptionError, match="schema: only for tables"):
        fl.open(folder, schema={"label": "text"})


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_zips(folder, tmp_path, method):
    path = tmp_path / "animals.zip"
    with zipfile.ZipFile(path, "w", method) as archive:
        for file in sorted(folder.rglob("*.jpg")):
            archive.write(file, f"animals/{file.relative_to(folder)}")
        archive.writestr("animals/readme.txt", "x")
    ds, whole = fl.open(path), fl.open(folder)
    assert (ds.format, ds.classes) == ("zip", whole.classes)
    assert all(same(a, b) for a, b in zip(pickle.loads(pickle.dumps(ds)), whole, strict=True))
    assert "readme.txt" in ds.problems[0]["message"]
    with fl.Loader(ds, batch_size=5, shuffle=True, dtype="uint8") as loader:
        assert sum(len(batch["index"]) for batch in loader) == 12
    packed = fl.pack(path, tmp_path / "packed", progress=False)
    assert packed[7] == whole[7]


def test_zips_with_many_members_and_large_offsets(tmp_path):
    """Python writes the 64-bit form from 65,536 members on."""
    path = tmp_path / "many.zip"
    jpeg = encode(make_image(0, 8, 8))
    with zipfile.ZipFile(path, "w") as archive:
        for number in range(66_000):
            archive.writestr(f"{number:05}.jpg", jpeg if number % 1000 == 0 else b"x")
    ds = fl.open(path)
    assert len(ds) == 66_000
    assert ds[65_000]["image"] == jpeg


def test_npy_and_npz(tmp_path):
    images = np.stack([make_image(n, 12, 10) for n in range(6)])
    labels = np.arange(6, dtype=">i2") % 3
    np.save(tmp_path / "x.npy", images)
    ds = fl.open(tmp_path / "x.npy")
    assert (ds.format, ds.schema) == ("npy", {"array": "array"})
    assert np.array_equal(ds[4]["array"], images[4])
    pixels = fl.open(tmp_path / "x.npy", schema={"array": "image"})
    assert pixels.schema == {"image": "image"}
    with fl.Loader(pixels, batch_size=6, dtype="uint8", output="numpy", collate="stack") as loader:
        assert np.array_equal(next(iter(loader))["image"].transpose(0, 2, 3, 1), images)
    for save in (np.savez, np.savez_compressed):
        save(tmp_path / "d.npz", image=images, label=labels)
        ds = pickle.loads(pickle.dumps(fl.open(tmp_path / "d.npz", schema={"image": "image"})))
        assert ds["label"].tolist() == labels.tolist()
        assert np.array_equal(ds.decoded()[3]["image"], images[3])
    np.savez(tmp_path / "m.npz", x_train=images, y_train=labels, x_test=images[:2], y_test=labels[:2])
    with pytest.raises(fl.DataError, match="(?s)different numbers of rows: .*x_test.*2.*split="):
        fl.open(tmp_path / "m.npz")
    assert fl.open(tmp_path / "m.npz", split="test").schema == {"x": "array", "y": "int"}
    np.save(tmp_path / "f.npy", np.asfortranarray(images))
    with pytest.raises(fl.DataError, match="column-major"):
        fl.open(tmp_path / "f.npy")


def test_several_folders_packs_and_tables_are_joined_by_class_name(folder, table, tmp_path):
    other = tmp_path / "other"
    for name in ("ant", "dog"):
        (other / name).mkdir(parents=True)
        (other / name / "0.jpg").write_bytes(encode(make_image(9, 20, 16)))
    packed = fl.pack(other, tmp_path / "packed", progress=False)
    for second in (other, tmp_path / "packed"):
        ds = fl.open([folder, second])
        assert ds.classes == ["ant", "cat", "dog", "owl"]
        assert ds["label"].tolist() == [1] * 4 + [2] * 4 + [3] * 4 + [0, 2]
        again = pickle.loads(pickle.dumps(ds))
        assert again["label"].tolist() == ds["label"].tolist()
        with fl.Loader(ds, batch_size=14, decode="none") as loader:
            assert next(iter(loader))["label"].tolist() == ds["label"].tolist()
    assert packed.classes == ["ant", "dog"]
    assert len(fl.open([folder, folder])) == 24
    assert len(fl.open([table, table], root=folder)) == 24
    with pytest.raises(fl.OptionError, match="number their classes differently"):
        fl.concat([fl.open(folder), fl.open(other)])


def test_another_process_in_another_folder_reads_the_same(folder, table, tmp_path):
    """As Ray's workers do: pickled here, opened there, from another folder."""
    sets = [
        fl.open(table, root=folder),
        fl.open([{"a": 1, "file": "cat/000.jpg"}], root=folder),
        fl.open([folder, folder]),
    ]
    (tmp_path / "sets").write_bytes(pickle.dumps(sets))
    script = "import pickle, sys; print([len(ds[0]['image']) for ds in pickle.load(open(sys.argv[1], 'rb'))])"
    made = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "sets")], cwd="/", capture_output=True, text=True, check=True
    )
    assert json.loads(made.stdout) == [len(ds[0]["image"]) for ds in sets]


def test_a_zip_and_a_table_in_a_bucket(servers, tmp_path):
    local = servers.folder / "bucket" / "animals"
    with zipfile.ZipFile(servers.folder / "bucket" / "animals.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(local.rglob("*.jpg")):
            archive.write(file, file.relative_to(local))
    files = [file.relative_to(local).as_posix() for file in sorted(local.rglob("*.jpg"))]
    text = "path,label\n" + "".join(f"{file},{file.split('/')[0]}\n" for file in files)
    (servers.folder / "bucket" / "animals" / "train.csv").write_text(text)
    (tmp_path / "local.csv").write_text(text)
    whole, remote = fl.open(local), {"storage_options": servers.options}
    sets = [
        fl.open("s3://bucket/animals.zip", **remote),
        fl.open("s3://bucket/animals/train.csv", **remote),
        fl.open(tmp_path / "local.csv", root="s3://bucket/animals", **remote),
        fl.open([{"file": f"s3://bucket/animals/{file}", "label": file.split("/")[0]} for file in files], **remote),
    ]
    for ds in sets:
        assert ds.classes == whole.classes
        again = pickle.loads(pickle.dumps(ds))
        assert again["image"] == whole["image"]
        with fl.Loader(ds, batch_size=5, decode="none", shuffle=True, output="numpy") as loader:
            for batch in loader:
                for row, index in enumerate(batch["index"]):
                    assert bytes(batch["image"][row]) == whole[int(index)]["image"]
    (servers.folder / "bucket" / "animals" / "train.csv").unlink()


def test_settings_that_a_format_does_not_have_are_refused(folder, tmp_path):
    fl.pack(folder, tmp_path / "pack", progress=False)
    fl.convert(folder, tmp_path / "mds", to="mds", progress=False)
    np.save(tmp_path / "x.npy", np.zeros((5, 8), np.uint8))
    for name, settings, said in [
        ("pack", {"password": "secret"}, "password: only LitData is encrypted; this is pack"),
        ("pack", {"split": "train"}, "split: pack has no splits"),
        ("pack", {"verify_hashes": True}, "verify_hashes: only indexes of mds and webdataset"),
        ("mds", {"password": "secret"}, "password: "),
        ("x.npy", {"split": "train"}, "split: an .npy file holds one array"),
        ("x.npy", {"schema": {"x": "image"}}, "schema: there is no array 'x'; there are array"),
    ]:
        with pytest.raises(fl.OptionError, match=said):
            fl.open(tmp_path / name, **settings)
    assert len(fl.open(tmp_path / "mds", verify_hashes=True)) == 12
