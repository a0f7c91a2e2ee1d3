"""Data in a bucket and behind http, from Python: real servers on loopback, started here."""

from __future__ import annotations

import pickle
import shutil
import subprocess
import sys
import time
from pathlib import Path

import feedline as fl
import numpy as np
import pytest
from buckets import Servers


def everything(loader: fl.Loader) -> list[np.ndarray]:
    return [batch[name] for batch in loader for name in ("image", "label", "index")]


@pytest.mark.parametrize("name", ["animals", "packed"])
def test_a_bucket_gives_the_same_batches_as_the_folder(servers: Servers, name: str) -> None:
    local = fl.open(servers.folder / "bucket" / name)
    remote = fl.open(f"s3://bucket/{name}", storage_options=servers.options)
    assert (remote.format, len(remote), remote.classes) == (local.format, len(local), local.classes)
    assert remote[3]["image"] == local[3]["image"]
    options = {"batch_size": 5, "shuffle": True, "output": "numpy", "transforms": [fl.transforms.Resize((8, 8))]}
    with fl.Loader(local, **options) as one, fl.Loader(pickle.loads(pickle.dumps(remote)), **options) as two:
        for mine, other in zip(everything(one), everything(two), strict=True):
            np.testing.assert_array_equal(mine, other)


def test_http_reads_a_pack(servers: Servers) -> None:
    remote = fl.open(f"{servers.http}/bucket/packed/")
    assert (remote.format, len(remote)) == ("pack", 12)
    assert remote[0]["image"] == fl.open(servers.folder / "bucket" / "packed")[0]["image"]


def test_a_cache_is_used_when_the_data_are_gone(servers: Servers, tmp_path: Path) -> None:
    """The loader's knob and `cached` do the same."""
    shutil.copytree(servers.folder / "bucket" / "packed", servers.folder / "bucket" / "brief")
    remote = fl.open("s3://bucket/brief", storage_options=servers.options)
    with fl.Loader(remote, batch_size=4, decode="none", output="numpy", cache_dir=tmp_path / "cache") as loader:
        first = [bytes(batch["image"].data) for batch in loader]
        for part in (servers.folder / "bucket" / "brief").glob("part-*"):
            part.unlink()
        loader.set_epoch(0)
        assert [bytes(batch["image"].data) for batch in loader] == first
    assert (
        "s3://bucket/brief"
        in subprocess.run(
            [sys.executable, "-m", "feedline", "cache", "ls", tmp_path / "cache"],
            check=True,
            capture_output=True,
            text=True,
        ).stdout
    )


def test_errors_are_python_errors_that_say_what_to_do(servers: Servers) -> None:
    with pytest.raises(fl.OptionError, match=r"regoin.*docs/remote\.md"):
        fl.open("s3://bucket/animals", storage_options={**servers.options, "regoin": "x"})
    with pytest.raises(FileNotFoundError, match="no bucket of this name"):
        fl.open("s3://nobody/animals/", storage_options=servers.options)
    with pytest.raises(
        PermissionError, match=r"credentials in storage_options[\s\S]*hint: the store does not accept these"
    ):
        fl.open("s3://bucket/animals/", storage_options={**servers.options, "secret": "wrong"})
    with pytest.raises(fl.OptionError, match="give each setting"):
        fl.open("s3://bucket/animals", storage_options={"client_kwargs": {"endpoint_url": "x"}})
    with pytest.raises(fl.OptionError, match="local data"):
        fl.open(servers.folder / "bucket" / "animals", storage_options={"region": "x"})


def test_connection_options_are_not_loader_options(servers: Servers) -> None:
    remote = fl.open("s3://bucket/animals", storage_options={**servers.options, "part_size": 1 << 20})
    for knob in ("part_size", "max_inflight_parts"):
        with pytest.raises(fl.OptionError, match="storage_options"):
            fl.Loader(remote, **{knob: 1})


