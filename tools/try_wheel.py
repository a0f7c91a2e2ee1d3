"""What README shows, in an environment that has nothing but the wheel and NumPy."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

import numpy as np

LONGEST_IMPORT = 0.3


def import_seconds() -> float:
    """How long `import feedline` takes in a fresh interpreter, at best of five, without NumPy's own part."""
    code = "import time, numpy; start = time.perf_counter(); import feedline; print(time.perf_counter() - start)"
    # An emulated interpreter is started by a script.
    python = os.environ.get("TRY_PYTHON", sys.executable)
    runs = [subprocess.run([python, "-c", code], capture_output=True, text=True, check=True) for _ in range(5)]
    return min(float(run.stdout) for run in runs)


def write_images(folder: Path) -> None:
    """A few portable pixel maps in two class folders: files that need no library to write."""
    generator = np.random.default_rng(0)
    for number in range(8):
        path = folder / ("cat", "dog")[number % 2] / f"{number}.ppm"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"P6 40 30 255\n" + generator.integers(0, 256, 3600, np.uint8).tobytes())


def main() -> None:
    import feedline as fl  # noqa: PLC0415
    from feedline import transforms as T  # noqa: PLC0415

    with tempfile.TemporaryDirectory() as folder:
        write_images(Path(folder))
        ds = fl.open(folder)
        chain = [T.RandomResizedCrop(24), T.RandomHorizontalFlip(), T.Normalize.imagenet()]
        loader = fl.Loader(ds, batch_size=4, shuffle=True, seed=0, transforms={"image": chain})
        shapes = [batch["image"].shape for batch in loader]
    assert shapes == [(4, 3, 24, 24)] * 2, shapes
    assert "torch" not in sys.modules, "torch must not be imported"
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        assert not sys._is_gil_enabled(), "importing feedline has switched the interpreter lock on"
    seconds = import_seconds()
    print(f"numpy {np.__version__}: README's example runs; import feedline takes {seconds:.3f} s")
    if "TRY_PYTHON" not in os.environ:
        assert seconds < LONGEST_IMPORT, "importing takes too long"


if __name__ == "__main__":
    main()
