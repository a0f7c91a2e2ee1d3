"""Statistics, bars, traces and logs tell the truth about a loader."""

from __future__ import annotations

import io
import json
import logging
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import feedline as fl
import numpy as np
import pytest
from feedline import transforms as T
from made_images import encode, make_folder
from prometheus_client.parser import text_string_to_metric_families
from web import Handler, serving


def consume(loader, seconds=0.0):
    for _ in loader:
        time.sleep(seconds)
    return loader.stats()


def test_a_slow_consumer_is_named(folder):
    with fl.Loader(folder, batch_size=2, output="numpy") as loader:
        stats = consume(loader, 0.5)
    assert stats["bound"] == "consumer", stats["bottleneck"]
    assert stats["bottleneck"].startswith("consumer-bound: batches are ready")
    assert stats["consumer_busy_seconds"] > 2.0


def test_slow_storage_is_named(folder, tmp_path):
    fl.pack(folder, tmp_path / "pack", progress=False)
    with serving(tmp_path) as url:
        dataset = fl.open(f"{url}/pack", format="pack")
        Handler.delay = 0.5
        with fl.Loader(dataset, batch_size=2, output="numpy", transforms=[T.CenterCrop(8)]) as loader:
            stats = consume(loader)
    assert stats["bound"] == "bytes", stats["bottleneck"]
    assert "cache_dir" in stats["bottleneck"]
    assert stats["seconds"]["bytes"] > 0.1
    assert stats["storage"]["requests"] > 0
    assert stats["storage"]["bytes"] > 0


def test_heavy_transforms_are_named(folder):
    heavy = [T.Resize((1200, 1200)), T.GaussianBlur(21, (5.0, 5.0)), T.CenterCrop(8)]
    with fl.Loader(folder, batch_size=2, output="numpy", transforms=heavy) as loader:
        stats = consume(loader)
    assert stats["bound"] == "transform", stats["bottleneck"]
    assert "transforming" in stats["bottleneck"]


def test_heavy_decoding_is_named(tmp_path):
    noise = np.random.default_rng(0).integers(0, 256, (900, 900, 3), dtype=np.uint8)
    for number in range(4):
        (tmp_path / f"{number}.jpg").write_bytes(encode(noise, quality=98, subsampling=0))
    with fl.Loader(tmp_path, batch_size=2, output="numpy", transforms=[T.CenterCrop(16)]) as loader:
        stats = consume(loader)
    assert stats["bound"] == "decode", stats["bottleneck"]
    assert "a pack would save" in stats["bottleneck"]


@pytest.mark.skipif(not getattr(sys, "_is_gil_enabled", lambda: True)(), reason="there is no lock to wait for")
def test_time_without_the_interpreter_lock_is_counted(many):
    """Another thread of Python that never rests keeps the loop from its batches.

    The loop lets go of the lock while it waits for a batch; when the batch is there, the other thread is in the middle of
    a long sum and lets go of nothing.
    """
    over = threading.Event()

    def hold():
        while not over.is_set():
            sum(range(20_000_000))

    holding = threading.Thread(target=hold, daemon=True)
    heavy = [T.Resize((1500, 1500)), T.CenterCrop(8)]
    with fl.Loader(many, batch_size=10, output="numpy", prefetch=1, num_workers=1, transforms=heavy) as loader:
        holding.start()
        deadline = time.monotonic() + 60
        # Who gets the lock first is the system's business; before long it is the other thread.
        while loader.stats()["interpreter_wait_seconds"] < 0.2 and time.monotonic() < deadline:
            for _ in loader:
                pass
        over.set()
        stats = loader.stats()
    holding.join()
    assert stats["interpreter_wait_seconds"] >= 0.2


@pytest.mark.skipif(not getattr(sys, "_is_gil_enabled", lambda: True)(), reason="there is no lock to wait for")
def test_a_held_interpreter_lock_is_named(many):
    """Two threads that never rest give the lock up only when they must; batches are ready long before."""
    over = threading.Event()

    def spin():
        while not over.is_set():
            sum(range(1000))

    before = sys.getswitchinterval()
    sys.setswitchinterval(0.02)
    spinning = [threading.Thread(target=spin, daemon=True) for _ in range(2)]
    try:
        with fl.Loader(many, batch_size=2, output="numpy", decode="none", num_workers=1) as loader:
            for thread in spinning:
                thread.start()
            for _ in loader:
                pass
            over.set()
            stats = loader.stats()
    finally:
        over.set()
        sys.setswitchinterval(before)
    assert stats["bound"] == "lock", stats["bottleneck"]


def slow(sample):
    time.sleep(0.1)
    return sample


def test_slow_functions_are_named(folder):
    with fl.Loader(folder, batch_size=2, output="numpy", map=slow, map_workers="threads", num_workers=2) as loader:
        stats = consume(loader)
    assert stats["bound"] == "functions", stats["bottleneck"]
    assert "map=" in stats["bottleneck"]


