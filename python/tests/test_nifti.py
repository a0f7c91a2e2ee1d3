"""NIfTI volumes beside nibabel."""

from __future__ import annotations

import io
import tarfile

import feedline as fl
import nibabel as nib
import numpy as np
import pytest
from feedline import transforms as T
from feedline.errors import SampleError

KINDS = ["uint8", "int16", "int32", "float32", "float64", "int8", "uint16", "uint32", "int64", "uint64"]


def volume(dtype, shape=(5, 7, 4), seed=0):
    values = np.random.default_rng(seed).integers(0, 100, shape)
    return values.astype(dtype) if np.issubdtype(dtype, np.integer) else (values / 7).astype(dtype)


def image(array, kind=nib.Nifti1Image, scale=None, big=False):
    made = kind(array, np.eye(4), dtype=array.dtype)
    if big:
        made = kind(array, np.eye(4), kind.header_class(endianness=">"), dtype=array.dtype)
    made.header.set_data_dtype(array.dtype)
    if scale:
        made.header.set_slope_inter(*scale)
    return made


def folder_of(tmp_path, images):
    for name, made in images.items():
        nib.save(made, tmp_path / name)
    return fl.open(tmp_path)


@pytest.mark.parametrize("kind", [nib.Nifti1Image, nib.Nifti2Image])
@pytest.mark.parametrize("ending", [".nii", ".nii.gz"])
def test_volumes_are_nibabels(tmp_path, kind, ending):
    arrays = {f"{n:02}{ending}": volume(np.dtype(dtype), seed=n) for n, dtype in enumerate(KINDS)}
    arrays["10" + ending] = volume(np.dtype("int16"), (3, 4, 5, 6))
    arrays["11" + ending] = volume(np.dtype("uint8"), (9, 2))
    ds = folder_of(tmp_path, {name: image(array, kind) for name, array in arrays.items()})
    assert ds.schema["volume"] == "array"
    for sample, name in enumerate(sorted(arrays)):
        theirs = np.asanyarray(nib.load(tmp_path / name).dataobj)
        ours = ds[sample]["volume"]
        assert ours.dtype == theirs.dtype
        assert np.array_equal(ours, theirs)
        assert np.array_equal(ours, arrays[name])


@pytest.mark.parametrize("kind", [nib.Nifti1Image, nib.Nifti2Image])
def test_other_bytes_and_scales(tmp_path, kind):
    images = {
        "a.nii": image(volume(np.dtype("int16")), kind, big=True),
        "b.nii": image(volume(np.dtype("float64"), seed=2), kind, big=True),
    }
    ds = folder_of(tmp_path, images)
    for sample, name in enumerate(images):
        assert np.array_equal(ds[sample]["volume"], np.asanyarray(nib.load(tmp_path / name).dataobj))
    # A scale that the file has: values as nibabel's, in 32 bits.
    content = bytearray((tmp_path / "a.nii").read_bytes())
    slope, width = (112, ">f4") if kind is nib.Nifti1Image else (176, ">f8")
    size = np.dtype(width).itemsize
    content[slope : slope + size] = np.array(0.25, width).tobytes()
    content[slope + size : slope + 2 * size] = np.array(-3.0, width).tobytes()
    (tmp_path / "a.nii").write_bytes(content)
    scaled = fl.open(tmp_path)[0]["volume"]
    assert scaled.dtype == np.float32
    assert np.allclose(scaled, nib.load(tmp_path / "a.nii").get_fdata())
    assert not np.array_equal(scaled, volume(np.dtype("int16")))


def test_crops_of_volumes_train(tmp_path):
    arrays = [volume(np.dtype("float32"), (12 + n, 14, 10), n) for n in range(5)]
    (tmp_path / "volumes").mkdir()
    ds = folder_of(tmp_path / "volumes", {f"{n}.nii.gz": image(array) for n, array in enumerate(arrays)})
    with fl.Loader(
        ds, transforms={"volume": [T.ArrayWindow((8, 8, 8), "center")]}, batch_size=5, output="numpy"
    ) as one:
        (batch,) = list(one)
    for array, crop in zip(arrays, batch["volume"], strict=True):
        start = [(side - 8) // 2 for side in array.shape]
        assert np.array_equal(crop, array[tuple(slice(s, s + 8) for s in start)])
    pack = fl.pack(ds, tmp_path / "pack", progress=False)
    assert all(np.array_equal(pack[n]["volume"], array) for n, array in enumerate(arrays))


def test_tar_shards(tmp_path):
    array = volume(np.dtype("int16"))
    with tarfile.open(tmp_path / "a-000000.tar", "w") as tar:
        for number, ending in enumerate(("nii", "nii")):
            nib.save(image(array + number), tmp_path / f"x.{ending}")
            content = (tmp_path / f"x.{ending}").read_bytes()
            about = tarfile.TarInfo(f"{number:04}.{ending}")
            about.size = len(content)
            tar.addfile(about, io.BytesIO(content))
    ds = fl.open(tmp_path / "a-000000.tar")
    assert np.array_equal(ds[1]["nii"], array + 1)


def test_what_is_damaged_or_not_read_is_named(tmp_path):
    good = image(volume(np.dtype("int16")))
    nib.save(good, tmp_path / "a.nii")
    content = (tmp_path / "a.nii").read_bytes()
    (tmp_path / "b.nii").write_bytes(content[:-10])
    (tmp_path / "c.nii").write_bytes(b"nothing")
    colours = np.zeros((3, 3, 3), [("R", "u1"), ("G", "u1"), ("B", "u1")])
    nib.save(nib.Nifti1Image(colours, np.eye(4)), tmp_path / "d.nii")
    (tmp_path / "e.nii.gz").write_bytes(b"\x1f\x8b" + content[:50])
    ds = fl.open(tmp_path)
    knobs = {"transforms": {"volume": [T.ArrayWindow((2, 2, 2))]}, "batch_size": 5, "output": "numpy"}
    with fl.Loader(ds, on_error="skip", **knobs) as loader:
        (batch,) = list(loader)
        assert batch["index"].tolist() == [0]
        reasons = " ".join(error["reason"] for error in loader.errors())
    for words in ("truncated", "another length", "colours", "gzip"):
        assert words in reasons
    with pytest.raises(SampleError, match=r"b\.nii"):
        list(fl.Loader(ds, **knobs))
