"""Every transform beside torchvision, OpenCV, albumentations and kornia-rs, and whole recipes beside torch's DataLoader.

    python benchmarks/transforms.py FOLDER [--rounds 7] [--sizes 224,512] [--only NAME] [--docs docs/benchmarks]

FOLDER has class sub-folders of JPEG photos. One thread, one process, one run: the libraries take turns, round by round, on
the same photos; CPU time per image, the best and the median round. A library that is not installed has no column. Rows
where a library does other work than torchvision (a resize without antialiasing, say) show its time in brackets, and it
does not count as the one to beat.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("NO_ALBUMENTATIONS_UPDATE", "1")
os.environ["RAYON_NUM_THREADS"] = "1"  # kornia-rs; CPU time of all threads counts all the same

import feedline as fl
import numpy as np
from ops_table import recipes, rows
from PIL import Image

# Why a row is behind, by how its name begins; the last is for all others.
BEHIND = {
    "CLAHE": "Both convert to Lab and back with tables; OpenCV does it with vectors, feedline pixel by pixel.",
    "GaussianNoise": "Every value is drawn from the seed and its place, the same on any machine and thread.",
    "MotionBlur": "Sums are in single precision; the rows of a large image do not fit the first cache as floats.",
    "OpticalDistortion": "Every place is computed in double precision.",
    "JPEG": "libjpeg-turbo compresses in both; feedline allocates memory for the compressed bytes each time.",
    "GaussianBlur": "Level with OpenCV, whose sums have eight bits of fraction.",
    "": "A few microseconds, mostly the copy and the call: parameters are drawn and planned first.",
}


def photos(folder: Path, size: int, count: int) -> list[Any]:
    """Square photos of this size, as PIL images."""
    files = sorted(path for path in folder.rglob("*") if path.suffix.lower() in {".jpg", ".jpeg"})
    found = []
    for path in files[:: max(1, len(files) // count)][:count]:
        with Image.open(path) as opened:
            found.append(fit(opened.convert("RGB"), size))
    return found


def fit(image: Any, size: int) -> Any:
    """The middle square, resized."""
    short = min(image.size)
    left, top = (image.width - short) // 2, (image.height - short) // 2
    return image.resize((size, size), Image.Resampling.BICUBIC, (left, top, left + short, top + short))


def round_of(call: Any, images: list[Any], least: float) -> float:
    """CPU seconds per image of as many passes over the images as take this long."""
    passes, used = 0, 0.0
    while used < least:
        begun = time.process_time()
        for image in images:
            call(image)
        used += time.process_time() - begun
        passes += 1
    return used / (passes * len(images))


def measured(calls: dict[str, Any], forms: dict[str, list[Any]], rounds: int) -> dict[str, dict[str, float]]:
    """Microseconds per image of each library, which take turns."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for name, call in calls.items():
        for image in forms[name]:
            call(image)
    for _ in range(rounds):
        for name, call in calls.items():
            times[name].append(round_of(call, forms[name], 0.004))
    return {name: {"best": min(all_) * 1e6, "median": statistics.median(all_) * 1e6} for name, all_ in times.items()}


def table_of(data: Path, sizes: list[int], rounds: int, only: str | None) -> list[dict[str, Any]]:
    """One entry per row and size."""
    libraries = rows.libraries()
    made = []
    for size in sizes:
        square = photos(data, size, 8)
        forms = {name: [library.form(image) for image in square] for name, library in libraries.items()}
        for row in rows.table(size):
            if only and only not in row.name:
                continue
            calls = {name: library.call(row) for name, library in libraries.items()}
            calls = {name: call for name, call in calls.items() if call is not None}
            times = measured(calls, forms, rounds)
            entry = {"op": row.name, "size": size, "times": times, "other_work": sorted(row.other_work), "why": row.why}
            made.append(entry)
            print(line(entry), flush=True)
    return made


def judged(entry: dict[str, Any]) -> tuple[str, float, float]:
    """The best of the others that do the same work, its time and how many times as fast feedline is."""
    rivals = {n: t["best"] for n, t in entry["times"].items() if n != "feedline" and n not in entry["other_work"]}
    if not rivals:
        return "", float("nan"), float("nan")
    name = min(rivals, key=lambda n: rivals[n])
    return name, rivals[name], rivals[name] / entry["times"]["feedline"]["best"]


