"""Runs every test file of this folder in the environment that its first line names. A missing one is a failure.

`run.py` runs all; `run.py ray dask` only those environments.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent


def environment(file: Path) -> str:
    """The name on the first line."""
    first = file.read_text().splitlines()[0]
    assert first.startswith("# environment: "), f"{file.name} does not say in which environment it runs"
    return first.removeprefix("# environment: ").strip()


def run(name: str, files: list[Path]) -> bool:
    """Whether all tests of these files ran and passed; a skipped one has not run."""
    python = ROOT / ".frameworks" / name / "bin" / "python"
    if not python.exists():
        print(f"{name}: .frameworks/{name} is missing; run tools/frameworks/setup.sh {name}", flush=True)
        return False
    print(f"== {name}: {', '.join(file.name for file in files)}", flush=True)
    command = [str(python), "-m", "pytest", "-c", str(HERE / "pytest.ini"), "-rs", *map(str, files)]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "PYTHONPATH": ""}, check=False, stdout=subprocess.PIPE, text=True
    )
    print(done.stdout, flush=True)
    return done.returncode == 0 and "skipped" not in done.stdout.splitlines()[-1]


def main() -> int:
    """Exit code 1 if anything failed, was skipped or could not be run."""
    wanted = sys.argv[1:]
    groups: dict[str, list[Path]] = {}
    for file in sorted(HERE.glob("test_*.py")):
        groups.setdefault(environment(file), []).append(file)
    unknown = [name for name in wanted if name not in groups]
    if unknown:
        print(f"no tests for {', '.join(unknown)}; there are: {', '.join(groups)}")
        return 2
    failed = [name for name, files in groups.items() if (not wanted or name in wanted) and not run(name, files)]
    print(f"failed: {', '.join(failed)}" if failed else "all frameworks passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
