"""`map=` and `T.Python`: where functions come from, where they run, and how their workers end."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import feedline as fl
import numpy as np
import pytest
from feedline import transforms as T
from map_functions import (
    BYTES,
    CROP,
    ROOT,
    Albumentation,
    by_sample,
    everything,
    fails_on_none,
    identity,
    jitter,
    same,
    tiny_images,
)
from PIL import Image


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return tiny_images(tmp_path_factory.mktemp("tiny") / "data")


SCRIPT = """
    import sys
    sys.path.insert(0, {package!r})
    import feedline as fl
    from feedline import transforms as T
    print("script runs", flush=True)
    STRENGTH = 3

    class Brighter:
        def __init__(self, by):
            self.by = by
        def __call__(self, image):
            return image // 2 + self.by * STRENGTH

    def add(sample):
        return {{**sample, "twice": 2 * sample["index"], "mean": float(sample["image"].mean())}}

    recipe = [T.CenterCrop(8), T.Python(Brighter(2)), T.Python(lambda image: image + 1)]
    with fl.Loader({folder!r}, transforms=recipe, map=add, output="numpy", dtype="uint8", batch_size=12, {knobs}) as loader:
        for batch in loader:
            print(batch["twice"].tolist()[:3], batch["image"].min() >= 7)
"""


@pytest.mark.parametrize("how", ["script", "notebook"])
@pytest.mark.parametrize("context", ["forkserver", "spawn"])
def test_functions_of_scripts_and_notebook_cells(tiny, tmp_path, how, context):
    """Without a main guard, and without a file; the script runs once."""
    pytest.importorskip("cloudpickle")
    knobs = f"num_workers=2, multiprocessing_context={context!r}"
    text = textwrap.dedent(SCRIPT).format(package=str(ROOT / "python"), folder=str(tiny.uri), knobs=knobs)
    script = tmp_path / "train.py"
    script.write_text(text)
    call = [sys.executable, str(script)] if how == "script" else [sys.executable, "-"]
    done = subprocess.run(
        call, input=None if how == "script" else text, capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "script runs\n[0, 2, 4] True\n[24, 26, 28] True\n"
    assert done.stderr == ""


def test_without_cloudpickle_there_is_a_hint(tiny, monkeypatch):
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    with pytest.raises(fl.OptionError, match=r"cannot be sent to worker processes(?s:.*)install cloudpickle"):
        fl.Loader(tiny, map=lambda sample: sample)
    monkeypatch.setattr(fails_on_none, "__module__", "__main__")
    with pytest.raises(fl.OptionError, match=r"fails_on_none is part of the script(?s:.*)install cloudpickle"):
        fl.Loader(tiny, map=fails_on_none)
    for knobs in ({"map_workers": "threads"}, {"multiprocessing_context": "fork"}):
        made = everything(tiny, map=lambda sample: sample, fields=["label"], **knobs)
        assert len(made) == 5


def test_a_function_that_workers_cannot_load(tiny, tmp_path, monkeypatch):
    (tmp_path / "gone.py").write_text("def function(sample):\n    return sample\n")
    monkeypatch.syspath_prepend(tmp_path)
    import gone

    with fl.Loader(tiny, map=gone.function, fields=["label"], **BYTES) as loader:
        (tmp_path / "gone.py").unlink()
        for _ in range(2):
            with pytest.raises(
                fl.OptionError, match=r"cannot be loaded in a worker process(?s:.*)No module named 'gone'"
            ):
                next(iter(loader))
        assert loader.state_dict()["samples"] == 0


def test_a_context_object_names_its_method(tiny):
    assert len(everything(tiny, map=fails_on_none, multiprocessing_context=multiprocessing.get_context("spawn"))) == 5


def test_threads_instead_of_processes(tiny):
    recipe = {"transforms": [T.Python(jitter), CROP], "map": lambda sample: {**sample, "pid": os.getpid()}}
    made = everything(tiny, map_workers="threads", **recipe)
    assert set(made[0]["pid"].tolist()) == {os.getpid()}
    plain = everything(tiny, transforms=recipe["transforms"])
    assert same(by_sample(made), by_sample(plain))
    with pytest.warns(
        UserWarning, match=r"map_workers: Albumentation draws from random numbers that all threads share"
    ):
        fl.Loader(tiny, map=Albumentation(), map_workers="threads")


def children(pid):
    """Processes below this one, dead or alive."""
    below, found = [pid], []
    while below:
        parent = below.pop()
        for task in Path(f"/proc/{parent}/task").glob("*/children"):
            try:
                new = [int(child) for child in task.read_text().split()]
            except OSError:
                continue
            found += new
            below += new
    return found


def stuck(_):
    time.sleep(1000)


@pytest.mark.parametrize("context", ["fork", "spawn", "forkserver"])
def test_close_ends_all_workers_promptly(tiny, context):
    before, files = set(children(os.getpid())), len(os.listdir("/proc/self/fd"))
    memory = set(os.listdir("/dev/shm"))
    for function, received in ((stuck, 0), (fails_on_none, 2)):
        loader = fl.Loader(tiny, **BYTES, batch_size=4, map=function, multiprocessing_context=context, timeout=20)
        running = iter(loader)
        for _ in range(received):
            next(running)
        begun = time.monotonic()
        while not set(children(os.getpid())) - before and time.monotonic() - begun < 60:
            time.sleep(0.01)
        begun = time.monotonic()
        loader.close()
        assert time.monotonic() - begun < 15
        assert set(children(os.getpid())) <= before, "no process is left, not even a zombie"
        if not received:
            with pytest.raises(fl.ClosedError):
                next(running)
        del running, loader
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) <= files
    assert set(os.listdir("/dev/shm")) <= memory


def test_dropping_the_loader_ends_all_workers(tiny):
    before, threads = set(children(os.getpid())), threading.active_count()
    loader = fl.Loader(tiny, **BYTES, batch_size=4, map=fails_on_none, batch_map=identity)
    for _ in loader:
        break
    running = iter(loader)
    next(running)
    del running, loader
    gc.collect()
    deadline = time.monotonic() + 30
    while (set(children(os.getpid())) - before or threading.active_count() > threads) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert set(children(os.getpid())) <= before
    assert threading.active_count() <= threads


def test_workers_stay_between_epochs_or_not(tiny):
    before = set(children(os.getpid()))
    with fl.Loader(tiny, **BYTES, batch_size=8, map=fails_on_none, persistent_workers=False) as loader:
        nested = [(a["index"][0], b["index"][0]) for a in loader for b in loader]
        assert len(nested) == 9
        assert set(children(os.getpid())) <= before
    with fl.Loader(tiny, **BYTES, batch_size=8, map=fails_on_none) as loader:
        list(loader)
        kept = set(children(os.getpid())) - before
        assert kept
        list(loader)
        assert set(children(os.getpid())) - before == kept


INTERRUPTED = """
    import sys, time
    sys.path.insert(0, {package!r})
    import feedline as fl
    def slow(sample):
        time.sleep(1000)
    loader = fl.Loader({folder!r}, map=slow, output="numpy", num_workers=2, {knobs})
    print("ready", flush=True)
    try:
        next(iter(loader))
    except KeyboardInterrupt:
        print("interrupted", flush=True)
