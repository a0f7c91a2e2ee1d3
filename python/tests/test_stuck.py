"""Storage that never answers: timeouts, closing and Ctrl-C still work. Threads that the system refuses."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import feedline as fl
import pytest
from feedline import transforms as T
from made_images import make_folder
from web import Handler, serving

CROP = {"transforms": [T.CenterCrop(8)], "output": "numpy"}

HEAD = """
import os, sys, threading, time, warnings
import feedline as fl
from feedline import transforms as T
CROP = {"transforms": [T.CenterCrop(8)], "output": "numpy"}

def block(folder):
    # A pipe that nobody writes: opening it for reading waits for ever, as a dead network file system does.
    first = sorted(os.path.join(at, f) for at, _, files in os.walk(folder) for f in files if f.endswith(".jpg"))[0]
    os.unlink(first)
    os.mkfifo(first)

def ready():
    print("ready", flush=True)
"""


@pytest.fixture
def stuck(tmp_path: Path) -> Path:
    return make_folder(tmp_path / "data")


@pytest.fixture
def web(tmp_path: Path) -> Iterator[str]:
    """A web server over a pack; `Handler.silent` makes it never answer again."""
    folder = tmp_path / "www"
    fl.pack(make_folder(tmp_path / "images"), folder / "p", progress=False)
    with serving(folder) as address:
        yield f"{address}/p"


def start(code: str, *arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", HEAD + code, *map(str, arguments)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)


def finish(child: subprocess.Popen[str], seconds: float = 90.0) -> tuple[int, str, str]:
    try:
        out, err = child.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        child.kill()
        child.communicate()
        pytest.fail("it waits for ever")
    return child.returncode, out, err


def interrupt(child: subprocess.Popen[str]) -> str:
    """Sends Ctrl-C once the child waits; its last words."""
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    time.sleep(1.0)
    assert child.poll() is None, "it did not wait"
    child.send_signal(signal.SIGINT)
    code, _, err = finish(child)
    assert code in (1, -signal.SIGINT), err
    assert "KeyboardInterrupt" in err
    return err


def test_a_with_block_ends_after_a_stuck_read(stuck: Path) -> None:
    code = """
dataset = fl.open(sys.argv[1])
block(sys.argv[1])
with fl.Loader(dataset, batch_size=4, num_workers=2, timeout=1.0, **CROP) as loader:
    try:
        list(loader)
    except fl.LoaderTimeoutError as error:
        print("timeout")
print("left")
"""
    returned, out, err = finish(start(code, stuck))
    assert (returned, out) == (0, "timeout\nleft\n"), err
    assert "RuntimeWarning: 1 thread of the loader could not be stopped" in err


def test_the_interpreter_ends_after_a_stuck_read(stuck: Path) -> None:
    code = """
dataset = fl.open(sys.argv[1])
block(sys.argv[1])
loader = fl.Loader(dataset, batch_size=4, num_workers=1, timeout=1.0, **CROP)
iterator = iter(loader)
try:
    next(iterator)
except TimeoutError:
    print("timeout")
"""
    returned, out, err = finish(start(code, stuck))
    assert (returned, out) == (0, "timeout\n"), err
    assert "could not be stopped" in err


def test_ctrl_c_interrupts_closing(stuck: Path) -> None:
    code = """
dataset = fl.open(sys.argv[1])
block(sys.argv[1])
loader = fl.Loader(dataset, batch_size=4, num_workers=1, timeout=1.0, **CROP)
iterator = iter(loader)
try:
    next(iterator)
except TimeoutError:
    ready()
loader.close()
"""
    interrupt(start(code, stuck))


def test_another_epoch_starts_after_a_stuck_one(stuck: Path) -> None:
    code = """
dataset = fl.open(sys.argv[1])
block(sys.argv[1])
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    with fl.Loader(dataset, batch_size=4, num_workers=1, timeout=2.0, **CROP) as loader:
        try:
            list(loader)
        except TimeoutError:
            print("timeout")
        loader.seek(0, 1)
        print([len(batch["index"]) for batch in loader])
"""
    returned, out, err = finish(start(code, stuck))
    assert (returned, out) == (0, "timeout\n[4, 4]\n"), err


@pytest.mark.parametrize(
    "call",
    [
        "dataset[0]",
        "dataset.decoded()[0]",
        "fl.Loader(dataset, sampler=fl.samplers.Buckets(), batch_size=4, output='numpy')",
        "next(iter(fl.Loader(dataset, batch_size=4, **CROP)))",
    ],
)
def test_ctrl_c_interrupts_a_stuck_read(stuck: Path, call: str) -> None:
    interrupt(start(f"dataset = fl.open(sys.argv[1])\nblock(sys.argv[1])\nready()\n{call}\n", stuck))


def test_ctrl_c_interrupts_stuck_opening(stuck: Path, tmp_path: Path) -> None:
    fl.pack(stuck, tmp_path / "p", progress=False)
    manifest = next((tmp_path / "p").glob("*.json"))
    manifest.unlink()
    os.mkfifo(manifest)
    interrupt(start("ready()\nfl.open(sys.argv[1])\n", tmp_path / "p"))


def test_ctrl_c_interrupts_stuck_packing(stuck: Path, tmp_path: Path) -> None:
    code = (
        "dataset = fl.open(sys.argv[1])\nblock(sys.argv[1])\nready()\nfl.pack(dataset, sys.argv[2], progress=False)\n"
    )
    interrupt(start(code, stuck, tmp_path / "p"))


@pytest.mark.parametrize(
    "call",
    [
        "fl.open(sys.argv[1])",
        "dataset[0]",
        "dataset.cached(sys.argv[2])",
        "fl.Loader(dataset, cache_dir=sys.argv[2], **CROP)",
        "fl.concat([dataset, dataset.select([1, 2])]).cached(sys.argv[2])",
        "fl.Loader(dataset, sampler=fl.samplers.Buckets(), batch_size=4, output='numpy')",
        "list(fl.Loader(dataset, **CROP))",
    ],
)
def test_ctrl_c_interrupts_a_silent_network(web: str, tmp_path: Path, call: str) -> None:
    code = f"""