def test_stats_count_batches_samples_and_bytes(many):
    with fl.Loader(many, batch_size=10, output="numpy", transforms=[T.CenterCrop(16)]) as loader:
        assert loader.stats()["bound"] == "nothing"
        stats = consume(loader)
    assert (stats["delivered"], stats["batches"], stats["samples"]) == (150, 15, 150)
    assert stats["samples_per_second"] > 0
    assert sum(stats["occupancy"].values()) == pytest.approx(1.0)
    assert 0 <= stats["read_blocked"] <= 1
    assert stats["memory"]["resident_bytes"] > 2**20
    moments = stats["queue"]["history"]
    assert moments
    assert all(0 <= moment["ready"] <= stats["depth"] for moment in moments)
    assert isinstance(stats, dict)
    assert json.loads(json.dumps(stats)) == stats
    assert stats["bottleneck"] in str(stats)


def test_ranks_are_merged(many):
    parts = []
    for rank in range(3):
        with fl.Loader(many, batch_size=5, output="numpy", rank=rank, world_size=3) as loader:
            parts.append(consume(loader))
    merged = fl.merge_stats(parts)
    assert merged["delivered"] == sum(part["delivered"] for part in parts) == 150
    assert [rank["rank"] for rank in merged["ranks"]] == [0, 1, 2]
    assert merged["samples_per_second"] == pytest.approx(sum(part["samples_per_second"] for part in parts))
    assert merged["bottleneck"]
    assert fl.merge_stats([])["bound"] == "nothing"
    with pytest.raises(fl.OptionError, match="stats"):
        fl.merge_stats([{"threads": "many"}])


def test_ranks_that_wait_for_functions_are_merged(many):
    with fl.Loader(many, batch_size=5, output="numpy") as loader:
        part = dict(consume(loader))
    part |= {"consumer_wait_seconds": 0.0, "consumer_busy_seconds": 9.0, "interpreter_wait_seconds": 0.0}
    slow = {**part, "bound": "functions", "bottleneck": "functions-bound: ...", "functions_wait_seconds": 5.0}
    merged = fl.merge_stats([{**part, "bound": "consumer"}, slow])
    assert [rank["bound"] for rank in merged["ranks"]] == ["consumer", "functions"]
    assert (merged["bound"], merged["bottleneck"]) == ("functions", "functions-bound: ...")
    assert merged["functions_wait_seconds"] == 5.0


def test_prometheus_reads_the_text(folder):
    with fl.Loader(folder, batch_size=4, output="numpy") as loader:
        stats = consume(loader)
    odd = {"job": 'a "quoted"\\ name\n'}
    families = {family.name: family for family in text_string_to_metric_families(stats.prometheus(odd))}
    (sample,) = families["feedline_samples"].samples
    assert (sample.value, sample.labels) == (12, odd)
    stages = {sample.labels["stage"]: sample.value for sample in families["feedline_stage_seconds"].samples}
    assert stages == pytest.approx(stats["seconds"])
    (bound,) = families["feedline_bottleneck"].samples
    assert bound.labels["bound"] == stats["bound"]


def test_opentelemetry_gets_plain_numbers(folder):
    with fl.Loader(folder, batch_size=4, output="numpy") as loader:
        found = consume(loader).opentelemetry()
    assert found["feedline.batches"] == 3
    assert all(isinstance(value, (int, float)) for value in found.values())
    assert all(name.startswith("feedline.") for name in found)


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("bar", ["auto", "line", "tqdm", "rich"])
def test_progress_in_a_log(folder, bar):
    out = io.StringIO()
    with fl.Loader(folder, batch_size=4, output="numpy") as loader:
        assert len(list(fl.progress(loader, bar=bar, file=out))) == 3
    text = out.getvalue()
    assert "images/s" in text
    assert "-bound" in text
    assert "3/3" in text


def test_progress_on_a_terminal_and_lines_in_time(folder):
    out = Terminal()
    with fl.Loader(folder, batch_size=4, output="numpy") as loader:
        for _ in fl.progress(loader, file=out):
            pass
        assert out.getvalue().startswith("\r[")
        lines = io.StringIO()
        list(fl.progress(loader, file=lines, every=0))
        assert len(lines.getvalue().splitlines()) == 4
        with pytest.raises(fl.OptionError, match="stats"):
            fl.progress([1, 2])  # type: ignore[arg-type]
        with pytest.raises(fl.OptionError, match="bar"):
            fl.progress(loader, bar="round")


def test_headspace_replays_any_iterable():
    def slow_batches():
        for number in range(10):
            time.sleep(0.05)
            yield number

    looked = fl.headspace(slow_batches(), 5, rounds=2)
    assert list(looked) == [0, 1, 2, 3, 4] * 3
    report = looked.report()
    assert report["batches"] == 5
    assert report["times"] > 2
    assert "at best" in str(looked)
    with pytest.raises(fl.OptionError, match="gave no batch"):
        list(fl.headspace([], 3))
    with pytest.raises(fl.OptionError, match="loop over it"):
        fl.headspace([1], 3).report()


def events(path):
    return json.loads(Path(path).read_text())["traceEvents"]


