"""Samples that Python has: what goes into a pack or a table in memory comes out, or is refused by row and field."""

from __future__ import annotations

import io
import pickle
from typing import NamedTuple

import feedline as fl
import numpy as np
import pytest
import torch
from made_images import encode, make_folder, make_image
from PIL import Image


def packed(rows, target, **knobs):
    return fl.pack(rows, target, progress=False, **knobs)


@pytest.mark.parametrize("kind", ["i2", "u4", "i8", "f2", "f4", "f8"])
def test_foreign_byte_order_is_swapped(tmp_path, kind):
    value = np.arange(6).astype(f">{kind}").reshape(2, 3)
    back = packed([{"x": value}], tmp_path / "p")[0]["x"]
    assert back.tolist() == value.tolist()
    assert fl.open([{"x": value}])[0]["x"].tolist() == value.tolist()


def test_lone_surrogates_are_refused_by_row_and_field(tmp_path):
    rows = [{"name": "fine"}, {"name": "ab\ud800"}]
    with pytest.raises(fl.DataError, match=r"row 1, field 'name': the text has a lone surrogate at 2"):
        packed(rows, tmp_path / "p")
    with pytest.raises(fl.DataError, match="row 1"):
        fl.open(rows)


class Endless(torch.utils.data.Dataset):
    """Never raises an IndexError, as many map-style data sets do not."""

    def __len__(self):
        return 5

    def __getitem__(self, index):
        return {"number": index % 5, "image": encode(make_image(index, 20, 16))}


def test_map_style_data_sets_are_asked_for_their_length(tmp_path):
    ds = packed(Endless(), tmp_path / "p")
    assert (len(ds), ds["number"].tolist()) == (5, [0, 1, 2, 3, 4])
    assert ds.schema["image"] == "image"


class Pairs(torch.utils.data.Dataset):
    classes = ("cat", "dog")

    def __len__(self):
        return 4

    def __getitem__(self, index):
        return Image.fromarray(make_image(index, 20, 16)), index % 2


class Named(NamedTuple):
    text: str
    number: int


def test_tuples_need_names(tmp_path):
    with pytest.raises(fl.OptionError, match=r"field_names: row 0 is a tuple of 2.*field_names=\('image', 'label'\)"):
        packed(Pairs(), tmp_path / "p")
    with pytest.raises(fl.OptionError, match="3 names, but row 0 has 2 values"):
        packed(Pairs(), tmp_path / "p", field_names=("a", "b", "c"))
    ds = packed(Pairs(), tmp_path / "p", field_names=("image", "label"))
    assert ds.schema == {"image": "image", "label": "int"}
    assert ds.classes == ["cat", "dog"]
    assert packed([Named("a", 1)], tmp_path / "n")[0] == {"text": "a", "number": 1}


def test_pillow_images_are_stored_without_loss(tmp_path):
    jpeg = encode(make_image(1, 40, 30))
    (tmp_path / "1.jpg").write_bytes(jpeg)
    drawn = Image.fromarray(make_image(2, 40, 30))
    touched = Image.open(io.BytesIO(jpeg))
    touched.paste((255, 0, 0), (0, 0, 4, 4))
    with Image.open(tmp_path / "1.jpg") as stored:
        given = (stored, Image.open(io.BytesIO(jpeg)), drawn, touched)
        ds = packed([{"image": image} for image in given], tmp_path / "p", image="as-is")
    assert ds[0]["image"] == ds[1]["image"] == jpeg
    pixels = ds.decoded()
    assert np.array_equal(pixels[2]["image"], make_image(2, 40, 30))
    assert pixels[3]["image"][0, 0].tolist() == [255, 0, 0]
    with pytest.raises(fl.DataError, match="row 0, field 'image': an image of mode CMYK"):
        packed([{"image": drawn.convert("CMYK")}], tmp_path / "c")


def test_arrays_and_tensors_are_images_where_the_schema_says_so(tmp_path):
    pixels = make_image(3, 24, 18)
    first = torch.from_numpy(pixels).permute(2, 0, 1)
    rows = [{"image": value} for value in (pixels, first, first.float() / 255, pixels[:, :, 0].copy())]
    assert packed(rows[:2], tmp_path / "a").schema == {"image": "array"}
    ds = packed(rows, tmp_path / "p", schema={"image": "image"}, image="as-is").decoded()
    for index in range(3):
        assert np.array_equal(ds[index]["image"], pixels)
    assert np.array_equal(ds[3]["image"][:, :, 1], pixels[:, :, 0])
    with pytest.raises(fl.DataError, match="row 0, field 'image': pixels of float32 that are not multiples"):
        packed([{"image": first.float() / 3}], tmp_path / "f", schema={"image": "image"})
    with pytest.raises(fl.DataError, match=r"an array of shape \(2, 3, 5\) is not an image"):
        packed([{"image": np.zeros((2, 3, 5), np.uint8)}], tmp_path / "s", schema={"image": "image"})