def files(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_a_pack_is_uploaded_part_by_part_and_is_identical(servers: Servers, tmp_path: Path) -> None:
    animals = servers.folder / "bucket" / "animals"
    options = {"part_bytes": 10_000, "progress": False}
    fl.pack(animals, tmp_path / "here", **options)
    remote = fl.pack(animals, "s3://bucket/sent", storage_options=servers.options, **options)
    assert (remote.format, len(remote)) == ("pack", 12)
    assert files(servers.folder / "bucket" / "sent") == files(tmp_path / "here")
    again = fl.pack(animals, "s3://bucket/sent", storage_options=servers.options, **options)
    assert again.fingerprint == remote.fingerprint
    with pytest.raises(fl.DataError, match="finished pack"):
        fl.pack(animals, "s3://bucket/sent", storage_options=servers.options, image="as-is", progress=False)


def test_a_large_part_is_uploaded_in_several_requests(servers: Servers, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    fl.pack(({"blob": rng.bytes(1 << 20)} for _ in range(20)), tmp_path / "here", progress=False)
    remote = fl.pack(fl.open(tmp_path / "here"), "s3://bucket/large", storage_options=servers.options, progress=False)
    local = fl.open(tmp_path / "here")
    assert all(remote[n]["blob"] == local[n]["blob"] for n in range(20))


@pytest.mark.parametrize("to", ["webdataset", "mds", "litdata", "parquet", "beton"])
def test_conversions_are_uploaded_and_read_back(servers: Servers, tmp_path: Path, to: str) -> None:
    packed = fl.open(servers.folder / "bucket" / "packed")
    name = f"as-{to}" + (".beton" if to == "beton" else "")
    here = fl.convert(packed, tmp_path / name, to=to, shard_bytes=10_000, progress=False)
    there = fl.convert(
        packed, f"s3://bucket/{name}", to=to, shard_bytes=10_000, progress=False, storage_options=servers.options
    )
    for index in range(12):
        assert there[index]["image"] == here[index]["image"] == packed[index]["image"]
    options = {"batch_size": 5, "shuffle": True, "seed": 1, "output": "numpy", "fields": ["image", "label"]}
    options["transforms"] = [fl.transforms.RandomResizedCrop(16)]
    with fl.Loader(here, **options) as one, fl.Loader(there, **options) as two:
        for mine, other in zip(everything(one), everything(two), strict=True):
            np.testing.assert_array_equal(mine, other)
    if to != "beton":
        assert files(servers.folder / "bucket" / name) == files(tmp_path / name)


def test_the_first_epoch_packs_and_the_next_needs_no_bucket(servers: Servers, tmp_path: Path) -> None:
    shutil.copytree(servers.folder / "bucket" / "animals", servers.folder / "bucket" / "fleeting")
    remote = fl.open("s3://bucket/fleeting", storage_options=servers.options)
    local = fl.open(servers.folder / "bucket" / "animals")
    cached = remote.cached(tmp_path / "cache")
    options = {"batch_size": 5, "shuffle": True, "output": "numpy", "transforms": [fl.transforms.RandomResizedCrop(16)]}
    with fl.Loader(local, **options) as local_loader, fl.Loader(cached, **options) as loader:
        expected = everything(local_loader)
        for mine, other in zip(expected, everything(loader), strict=True):
            np.testing.assert_array_equal(mine, other)
        deadline = time.monotonic() + 60
        while not cached.copy_status["complete"]:
            assert cached.copy_status["failure"] is None
            assert time.monotonic() < deadline
            time.sleep(0.02)
        shutil.rmtree(servers.folder / "bucket" / "fleeting")
        loader.set_epoch(0)
        for mine, other in zip(expected, everything(loader), strict=True):
            np.testing.assert_array_equal(mine, other)


def command(*arguments: object) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "feedline", *map(str, arguments)]
    return subprocess.run(words, check=False, capture_output=True, text=True)


@pytest.mark.parametrize("verb", [["pack"], ["convert", "--to", "mds"]])
def test_the_command_keeps_the_options_of_both_sides_apart(servers: Servers, verb: list[str]) -> None:
    local, there = servers.folder / "bucket" / "animals", f"s3://bucket/sent-{verb[0]}"
    options = [word for name, value in servers.options.items() for word in ("--storage", f"{name}={value}")]
    done = command(verb[0], local, there, *verb[1:], *options, "--quiet")
    assert done.returncode == 0, done.stderr
    assert len(fl.open(there, storage_options=servers.options)) == 12
    # From one bucket to another with other credentials.
    source = [word.replace("--storage", "--source-storage") for word in options]
    done = command(verb[0], there, f"{there}-again", *verb[1:], *source, *options, "--quiet")
    assert done.returncode == 0, done.stderr
    wrong = command(verb[0], there, f"{there}-3", *verb[1:], "--source-storage", "secret=x", *options, "--quiet")
    assert wrong.returncode == 2
    assert "--storage" in wrong.stderr
    refused = command(verb[0], there, servers.folder / "x", *verb[1:], *source, *options, "--quiet")
    assert "is a local path" in refused.stderr


def test_python_keeps_the_options_of_both_sides_apart(servers: Servers, tmp_path: Path) -> None:
    packed = fl.pack("s3://bucket/packed", tmp_path / "here", source_storage_options=servers.options, progress=False)
    assert len(packed) == 12
    options = {"storage_options": servers.options, "source_storage_options": servers.options, "progress": False}
    assert len(fl.convert("s3://bucket/packed", "s3://bucket/both", to="mds", **options)) == 12
    with pytest.raises(fl.OptionError, match="already open"):
        fl.pack(packed, tmp_path / "x", source_storage_options=servers.options)


def test_secrets_in_an_address_are_never_shown(servers: Servers) -> None:
    address = servers.http.replace("http://", "http://me:pa55word@") + "/bucket/packed/?sig=51647"
    ds = fl.open(address, storage_options={"headers": {"X-Api-Key": "abc-key"}})
    shown = [ds.uri, repr(ds), repr(fl.mix([(ds, 1.0)])), command("inspect", address).stdout]
    with pytest.raises(fl.errors.Error) as failure:
        fl.open(address.replace("packed", "nothing"))
    shown += [
        str(failure.value),
        repr(failure.value),
        str(vars(failure.value)),
        command("inspect", address + "x").stderr,
    ]
    with fl.Loader(ds, batch_size=4, output="numpy", decode="none") as loader:
        next(iter(loader))
        shown += [str(loader.state_dict()), repr(loader), str(loader.stats())]
    for text in shown:
        assert "pa55word" not in text
        assert "51647" not in text
        assert "abc-key" not in text
    assert len(pickle.loads(pickle.dumps(ds))) == 12


def test_memory_is_shared_inside_one_process(servers: Servers) -> None:
    local = fl.open(servers.folder / "bucket" / "animals")
    fl.pack(local, "memory://tests/animals", progress=False)
    ds = fl.open("memory://tests/animals")
    assert (ds.format, len(ds), ds[3]["image"]) == ("pack", 12, local[3]["image"])
