"""The screenshots of docs/looking.md: `python tools/view_screenshots.py` draws a data set and takes them again."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import feedline as fl
from feedline import transforms as T
from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "docs" / "images"


def main() -> None:
    OUT.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as work, sync_playwright() as running:
        run = [sys.executable, "-m", "feedline"]
        subprocess.run([*run, "demo", "--dir", work, "--samples", "400"], check=True, capture_output=True)
        images = next(path for path in Path(work).iterdir() if path.is_dir() and any(path.glob("*/*.jpg")))
        browser = running.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])

        def take(url: str, name: str, wait: str, scheme: str = "light", width: int = 1200) -> None:
            context = browser.new_context(viewport={"width": width, "height": 760}, color_scheme=scheme)
            page = context.new_page()
            page.goto(url)
            page.wait_for_selector(wait)
            page.wait_for_timeout(1500)
            page.screenshot(path=OUT / f"view-{name}.png")
            context.close()

        view = subprocess.Popen([*run, "view", str(images), "--no-open"], stdout=subprocess.PIPE, text=True)
        url = view.stdout.readline().strip()
        take(url, "grid", ".cell img")
        take(url + "&page=charts", "charts", "#scatter circle")
        take(url + "&page=play&play=40&draws=10&seed=3", "play", "#draws-grid img", "dark")
        take(url + "&index=40", "sheet", "#facts table")
        take(url, "narrow", ".cell img", "dark", 400)
        view.terminate()
        view.wait()
        ops = [T.RandomResizedCrop(224), T.RandAugment(), T.Normalize.imagenet()]
        with fl.Loader(str(images), batch_size=16, transforms=ops, dashboard=True, output="numpy") as loader:
            over = threading.Event()

            def work_on() -> None:
                while not over.is_set():
                    for _ in loader:
                        over.wait(0.02)

            thread = threading.Thread(target=work_on)
            thread.start()
            over.wait(4)
            take(loader.dashboard + "&page=live", "live", ".tile b")
            over.set()
            thread.join()
        browser.close()


if __name__ == "__main__":
    main()
