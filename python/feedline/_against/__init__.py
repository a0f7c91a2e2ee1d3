"""`feedline bench PATH --against torch,ffcv,...`: other loaders side by side with feedline, on the user's own data.

Each runs in a fresh process, in turns (round by round, so that a busy moment hits all), with the same recipe, batch
size and threads. The first epoch of a round is cold: the loader opens and starts its workers, and the page cache has
been asked to drop the files. The other epochs are warm. `peers.py` is what runs in those processes; it also runs in
environments that have no feedline.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .peers import PEERS

__all__ = ["compare", "main", "table"]

RECIPES = ("train", "validation", "decode", "raw")
OURS = ("feedline", "feedline-pack", "feedline-compact", "feedline-dct")

# Two loaders do the same work if their pixels differ by no more than a few levels of 255, after normalising.
_SAME = 0.05
_CLOSE = 0.25


def main(arguments: Sequence[str]) -> int:
    """Runs the command."""
    parser = argparse.ArgumentParser("feedline bench", description="other loaders side by side with feedline")
    parser.add_argument("path")
    parser.add_argument("--against", required=True, help="loaders, or 'all' for all that are installed")
    parser.add_argument("--recipe", choices=(*RECIPES, "all"), default="train")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(arguments)
    installed = [name for name in PEERS if name not in OURS and _is_installed(name)]
    wanted = installed if given.against == "all" else given.against.split(",")
    for name in wanted:
        if name not in PEERS:
            parser.error(f"--against {name}: not one of {', '.join(PEERS)}")
        if name not in installed and name not in OURS:
            parser.error(f"--against {name}: not installed here; there are {', '.join(installed) or 'none'}")
    threads = given.workers or len(os.sched_getaffinity(0))
    names = [*OURS, *(name for name in wanted if name not in OURS)]
    recipes = RECIPES if given.recipe == "all" else (given.recipe,)
    settings = {"batch": given.batch_size, "threads": threads, "epochs": given.epochs, "rounds": given.rounds}
    result = compare(given.path, names, recipes, settings, {})
    sys.stdout.write((json.dumps(result, indent=1) if given.json else table(result)) + "\n")
    return 0


def _is_installed(name: str) -> bool:
    try:
        return importlib.util.find_spec(PEERS[name][1]) is not None
    except (ImportError, ValueError):
        return False


def compare(
    path: str, names: Sequence[str], recipes: Sequence[str], settings: Mapping[str, int], pythons: Mapping[str, str]
) -> dict[str, Any]:
    """Measures all; `pythons` are the interpreters of loaders that have an environment of their own."""
    with tempfile.TemporaryDirectory(prefix="feedline-bench-") as work:
        folder = _folder(path, work)
        out = str(Path(work, "out"))
        Path(out).mkdir()
        failed: dict[str, str] = {}
        for name in names:
            _print_progress(f"{name}: writing its files")
            _, error = _run(pythons.get(name), name, "write", folder, out)
            if error:
                failed[name] = error
        runs: dict[str, dict[str, list[dict[str, Any]]]] = {recipe: {} for recipe in recipes}
        for recipe in recipes:
            for turn in range(settings["rounds"]):
                for name in (name for name in names if name not in failed):
                    _print_progress(f"{recipe}, round {turn + 1} of {settings['rounds']}: {name}")
                    drop_from_cache(folder, out)
                    sizes = (settings["batch"], settings["threads"], settings["epochs"])
                    found, error = _run(pythons.get(name), name, "run", recipe, *map(str, sizes), folder, out)
                    runs[recipe].setdefault(name, []).append(found if found is not None else {"left": error})
        versions = {name: _version(pythons.get(name), name) for name in names}
        rows = {recipe: {name: _summary(each) for name, each in by_name.items()} for recipe, by_name in runs.items()}
        _compare_pixels(rows)
    machine = {
        "machine": platform.machine(),
        "cpu": _cpu(),
        "cores": len(os.sched_getaffinity(0)),
        "python": platform.python_version(),
    }
    return {
        "data": path,
        "settings": dict(settings),
        "machine": machine,
        "versions": versions,
        "failed": failed,
        "recipes": rows,
    }


def _folder(path: str, work: str) -> str:
    """A folder of class folders with the images' own bytes; made if the data set is none."""
    import feedline as fl  # noqa: PLC0415 - only where it is needed

    dataset = fl.open(path)
    local = Path(dataset.uri)
    if dataset.format == "folder" and local.is_dir() and dataset.classes:
        return str(local)
    image = next(name for name, kind in dataset.schema.items() if kind == "image")
    for index in range(len(dataset)):
        sample = dataset[index]
        target = Path(work, "images", f"{int(sample.get('label', 0)):06}")
        target.mkdir(parents=True, exist_ok=True)
        (target / f"{index:08}.jpg").write_bytes(sample[image])
    return str(Path(work, "images"))


def drop_from_cache(*folders: str) -> None:
    """Tells the page cache to drop all files of the folders, where the system can."""
    if not hasattr(os, "posix_fadvise"):
        return
    os.sync()  # what is not written yet cannot be dropped
    for file in (Path(at, name) for folder in folders for at, _, names in os.walk(folder) for name in names):
        handle = os.open(file, os.O_RDONLY)
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(handle)


