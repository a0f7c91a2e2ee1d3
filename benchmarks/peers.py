"""feedline beside every loader that could be installed, on the same photos; tables and plots for docs/benchmarks.

    python benchmarks/peers.py FOLDER [--docs docs/benchmarks] [--readme README.md] [--rounds 3] [--only torch,ffcv]
    python benchmarks/peers.py docs/benchmarks/peers.json --docs docs/benchmarks     draws an earlier result again

Loaders come from environments of their own (tools/peers/setup.sh). Without --docs the table is printed. The table and the
plot in README.md stand between two marks and are never typed.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path

from feedline._against import OURS, RECIPES, compare, table
from feedline._against.peers import PEERS

PROJECT = Path(__file__).resolve().parent.parent
ENVIRONMENTS = {
    "webdataset": "webdataset",
    "mosaicml": "mosaicml",
    "litdata": "litdata",
    "turboloader": "turboloader",
    "ffcv": "ffcv",
    "tfdata": "tensorflow",
    "torchcodec": "torchcodec",
    "dali": "dali",
    "spdl": "spdl",
    "grain": "grain",
    "datago": "datago",
}
SIDES = (128, 256, 512, 1024)
SCALED = 200  # images of each size
OTHERS = 3  # in README's table
# README is also shown outside the repository, so its links are absolute.
PAGE = "https://github.com/feedline/feedline/blob/main/docs/benchmarks"
IMAGES = "https://raw.githubusercontent.com/feedline/feedline/main/docs/benchmarks"
MARKS = ("<!-- peers: made by benchmarks/peers.py -->", "<!-- end of peers -->")
PLOTS = {
    "rate": ("images/s", "more is better"),
    "cpu_per_1000": ("CPU seconds per 1000 images", "less is better"),
    "memory": ("peak memory in MiB", "less is better"),
    "first": ("seconds to the first batch", "less is better"),
}


def pythons() -> dict[str, str]:
    """The interpreters of the environments that exist."""
    found = {}
    for name, folder in ENVIRONMENTS.items():
        for place in (".peers", ".interop"):
            python = PROJECT / place / folder / "bin" / "python"
            if python.exists():
                found[name] = str(python)
    return found


def plot(result: dict, out: Path, which: str, recipes: tuple[str, ...], name: str) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    mpl.rcParams["svg.hashsalt"] = "feedline"
    from matplotlib import pyplot as plt

    title, better = PLOTS[which]
    across, down = min(2, len(recipes)), (len(recipes) + 1) // 2
    figure, axes = plt.subplots(down, across, figsize=(6 * across + 1, 4.4 * down), squeeze=False, layout="constrained")
    for axis, recipe in zip(axes.flat, recipes, strict=True):
        rows = {peer: row for peer, row in result["recipes"][recipe].items() if which in row}
        order = sorted(rows, key=lambda peer: rows[peer][which], reverse=which != "rate")
        scale = 2**20 if which == "memory" else 1
        values = [rows[peer][which] / scale for peer in order]
        bars = axis.barh(order, values, color=["#1c5fb0" if peer in OURS else "#9aa4b1" for peer in order])
        axis.bar_label(bars, [f"{value:,.0f}" if value >= 20 else f"{value:.2f}" for value in values], padding=3)
        axis.set_title(f"{recipe}: {title} ({better})", fontsize=10)
        axis.margins(x=0.15)
        axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(out / f"{name}.svg", metadata={"Date": None})
    figure.savefig(out / f"{name}.png", dpi=110)
    plt.close(figure)


def by_threads(path: str, names: list[str], settings: dict, found: dict[str, str]) -> dict:
    """images/s of the train recipe by number of threads."""
    most = len(os.sched_getaffinity(0))
    counts = sorted({1, 2, most} & set(range(1, most + 1)))
    rates: dict[str, dict[int, float]] = {}
    for threads in counts:
        result = compare(path, names, ("train",), {**settings, "threads": threads, "rounds": 1}, found)
        for name, row in result["recipes"]["train"].items():
            if "rate" in row:
                rates.setdefault(name, {})[threads] = row["rate"]
    return rates


def by_size(path: str, names: list[str], settings: dict, found: dict[str, str]) -> dict:
    """images/s of the train recipe by the size of the images: the same images, scaled."""
    rates: dict[str, dict[int, float]] = {}
    with tempfile.TemporaryDirectory(prefix="feedline-sizes-") as work:
        for side in SIDES:
            folder = scaled(path, Path(work, str(side)), side)
            result = compare(folder, names, ("train",), {**settings, "rounds": 1}, found)
            for name, row in result["recipes"]["train"].items():
                if "rate" in row:
                    rates.setdefault(name, {})[side] = row["rate"]
    return rates


def scaled(path: str, out: Path, side: int) -> str:
    """Some images of the folder with this shorter side, as JPEG of quality 90."""
    from PIL import Image

    for file in sorted(file for file in Path(path).glob("*/*") if file.is_file())[:SCALED]:
        with Image.open(file) as image:
            ratio = side / min(image.size)
            size = tuple(max(1, round(length * ratio)) for length in image.size)
            target = out / file.parent.name / f"{file.stem}.jpg"
            target.parent.mkdir(parents=True, exist_ok=True)
            image.convert("RGB").resize(size, Image.Resampling.LANCZOS).save(target, quality=90)
    return str(out)


def line_plot(rates: dict[str, dict[int, float]], label: str, title: str, out: Path, *, log: bool = False) -> None:
    """A line for every loader; the labels stand at the lines' ends, in their order."""
    import matplotlib as mpl

    mpl.use("Agg")
    mpl.rcParams["svg.hashsalt"] = "feedline"
    from matplotlib import pyplot as plt

    figure, axis = plt.subplots(figsize=(8, 5), layout="constrained")
    for name in sorted(rates, key=lambda name: -list(rates[name].values())[-1]):
        # Numbers are text where they were read from a JSON file.
        values = {int(at): rate for at, rate in rates[name].items()}
        width = 2.5 if name in OURS else 1
        axis.plot(list(values), list(values.values()), marker="o", label=name, linewidth=width)
    axis.set(xlabel=label, ylabel="images/s", title=title)
    if log:
        axis.set_xscale("log", base=2)
        axis.set_yscale("log")
    axis.set_xticks(sorted({int(at) for values in rates.values() for at in values}))
    axis.xaxis.set_major_formatter("{x:.0f}")
    figure.legend(loc="outside right upper", fontsize=8)
    figure.savefig(out.with_suffix(".svg"), metadata={"Date": None})
    figure.savefig(out.with_suffix(".png"), dpi=110)
    plt.close(figure)


