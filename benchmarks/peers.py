"""feedline beside every loader that could be installed, on the same photos; tables and plots for docs/benchmarks.

    python benchmarks/peers.py FOLDER [--docs docs/benchmarks] [--readme README.md] [--rounds 3] [--only torch,ffcv]

Loaders come from environments of their own (tools/peers/setup.sh). Without --docs the table is printed. The table and the
plot in README.md stand between two marks and are never typed.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
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
    "dali": "dali",
    "spdl": "spdl",
    "grain": "grain",
    "datago": "datago",
}
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
    figure, axes = plt.subplots(
        (len(recipes) + 1) // 2, 2, figsize=(12, 4.2 * ((len(recipes) + 1) // 2)), squeeze=False, layout="constrained"
    )
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


def scaling(path: str, names: list[str], settings: dict, found: dict[str, str], out: Path) -> dict:
    """images/s of the train recipe by number of threads."""
    most = len(os.sched_getaffinity(0))
    counts = sorted({1, 2, most} & set(range(1, most + 1)))
    rates: dict[str, dict[int, float]] = {}
    for threads in counts:
        result = compare(path, names, ("train",), {**settings, "threads": threads, "rounds": 1}, found)
        for name, row in result["recipes"]["train"].items():
            if "rate" in row:
                rates.setdefault(name, {})[threads] = row["rate"]
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axis = plt.subplots(figsize=(6, 4), layout="constrained")
    for name, by_threads in rates.items():
        axis.plot(
            list(by_threads), list(by_threads.values()), marker="o", label=name, linewidth=2.5 if name in OURS else 1
        )
    axis.set(xlabel="threads or worker processes", ylabel="images/s", title="train, by threads")
    axis.set_xticks(counts)
    axis.legend(fontsize=8)
    figure.savefig(out / "peers-threads.svg", metadata={"Date": None})
    figure.savefig(out / "peers-threads.png", dpi=110)
    return rates


def headline(result: dict) -> str:
    """The few lines of the README."""
    lines = ["| train: RandomResizedCrop 224, flip, normalise | images/s | x torch | CPU s/1000 |", "|---|--:|--:|--:|"]
    rows = {name: row for name, row in result["recipes"]["train"].items() if "rate" in row}
    torch = rows.get("torch", {}).get("rate", float("nan"))
    for name, row in sorted(rows.items(), key=lambda pair: -pair[1]["rate"]):
        shown = f"**{name}**" if name in OURS else name
        lines.append(f"| {shown} | {row['rate']:,.0f} | {row['rate'] / torch:.1f} | {row['cpu_per_1000']:.2f} |")
    machine = result["machine"]
    lines += ["", f"{machine['cpu']}, {result['settings']['threads']} threads; [all of it](docs/benchmarks/peers.md)"]
    lines += ["", "![images/s of all loaders](docs/benchmarks/peers-rate.svg)"]
    return "\n".join(lines)


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
        by_threads = scaling(given.folder, names, settings, found, given.docs)
        for which in PLOTS:
            plot(result, given.docs, which, RECIPES, f"peers-{which.replace('_per_1000', '')}")
        result["threads"] = by_threads
        (given.docs / "peers.json").write_text(json.dumps(result, indent=1) + "\n")
        plots = "\n".join(
            f"![{title}](peers-{which.replace('_per_1000', '')}.svg)" for which, (title, _) in PLOTS.items()
        )
        missing = ", ".join(result["left_out"]) or "none"
        page = f"# feedline beside other loaders\n\nMade by `make bench-peers`; data: {result['data']}. Not installed here: {missing}.\n\n"
        page += f"{table(result)}\n\n{plots}\n![by threads](peers-threads.svg)\n"
        (given.docs / "peers.md").write_text(page)
    if given.readme:
        between(given.readme, headline(result))


if __name__ == "__main__":
    main()
