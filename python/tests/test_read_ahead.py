"""Local data that are read ahead: the same batches, the same errors, and nobody waits for ever."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import feedline as fl
import numpy as np
import pytest
from feedline import transforms as T
from hypothesis import given, settings
from hypothesis import strategies as st
from made_images import make_folder

TOOL = Path(__file__).resolve().parents[2] / "tools/slow_reads.c"
CROP = {"transforms": [T.RandomResizedCrop(16)], "output": "numpy"}


@pytest.fixture(scope="module")
def places(many: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The same images as a folder and as a pack."""
    pack = tmp_path_factory.mktemp("ahead") / "pack"
    fl.pack(many, pack, progress=False, part_bytes=100_000)
    return {"folder": many, "pack": pack}


@pytest.fixture(scope="module")
def slow(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library that delays every read of a file."""
    library = tmp_path_factory.mktemp("slow") / "slow_reads.so"
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", library, TOOL, "-ldl", "-lpthread"], check=True)
    return library


def digest(loader: fl.Loader) -> str:
    """A hash of every value of an epoch."""
    found = hashlib.sha256()
    for batch in loader:
        for name in sorted(batch):
            value = batch[name]
            found.update(np.ascontiguousarray(value.data if isinstance(value, fl.Ragged) else value).tobytes())
    return found.hexdigest()


CHILD = """
import hashlib, json, sys
import feedline as fl
from feedline import transforms as T
path, knobs = sys.argv[1], json.loads(sys.argv[2])
found = hashlib.sha256()
with fl.Loader(fl.open(path), transforms=[T.RandomResizedCrop(16)], output="numpy", batch_size=10, num_workers=1,
               **knobs) as loader:
    for epoch in range(2):
        loader.set_epoch(epoch)
        for batch in loader:
            for name in sorted(batch):
                found.update(batch[name].tobytes())
    print(json.dumps([found.hexdigest(), loader.stats()["read_ahead"], loader.stats()["bottleneck"]]))
"""


def delayed(library: Path, path: Path, tmp_path: Path, **knobs: object) -> tuple[str, dict[str, int], str, int]:
    """Two epochs with delayed reads: a hash, what was read ahead, the bottleneck, and the most reads at once."""
    log = tmp_path / "log"
    environment = dict(os.environ, LD_PRELOAD=str(library), SLOW_READS_US="2000", SLOW_READS_LOG=str(log))
    command = [sys.executable, "-c", CHILD, str(path), json.dumps(knobs)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    found, ahead, said = json.loads(done.stdout)
    return found, ahead, said, int(log.read_text().split()[1])


@pytest.mark.parametrize("kind", ["folder", "pack"])
@pytest.mark.parametrize("shuffle", [True, "block"])
def test_slow_reads_are_done_ahead_and_side_by_side(
    slow: Path, places: dict[str, Path], tmp_path: Path, kind: str, shuffle: bool | str
) -> None:
    off, none, said, alone = delayed(slow, places[kind], tmp_path, shuffle=shuffle, read_ahead="off")
    assert (none["reads"], none["active"]) == (0, False)
    assert "storage is the limit, and read_ahead='off'" in said
    auto, ahead, _, most = delayed(slow, places[kind], tmp_path, shuffle=shuffle)
    assert auto == off
    assert ahead["active"]
    assert 0 < ahead["waited"] <= ahead["reads"]
    assert most > alone


def test_a_number_is_the_most_reads_at_once(slow: Path, places: dict[str, Path], tmp_path: Path) -> None:
    counts = []
    for reads in (2, 6):
        _, ahead, _, most = delayed(slow, places["folder"], tmp_path, shuffle=True, read_ahead=reads)
        # The worker itself reads what was not planned yet, and the planner indexes.
        assert ahead["reads"] > 0
        assert most <= reads + 2
        counts.append(most)
    assert counts[0] < counts[1]


def test_data_in_memory_are_not_read_ahead(places: dict[str, Path]) -> None:
    for path in places.values():
        for file in path.rglob("*.*"):
            file.read_bytes()
        with fl.Loader(fl.open(path), shuffle=True, **CROP) as loader:
            digest(loader)
            assert loader.stats()["read_ahead"] == {"allowed": True, "active": False, "reads": 0, "waited": 0}


@settings(max_examples=25, deadline=None)
@given(
    kind=st.sampled_from(["folder", "pack"]),
    reads=st.integers(1, 40),
    batch_size=st.integers(1, 40),
    shuffle=st.sampled_from([False, True, "block"]),
    workers=st.integers(1, 3),
    decode=st.sampled_from(["exact", "none"]),
    seed=st.integers(0, 5),
)
def test_batches_do_not_depend_on_it(
    places: dict[str, Path],
    kind: str,
    reads: int,
    batch_size: int,
    shuffle: bool | str,
    workers: int,
    decode: str,
    seed: int,
) -> None:
    dataset = fl.open(places[kind])
    knobs = {"batch_size": batch_size, "shuffle": shuffle, "num_workers": workers, "decode": decode, "seed": seed}
    knobs |= CROP if decode == "exact" else {"output": "numpy"}
    with fl.Loader(dataset, read_ahead="off", **knobs) as off, fl.Loader(dataset, read_ahead=reads, **knobs) as ahead:
        assert digest(off) == digest(ahead)
        assert ahead.stats()["read_ahead"]["active"]


def test_resume(places: dict[str, Path]) -> None:
    knobs = {"batch_size": 7, "shuffle": True, "read_ahead": 9, **CROP}
    with fl.Loader(fl.open(places["pack"]), **knobs) as loader:
        whole = [batch["image"] for batch in loader]
        loader.set_epoch(0)
        running = iter(loader)
        for _ in range(4):
            next(running)
        state = loader.state_dict()
    with fl.Loader(fl.open(places["pack"]), **knobs | {"read_ahead": "off"}) as other:
        other.load_state_dict(state)
        rest = [batch["image"] for batch in other]
    assert len(rest) == len(whole) - 4
    assert all(np.array_equal(a, b) for a, b in zip(rest, whole[4:], strict=True))


def test_bad_samples_are_named_and_counted_as_before(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "data")
    images = sorted(folder.rglob("*.jpg"))
    dataset = fl.open(folder)
    images[1].write_bytes(b"no image")
    images[5].unlink()
    seen = []
    for ahead in ("off", 5):
        with fl.Loader(dataset, on_error="skip", read_ahead=ahead, batch_size=4, **CROP) as loader:
            try:
                kept = [list(batch["index"]) for batch in loader]
            except fl.Error as error:
                kept = [str(error)]
            seen.append((kept, sorted(map(str, loader.errors()))))
    assert seen[0] == seen[1]
    assert any(images[1].name in text for text in seen[0][1])


HEAD = """
import os, sys
import feedline as fl
from feedline import transforms as T
dataset = fl.open(sys.argv[1])
# Pipes that nobody writes: opening them waits for ever, as a dead network file system does.
for name in sorted(os.path.join(at, f) for at, _, files in os.walk(sys.argv[1]) for f in files)[4:]:
    os.unlink(name)
    os.mkfifo(name)
knobs = {"transforms": [T.CenterCrop(8)], "output": "numpy", "batch_size": 2, "num_workers": 1, "read_ahead": 3}
"""


def start(code: str, folder: Path) -> subprocess.Popen[str]:
    pipe = subprocess.PIPE
    return subprocess.Popen([sys.executable, "-c", HEAD + code, str(folder)], stdout=pipe, stderr=pipe, text=True)


def test_closing_abandons_reads_that_never_return(tmp_path: Path) -> None:
    code = """
with fl.Loader(dataset, timeout=1.0, **knobs) as loader:
    batches = iter(loader)
    next(batches), next(batches)
    try:
        next(batches)
    except fl.LoaderTimeoutError:
        print("timeout")
print("left")
"""
    child = start(code, make_folder(tmp_path / "data"))
    out, err = child.communicate(timeout=90)
    assert (child.returncode, out) == (0, "timeout\nleft\n"), err


def test_ctrl_c_interrupts_waiting_reads(tmp_path: Path) -> None:
    code = """
loader = fl.Loader(dataset, **knobs)
batches = iter(loader)
next(batches), next(batches)
print("ready", flush=True)
next(batches)
"""
    child = start(code, make_folder(tmp_path / "data"))
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    with pytest.raises(subprocess.TimeoutExpired):
        child.wait(1.0)
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=90)
    assert "KeyboardInterrupt" in err


def test_a_folder_that_disappears(places: dict[str, Path], tmp_path: Path) -> None:
    """Loaders over data that are removed say so, with reads ahead or without."""
    said = []
    for ahead in ("off", 4):
        copy = tmp_path / "copy"
        shutil.copytree(places["folder"], copy)
        dataset = fl.open(copy)
        shutil.rmtree(copy)
        with fl.Loader(dataset, read_ahead=ahead, num_workers=1, **CROP) as loader, pytest.raises(fl.Error) as caught:
            list(loader)
        said.append(str(caught.value))
    assert said[0] == said[1]
    assert "copy" in said[0]
