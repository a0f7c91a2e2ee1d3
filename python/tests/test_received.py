"""A batch counts when the user has it."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import feedline as fl
import pytest
import torch

KNOBS = {"decode": "none", "output": "numpy", "num_workers": 1, "batch_size": 4}


@pytest.mark.parametrize("failure", [RuntimeError, KeyboardInterrupt])
def test_a_batch_that_could_not_be_converted_is_delivered_again(folder, monkeypatch, failure):
    with fl.Loader(folder, **KNOBS) as loader:
        expected = [batch["index"].tolist() for batch in loader]
        loader.set_epoch(0)
        running = iter(loader)
        next(running)
        before = loader.state_dict()

        def fail(_):
            raise failure("broken off")

        with monkeypatch.context() as patch:
            patch.setattr(loader._converter, "batch", fail)
            for _ in range(2):
                with pytest.raises(failure):
                    next(running)
                assert loader.state_dict() == before
                assert len(running) == 2
        assert [batch["index"].tolist() for batch in running] == expected[1:]


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_missing_device_is_refused_at_once(folder):
    for device in ("cuda", "cuda:3", torch.device("cuda", 0), 5, "xpu", "nowhere"):
        with pytest.raises(fl.OptionError, match="device: "):
            fl.Loader(folder, output="torch", device=device)


def test_libraries_for_batches_are_imported_with_the_loader(folder):
    script = "import sys, feedline as fl; fl.Loader(sys.argv[1], output='torch'); print('torch' in sys.modules)"
    run = subprocess.run(
        [sys.executable, "-c", script, str(folder)], capture_output=True, text=True, timeout=120, check=True
    )
    assert run.stdout.strip() == "True"


def test_threads_share_one_iteration(tmp_path):
    """Every batch is somebody's, none is lost between two threads."""
    data = fl.pack(({"number": n} for n in range(600)), tmp_path / "pack", progress=False)
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with fl.Loader(data, batch_size=2, output="numpy") as loader, ThreadPoolExecutor(8) as pool:
            running = iter(loader)
            taken = pool.map(lambda _: [batch["index"].tolist() for batch in running], range(8))
            found = sorted(index for mine in taken for batch in mine for index in batch)
    finally:
        sys.setswitchinterval(before)
    assert found == list(range(600))