def test_a_trace_has_every_sample(many, tmp_path):
    path = tmp_path / "trace.json"
    with fl.Loader(many, batch_size=10, output="numpy", num_workers=2) as loader:
        loader.trace(path)
        list(loader)
        samples = [event["args"]["sample"] for event in events(path) if event["name"] == "decode"]
        assert sorted(samples) == list(range(150))
        list(loader)
    found = events(path)
    names = {event["args"]["name"] for event in found if event["name"] == "thread_name"}
    assert {"training loop", "feedline-0", "feedline-1"} <= names
    assert sum(event["name"] == "wait for a batch" for event in found) == 30
    for event in found:
        assert event["ph"] in "XMC"
        assert event["ph"] != "X" or event["dur"] >= 0


def test_a_trace_of_a_finished_epoch_has_the_last_samples(folder, tmp_path):
    with fl.Loader(folder, batch_size=4, output="numpy") as loader:
        list(loader)
        with loader.trace(tmp_path / "trace.json"):
            assert any(event["name"] == "decode" for event in events(tmp_path / "trace.json"))
        with pytest.raises(fl.Error):
            loader.trace(tmp_path / "no" / "such" / "folder.json")


def test_bad_samples_are_logged(tmp_path, caplog):
    make_folder(tmp_path / "data")
    (tmp_path / "data" / "dog" / "001.jpg").write_bytes(b"\xff\xd8\xff nothing")
    with (
        caplog.at_level(logging.INFO, "feedline"),
        fl.Loader(tmp_path / "data", on_error="skip", output="numpy") as loader,
    ):
        list(loader)
    said = [record.getMessage() for record in caplog.records if record.name == "feedline"]
    assert sum("sample 5 " in line and "left out" in line for line in said) == 1
    assert said[0].startswith("epoch 0 of")
    assert "-bound" in said[-1]
    assert "epoch 0 is over" in said[-1]


def test_retries_are_counted_and_logged(folder, tmp_path, caplog):
    fl.pack(folder, tmp_path / "pack", progress=False)
    with serving(tmp_path) as url:
        dataset = fl.open(f"{url}/pack", format="pack")
        Handler.failures = 1
        with fl.Loader(dataset, batch_size=12, output="numpy") as loader:
            stats = consume(loader)
    assert stats["storage"]["retries"] >= 1
    assert any("made again" in record.getMessage() for record in caplog.records)


def test_the_disk_cache_is_counted(folder, tmp_path):
    fl.pack(folder, tmp_path / "served" / "pack", progress=False)
    with serving(tmp_path / "served") as url:
        dataset = fl.open(f"{url}/pack", format="pack", cache_dir=tmp_path / "cache")
        with fl.Loader(dataset, batch_size=4, output="numpy") as loader:
            list(loader)
            stats = consume(loader)
    assert stats["storage"]["cache_hits"] > 0
    assert stats["stored"]["cached"]


def test_batches_can_be_drawn(folder, tmp_path):
    (tmp_path / "<b>x").mkdir()
    with fl.Loader(
        folder, batch_size=4, output="numpy", transforms=[T.CenterCrop(32), T.Normalize.imagenet()]
    ) as loader:
        batch = next(iter(loader))
        shown = fl.show(batch, classes=["<script>", "dog", "owl"], mean=[0.5] * 3, std=[0.2] * 3)
        assert shown.html.count("<img") == 4
        assert "<script>" not in shown.html
        assert "&lt;script&gt;" in shown.html
        shown.save(tmp_path / "batch.html")
        assert (tmp_path / "batch.html").read_text().startswith("<!doctype html>")
        assert "samples/s" in loader._repr_html_()
        assert loader.dataset._repr_html_().count("<img") == 8
    with pytest.raises(fl.OptionError, match="no field holds images"):
        fl.show({"label": np.zeros(3)})
    with pytest.raises(fl.OptionError, match="not a batch"):
        fl.show([1])  # type: ignore[arg-type]


def test_masks_boxes_and_points_are_drawn():
    image = np.full((2, 3, 20, 30), 100, np.uint8)
    mask = np.zeros((2, 20, 30), np.int64)
    mask[:, 5:10, 5:10] = 1
    batch = {
        "image": image,
        "index": np.arange(2),
        "boxes": [np.array([[1, 2, 11, 12.0]])] * 2,
        "points": [np.array([[3, 4.0]])] * 2,
    }
    plain = fl.show(batch).html
    assert plain.count("<rect") == 2
    assert plain.count("<circle") == 2
    assert 'width="10.0"' in plain
    assert fl.show({**batch, "mask": mask}).html != plain


def test_notebooks_show_batches_and_leave_other_dicts_alone(folder, monkeypatch):
    from feedline._looking import notebook

    given = {}
    html = SimpleNamespace(for_type=lambda kind, function: given.update({kind: function}))
    shell = SimpleNamespace(display_formatter=SimpleNamespace(formatters={"text/html": html}))
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    with fl.Loader(folder, batch_size=4, output="numpy", transforms=[T.CenterCrop(16)]) as loader:
        batch = next(iter(loader))
    assert given == {dict: notebook.batch_html}
    assert type(batch) is dict
    assert "<img" in given[dict](batch)
    assert given[dict]({"a": 1}) is None
    assert given[dict]({"index": 1}) is None
