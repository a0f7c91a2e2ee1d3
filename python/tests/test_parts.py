"""Packs and conversions written in parts: by many processes, in any order, killed and run again."""

from __future__ import annotations

import filecmp
import os
import pickle
import random
import signal
import subprocess
import sys
import time

import feedline as fl
import numpy as np
import pytest

PART = 8000


def same(a, b):
    names = sorted(p.relative_to(a) for p in a.rglob("*") if p.is_file())
    assert names == sorted(p.relative_to(b) for p in b.rglob("*") if p.is_file())
    for name in names:
        assert filecmp.cmp(a / name, b / name, shallow=False), name


def cli(*arguments, **environment):
    run = [sys.executable, "-m", "feedline", *map(str, arguments)]
    return subprocess.run(run, check=False, capture_output=True, text=True, env={**os.environ, **environment})


@pytest.fixture(scope="module")
def alone(many, tmp_path_factory):
    folder = tmp_path_factory.mktemp("alone") / "pack"
    fl.pack(many, folder, part_bytes=PART, progress=False)
    return folder


def test_a_plan_is_small_and_can_be_pickled(many, alone, tmp_path):
    plan = fl.pack_plan(many, tmp_path / "p", part_bytes=PART)
    assert plan.parts > 20
    sent = pickle.dumps(plan)
    assert len(sent) < 10_000
    there = pickle.loads(sent)
    assert there.missing() == list(range(plan.parts))
    with pytest.raises(fl.DataError, match="not complete(.|\n)*write this part again"):
        fl.commit_pack(plan)
    order = list(range(plan.parts)) * 2
    random.Random(3).shuffle(order)
    for part in order:
        fl.write_part(there, part)
    assert len(fl.commit_pack(there)) == len(fl.commit_pack(plan)) == 150
    same(alone, tmp_path / "p")
    with pytest.raises(fl.OptionError, match="no part 999"):
        fl.write_part(fl.pack_plan(many, tmp_path / "q", part_bytes=PART), 999)
    with pytest.raises(fl.OptionError, match="cannot be read again"):
        fl.pack_plan(iter([{"a": 1}]), tmp_path / "r")


def test_tasks_out_of_order_and_repeated(many, alone, tmp_path):
    """As a SLURM array does: nobody plans beforehand, some tasks run twice, the last step is by itself."""
    target = tmp_path / "p"
    early = cli("pack", many, target, "--part-bytes", PART, "--commit")
    assert (early.returncode, "not complete" in early.stderr) == (1, True)
    for task in (3, 1, 3, 0, 2, 1):
        run = cli(
            "pack", many, target, "--part-bytes", PART, "--part", "auto", "--of", 4, "-q", SLURM_ARRAY_TASK_ID=str(task)
        )
        assert run.returncode == 0, run.stderr
        with pytest.raises(fl.Error, match="unfinished"):
            fl.open(target)
    done = cli("pack", many, target, "--part-bytes", PART, "--commit")
    assert done.returncode == 0, done.stderr
    same(alone, target)
    kubernetes = cli("pack", many, tmp_path / "k", "--part-bytes", PART, "--of", 1, "-q", JOB_COMPLETION_INDEX="0")
    assert kubernetes.returncode == 0, kubernetes.stderr
    assert cli("pack", many, tmp_path / "k", "--part-bytes", PART, "--commit", "-q").returncode == 0
    same(alone, tmp_path / "k")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--part", "4", "--of", "4"], "numbered from 0"),
        (["--part", "auto", "--of", "4"], "SLURM_ARRAY_TASK_ID"),
        (["--part", "0"], "--of"),
        (["--part", "0", "--of", "2", "--overwrite"], "removes nothing"),
    ],
)
def test_impossible_tasks_are_refused(many, tmp_path, arguments, said):
    run = cli("pack", many, tmp_path / "p", *arguments)
    assert run.returncode == 2
    assert said in run.stderr