def headline(result: dict) -> str:
    """The few lines of the README: the plot has every loader, the table ours, the fastest of the others, and torch."""
    # Small enough that plot and table are both seen without scrolling.
    lines = [f'<img src="{IMAGES}/peers-headline.png" width="520" alt="images/s of all loaders">', ""]
    lines += [
        "| train: RandomResizedCrop 224, flip, normalise | images/s | x torch | CPU s/1000 |",
        "|---|--:|--:|--:|",
    ]
    rows = {name: row for name, row in result["recipes"]["train"].items() if "rate" in row}
    torch = rows.get("torch", {}).get("rate", float("nan"))
    fastest = sorted(rows, key=lambda name: -rows[name]["rate"])
    others = [name for name in fastest if name not in OURS][:OTHERS]
    for name in fastest:
        if name in OURS or name in others or name == "torch":
            row, shown = rows[name], f"**{name}**" if name in OURS else name
            lines.append(f"| {shown} | {row['rate']:,.0f} | {row['rate'] / torch:.1f} | {row['cpu_per_1000']:.2f} |")
    note = "`feedline` reads the folder of JPEGs; `-pack`, `-compact` and `-dct` are packs of it."
    machine = f"{result['machine']['cpu']}, {result['settings']['threads']} threads"
    return "\n".join([*lines, "", f"{note} {machine}; [all of it]({PAGE}/peers.md)"])


def between(page: Path, text: str) -> None:
    """Puts the text between the page's two marks."""
    before, begin, rest = page.read_text().partition(MARKS[0])
    _, end, after = rest.partition(MARKS[1])
    if not begin or not end:
        sys.exit(f"{page} has no place for it: {MARKS}")
    page.write_text(f"{before}{begin}\n{text}\n{end}{after}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--docs", type=Path)
    parser.add_argument("--readme", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--only")
    given = parser.parse_args()
    if given.folder.endswith(".json"):
        result = json.loads(Path(given.folder).read_text())
        if given.docs:
            write_page(result, given.docs)
        if given.readme:
            between(given.readme, headline(result))
        return
    found = pythons()
    here = [*OURS, "torch", "torchvision-io", "webdataset"]
    names = [name for name in PEERS if name in here or name in found]
    names = [name for name in names if name in OURS or not given.only or name in given.only.split(",")]
    settings = {"batch": given.batch_size, "threads": given.threads, "epochs": given.epochs, "rounds": given.rounds}
    result = compare(given.folder, names, RECIPES, settings, found)
    result["data"] = Path(given.folder).name
    result["left_out"] = [name for name in PEERS if name not in names]
    print(table(result))
    if given.docs:
        given.docs.mkdir(parents=True, exist_ok=True)
        result["threads"] = by_threads(given.folder, names, settings, found)
        result["sizes"] = by_size(given.folder, names, settings, found)
        (given.docs / "peers.json").write_text(json.dumps(result, indent=1) + "\n")
        write_page(result, given.docs)
    if given.readme:
        between(given.readme, headline(result))


def write_page(result: dict, docs: Path) -> None:
    """The page and its plots."""
    line_plot(result["threads"], "threads or worker processes", "train, by threads", docs / "peers-threads")
    line_plot(result["sizes"], "shorter side in pixels", "train, by size of the images", docs / "peers-size", log=True)
    for which in PLOTS:
        plot(result, docs, which, RECIPES, f"peers-{which.replace('_per_1000', '')}")
    plot(result, docs, "rate", ("train",), "peers-headline")
    plots = "\n".join(f"![{title}](peers-{which.replace('_per_1000', '')}.svg)" for which, (title, _) in PLOTS.items())
    missing = ", ".join(result["left_out"]) or "none"
    page = f"# feedline beside other loaders\n\nMade by `make bench-peers`; data: {result['data']}. Not installed here: {missing}.\n\n"
    page += f"{table(result)}\n\n{plots}\n![by threads](peers-threads.svg)\n![by size](peers-size.svg)\n"
    (docs / "peers.md").write_text(page)


if __name__ == "__main__":
    main()