def test_pngs_of_every_depth_round_trip():
    from feedline._images import png

    rng = np.random.default_rng(0)
    for shape in ((5, 7), (5, 7, 1), (5, 7, 3), (5, 7, 4), (1, 1)):
        pixels = rng.integers(0, 256, shape, dtype=np.uint8)
        assert np.array_equal(np.asarray(Image.open(io.BytesIO(png(pixels)))).reshape(shape), pixels)
    deep = rng.integers(0, 65536, (5, 7), dtype=np.uint16)
    assert np.array_equal(np.asarray(Image.open(io.BytesIO(png(deep)))).astype(np.uint16), deep)


def test_scalars_of_numpy_and_torch_are_numbers(tmp_path):
    row = {"a": np.int32(3), "b": np.float32(0.5), "c": torch.tensor(4), "d": np.bool_(True), "e": torch.ones(2)}
    ds = packed([row], tmp_path / "p")
    assert ds.schema == {"a": "int", "b": "float", "c": "int", "d": "int", "e": "array"}
    assert [ds[0][name] for name in "abcd"] == [3, 0.5, 4, 1]


def test_rows_of_hugging_face_are_images(tmp_path):
    jpeg = encode(make_image(4, 30, 20))
    (tmp_path / "x.jpg").write_bytes(jpeg)
    rows = [{"img": {"bytes": jpeg, "path": None}}, {"img": {"bytes": None, "path": str(tmp_path / "x.jpg")}}]
    ds = packed(rows, tmp_path / "p")
    assert ds.schema == {"image": "image"}
    assert ds[0] == ds[1] == {"image": jpeg}
    with pytest.raises(fl.DataError, match="row 0, field 'img': an image with neither bytes nor path"):
        packed([{"img": {"bytes": None, "path": None}}], tmp_path / "e")


def test_classes(tmp_path):
    rows = [{"text": "a", "label": "dog"}, {"text": "b", "label": "cat"}]
    ds = packed(rows, tmp_path / "p", classes=["dog", "cat"])
    assert (ds.classes, ds["label"].tolist()) == (["dog", "cat"], [0, 1])
    ds = packed([{"label": 1}], tmp_path / "q", classes=["dog", "cat"])
    assert (ds.classes, ds[0]["label"]) == (["dog", "cat"], 1)
    with pytest.raises(fl.DataError, match="row 1, field 'label': 'cat' is not one of the classes"):
        packed(rows, tmp_path / "r", classes=["dog"])
    with pytest.raises(fl.OptionError, match="classes: 'a' is there twice"):
        packed(rows, tmp_path / "r", classes=["a", "a"])
    with pytest.raises(fl.OptionError, match="classes: only for samples"):
        packed(ds, tmp_path / "r", classes=["a"])


def test_kinds_are_found_after_missing_values_or_must_be_given(tmp_path):
    ds = packed([{"x": None, "n": 1}, {"x": "late", "n": 2}], tmp_path / "p")
    assert [row["x"] for row in ds] == [None, "late"]
    with pytest.raises(fl.OptionError, match="schema: field 'x' is missing in all of the first 2"):
        packed([{"x": None}, {"x": None}], tmp_path / "q")
    with pytest.raises(fl.OptionError, match="schema: 'x' is 'picture', which is not one of"):
        packed([{"x": 1}], tmp_path / "q", schema={"x": "picture"})
    with pytest.raises(fl.DataError, match="row 1, field 'x'"):
        packed([{"x": 1}, {"x": "one"}], tmp_path / "r")


def test_a_list_of_dicts_opens():
    jpeg = encode(make_image(5, 30, 20))
    rows = [{"image": jpeg, "label": name, "score": n / 2, "box": np.arange(4) + n} for n, name in enumerate("bab")]
    ds = fl.open(rows)
    assert (ds.format, len(ds), ds.classes) == ("rows", 3, ["a", "b"])
    assert ds["label"].tolist() == [1, 0, 1]
    again = pickle.loads(pickle.dumps(ds[1:]))
    assert again[1]["box"].tolist() == [2, 3, 4, 5]
    assert again[0]["image"] == jpeg
    with fl.Loader(again, batch_size=2, output="numpy", dtype="uint8") as loader:
        (batch,) = loader
    assert batch["score"].tolist() == [0.5, 1.0]
    assert batch["image"][0].shape == (3, 20, 30)