dataset = fl.open(sys.argv[1])
print("opened", flush=True)
sys.stdin.readline()
ready()
{call}
"""
    child = start(code, web, tmp_path / "cache")
    assert child.stdin is not None
    assert child.stdout is not None
    assert child.stdout.readline() == "opened\n"
    Handler.silent = True
    child.stdin.write("go\n")
    child.stdin.flush()
    interrupt(child)


def test_closing_does_not_wait_for_another_process_cache_lock(web: str, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    code = """
warnings.simplefilter("error")
with fl.Loader(fl.open(sys.argv[1]), cache_dir=sys.argv[2], timeout=2.0, **CROP) as loader:
    print("opened", flush=True)
    sys.stdin.readline()
    try:
        list(loader)
    except TimeoutError:
        print("timeout")
print("left")
"""
    child = start(code, web, cache)
    assert child.stdin is not None
    assert child.stdout is not None
    assert child.stdout.readline() == "opened\n"
    (locks,) = {path.parent for path in cache.rglob("locks/*")}
    with contextlib.ExitStack() as held:
        for number in range(1024):
            file = held.enter_context((locks / f"{number:04}").open("w"))
            fcntl.flock(file, fcntl.LOCK_EX)
        child.stdin.write("go\n")
        child.stdin.flush()
        returned, out, err = finish(child)
    assert (returned, out) == (0, "timeout\nleft\n"), err


REFUSING = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

typedef int (*creator)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

int pthread_create(pthread_t *thread, const pthread_attr_t *how, void *(*what)(void *), void *with) {
    const char *flag = getenv("REFUSE_THREADS");
    if (flag && access(flag, F_OK) == 0)
        return EAGAIN;
    return ((creator)dlsym(RTLD_NEXT, "pthread_create"))(thread, how, what, with);
}
"""


@pytest.mark.skipif(sys.platform != "linux" or shutil.which("cc") is None, reason="needs a C compiler")
def test_threads_that_cannot_start_are_errors(stuck: Path, web: str, tmp_path: Path) -> None:
    (tmp_path / "refusing.c").write_text(REFUSING)
    library = tmp_path / "refusing.so"
    command = ["cc", "-shared", "-fPIC", "-o", str(library), str(tmp_path / "refusing.c"), "-ldl"]
    subprocess.run(command, check=True)
    code = """
dataset = fl.open(sys.argv[1])
del dataset
web, folder, flag = sys.argv[2:]
open(flag, "w").close()
dataset = fl.open(sys.argv[1])
assert len(dataset[0]) == 3
fl.pack(dataset, folder + "/p", progress=False)
fl.convert(dataset, folder + "/w", to="webdataset", progress=False)
assert len(fl.open(folder + "/p")) == len(fl.open(folder + "/w")) == 12
try:
    fl.open(web)
except fl.StorageError as error:
    print("http:", error)
try:
    list(fl.Loader(dataset, num_workers=2, **CROP))
except fl.OptionError as error:
    print("loader:", error)
os.unlink(flag)
remote = fl.open(web)
open(flag, "w").close()
try:
    list(fl.Loader(remote, num_workers=2, **CROP))
except fl.Error as error:
    print("remote:", error)
os.unlink(flag)
print(len(list(fl.Loader(remote, num_workers=2, **CROP))))
"""
    environment = {**os.environ, "LD_PRELOAD": str(library), "REFUSE_THREADS": str(tmp_path / "flag")}
    command = [sys.executable, "-c", HEAD + code, str(stuck), web, str(tmp_path), str(tmp_path / "flag")]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=250, check=False)
    assert run.returncode == 0, run.stderr
    assert "panicked" not in run.stderr, run.stderr
    assert "http:" in run.stdout
    assert "loader: num_workers: the system refused thread 0 of 2" in run.stdout
    assert "remote: num_workers" in run.stdout
    assert run.stdout.endswith("\n1\n")


def test_closing_a_loader_during_iteration_is_an_error(stuck: Path) -> None:
    with fl.Loader(stuck, batch_size=2, prefetch=1, **CROP) as loader:
        iterator = iter(loader)
        next(iterator)
    with pytest.raises(fl.ClosedError, match="closed before this epoch was over"):
        list(iterator)
    with fl.Loader(stuck, **CROP) as loader:
        iterator = iter(loader)
        next(iterator)
    assert list(iterator) == []


@pytest.mark.parametrize(
    ("knobs", "batches"),
    [
        ({"timeout": 1e20}, 3),
        ({"sampler": fl.samplers.Block(4, 2**62)}, 3),
        ({"sampler": fl.samplers.Block(2**40, 1)}, 3),
    ],
)
def test_enormous_numbers_work(stuck: Path, knobs: dict, batches: int) -> None:
    with fl.Loader(stuck, batch_size=4, **knobs, **CROP) as loader:
        assert len(list(loader)) == batches


def test_enormous_numbers_are_refused(stuck: Path) -> None:
    with pytest.raises(fl.OptionError, match="world_size"):
        fl.Loader(stuck, rank=0, world_size=2**61)
    with pytest.raises(fl.OptionError, match="samples per epoch"):
        fl.Loader(stuck, sampler=fl.samplers.Random(replacement=True, num_samples=2**60))
