"""The simulator, beside real runs from a server with known bandwidth and latency."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
import time
from http.server import ThreadingHTTPServer

import feedline as fl
import numpy as np
import pytest
from feedline.simulate import Setup, simulate
from web import Handler

SAMPLES, SIZE, BATCH = 400, 100_000, 8


class Slow(Handler):
    """Waits before each answer, and shares one link among all."""

    latency = 0.0
    bandwidth = float("inf")
    sent = 0
    free = 0.0
    lock = threading.Lock()

    def do_GET(self):  # noqa: N802 - the name that the standard library asks for
        """A range of a file, without reading all of it."""
        time.sleep(Slow.latency)
        file = Handler.folder / self.path.lstrip("/")
        if not file.is_file():
            return self.answer(404, b"", {})
        size = file.stat().st_size
        first, _, last = self.headers.get("Range", f"bytes=0-{size - 1}").removeprefix("bytes=").partition("-")
        begin = int(first) if first else size - int(last)
        end = min(int(last) + 1, size) if first and last else size
        if self.command == "HEAD":
            return self.answer(200, b"", {"Content-Length": str(size)})
        with file.open("rb") as opened:
            opened.seek(begin)
            data = opened.read(end - begin)
        whole = "Range" not in self.headers
        return self.answer(200 if whole else 206, data, {"Content-Range": f"bytes {begin}-{end - 1}/{size}"})

    do_HEAD = do_GET  # noqa: N815

    def answer(self, code, data, headers):
        with Slow.lock:
            Slow.sent += len(data)
            now = time.monotonic()
            Slow.free = max(Slow.free, now) + len(data) / Slow.bandwidth
            wait = Slow.free - now
        time.sleep(wait)
        super().answer(code, data, headers)


class Many(ThreadingHTTPServer):
    """Takes as many connections at once as come: a refused one is retried after a second."""

    request_queue_size = 256
    daemon_threads = True


@contextlib.contextmanager
def slow(folder):
    Handler.folder, Handler.silent, Handler.broken = folder, False, False
    server = Many(("127.0.0.1", 0), Slow)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        Slow.latency, Slow.bandwidth = 0.0, float("inf")
        server.shutdown()
        server.server_close()


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    root = tmp_path_factory.mktemp("simulated")
    rng = np.random.default_rng(0)
    fl.pack(({"blob": rng.bytes(SIZE)} for _ in range(SAMPLES)), root / "pack", progress=False)
    return root


def measured(root, epochs=1, cache=None, **knobs):
    """Seconds and bytes of each epoch."""
    options = {} if cache is None else {"cache_dir": cache}
    Slow.latency, Slow.bandwidth = knobs.pop("latency"), knobs.pop("bandwidth")
    knobs = {"batch_size": BATCH, "decode": "none", "output": "numpy", "num_workers": 2, **knobs}
    found = []
    with slow(root) as address:
        with fl.Loader(fl.open(f"{address}/pack", **options), **knobs) as loader:
            before, begun = Slow.sent, time.monotonic()
            for _ in range(epochs):
                for _ in loader:
                    pass
                found.append((time.monotonic() - begun, Slow.sent - before))
                before, begun = Slow.sent, time.monotonic()
    return found


def check(found, expected):
    assert found == pytest.approx(expected, rel=0.2), f"measured {found:.3g}, simulated {expected:.3g}"


BASE = {"samples": SAMPLES, "sample_bytes": SIZE, "batch_size": BATCH}


def test_a_store_with_latency(data):
    rates = {"latency": 0.4, "bandwidth": 400e6}
    ((seconds, sent),) = measured(data, shuffle=True, seed=1, **rates)
    result = simulate(Setup(**BASE, **rates, shuffle="full", epochs=1))
    assert result.limited_by == ["latency"]
    check(seconds, result.epoch_seconds[0])
    check(sent, result.bytes_per_node[0])


def test_a_narrow_link(data):
    rates = {"latency": 0.005, "bandwidth": 10e6}
    ((seconds, sent),) = measured(data, **rates)
    result = simulate(Setup(**BASE, **rates, shuffle="none", epochs=1))
    assert result.limited_by == ["bandwidth"]
    check(seconds, result.epoch_seconds[0])
    check(sent, result.bytes_per_node[0])


def test_a_disk_cache(data, tmp_path):
    """Each byte once, whatever the order; then none."""
    rates = {"latency": 0.005, "bandwidth": 10e6}
    (first, second) = measured(data, epochs=2, cache=tmp_path, shuffle=True, **rates)
    result = simulate(Setup(**BASE, **rates, shuffle="full", epochs=2, cache=1e9))
    check(first[0], result.epoch_seconds[0])
    check(first[1], result.bytes_per_node[0])
    assert (second[1], result.bytes_per_node[1], result.cache_hits[1]) == (0, 0, 1)
    assert second[0] < first[0] / 5


@pytest.mark.parametrize("world", [1, 8])
def test_requests_of_a_block_shuffle(tmp_path, monkeypatch, world):
    """Blocks come whole to one rank; of eight, each asks for its own few samples of every block."""
    rng = np.random.default_rng(0)
    fl.pack(({"blob": rng.bytes(SIZE)} for _ in range(1000)), tmp_path / "pack", progress=False)
    asked = []
    answer = Slow.answer
    monkeypatch.setattr(Slow, "answer", lambda self, *given: (asked.append(self.command), answer(self, *given)))
    measured(tmp_path, shuffle="block", rank=0, world_size=world, latency=0, bandwidth=1e9)
    setup = Setup(samples=1000, sample_bytes=SIZE, batch_size=BATCH, nodes=world, shuffle="block", epochs=1)
    # Opening asks a few times too.
    check(asked.count("GET") - 3, simulate(setup).requests_per_node[0])


def test_block_shuffle_fetches_blocks_and_mixes_less():
    big = {"samples": 200_000, "sample_bytes": 20_000.0, "batch_size": 64, "epochs": 1}
    full, block, none = (simulate(Setup(**big, shuffle=kind)) for kind in ("full", "block", "none"))
    assert block.requests_per_node[0] < full.requests_per_node[0] / 5
    assert full.shuffle_quality == pytest.approx(1, rel=0.3)
    assert none.shuffle_quality < 0.05
    assert none.shuffle_quality < block.shuffle_quality <= 1


def test_the_command():
    run = [sys.executable, "-m", "feedline", "simulate"]
    asked = [*run, "--samples", "1000000", "--sample-bytes", "110k", "--nodes", "8", "--latency", "30ms", "--json"]
    document = json.loads(subprocess.run(asked, check=True, capture_output=True, text=True).stdout)
    assert document["bytes_per_node"][0] == pytest.approx(1e6 * 110e3 / 8, rel=0.05)
    wrong = subprocess.run([*run, "--samples", "5"], check=False, capture_output=True, text=True)
    assert wrong.returncode == 2
    assert "--sample-bytes" in wrong.stderr
