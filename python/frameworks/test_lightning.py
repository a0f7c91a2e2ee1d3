# environment: torch
"""Lightning: a training that is killed in mid-epoch and resumed equals one that is not."""

from __future__ import annotations

import feedline as fl
import pytest
from feedline.lightning import DataModule
from runs import check_resume, steps


@pytest.mark.parametrize("flags", ["", "+estimate"])
def test_killed_and_resumed_in_mid_epoch(packed, tmp_path, flags):
    whole = check_resume("lightning_run.py", packed.uri, tmp_path, flags)
    assert len(whole) == 24
    for epoch in (range(12), range(12, 24)):
        assert sorted(index for step in epoch for index in whole[step]["index"]) == list(range(48))


def test_two_processes_share_the_data(packed, tmp_path):
    """Two ranks of half the batch give the losses of one: the same global batches, no second sharding."""
    ddp = check_resume("lightning_run.py", packed.uri, tmp_path, "+ddp")
    alone = steps("lightning_run.py", packed.uri, tmp_path / "alone", mode="whole")
    assert len(ddp) == len(alone) == 24
    for step, line in ddp.items():
        assert set(line["index"]) < set(alone[step]["index"])


def test_a_loader_for_other_ranks_is_refused(packed):
    module = DataModule(train=fl.Loader(packed, rank=1, world_size=2))
    with pytest.raises(fl.OptionError, match=r"made for rank 1 of 2, but this is rank 0 of 1"):
        module.train_dataloader()


def test_stages_without_data_have_no_loader(packed):
    module = DataModule(train=packed, batch_size=4)
    assert "val_dataloader" not in vars(module)
    with pytest.raises(fl.OptionError, match="val: the data module has no such data"):
        module.loader("val")
    with pytest.raises(fl.OptionError, match="without data"):
        DataModule()
    assert len(module.train_dataloader()) == 12
    module.teardown("fit")
