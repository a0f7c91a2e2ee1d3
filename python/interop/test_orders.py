"""Orders, against the libraries themselves: seeds, epochs, numbers of ranks."""

import itertools
import json

import feedline as fl
import numpy as np
import pytest
from feedline import samplers
from feedline.samplers import Split


def numbers(count, where):
    return fl.pack([{"label": number} for number in range(count)], where, progress=False)


def batches_of(ds, epochs, **knobs):
    with fl.Loader(ds, decode="none", output="numpy", fields=[], **knobs) as loader:
        return [[batch["index"].tolist() for batch in loader] for _ in range(epochs)]


def test_mosaic(run, tmp_path):
    shards = np.random.default_rng(1).integers(1, 40, 29).tolist()
    asked = []
    for method, seed, epoch in itertools.product(["naive", "py1s", "py2s", "py1br", "py1e"], [9176, 3], [0, 1, 7]):
        for canonical, nodes, ranks in [(1, 1, 1), (2, 1, 4), (4, 2, 3), (2, 4, 2), (8, 8, 1)]:
            more = {"canonical": canonical, "nodes": nodes, "ranks_per_node": ranks, "workers": 3, "batch": 5}
            asked.append({"method": method, "seed": seed, "epoch": epoch, "shards": shards, "block": 60, **more})
    run("mosaicml", "orders", tmp_path / "answers.json", json.dumps(asked))
    answers = json.loads((tmp_path / "answers.json").read_text())
    assert len(answers) == 150
    for ask, answer in zip(asked, answers, strict=True):
        how = {"method": ask["method"], "seed": ask["seed"], "block_size": ask["block"], "nodes": ask["nodes"]}
        order = samplers.Mosaic(shards, num_canonical_nodes=ask["canonical"], **how)
        split = Split(sum(shards), ask["batch"], ask["nodes"] * ask["ranks_per_node"], False)
        assert [rank.tolist() for rank in order.ranks(ask["epoch"], split)] == answer, ask


@pytest.mark.parametrize(("environment", "window"), [("litdata", 256), ("litdata", 0), ("litdata-classic", None)])
def test_litdata(run, tmp_path, environment, window):
    run("litdata", "write", tmp_path / "data", environment=environment)
    folder = tmp_path / "data" / "numbers"
    asked = [
        {"world": 1, "workers": 0, "batch": 7, "seed": 42, "shuffle": True, "drop_last": False, "epochs": 2},
        {"world": 1, "workers": 3, "batch": 7, "seed": 5, "shuffle": True, "drop_last": False, "epochs": 2},
        {"world": 1, "workers": 2, "batch": 7, "seed": 5, "shuffle": False, "drop_last": False, "epochs": 1},
        {"world": 1, "workers": 2, "batch": 7, "seed": 5, "shuffle": True, "drop_last": True, "epochs": 1},
        {"world": 2, "workers": 2, "batch": 8, "seed": 1, "shuffle": True, "drop_last": True, "epochs": 2},
    ]
    run(
        "litdata",
        "orders",
        folder,
        tmp_path / "answers.json",
        json.dumps([{**ask, "window": window} for ask in asked]),
        environment=environment,
    )
    ds = numbers(1000, tmp_path / "pack")
    for ask, ranks in zip(asked, json.loads((tmp_path / "answers.json").read_text()), strict=True):
        how = {"seed": ask["seed"], "num_workers": ask["workers"], "shuffle": ask["shuffle"], "window": window}
        order = samplers.LitData.of(folder, **how)
        for rank, theirs in enumerate(ranks):
            knobs = {"batch_size": ask["batch"], "drop_last": ask["drop_last"], "sampler": order}
            ours = batches_of(ds, ask["epochs"], rank=rank, world_size=ask["world"], **knobs)
            assert ours == theirs, ask


def test_ffcv(run, tmp_path):
    file = tmp_path / "pages.beton"
    run("ffcv", "pages", file, 200)
    asked = [
        {"order": order, "batch": batch, "seed": seed, "drop_last": drop_last, "epochs": 3}
        for order in ["SEQUENTIAL", "RANDOM", "QUASI_RANDOM"]
        for batch, seed, drop_last in [(8, 0, True), (1, 7, False), (33, 3, True)]
    ]
    run("ffcv", "orders", file, tmp_path / "answers.json", json.dumps(asked))
    ds = fl.open(file)
    for ask, theirs in zip(asked, json.loads((tmp_path / "answers.json").read_text()), strict=True):
        order = {
            "SEQUENTIAL": samplers.Sequential(),
            "RANDOM": samplers.FfcvRandom(ask["seed"]),
            "QUASI_RANDOM": samplers.FfcvQuasiRandom.of(file, ask["seed"]),
        }[ask["order"]]
        ours = batches_of(ds, 3, batch_size=ask["batch"], drop_last=ask["drop_last"], sampler=order)
        assert ours == theirs, ask
