"""Fork, spawn, forkserver, Ctrl-C, garbage collection, interpreter exit."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time

import feedline as fl
import pytest
from engine_threads import engine_threads, eventually
from feedline import transforms as T

CROP = [T.CenterCrop(16)]


def total(loader):
    return sum(len(batch["label"]) for batch in loader)


def child(loader, queue):
    queue.put(total(loader))


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_a_loader_works_in_a_child(folder, method):
    loader = fl.Loader(folder, batch_size=4, transforms=CROP, output="numpy")
    assert total(loader) == 12
    context = multiprocessing.get_context(method)
    queue = context.Queue()
    process = context.Process(target=child, args=(loader, queue))
    process.start()
    assert queue.get(timeout=60) == 12
    process.join(30)
    assert process.exitcode == 0
    assert total(loader) == 12
    loader.close()


def test_an_iteration_started_before_a_fork_is_an_error(folder):
    loader = fl.Loader(folder, batch_size=4, transforms=CROP, output="numpy")
    iterator = iter(loader)
    next(iterator)
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            next(iterator)
            text = "no error"
        except fl.ClosedError as error:
            text = str(error)
        except BaseException as error:  # noqa: BLE001 - the parent must hear of it
            text = repr(error)
        os.write(writer, text.encode())
        os._exit(0)
    os.close(writer)
    text = os.read(reader, 1000).decode()
    os.waitpid(pid, 0)
    assert "fork" in text
    assert "hint" in text
    next(iterator)
    loader.close()


def test_close_stops_all_threads(many):
    before = engine_threads()
    loader = fl.Loader(many, batch_size=4, transforms=CROP, num_workers=3)
    iterator = iter(loader)
    next(iterator)
    assert eventually(lambda: len(engine_threads() - before) == 3)
    loader.close()
    del iterator
    assert eventually(lambda: engine_threads() <= before)


def test_garbage_collection_stops_all_threads(many):
    before = engine_threads()
    loader = fl.Loader(many, batch_size=4, transforms=CROP, num_workers=3)
    for _ in loader:
        break
    assert eventually(lambda: len(engine_threads() - before) == 3)
    del loader
    gc.collect()
    assert eventually(lambda: engine_threads() <= before)


def test_threads_stay_between_epochs_by_default(many):
    before = engine_threads()
    for persistent in (True, False):
        loader = fl.Loader(many, batch_size=4, transforms=CROP, num_workers=3, persistent_workers=persistent)
        total(loader)
        assert eventually(lambda want=3 * persistent: len(engine_threads() - before) == want)
        loader.close()
        assert eventually(lambda: engine_threads() <= before)


def test_ctrl_c_ends_a_wait_promptly(tmp_path):
    script = """
import os, signal, sys, threading, time
import feedline as fl
from pathlib import Path
folder = Path(sys.argv[1])
(folder / "a").mkdir()
(folder / "a" / "x.jpg").write_bytes(b"x")
dataset = fl.open(folder)
(folder / "a" / "x.jpg").unlink()
os.mkfifo(folder / "a" / "x.jpg")
threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
begun = time.monotonic()
loader = fl.Loader(dataset, num_workers=1, output="numpy")
try:
    list(loader)
except KeyboardInterrupt:
    print("interrupted", time.monotonic() - begun)
except fl.SampleError:
    print("interrupted", 0)
sys.stdout.flush()
os._exit(0)
"""
    run = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, timeout=60, check=False
    )
    word, seconds = run.stdout.split()
    assert word == "interrupted"
    assert float(seconds) < 3


def test_the_interpreter_exits_with_a_loader_running(many):
    script = "import sys, feedline as fl; it = iter(fl.Loader(sys.argv[1], batch_size=2, output='numpy')); next(it); print('done')"
    begun = time.monotonic()
    run = subprocess.run(
        [sys.executable, "-c", script, str(many)], capture_output=True, text=True, timeout=60, check=False
    )
    assert (run.returncode, run.stdout.strip(), run.stderr) == (0, "done", "")
    assert time.monotonic() - begun < 30


def test_kill_in_the_middle_leaves_nothing_behind(many, tmp_path):
    script = "import sys, time, feedline as fl; it = iter(fl.Loader(sys.argv[1], batch_size=2, output='numpy')); next(it); print('on', flush=True); time.sleep(60)"
    process = subprocess.Popen([sys.executable, "-c", script, str(many)], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline().strip() == "on"
    process.send_signal(signal.SIGKILL)
    assert process.wait(10) == -signal.SIGKILL
    process.stdout.close()
    assert not list(tmp_path.iterdir())


def test_other_python_threads_run_while_we_wait(many):
    """Waiting releases the interpreter: a counter in another thread continues."""
    count = 0
    stop = threading.Event()

    def work():
        nonlocal count
        while not stop.is_set():
            count += 1

    counter = threading.Thread(target=work)
    with fl.Loader(many, batch_size=50, transforms=[T.RandomResizedCrop(128)], num_workers=1) as loader:
        counter.start()
        total(loader)
        stop.set()
    counter.join()
    assert count > 1000
