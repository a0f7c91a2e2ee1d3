# environment: ray
"""Ray: packing on a cluster of two nodes of which one dies, Ray Data as a source, and Ray Train."""

from __future__ import annotations

import os
import threading
import time

import feedline as fl
import feedline.ray
import numpy as np
import pytest
import ray
from clusters import PART_BYTES, check_after_kill, check_small_driver, kill_driver, many, parts, same
from ray.cluster_utils import Cluster

os.environ["RAY_raylet_start_wait_time_s"] = "120"
pytestmark = pytest.mark.timeout(600)


# Not 127.0.0.1: a driver that connects there uses the machine's outer address, where nothing listens.
HEAD, SECOND = "127.0.0.2", "127.0.0.3"


@pytest.fixture(scope="module")
def cluster():
    made = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 1, "node_ip_address": HEAD, "include_dashboard": False}
    )
    ray.init(address=made.address, log_to_driver=False, _node_ip_address=HEAD)
    yield made
    ray.shutdown()
    made.shutdown()


def test_a_node_dies_and_the_pack_is_the_same(cluster, folder, tmp_path):
    alone = fl.pack(many(folder), tmp_path / "alone", part_bytes=PART_BYTES, progress=False)
    second = cluster.add_node(num_cpus=1, node_ip_address=SECOND)
    cluster.wait_for_nodes(timeout=120)
    assert ray.cluster_resources()["CPU"] == 2
    target, written = tmp_path / "shared", []

    def kill():
        while not parts(target):
            time.sleep(0.002)
        cluster.remove_node(second, allow_graceful=False)
        written.append(len(parts(target)))

    killer = threading.Thread(target=kill)
    killer.start()
    result = feedline.ray.pack(many(folder), target, part_bytes=PART_BYTES, progress=False)
    killer.join()
    assert 0 < written[0] < len(parts(target)), "the node died in the middle"
    assert result.fingerprint == alone.fingerprint
    same(tmp_path / "alone", target)


def test_the_driver_dies_and_only_the_rest_is_written(cluster, folder, tmp_path):
    before = kill_driver("ray", cluster.address, folder, tmp_path / "p")
    feedline.ray.pack(many(folder), tmp_path / "p", part_bytes=PART_BYTES, progress=False)
    check_after_kill(tmp_path / "p", before, folder, tmp_path / "alone")


def test_the_driver_stays_small(cluster, tmp_path):
    check_small_driver(feedline.ray.pack, tmp_path)


def test_only_unfinished_parts_are_written_again(cluster, folder, tmp_path):
    plan = fl.pack_plan(folder, tmp_path / "p", part_bytes=PART_BYTES, workers=1)
    for part in (0, 3, 5):
        fl.write_part(plan, part)
    before = parts(tmp_path / "p")
    feedline.ray.pack(folder, tmp_path / "p", part_bytes=PART_BYTES, progress=False)
    after = parts(tmp_path / "p")
    assert len(before) == 3
    assert all(after[name] == found for name, found in before.items())
    assert len(after) == plan.parts


def test_convert(cluster, folder, tmp_path):
    fl.convert(folder, tmp_path / "alone", to="webdataset", shard_bytes=4000, progress=False)
    feedline.ray.convert(folder, tmp_path / "shared", to="webdataset", shard_bytes=4000, tasks=3, progress=False)
    same(tmp_path / "alone", tmp_path / "shared")


def test_bad_samples_are_not_retried_for_ever(cluster, folder, tmp_path):
    import shutil

    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    (copy / "cat" / "001.jpg").write_text("no picture")
    with pytest.raises(Exception, match=r"001\.jpg"):
        feedline.ray.pack(copy, tmp_path / "p", part_bytes=PART_BYTES, progress=False)
    assert len(feedline.ray.pack(copy, tmp_path / "q", part_bytes=PART_BYTES, progress=False, on_error="skip")) == 47


def test_a_ray_data_set(cluster, tmp_path):
    source = ray.data.from_items(
        [{"number": n, "name": f"row {n}", "real": n / 2} for n in range(100)], override_num_blocks=4
    )
    packed = feedline.ray.pack(source, tmp_path / "p", progress=False)
    assert sorted(packed["number"].tolist()) == list(range(100))
    assert packed.schema == {"number": "int", "name": "text", "real": "float"}
    assert all(packed[n]["name"] == f"row {packed[n]['number']}" for n in range(100))
    assert not list(tmp_path.glob("p.parts-*"))
    assert np.allclose(packed["real"], packed["number"] / 2)