def test_rows_with_paths_are_read_from_the_root(folder, monkeypatch):
    rows = [{"file": f"{name}/00{n}.jpg", "label": name} for name in ("owl", "cat") for n in range(2)]
    ds = fl.open(rows, root=folder)
    monkeypatch.chdir(folder.parent)
    relative = fl.open(rows, root=folder.name)
    monkeypatch.chdir("/")
    assert pickle.loads(pickle.dumps(relative))[0] == ds[0] == relative[0]
    assert ds[0]["image"] == (folder / "owl/000.jpg").read_bytes()
    assert (ds.classes, ds[0]["label"], ds[0]["path"]) == (["cat", "owl"], 1, "owl/000.jpg")
    plain = fl.open(rows, schema={"file": "text", "label": "text"})
    assert plain.schema == {"file": "text", "label": "text"}
    kinds = fl.open([{"kind": "b"}, {"kind": "a"}], schema={"kind": "int"})
    assert (kinds.classes, kinds["kind"].tolist()) == (["a", "b"], [1, 0])
    for knob in ({"format": "pack"}, {"split": "train"}, {"allow_pickle": True}):
        with pytest.raises(fl.OptionError, match=f"{next(iter(knob))}: only for data that are opened by a path"):
            fl.open(rows, **knob)


class Frame:
    """As much of a data frame as is asked for."""

    def __init__(self, columns):
        self._columns = columns
        self.columns = list(columns)
        self.dtypes = None

    def __getitem__(self, name):
        return Series(self._columns[name])


class Series(list):
    def to_list(self):
        return list(self)

    def isna(self):
        return Series(value is None or value != value for value in self)  # noqa: PLR0124


def test_data_frames_open_and_pack(folder, tmp_path):
    frame = Frame({"path": ["cat/000.jpg", "dog/000.jpg"], "label": [1, 0], "weight": [0.5, float("nan")]})
    ds = fl.open(frame, root=folder)
    assert ds[1]["image"] == (folder / "dog/000.jpg").read_bytes()
    assert [row["weight"] for row in ds] == [0.5, None]
    assert packed(frame, tmp_path / "p").schema == {"path": "text", "label": "int", "weight": "float"}


def test_hugging_face_data_sets_open(tmp_path):
    """From their files where those are all of it, else by their rows; images are never decoded on the way."""
    datasets = pytest.importorskip("datasets")
    jpegs = [encode(make_image(n, 20 + n, 16)) for n in range(6)]
    features = datasets.Features(
        {"img": datasets.Image(), "label": datasets.ClassLabel(names=["a", "b"]), "text": datasets.Value("string")}
    )
    columns = {"img": [{"bytes": b, "path": None} for b in jpegs], "label": [0, 1] * 3, "text": list("uvwxyz")}
    made = datasets.Dataset.from_dict(columns, features=features)
    made.save_to_disk(tmp_path / "saved")
    stored = datasets.load_from_disk(tmp_path / "saved")
    for source, order in (
        (made, range(6)),
        (stored, range(6)),
        (stored.select([4, 1, 1]), [4, 1, 1]),
        (stored.select(range(2, 4)), [2, 3]),
        (stored.rename_column("text", "words"), range(6)),
        (stored.remove_columns("text"), range(6)),
    ):
        ds = pickle.loads(pickle.dumps(fl.open(source)))
        assert ds["image"] == [jpegs[n] for n in order]
        assert ds["label"].tolist() == [n % 2 for n in order]
        assert ds.classes == ["a", "b"]
        assert len(ds.schema) == len(source.column_names)
    assert fl.open(stored).format == "arrow"
    assert "words" in fl.open(stored.rename_column("text", "words")).schema
    assert fl.pack(stored, tmp_path / "p", progress=False)[5]["image"] == jpegs[5]


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames_of_real_libraries(folder, library):
    frames = pytest.importorskip(library)
    columns = {"path": ["cat/000.jpg", "dog/000.jpg"], "label": ["x", None], "n": [1, 2], "w": [0.5, None]}
    ds = fl.open(frames.DataFrame(columns), root=folder)
    assert ds[1]["image"] == (folder / "dog/000.jpg").read_bytes()
    assert [(row["label"], row["n"], row["w"]) for row in ds] == [(0, 1, 0.5), (None, 2, None)]


def test_whole_images_are_the_same_in_every_epoch(tmp_path):
    """From the second epoch on, the loader knows the sizes of the folder's images and gives each its place beforehand."""
    root = make_folder(tmp_path / "photos", per_class=5)
    files = sorted(root.rglob("*.jpg"))
    turned = Image.Exif()
    turned[0x0112] = 6
    files[3].write_bytes(encode(make_image(50, 70, 40), exif=turned))
    files[7].write_bytes(b"not an image")
    wanted = {n: np.asarray(Image.open(f)) for n, f in enumerate(files) if n not in {3, 7}}
    loader = fl.Loader(
        fl.open(root), batch_size=4, on_error="skip", output="numpy", dtype="uint8", memory_format="channels_last"
    )
    for _ in range(3):
        seen = {}
        for batch in loader:
            seen.update({int(index): batch["image"][row].copy() for row, index in enumerate(batch["index"])})
        assert sorted(seen) == [n for n in range(15) if n != 7]
        assert seen[3].shape == (70, 40, 3)
        for number, pixels in wanted.items():
            assert np.array_equal(seen[number], pixels)
