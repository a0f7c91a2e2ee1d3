"""`feedline view` in a real browser, and the server behind it.

The browser is Debian's chromium, which `make setup-test` installs; without one the browser tests are skipped, except
where CI says that there must be one.
"""

from __future__ import annotations

import contextlib
import http.client
import io
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import wave
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, quote, urlsplit

import av
import feedline as fl
import numpy as np
import pytest
from feedline import transforms as T
from made_images import encode, make_folder, make_image
from PIL import Image

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
NEEDS_BROWSER = pytest.mark.skipif(
    CHROMIUM is None and not os.environ.get("CI"), reason="chromium is not installed (make setup-test)"
)
EVIL = "<img src=x onerror=document.title='owned'>"


@contextlib.contextmanager
def viewing(*paths: object, more: tuple[str, ...] = ()) -> Iterator[str]:
    """The address of a running `feedline view`."""
    command = [sys.executable, "-m", "feedline", "view", *map(str, paths), "--no-open", *more]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().strip()
            assert url, process.stderr.read() if process.stderr else ""
            yield url
        finally:
            process.send_signal(signal.SIGINT)
            assert process.wait(30) == 0


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """36 images in three classes, one of them broken, one class with a name that is HTML."""
    root = make_folder(tmp_path_factory.mktemp("view") / "animals", per_class=12)
    (root / "owl" / "004.jpg").write_bytes((root / "owl" / "004.jpg").read_bytes()[:150])
    (root / "cat").rename(root / "<b>cat<")
    return root


