"""Running a library in its own environment."""

import os
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
PROJECT = HERE.parent.parent
ENVIRONMENTS = Path(os.environ.get("FEEDLINE_INTEROP", PROJECT / ".interop"))


@pytest.fixture(scope="session")
def run(tmp_path_factory):
    """Runs a library's script with arguments; its output is shown if it fails."""
    home = tmp_path_factory.mktemp("home")

    def run(library, *arguments, environment=None, script=None):
        python = ENVIRONMENTS / (environment or library) / "bin" / "python"
        assert python.exists(), f"{python} is missing: run tools/interop/setup.sh"
        file = HERE / "libraries" / f"{script or f'with_{library}'}.py"
        # A home of its own: LitData and others keep caches there, and in /tmp.
        own = {"HOME": str(home), "TF_CPP_MIN_LOG_LEVEL": "3", "HF_HUB_OFFLINE": "1"}
        for name in ("DATA_OPTIMIZER_CACHE_FOLDER", "DATA_OPTIMIZER_DATA_CACHE_FOLDER"):
            own[name] = str(tmp_path_factory.mktemp("litdata"))
        settings = {name: value for name, value in os.environ.items() if name not in {"VIRTUAL_ENV", "PYTHONPATH"}}
        command = [python, file, *map(str, arguments)]
        done = subprocess.run(
            command, env={**settings, **own}, capture_output=True, text=True, timeout=600, check=False
        )
        assert done.returncode == 0, f"{command}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"

    return run