def line(entry: dict[str, Any]) -> str:
    name, best, times = judged(entry)
    ours = entry["times"]["feedline"]
    return (
        f"{entry['op']:<34} {entry['size']:>4} {ours['best']:9.1f} {ours['median']:9.1f} us   "
        f"best other {best:9.1f} ({name})   x {times:.2f}"
    )


def reason(entry: dict[str, Any], times: float) -> str:
    """What a row has to say for itself. `behind` is what was found out about one run."""
    found = [entry["why"]] if entry["why"] else []
    if times < 1:
        usual = next(why for begin, why in BEHIND.items() if entry["op"].startswith(begin))
        found.append(entry.get("behind", usual))
    return "".join(f" {each}" for each in found)


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    model = platform.processor()
    if Path("/proc/cpuinfo").exists():
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next((text.split(":", 1)[1].strip() for text in lines if text.startswith("model name")), model)
    return {"cpu": model, "cores": os.cpu_count(), "versions": {"feedline": fl.__version__, **rows.versions()}}


def markdown(result: dict[str, Any]) -> str:
    """The tables for people."""
    names = sorted({name for entry in result["ops"] for name in entry["times"]} - {"feedline"})
    versions = ", ".join(f"{name} {version}" for name, version in result["machine"]["versions"].items())
    text = [
        "# Transforms: what they cost",
        "",
        (
            "Made by `make bench-transforms DATA=folder`; do not edit. One thread, CPU microseconds per image, the best round "
            "(the median round in the JSON beside this file). Images are three bytes a pixel in memory before and after; feedline "
            "and OpenCV write results to memory that is kept, the others take new memory. Times "
            "in brackets are of other work than torchvision's, for the reason given, and do not count as the best other."
        ),
        "",
        f"{result['machine']['cpu']}; {versions}. {result['machine'].get('note', '')}".rstrip(),
        "",
        "| op | px | feedline | " + " | ".join(names) + " | against the best other |",
        "|---|---|---|" + "---|" * (len(names) + 1),
    ]
    for entry in result["ops"]:
        _, _, times = judged(entry)
        cells = []
        for name in names:
            shown = f"{entry['times'][name]['best']:.1f}" if name in entry["times"] else "-"
            cells.append(f"({shown})" if name in entry["other_work"] else shown)
        verdict = "-" if np.isnan(times) else f"{times:.1f} x"
        why = reason(entry, times)
        ours = f"{entry['times']['feedline']['best']:.1f}"
        text.append(f"| {entry['op']} | {entry['size']} | **{ours}** | " + " | ".join(cells) + f" | {verdict}{why} |")
    text += ["", *recipes.markdown(result["recipes"])]
    return "\n".join(text) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--sizes", default="224,512")
    parser.add_argument("--only")
    parser.add_argument("--docs", type=Path)
    parser.add_argument("--no-recipes", action="store_true")
    parser.add_argument("--note", default="", help="a sentence about this run, for the report")
    arguments = parser.parse_args()
    rows.one_thread()
    sizes = [int(size) for size in arguments.sizes.split(",")]
    result = {
        "machine": {**machine(), "note": arguments.note},
        "ops": table_of(arguments.folder, sizes, arguments.rounds, arguments.only),
    }
    result["recipes"] = [] if arguments.no_recipes else recipes.measured(arguments.folder, arguments.rounds)
    if arguments.docs:
        arguments.docs.mkdir(parents=True, exist_ok=True)
        (arguments.docs / "transforms.json").write_text(json.dumps(result, indent=1, sort_keys=True) + "\n")
        (arguments.docs / "transforms.md").write_text(markdown(result))
    behind = [entry for entry in result["ops"] if judged(entry)[2] < 1]
    print(f"{len(result['ops'])} rows, behind on {len(behind)}", *(line(entry) for entry in behind), sep="\n")


if __name__ == "__main__":
    sys.exit(main())
