"""How quickly `feedline view` shows a large data set, in a real headless Chromium.

    python benchmarks/view.py PATH [--jumps 50] [--make SAMPLES]

Prints the time from the start of the command to an interactive page with its images, the time from a jump to the images
there, and the memory of the server. With `--make`, PATH is first written as a pack of so many small images.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import random
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import feedline as fl
import numpy as np
from PIL import Image
from playwright import sync_api as playwright


def rows(count: int) -> Iterator[dict[str, object]]:
    """Samples that repeat 200 images."""
    rng = np.random.default_rng(0)
    images = []
    for _ in range(200):
        small = Image.fromarray(rng.integers(0, 255, (6, 8, 3), np.uint8)).resize((64, 48))
        out = io.BytesIO()
        small.save(out, "JPEG")
        images.append(out.getvalue())
    for number in range(count):
        yield {"image": images[number % 200], "label": number % 1000}


def memory_mb(process: int) -> tuple[float, float]:
    """Private memory now, and the most that was resident, in MB. Mapped files are the page cache's."""
    fields = dict(
        line.split(":", 1) for line in Path(f"/proc/{process}/status").read_text().splitlines() if ":" in line
    )
    return int(fields["RssAnon"].split()[0]) / 1024, int(fields["VmHWM"].split()[0]) / 1024


# Cells near the middle of the window whose images have arrived.
SHOWN = """position => {
    const image = document.querySelector(`.cell[data-position="${position}"] img`);
    return Boolean(image && image.complete && image.naturalWidth > 0);
}"""


def wait_for_image(page: playwright.Page, position: int) -> None:
    """Until the cell at this position shows its image."""
    deadline = time.monotonic() + 60
    while not page.evaluate(SHOWN, position):
        if time.monotonic() > deadline:
            raise TimeoutError(f"no image at {position} after a minute")
        time.sleep(0.005)


def jump(page: playwright.Page, position: int) -> float:
    """Seconds from pressing Enter to the image."""
    page.locator("#scroll").focus()
    page.keyboard.press("g")
    page.keyboard.type(str(position))
    begun = time.perf_counter()
    page.keyboard.press("Enter")
    wait_for_image(page, position)
    return time.perf_counter() - begun


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", type=Path)
    parser.add_argument("--jumps", type=int, default=50)
    parser.add_argument("--make", type=int, default=0, metavar="SAMPLES")
    args = parser.parse_args()
    if args.make:
        fl.pack(rows(args.make), args.path, image="as-is", progress=False)
    browser_path = shutil.which("chromium") or shutil.which("chromium-browser")
    with playwright.sync_playwright() as running:
        browser = running.chromium.launch(executable_path=browser_path, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 1200, "height": 800})
        page.goto("about:blank")
        command = [sys.executable, "-m", "feedline", "view", str(args.path), "--no-open"]
        begun = time.perf_counter()
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server, contextlib.ExitStack() as stack:
            assert server.stdout is not None
            # Ends the server whatever happens here.
            stack.callback(server.send_signal, signal.SIGINT)
            url = server.stdout.readline().strip()
            listening = time.perf_counter() - begun
            page.goto(url)
            page.wait_for_selector("body[data-ready]")
            ready = time.perf_counter() - begun
            wait_for_image(page, 0)
            shown = time.perf_counter() - begun
            size = len(fl.open(args.path))
            choose = random.Random(0)
            times = [jump(page, choose.randrange(size)) for _ in range(args.jumps)]
            own, peak = memory_mb(server.pid)
        browser.close()
    print(f"{size} samples")
    print(
        f"from the command to: the address {listening:.2f} s, an interactive page {ready:.2f} s, images {shown:.2f} s"
    )
    print(f"jump to an image: median {statistics.median(times) * 1e3:.0f} ms, slowest {max(times) * 1e3:.0f} ms")
    print(f"server: {own:.0f} MB of its own, {peak:.0f} MB resident at most (mapped files included)")


if __name__ == "__main__":
    main()