def test_killed_tasks_do_only_what_is_left(many, alone, tmp_path):
    """Two tasks at once, both killed at random moments, again and again; finished parts are never written twice."""
    rng = random.Random(5)
    target = tmp_path / "p"
    written = {}
    for _ in range(6):
        command = [
            sys.executable,
            "-m",
            "feedline",
            "pack",
            many,
            target,
            "--part-bytes",
            str(PART),
            "--workers",
            "1",
            "-q",
        ]
        tasks = [subprocess.Popen([*command, "--part", str(task), "--of", "2"]) for task in range(2)]
        begun = time.monotonic()
        while not target.exists() and time.monotonic() - begun < 20:
            time.sleep(0.001)
        time.sleep(rng.uniform(0, 0.05))
        for task in tasks:
            task.send_signal(signal.SIGKILL)
            task.wait()
        found = {p.name: p.stat().st_mtime_ns for p in target.glob("part-*.fl")} if target.exists() else {}
        assert all(found[name] == when for name, when in written.items())
        written = found
    for task in range(2):
        assert cli("pack", many, target, "--part-bytes", PART, "--part", task, "--of", 2, "-q").returncode == 0
    after = {p.name: p.stat().st_mtime_ns for p in target.glob("part-*.fl")}
    assert all(after[name] == when for name, when in written.items())
    assert cli("pack", many, target, "--part-bytes", PART, "--commit", "-q").returncode == 0
    same(alone, target)


def test_a_bucket(servers, many, alone):
    place = {"storage_options": servers.options}
    plan = pickle.loads(pickle.dumps(fl.pack_plan(many, "s3://bucket/parts", part_bytes=PART, **place)))
    for part in reversed(range(plan.parts)):
        fl.write_part(plan, part)
        fl.write_part(plan, part)
    assert not plan.missing()
    assert len(fl.commit_pack(plan)) == len(fl.commit_pack(plan)) == 150
    same(alone, servers.folder / "bucket" / "parts")


DRIVER = """
import pickle, resource, sys
import feedline as fl
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
before = peak()
plan = fl.pack_plan(sys.argv[1], sys.argv[2], part_bytes=50_000)
sent = len(pickle.dumps(plan))
assert len(plan.missing()) == plan.parts
print(plan.parts, sent, peak() - before)
"""


def test_the_driver_stays_small(tmp_path):
    """A million entries: what plans and hands out is no larger for it."""
    table = tmp_path / "rows.npy"
    np.save(table, np.arange(4_000_000).reshape(-1, 4))
    run = [sys.executable, "-c", DRIVER, str(table), str(tmp_path / "p")]
    parts, sent, grown = map(float, subprocess.run(run, check=True, capture_output=True, text=True).stdout.split())
    assert parts > 100
    assert sent < 100_000
    assert grown < 150


def test_a_machine_that_does_not_see_the_destination(many, tmp_path):
    plan = fl.pack_plan(many, tmp_path / "p", part_bytes=PART)
    (tmp_path / "p").rename(tmp_path / "elsewhere")
    (tmp_path / "p").mkdir()
    with pytest.raises(fl.DataError, match="the plan of this pack is not here(.|\n)*shared disk"):
        fl.write_part(plan, 0)


@pytest.mark.parametrize("to", ["webdataset", "mds", "litdata", "parquet", "beton"])
def test_conversions_by_tasks(many, tmp_path, to):
    single = to == "beton"
    one, parts = (tmp_path / name / ("x.beton" if single else "") for name in ("one", "parts"))
    if single:
        one.parent.mkdir()
        parts.parent.mkdir()
    fl.convert(many, one, to=to, shard_bytes=20_000, progress=False)
    plan = pickle.loads(pickle.dumps(fl.convert_plan(many, parts, to=to, tasks=3, shard_bytes=20_000)))
    for task in (2, 0, 2, 1):
        fl.write_part(plan, task)
    assert len(fl.commit_pack(plan)) == 150
    same(one.parent if single else one, parts.parent if single else parts)


def test_conversions_by_tasks_of_the_command(many, tmp_path):
    fl.convert(many, tmp_path / "one", to="webdataset", shard_bytes=20_000, progress=False)
    convert = ("convert", many, tmp_path / "parts", "--to", "webdataset", "--shard-bytes", 20_000, "-q")
    assert cli(*convert, "--part", 0, "--of", 2).returncode == 0
    early = cli(*convert, "--commit")
    assert (early.returncode, "not written yet" in early.stderr) == (1, True)
    assert cli(*convert, "--part", 1, "--of", 2).returncode == 0
    assert cli(*convert, "--commit").returncode == 0
    same(tmp_path / "one", tmp_path / "parts")


