# environment: keras
"""Keras 3 on TensorFlow."""

from __future__ import annotations

import feedline as fl
import feedline.keras
import numpy as np
import pytest
from runs import check_resume


def test_killed_and_resumed_in_mid_epoch(packed, tmp_path):
    assert len(check_resume("keras_run.py", packed.uri, tmp_path)) == 24


def test_batches_are_the_loaders_own(packed):
    knobs = {"batch_size": 5, "shuffle": True, "decode": "none", "output": "numpy"}
    with fl.Loader(packed, **knobs) as plain, fl.Loader(packed, **knobs) as loader:
        data = feedline.keras.dataset(loader, fields=("index", "label"))
        assert len(data) == len(plain) == 10
        data[0], data[1]  # a look ahead, as backends take
        data.on_epoch_end()
        for _ in range(2):
            given = [data[number] for number in range(len(data))]
            data.on_epoch_end()
            for (index, label), batch in zip(given, plain, strict=True):
                assert np.array_equal(index, batch["index"])
                assert np.array_equal(label, batch["label"])
        with pytest.raises(fl.OptionError, match=r"fit\(shuffle=False\)"):
            data[5]
