# environment: spark
"""Spark on two local cores."""

from __future__ import annotations

import os
import sys

os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable

import feedline as fl
import feedline.spark
import pytest
from clusters import PART_BYTES, check_after_kill, check_small_driver, kill_driver, many, parts, same
from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(300)


def start():
    """Spark in this process's own Java."""
    return (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.executorEnv.PYTHONPATH", os.path.dirname(__file__))
        .getOrCreate()
    )


@pytest.fixture(scope="module")
def session():
    made = start()
    yield made
    made.stop()


def test_the_pack_is_that_of_one_process(session, folder, tmp_path):
    fl.pack(folder, tmp_path / "alone", part_bytes=PART_BYTES, progress=False)
    plan = fl.pack_plan(folder, tmp_path / "shared", part_bytes=PART_BYTES, workers=1)
    fl.write_part(plan, 1)
    before = parts(tmp_path / "shared")
    feedline.spark.pack(folder, tmp_path / "shared", part_bytes=PART_BYTES, progress=False)
    assert all(parts(tmp_path / "shared")[name] == found for name, found in before.items())
    same(tmp_path / "alone", tmp_path / "shared")


def test_the_driver_dies_and_only_the_rest_is_written(session, folder, tmp_path):
    """The one that dies has a Spark of its own, which goes with it."""
    before = kill_driver("spark", "local", folder, tmp_path / "p")
    feedline.spark.pack(many(folder), tmp_path / "p", part_bytes=PART_BYTES, progress=False)
    check_after_kill(tmp_path / "p", before, folder, tmp_path / "alone")


def test_the_driver_stays_small(session, tmp_path):
    check_small_driver(feedline.spark.pack, tmp_path)


def test_convert(session, folder, tmp_path):
    fl.convert(folder, tmp_path / "alone", to="parquet", shard_bytes=4000, progress=False)
    feedline.spark.convert(folder, tmp_path / "shared", to="parquet", shard_bytes=4000, tasks=3, progress=False)
    same(tmp_path / "alone", tmp_path / "shared")


def test_bad_samples_end_the_job(session, folder, tmp_path):
    import shutil

    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    (copy / "cat" / "001.jpg").write_text("no picture")
    with pytest.raises(Exception, match=r"001\.jpg"):
        feedline.spark.pack(copy, tmp_path / "p", part_bytes=PART_BYTES, progress=False, retries=0)


def test_a_data_frame(session, folder, tmp_path):
    ds = fl.open(folder)
    rows = [(bytes(ds[n]["image"]), int(ds[n]["label"]), ds[n]["path"]) for n in range(48)]
    frame = session.createDataFrame(rows, "image binary, label long, path string").repartition(5, "path")
    packed = feedline.spark.pack(frame, tmp_path / "p", classes=ds.classes, progress=False)
    assert packed.schema == {"image": "image", "label": "int", "path": "text"}
    assert packed.classes == ds.classes
    by_path = {row[2]: row for row in rows}
    assert sorted(packed["path"]) == sorted(by_path)
    for n in range(48):
        sample = packed[n]
        assert (bytes(sample["image"]), sample["label"]) == by_path[sample["path"]][:2]