"""


@pytest.mark.parametrize("killed", [False, True])
@pytest.mark.parametrize("context", ["fork", "forkserver"])
def test_ctrl_c_and_kill_end_all_workers(tiny, tmp_path, killed, context):
    if context == "forkserver":
        pytest.importorskip("cloudpickle")
    knobs = f"multiprocessing_context={context!r}"
    script = tmp_path / "train.py"
    script.write_text(
        textwrap.dedent(INTERRUPTED).format(package=str(ROOT / "python"), folder=str(tiny.uri), knobs=knobs)
    )
    process = subprocess.Popen(
        [sys.executable, script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdout.readline() == "ready\n"
    deadline = time.monotonic() + 60
    wanted = 2 if context == "fork" else 3
    while len(workers := children(process.pid)) < wanted and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(0.5)
    if killed:
        process.kill()
    else:
        os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    if not killed:
        assert (out, process.returncode) == ("interrupted\n", 0), err
    assert err == ""
    while any(running(worker) for worker in workers) and time.monotonic() < deadline + 30:
        time.sleep(0.05)
    assert not any(running(worker) for worker in workers)


def running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def test_a_loader_with_functions_after_a_fork(tiny):
    """The child has its own workers; the parent's continue."""
    with fl.Loader(tiny, **BYTES, batch_size=8, map=fails_on_none, fields=["label"]) as loader:
        running = iter(loader)
        next(running)
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                code = 0 if len(list(loader)) == 3 else 2
                loader.close()
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert len(list(running)) == 2


def test_large_images_go_through_shared_memory(tmp_path):
    rng = np.random.default_rng(0)
    for number in range(4):
        Image.fromarray(rng.integers(0, 256, (300, 200 + number, 3), dtype=np.uint8)).save(tmp_path / f"{number}.png")
    dataset = fl.open(tmp_path)
    plain = everything(dataset, batch_size=2)
    made = everything(dataset, batch_size=2, map=invert_sample)
    for before, after in zip(plain, made, strict=True):
        for row in range(2):
            assert np.array_equal(255 - before["image"][row], after["image"][row])
            assert after["image"][row].flags.writeable


def invert_sample(sample):
    sample["image"] = 255 - sample["image"]
    return sample
