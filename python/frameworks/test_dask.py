# environment: dask
"""Dask: two workers of which one is killed."""

from __future__ import annotations

import os
import signal
import threading
import time

import distributed
import feedline as fl
import feedline.dask
import pytest
from clusters import PART_BYTES, check_after_kill, check_small_driver, kill_driver, many, parts, same

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def client():
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        distributed.Client(cluster) as made,
    ):
        yield made


def test_a_worker_dies_and_the_pack_is_the_same(client, folder, tmp_path):
    fl.pack(many(folder), tmp_path / "alone", part_bytes=PART_BYTES, progress=False)
    victim, target, written = next(iter(client.run(os.getpid).values())), tmp_path / "shared", []

    def kill():
        while not parts(target):
            time.sleep(0.002)
        os.kill(victim, signal.SIGKILL)
        written.append(len(parts(target)))

    killer = threading.Thread(target=kill)
    killer.start()
    feedline.dask.pack(many(folder), target, part_bytes=PART_BYTES, progress=False)
    killer.join()
    assert 0 < written[0] < len(parts(target)), "the worker died in the middle"
    same(tmp_path / "alone", target)


def test_the_driver_dies_and_only_the_rest_is_written(client, folder, tmp_path):
    before = kill_driver("dask", client.scheduler.address, folder, tmp_path / "p")
    feedline.dask.pack(many(folder), tmp_path / "p", part_bytes=PART_BYTES, progress=False)
    check_after_kill(tmp_path / "p", before, folder, tmp_path / "alone")


def test_resume_and_convert(client, folder, tmp_path):
    plan = fl.pack_plan(folder, tmp_path / "p", part_bytes=PART_BYTES, workers=1)
    fl.write_part(plan, 2)
    before = parts(tmp_path / "p")
    feedline.dask.pack(folder, tmp_path / "p", part_bytes=PART_BYTES, progress=False)
    after = parts(tmp_path / "p")
    assert all(after[name] == found for name, found in before.items())
    fl.convert(folder, tmp_path / "alone", to="mds", shard_bytes=4000, progress=False)
    feedline.dask.convert(folder, tmp_path / "shared", to="mds", shard_bytes=4000, tasks=3, progress=False)
    same(tmp_path / "alone", tmp_path / "shared")


def test_the_driver_stays_small(client, tmp_path):
    check_small_driver(feedline.dask.pack, tmp_path)