@pytest.fixture(scope="module")
def marked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pack with masks, boxes, keypoints and texts."""
    rows = []
    for number in range(6):
        mask = np.zeros((60, 80), np.uint8)
        mask[10:30, 10:40] = number + 1
        rows.append(
            {
                "image": encode(make_image(number, 80, 60), quality=90),
                "mask": encode(mask, "PNG"),
                "boxes": np.array([[10, 10, 40, 30], [50, 20, 70, 50]], np.float32),
                "keypoints": np.array([[20, 20, 1], [60, 30, 1]], np.float32),
                "caption": EVIL if number == 0 else f"word{number}",
                "label": number % 2,
            }
        )
    path = tmp_path_factory.mktemp("marked") / "pack"
    schema = {
        "image": "image",
        "mask": "image",
        "boxes": "array",
        "keypoints": "array",
        "caption": "text",
        "label": "int",
    }
    fl.pack(rows, path, schema=schema, image="as-is", progress=False)
    return path


@pytest.fixture(scope="module")
def browser() -> Iterator[object]:
    """A headless Chromium."""
    from playwright import sync_api as playwright

    with playwright.sync_playwright() as running:
        found = running.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield found
        found.close()


@pytest.fixture
def page(browser):
    context = browser.new_context(viewport={"width": 1200, "height": 800})
    opened = context.new_page()
    opened.set_default_timeout(20_000)
    problems: list[str] = []
    opened.on("pageerror", lambda error: problems.append(str(error)))
    yield opened
    context.close()
    # The server ends before the page does, which may be asking for something just then.
    assert [problem for problem in problems if problem != "Failed to fetch"] == []


def ready(page, url):
    page.goto(url)
    page.wait_for_selector("body[data-ready]")


def until(page, script, argument=None):
    """Waits until a script is true. (The driver's own way would evaluate text in the page, which the page forbids.)"""
    deadline = time.monotonic() + 30
    while not page.evaluate(script, argument):
        assert time.monotonic() < deadline, script
        time.sleep(0.05)


def pixels_of(page, selector) -> np.ndarray:
    """What an image element shows."""
    until(
        page,
        "s => { const i = document.querySelector(s); return i && i.complete && i.naturalWidth > 0; }",
        argument=selector,
    )
    data = page.evaluate(
        """async s => {
            const answer = await fetch(document.querySelector(s).src);
            return Array.from(new Uint8Array(await answer.arrayBuffer()));
        }""",
        selector,
    )
    shown = Image.open(io.BytesIO(bytes(data)))
    return np.asarray(shown.convert("RGBA" if shown.mode == "P" else "RGB"))


@NEEDS_BROWSER
def test_grid_filters_and_sheet(page, shown):
    with viewing(shown) as url:
        ready(page, url)
        page.wait_for_selector(".cell img")
        assert "token" not in page.url, "the address can be copied without giving access away"
        assert "36 samples" in page.text_content("#count")
        # The thumbnail is the image.
        small = pixels_of(page, '.cell[data-position="0"] img')
        original = np.asarray(Image.open(sorted(shown.rglob("*.jpg"))[0]))
        assert small.shape == original.shape
        assert np.abs(small.astype(int) - original).mean() < 6
        # Class names are text, whatever they hold.
        assert "<b>cat<" in page.text_content('.cell[data-position="0"] .caption')
        # A broken sample says so.
        page.wait_for_selector(".cell.broken")
        assert "broken" in page.text_content(".cell.broken .why")
        # Filters.
        page.select_option("#class", label="dog")
        until(page, "document.querySelector('#count').textContent.startsWith('12 ')")
        assert parse_qs(urlsplit(page.url).query)["class"] == ["1"]
        page.select_option("#class", "")
        page.check("#bad")
        until(page, "document.querySelector('#count').textContent === '1 samples'")
        page.wait_for_selector(".cell.broken")
        page.uncheck("#bad")
        until(page, "document.querySelector('#count').textContent === '36 samples'")
        # Go to a class, by keyboard.
        page.locator("#scroll").focus()
        page.keyboard.press("g")
        page.keyboard.type("owl")
        page.keyboard.press("Enter")
        page.wait_for_selector('.cell.here[data-position="24"]')
        page.keyboard.press("ArrowRight")
        page.wait_for_selector('.cell.here[data-position="25"]')
        page.keyboard.press("Enter")
        page.wait_for_selector("#sheet[open] #facts table")
        facts = page.text_content("#facts")
        assert "ds[25]" in facts
        assert "owl/001.jpg" in facts
        assert parse_qs(urlsplit(page.url).query)["index"] == ["25"]
        # The address alone brings everything back.
        again = page.url
        page.goto("about:blank")
        page.goto(again)
        page.wait_for_selector("#sheet[open] #facts table")
        assert "ds[25]" in page.text_content("#facts")
        page.keyboard.press("j")
        until(page, "document.querySelector('#facts').textContent.includes('ds[')")
        page.keyboard.press("Escape")
        page.wait_for_selector("#sheet:not([open])", state="attached")
        # Charts.
        page.click("text=Charts")
        page.wait_for_selector("#histogram .row")
        assert page.locator("#histogram .row").count() == 3
        assert page.locator("#scatter circle").count() >= 35


@NEEDS_BROWSER
def test_jumping_again_replaces_the_number(page, shown):
    with viewing(shown) as url:
        ready(page, url)
        for position in (24, 3):
            page.locator("#scroll").focus()
            page.keyboard.press("g")
            page.keyboard.type(str(position))
            page.keyboard.press("Enter")
            page.wait_for_selector(f'.cell.here[data-position="{position}"]')


@NEEDS_BROWSER
def test_masks_boxes_points_and_text(page, marked):
    with viewing(marked) as url:
        ready(page, url + "&index=0")
        page.wait_for_selector("#sheet[open] #stage svg")
        assert page.locator('#stage svg[data-kind="boxes"] rect').count() == 2
        assert page.locator('#stage svg[data-kind="keypoints"] circle').count() == 2
        box = page.locator('#stage svg[data-kind="boxes"] rect').first
        assert [box.get_attribute(name) for name in ("x", "y", "width", "height")] == ["10", "10", "30", "20"]
        mask = pixels_of(page, "#stage img.over")
        assert mask.shape[:2] == (60, 80)
        assert mask[20, 20, 3] > 0
        assert mask[40, 70, 3] == 0
        assert page.text_content("#facts").count(EVIL) == 1, "the text is shown as it is"
        assert page.title() != "owned"
        assert page.locator("#facts img").count() == 0
        page.uncheck("text=keypoints")
        assert "keypoints" in parse_qs(urlsplit(page.url).query)["over"][0]
        page.click("#close")
        page.fill("#text", "word3")
        until(page, "document.querySelector('#count').textContent === '1 samples'")


@NEEDS_BROWSER
def test_the_playground_draws_by_seed(page, shown):
    with viewing(shown) as url:
        ready(page, url + "&page=play&draws=4")
        first = pixels_of(page, 'img[data-draw="1"]')
        assert first.shape == (224, 224, 3)
        expected = T.apply(
            [T.RandomResizedCrop(224), T.RandomHorizontalFlip()],
            np.asarray(fl.open(shown).decoded()[0]["image"]),
            seed=0,
            epoch=1,
            index=0,
            dtype="uint8",
        )
        expected = np.moveaxis(np.asarray(expected), 0, -1) if np.asarray(expected).shape[0] == 3 else expected
        assert np.abs(np.asarray(expected).astype(int) - first).mean() < 6, "what the loader does in epoch 1"
        page.locator("#seed").fill("7")
        until(page, "document.querySelector('img[data-draw=\"1\"]').src.includes('seed=7')")
        other = pixels_of(page, 'img[data-draw="1"]')
        assert np.abs(other.astype(int) - first).mean() > 6, "another seed, another crop"
        page.locator("#seed").fill("0")
        until(page, "!document.querySelector('img[data-draw=\"1\"]').src.includes('seed=7')")
        assert np.array_equal(pixels_of(page, 'img[data-draw="1"]'), first), "the same seed, the same image"
        # A transform by clicking, and Python to copy.
        page.select_option("#menu", "RandomGrayscale")
        until(page, "document.querySelector('#python').textContent.includes('RandomGrayscale')")
        python = page.text_content("#python")
        made = eval(python.partition("=")[2], {"T": T})
        assert [type(op).__name__ for op in made] == ["RandomResizedCrop", "RandomHorizontalFlip", "RandomGrayscale"]
        assert page.locator("#draws-grid figcaption").first.text_content()
        page.fill("#ops", "T.Nothing()")
        until(page, "document.querySelector('#ops-error').textContent.includes('Nothing')")


@NEEDS_BROWSER
def test_the_playground_moves_masks_boxes_and_points(page, marked):
    ops = "T.RandomHorizontalFlip(p=1.0)"
    with viewing(marked) as url:
        ready(page, f"{url}&page=play&draws=1&play=2&ops={quote('[' + ops + ']')}")
        plain = fl.open(marked).decoded()[2]
        image = pixels_of(page, 'img[data-draw="0"]')
        assert np.abs(image.astype(int) - plain["image"][:, ::-1]).mean() < 6
        mask = pixels_of(page, 'img[data-mask="0"]')
        assert mask.shape == (60, 80, 4)
        # The mask's box was at columns 10 to 40 of 80.
        assert mask[20, 79 - 25, 3] > 0
        assert mask[20, 79 - 5, 3] == 0
        page.wait_for_selector('svg[data-marks="0"] circle')
        where = page.evaluate(
            "[...document.querySelectorAll('svg[data-marks] circle')].map(c => [+c.getAttribute('cx'), +c.getAttribute('cy')])"
        )
        assert np.allclose(where, [[60, 20], [20, 30]], atol=1.01)
        corners = page.evaluate(
            "[...document.querySelectorAll('svg[data-marks] rect')].map(r => [+r.getAttribute('x'), +r.getAttribute('y')])"
        )
        assert np.allclose(corners, [[40, 10], [10, 20]], atol=0.01)


@NEEDS_BROWSER
def test_live_numbers_are_updated(page, shown):
    with fl.Loader(shown, batch_size=4, dashboard=True, output="numpy", on_error="skip") as loader:
        over = threading.Event()

        def work():
            while not over.is_set():
                for _ in loader:
                    over.wait(0.05)

        working = threading.Thread(target=work)
        working.start()
        try:
            ready(page, loader.dashboard + "&page=live")
            page.wait_for_selector('.tile[data-name="samples"] b')
            text = "document.querySelector('.tile[data-name=\"samples\"] b').textContent"
            before = page.evaluate(text)
            until(page, f"{text} !== '{before}'")
            assert "-bound" in page.text_content("#bottleneck")
            assert page.locator("#stages .row").count() == 6
        finally:
            over.set()
            working.join()


@NEEDS_BROWSER
def test_two_data_sets(page, shown, tmp_path):
    whole = fl.open(shown)
    fl.pack(whole.select([number for number in range(36) if number != 28]), tmp_path / "pack", progress=False)
    with viewing(shown, tmp_path / "pack") as url:
        ready(page, url + "&page=compare")
        page.wait_for_selector(".pair img")
        assert "samples: differs" in page.text_content("#compare-table")
        assert "fields: same" in page.text_content("#compare-table")
        page.check("#differ")
        until(page, "document.querySelector('#compare-count').textContent.startsWith('8 samples')")


@NEEDS_BROWSER
def test_narrow_and_dark_pages(browser, shown):
    context = browser.new_context(viewport={"width": 380, "height": 700}, color_scheme="dark")
    page = context.new_page()
    with viewing(shown) as url:
        ready(page, url)
        page.wait_for_selector(".cell img")
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert max(map(int, re.findall(r"\d+", colour)[:3])) < 60
        # Everything that can be used has a name that a screen reader says.
        nameless = page.evaluate(
            """[...document.querySelectorAll('button, input, select, textarea, a')].filter(e =>
                !(e.textContent.trim() || e.getAttribute('aria-label') || (e.labels && e.labels.length))).length"""
        )
        assert nameless == 0
    context.close()


@NEEDS_BROWSER
def test_a_sample_from_s3(page, servers):
    options = [f"--storage={name}={value}" for name, value in servers.options.items()]
    with viewing("s3://bucket/packed", more=tuple(options)) as url:
        ready(page, url)
        small = pixels_of(page, '.cell[data-position="0"] img')
    local = np.asarray(Image.open(servers.folder / "bucket" / "animals" / "cat" / "000.jpg"))
    assert np.abs(small.astype(int) - local).mean() < 6


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a red video, and one with a sound that is silent, then loud; each has a file that is cut off."""
    root = tmp_path_factory.mktemp("recordings")
    written = io.BytesIO()
    with av.open(written, "w", format="webm") as file:
        stream = file.add_stream("libvpx-vp9", rate=10)
        stream.width, stream.height, stream.pix_fmt = 160, 96, "yuv420p"
        for _ in range(5):
            red = av.VideoFrame.from_ndarray(np.full((96, 160, 3), (220, 30, 30), np.uint8), format="rgb24")
            file.mux(stream.encode(red))
        file.mux(stream.encode())
    sound = io.BytesIO()
    with wave.open(sound, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(8000)
        loud = (32767 * np.sin(np.arange(4000) * 0.5)).astype("<i2")
        file.writeframes(np.concatenate([np.zeros(4000, "<i2"), loud]).tobytes())
    for folder, name, content in [("videos", "a.webm", written), ("sounds", "a.wav", sound)]:
        (root / folder / "one").mkdir(parents=True)
        (root / folder / "one" / name).write_bytes(content.getvalue())
        (root / folder / "one" / name.replace("a.", "b.")).write_bytes(content.getvalue()[:60])
    return root


@NEEDS_BROWSER
def test_videos_and_sounds_are_shown_and_played(page, recordings):
    with viewing(recordings / "videos") as url:
        ready(page, url)
        assert np.abs(pixels_of(page, '.cell[data-position="0"] img').mean(axis=(0, 1)) - (220, 30, 30)).max() < 8
        page.click('.cell[data-position="0"]')
        page.wait_for_selector("#stage video")
        page.evaluate("document.querySelector('#stage video').play()")
        until(page, "() => document.querySelector('#stage video').currentTime > 0.1")
        assert page.evaluate("document.querySelector('#stage video').videoWidth") == 160
    with viewing(recordings / "sounds") as url:
        ready(page, url)
        drawn = pixels_of(page, '.cell[data-position="0"] img')
        dark = (drawn.astype(int).sum(axis=2) < 500).sum(axis=0)
        quarter = len(dark) // 4
        assert dark[:quarter].max() <= 3
        assert dark[-quarter:].min() > 0.5 * len(drawn)
        page.click('.cell[data-position="0"]')
        page.wait_for_selector("#stage audio")
        page.evaluate("document.querySelector('#stage audio').load()")
        until(page, "() => document.querySelector('#stage audio').duration > 0.9")


def test_damaged_recordings_are_named(recordings):
    for folder in ("videos", "sounds"):
        with viewing(recordings / folder) as url:
            status, _, body = asked(url, "/thumb?index=1")
            assert status == 422
            assert "b." in json.loads(body)["error"]
            assert json.loads(asked(url, "/api/sample?index=1")[2])["broken"]
            site = json.loads(asked(url, "/api/site")[2])["sets"][0]
            field, label = site["image"], 1 - site["image"]
            assert asked(url, f"/recording?index=0&field={field}")[0] == 200
            assert asked(url, f"/recording?index=0&field={label}")[0] == 422


# ---- without a browser


def asked(url, path, *, method="GET", headers=None, token=True, body=None):
    """Status, headers and body of one question."""
    parts = urlsplit(url)
    key = parts.query if token is True else token
    joint = "&" if "?" in path else "?"
    with contextlib.closing(http.client.HTTPConnection(parts.hostname, parts.port, timeout=60)) as connection:
        connection.request(method, f"{path}{joint}{key}" if key else path, body, headers or {})
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read()


def test_access_needs_the_token_and_the_loopback_address(shown):
    with viewing(shown) as url:
        port = urlsplit(url).port
        assert asked(url, "/")[0] == 200
        for path in ("/", "/app.js", "/api/site", "/api/sample?index=0", "/thumb?index=0", "/api/live"):
            assert asked(url, path, token=None)[0] == 401, path
            assert asked(url, path, token="token=" + "0" * 32)[0] == 401, path
        for host in ("evil.example", f"evil.example:{port}", "127.0.0.1", f"127.0.0.1.evil.example:{port}", ""):
            assert asked(url, "/api/site", headers={"Host": host})[0] == 403, host
        assert asked(url, "/api/site", headers={"Host": f"localhost:{port}"})[0] == 200
        cookie = asked(url, "/")[1]["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=Strict" in cookie
        assert asked(url, "/api/site", token=None, headers={"Cookie": cookie.partition(";")[0]})[0] == 200
        assert asked(url, "/api/site", token=None, headers={"Cookie": f"feedline-{port}=x"})[0] == 401
        policy = asked(url, "/")[1]["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        listening = subprocess.run(["cat", "/proc/net/tcp"], capture_output=True, text=True, check=True).stdout
        places = [line.split()[1] for line in listening.splitlines()[1:] if line.split()[3] == "0A"]
        assert f"0100007F:{port:04X}" in places, "127.0.0.1"
        assert f"00000000:{port:04X}" not in places, "not every address of this machine"


def test_only_the_data_set_can_be_read(shown):
    with viewing(shown) as url:
        for path in (
            "/../../etc/passwd",
            "/etc/passwd",
            "/%2e%2e/%2e%2e/etc/passwd",
            "/app.js/../../x",
            "//etc/passwd",
            "/page/app.js",
        ):
            assert asked(url, path)[0] == 404, path
        assert asked(url, "/api/sample?index=36")[0] == 400
        assert asked(url, "/api/sample?index=-1")[0] == 400
        assert asked(url, "/api/sample?index=18446744073709551616")[0] == 400
        assert asked(url, "/thumb?index=0&field=99")[0] == 422
        assert asked(url, "/thumb?index=0&side=99999999")[0] == 200
        assert asked(url, "/api/sample?set=7")[0] == 400
        assert asked(url, "/play?index=0&ops=" + quote("T.Resize((60000, 60000))"))[0] == 422
        assert asked(url, "/play?index=0&ops=" + quote("[" * 500))[0] == 422
        for method in ("POST", "PUT", "DELETE", "OPTIONS"):
            assert asked(url, "/api/site", method=method)[0] == 405, method
        status, headers, _ = asked(url, "/thumb?index=0")
        assert (status, headers["cache-control"]) == (200, "private, max-age=86400")
        assert asked(url, "/thumb?index=0", headers={"If-None-Match": headers["etag"]})[0] == 304
        status, _, body = asked(url, "/thumb?index=28")
        assert status == 422
        assert "error" in json.loads(body)


def test_huge_and_many_simultaneous_requests(shown):
    with viewing(shown) as url:
        with contextlib.suppress(ConnectionError, http.client.HTTPException):
            status, _, _ = asked(url, "/api/sample?index=" + "1" * 200_000)
            assert status in (400, 414, 431)
        with contextlib.suppress(ConnectionError, http.client.HTTPException):
            status, _, _ = asked(url, "/api/live", method="POST", body=b"x" * (4 << 20))
            assert status in (400, 413)
        # Somebody who never finishes a question keeps nobody else from theirs.
        parts = urlsplit(url)
        idle = [socket.create_connection((parts.hostname, parts.port)) for _ in range(20)]
        seen: list[int] = []

        def ask_often():
            seen.extend(asked(url, f"/thumb?index={number % 28}&side={64 + number}")[0] for number in range(50))

        threads = [threading.Thread(target=ask_often) for _ in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert seen.count(200) == len(seen) == 1000
        for one in idle:
            one.close()
        assert asked(url, "/api/site")[0] == 200


def test_every_request_has_an_answer(shown, marked):
    with viewing(shown) as url:
        site = json.loads(asked(url, "/api/site")[2])
        assert site["sets"][0]["samples"] == 36
        rows = json.loads(asked(url, "/api/rows?from=30&count=100")[2])["rows"]
        assert [row["index"] for row in rows] == list(range(30, 36))
        assert json.loads(asked(url, "/api/jump?to=17")[2])["position"] == 17
        assert json.loads(asked(url, "/api/jump?first=2")[2])["position"] == 24
        sheet = json.loads(asked(url, "/api/sample?index=28")[2])
        assert sheet["broken"]
        deadline = time.monotonic() + 60
        while not (found := json.loads(asked(url, "/api/count?bad=1")[2]))["done"]:
            assert time.monotonic() < deadline
        assert found["total"] == 1
        assert asked(url, "/api/count?class=whale")[0] == 400
    with viewing(marked) as url:
        found = json.loads(asked(url, f"/api/play?index=0&draws=2&ops={quote('T.RandomHorizontalFlip(p=1)')}")[2])
        assert found["boxes"][0][0] == [40.0, 10.0, 70.0, 30.0]
        assert found["python"] == "[\n    T.RandomHorizontalFlip(p=1.0),\n]"


def test_usage_errors(tmp_path):
    run = [sys.executable, "-m", "feedline", "view"]
    assert subprocess.run([*run, str(tmp_path / "nothing")], capture_output=True, check=False).returncode == 1
    assert subprocess.run(run, capture_output=True, check=False).returncode == 2


def test_a_thousand_connections_at_once(shown):
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        with viewing(shown) as url:
            parts = urlsplit(url)
            line = f"GET /thumb?index=3&side=64&{parts.query} HTTP/1.1\r\nHost: {parts.netloc}\r\nConnection: close\r\n\r\n"
            many = []
            for _ in range(1000):
                many.append(socket.create_connection((parts.hostname, parts.port), 60))
                many[-1].sendall(line.encode())
            starts = {one.recv(12) for one in many}
            for one in many:
                one.close()
            assert starts == {b"HTTP/1.1 200"}
            assert asked(url, "/api/site")[0] == 200
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