def _run(python: str | None, name: str, *arguments: str) -> tuple[dict[str, Any] | None, str]:
    script = str(Path(__file__).with_name("peers.py"))
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONWARNINGS": "ignore"}
    if python is not None:
        environment.pop("PYTHONPATH", None)
    else:
        environment["PYTHONPATH"] = os.pathsep.join(
            filter(None, [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH")])
        )
    command = [python or sys.executable, script, name, *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=900, env=environment, check=False)  # noqa: S603
    except subprocess.TimeoutExpired:
        return None, "took longer than 15 minutes"
    if done.returncode:
        return None, next((line for line in reversed(done.stderr.splitlines()) if line.strip()), "failed")
    return (json.loads(done.stdout.splitlines()[-1]) if done.stdout.strip() else {}), ""


def _version(python: str | None, name: str) -> str:
    package = PEERS[name][2]
    code = f"from importlib.metadata import version; print(version({package!r}))"
    done = subprocess.run([python or sys.executable, "-c", code], capture_output=True, text=True, check=False)  # noqa: S603
    return f"{package} {done.stdout.strip() or 'from its sources'}"


def _summary(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    left = next((run["left"] for run in runs if "left" in run), None)
    if left is not None:
        return {"left": left}
    warm = [epoch for run in runs for epoch in (run["epochs"][1:] or run["epochs"])]
    cold = [run["epochs"][0] for run in runs]
    rate = [epoch["images"] / epoch["seconds"] for epoch in warm]
    return {
        "images": warm[0]["images"],
        "rate": statistics.median(rate),
        "best": max(rate),
        "cold": statistics.median(epoch["images"] / epoch["seconds"] for epoch in cold),
        "cpu_per_1000": statistics.median(1000 * epoch["cpu"] / epoch["images"] for epoch in warm),
        "memory": max(run["memory"] for run in runs),
        "first": statistics.median(run["open"] + run["epochs"][0]["first"] for run in runs),
        "first_image": runs[0]["first_image"],
    }


def _compare_pixels(rows: dict[str, dict[str, dict[str, Any]]]) -> None:
    """Whether each loader's first validation image is torch's, or feedline's where torch did not run."""
    for recipe, by_name in rows.items():
        reference = next(
            (by_name[name]["first_image"] for name in ("torch", "feedline") if "first_image" in by_name.get(name, {})),
            None,
        )
        for row in by_name.values():
            first_image = row.pop("first_image", None)
            if first_image is None or reference is None:
                continue
            row["work"] = _work(recipe, first_image, reference)


def _work(recipe: str, first_image: Mapping[str, Any], reference: Mapping[str, Any]) -> str:
    if sorted(first_image["shape"]) != sorted(reference["shape"]):
        return f"other work: {first_image['shape']}"
    if recipe == "raw":
        return "undecoded bytes"
    if recipe == "train":
        return "same recipe; crops are drawn, so pixels cannot be compared"
    pairs = list(zip(first_image["image"], reference["image"], strict=True))
    apart = sum(abs(a - b) for a, b in pairs) / len(pairs)
    return "same pixels" if apart < _SAME else "close pixels" if apart < _CLOSE else "other pixels"


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next(
        (line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.processor()
    )


def table(result: Mapping[str, Any]) -> str:
    """The result for people, as Markdown."""
    settings, machine = result["settings"], result["machine"]
    used = f"{settings['threads']} threads or worker processes"
    said = f"{machine['cpu']}, {machine['cores']} cores used; batch size {settings['batch']}, {used}; "
    said += f"{settings['rounds']} rounds in turns, fresh processes, {settings['epochs']} epochs each. "
    said += "`cold` is the first epoch (files not in the page cache), `first batch` is counted from opening."
    lines = [said]
    for recipe, rows in result["recipes"].items():
        lines += ["", f"### {recipe}", ""]
        lines += ["| loader | images/s | best | cold | x torch | CPU s/1000 | peak memory | first batch | pixels |"]
        lines += ["|---|--:|--:|--:|--:|--:|--:|--:|---|"]
        torch = rows.get("torch", {}).get("rate")
        for name, row in sorted(rows.items(), key=lambda pair: -pair[1].get("rate", 0)):
            lines.append(_line(name, row, torch))
    for name, reason in result["failed"].items():
        lines += ["", f"{name} did not run: {reason}"]
    return "\n".join([*lines, "", "Versions: " + ", ".join(sorted(set(result["versions"].values())))])


def _line(name: str, row: Mapping[str, Any], torch: float | None) -> str:
    if "left" in row:
        return f"| {name} | - | | | | | | | {row['left']} |"
    times = f"{row['rate'] / torch:.1f}" if torch else ""
    memory, first = f"{row['memory'] / 2**20:,.0f} MiB", f"{row['first']:.2f} s"
    rates = f"{row['rate']:,.0f} | {row['best']:,.0f} | {row['cold']:,.0f}"
    return f"| {name} | {rates} | {times} | {row['cpu_per_1000']:.2f} | {memory} | {first} | {row.get('work', '')} |"


def _print_progress(text: str) -> None:
    sys.stderr.write(f"{text} ...\n")
    sys.stderr.flush()