def test_conversions_to_a_bucket_by_tasks(servers, many, tmp_path):
    fl.convert(many, tmp_path / "one", to="webdataset", shard_bytes=20_000, progress=False)
    plan = fl.convert_plan(
        many, "s3://bucket/tasks", to="webdataset", tasks=2, shard_bytes=20_000, storage_options=servers.options
    )
    with pytest.raises(fl.DataError, match="not written yet"):
        plan.commit()
    for task in (1, 0, 1):
        plan.write(task)
    plan.commit()
    there = servers.folder / "bucket" / "tasks"
    assert sorted(p.name for p in there.iterdir() if p.is_file()) == sorted(
        p.name for p in (tmp_path / "one").iterdir()
    )
    for file in (tmp_path / "one").glob("*.tar"):
        assert filecmp.cmp(file, there / file.name, shallow=False)


def test_merge(many, tmp_path):
    ds = fl.open(many)
    for name, part in (("a", ds[:60]), ("b", ds[60:])):
        fl.pack(part, tmp_path / name, part_bytes=PART, progress=False)
    merged = fl.merge([tmp_path / "a", tmp_path / "b"], tmp_path / "c")
    whole = fl.pack(many, tmp_path / "whole", progress=False)
    assert merged.fingerprint == whole.fingerprint
    assert [merged[n] for n in range(150)] == [whole[n] for n in range(150)]
    # On one file system nothing is copied.
    assert (tmp_path / "c" / "part-000000.fl").samefile(tmp_path / "a" / "part-000000.fl")
    assert cli("verify", tmp_path / "c").returncode == 0
    run = cli("merge", tmp_path / "a", tmp_path / "b", "-o", tmp_path / "d", "--json")
    assert run.returncode == 0, run.stderr
    same(tmp_path / "c", tmp_path / "d")
    fl.pack([{"text": "x"}], tmp_path / "other", progress=False)
    with pytest.raises(fl.DataError, match="fields differ"):
        fl.merge([tmp_path / "a", tmp_path / "other"], tmp_path / "e")


def test_append(many, tmp_path):
    ds = fl.open(many)
    fl.pack(ds[:60], tmp_path / "p", part_bytes=PART, progress=False)
    before = {p.name: p.stat().st_mtime_ns for p in (tmp_path / "p").glob("part-*.fl")}
    for _ in range(2):  # the second time there is nothing to add
        grown = fl.pack(ds[60:], tmp_path / "p", part_bytes=PART, append=True, progress=False)
        assert len(grown) == 150
    assert {p.name: p.stat().st_mtime_ns for p in (tmp_path / "p").glob("part-*.fl") if p.name in before} == before
    assert grown.fingerprint == fl.pack(many, tmp_path / "whole", progress=False).fingerprint
    assert cli("verify", tmp_path / "p").returncode == 0
    fl.pack(ds[:3], tmp_path / "small", progress=False)
    run = cli("pack", tmp_path / "small", tmp_path / "p", "--append", "--image", "as-is", "-q")
    assert run.returncode == 0, run.stderr
    assert len(fl.open(tmp_path / "p")) == 153


def test_split_by_hash(many, tmp_path):
    run = cli("pack", many, tmp_path / "p", "--split", "train=0.8,val=0.2", "--json")
    assert run.returncode == 0, run.stderr
    train, val = fl.open(tmp_path / "p" / "train"), fl.open(tmp_path / "p" / "val")
    assert len(train) + len(val) == 150
    assert 100 < len(train) < 140
    assert not {*train["path"]} & {*val["path"]}
    # A sample keeps its side when the data grow or shrink.
    few = fl.open(many)[::3]
    fl.pack(few, tmp_path / "few", progress=False)
    assert cli("pack", tmp_path / "few", tmp_path / "q", "--split", "train=0.8,val=0.2", "-q").returncode == 0
    assert {*fl.open(tmp_path / "q" / "val")["path"]} == {*val["path"]} & {*few["path"]}
    wrong = cli("pack", many, tmp_path / "w", "--split", "train=0.8,val=x")
    assert (wrong.returncode, "train=0.9,val=0.1" in wrong.stderr) == (2, True)
    nobody = cli("pack", many, tmp_path / "w", "--split", "a=1,b=1", "--split-by", "nothing")
    assert (nobody.returncode, "no field 'nothing'" in nobody.stderr) == (2, True)
