"""`hf://`: against a stand-in that speaks the hub's paths, with its redirects, pages and tokens."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import subprocess
import sys
import threading
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import feedline as fl
import pytest

COMMITS = {"main": "a" * 40, "v1": "b" * 40, "refs/convert/parquet": "c" * 40}


class Hub(BaseHTTPRequestHandler):
    """One repository, `org/data`: a dict of files by commit. Large files are redirected to another host, as there."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):  # noqa: PLR0911 - one for each kind of question
        server = self.server
        server.asked.append((self.path, self.headers.get("Authorization")))
        url = urllib.parse.urlsplit(self.path)
        path = urllib.parse.unquote(url.path)
        if path.startswith("/cdn/"):
            assert self.headers.get("Authorization") is None, "the token is the hub's alone"
            commit, _, name = path.removeprefix("/cdn/").partition("/")
            return self.ranged(server.files[commit][name])
        if server.token and self.headers.get("Authorization") != f"Bearer {server.token}":
            return self.answer(401, b"{}")
        if path.startswith("/api/datasets/org/data/revision/"):
            commit = COMMITS.get(urllib.parse.unquote(url.path.rpartition("/revision/")[2]))
            return self.answer(200, json.dumps({"sha": commit}).encode()) if commit else self.answer(404, b"{}")
        if path.startswith("/api/datasets/org/data/tree/"):
            return self.tree(path.removeprefix("/api/datasets/org/data/tree/"), url.query)
        if path.startswith("/datasets/org/data/resolve/"):
            commit, _, name = path.removeprefix("/datasets/org/data/resolve/").partition("/")
            if name not in server.files.get(commit, {}):
                return self.answer(404, b"")
            there = f"http://localhost:{server.server_port}/cdn/{commit}/{urllib.parse.quote(name)}"
            return self.answer(302, b"", {"Location": there})
        return self.answer(404, b"")

    do_HEAD = do_GET  # noqa: N815 - the name that the standard library asks for

    def tree(self, path, query):
        commit, _, folder = path.partition("/")
        names = sorted(n for n in self.server.files[commit] if not folder or n.startswith(folder + "/"))
        if not names:
            return self.answer(404, b"{}")
        # Two entries a page, and the next one in a Link header.
        start = int(urllib.parse.parse_qs(query).get("cursor", ["0"])[0])
        entries = [
            {"type": "file", "path": n, "size": len(self.server.files[commit][n])} for n in names[start : start + 2]
        ]
        more = {}
        if start + 2 < len(names):
            next_page = f"{self.server.address}/api/datasets/org/data/tree/{path}?recursive=true&cursor={start + 2}"
            more = {"Link": f'<{next_page}>; rel="next"'}
        return self.answer(200, json.dumps([{"type": "directory", "path": "data"}, *entries]).encode(), more)

    def ranged(self, data):
        asked = self.headers.get("Range")
        if asked is None:
            return self.answer(200, data)
        first, _, last = asked.removeprefix("bytes=").partition("-")
        begin = int(first) if first else len(data) - int(last)
        end = min(int(last) + 1, len(data)) if first and last else len(data)
        self.server.sent += end - begin
        return self.answer(206, data[begin:end], {"Content-Range": f"bytes {begin}-{end - 1}/{len(data)}"})

    def answer(self, code, data, headers=()):
        self.send_response(code)
        for name, value in {
            "Content-Length": str(len(data)),
            "ETag": '"x"',
            "Accept-Ranges": "bytes",
            **dict(headers),
        }.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(data)

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def hub(files, token=None):
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    server.address = f"http://127.0.0.1:{server.server_port}"
    server.files, server.token, server.asked, server.sent = files, token, [], 0
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(scope="module")
def shards(folder, tmp_path_factory):
    """Tar files of two splits."""
    made = tmp_path_factory.mktemp("shards")
    ds = fl.open(folder)
    files = {"README.md": b"# data"}
    for name, part in (("train", ds[:8]), ("test", ds[8:])):
        fl.convert(part, made / name, to="webdataset", shard_bytes=4000, progress=False)
        tars = sorted((made / name).glob("*.tar"))
        for number, tar in enumerate(tars):
            files[f"data/{name}-{number:05}-of-{len(tars):05}.tar"] = tar.read_bytes()
    return files


@pytest.fixture(autouse=True)
def nobody(monkeypatch, tmp_path):
    """No token and no hub of the machine."""
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_ENDPOINT", "HF_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))


def labels(ds):
    return [ds[n]["label"] for n in range(len(ds))]


def test_files_are_read_by_range_at_one_commit(folder, shards, monkeypatch):
    with hub({COMMITS["main"]: shards}) as server:
        monkeypatch.setenv("HF_ENDPOINT", server.address)
        ds = fl.open("hf://datasets/org/data", split="train")
        assert labels(ds) == labels(fl.open(folder)[:8])
        assert [bytes(ds[n]["image"]) for n in range(8)] == [bytes(fl.open(folder)[n]["image"]) for n in range(8)]
        # The commit is pinned: what `main` is later does not matter, not even to another process.
        assert COMMITS["main"] in ds.uri
        monkeypatch.setitem(COMMITS, "main", "d" * 40)
        assert labels(pickle.loads(pickle.dumps(ds))) == labels(ds)
        everything = sum(map(len, shards.values()))
        assert 0 < server.sent < 4 * everything


def test_revisions_patterns_and_single_files(shards, monkeypatch):
    old = {name: data for name, data in shards.items() if "test" in name}
    with hub({COMMITS["main"]: shards, COMMITS["v1"]: old, COMMITS["refs/convert/parquet"]: old}) as server:
        monkeypatch.setenv("HF_ENDPOINT", server.address)
        assert len(fl.open("hf://datasets/org/data")) == 12
        assert len(fl.open("hf://datasets/org/data@v1")) == 4
        assert len(fl.open("hf://datasets/org/data@refs%2Fconvert%2Fparquet/data")) == 4
        assert len(fl.open("hf://datasets/org/data/data/train-*.tar")) == 8
        one = next(name for name in shards if "test-00000" in name)
        assert 0 < len(fl.open(f"hf://datasets/org/data/{one}")) <= 4
        with pytest.raises(fl.NotFoundError, match="no such data set, revision"):
            fl.open("hf://datasets/org/data@v9")
        with pytest.raises(fl.NotFoundError, match="no data files of split 'valid'.*README.md"):
            fl.open("hf://datasets/org/data", split="valid")
        with pytest.raises(fl.OptionError, match="hf://datasets/ORG/NAME"):
            fl.open("hf://models/x")


def test_the_token_is_found_where_huggingface_hub_stores_it(shards, monkeypatch, tmp_path):
    with hub({COMMITS["main"]: shards}, token="secret") as server:
        monkeypatch.setenv("HF_ENDPOINT", server.address)
        with pytest.raises(fl.AccessError, match="HF_TOKEN"):
            fl.open("hf://datasets/org/data")
        monkeypatch.setenv("HF_TOKEN", "secret")
        assert len(fl.open("hf://datasets/org/data")) == 12
        monkeypatch.delenv("HF_TOKEN")
        (tmp_path / "hf").mkdir()
        (tmp_path / "hf" / "token").write_text("secret\n")
        assert len(fl.open("hf://datasets/org/data")) == 12
        monkeypatch.setenv("HF_HUB_DISABLE_IMPLICIT_TOKEN", "1")
        assert len(fl.open("hf://datasets/org/data", storage_options={"token": "secret"})) == 12


def command(*arguments, **environment):
    return subprocess.run(
        [sys.executable, "-m", "feedline", *map(str, arguments)],
        env={**os.environ, **environment},
        check=False,
        capture_output=True,
        text=True,
    )


def test_the_command_reads_from_the_hub(shards, tmp_path):
    """Looked at, packed, and refused in the command's own words; the token is shown nowhere."""
    with hub({COMMITS["main"]: shards}, token="s3cr3t") as server:
        found = {"HF_ENDPOINT": server.address, "HF_TOKEN": "s3cr3t"}
        shown = command("inspect", "hf://datasets/org/data", "--json", **found)
        assert shown.returncode == 0, shown.stderr
        assert json.loads(shown.stdout)["samples"] == 12
        assert COMMITS["main"] in shown.stdout
        packing = ("pack", "hf://datasets/org/data", tmp_path / "train", "--split", "train", "-q")
        packed = command(*packing, "--source-storage", "token=s3cr3t", HF_ENDPOINT=server.address)
        assert packed.returncode == 0, packed.stderr
        assert len(fl.open(tmp_path / "train")) == 8
        denied = command("inspect", "hf://datasets/org/data", HF_ENDPOINT=server.address, HF_TOKEN="wr0ng")
        assert (denied.returncode, "set HF_TOKEN" in denied.stderr) == (1, True), denied.stderr
        nowhere = command("verify", "hf://datasets/org/data@v9", **found)
        assert (nowhere.returncode, "no such data set, revision" in nowhere.stderr) == (1, True), nowhere.stderr
        wrong = command("inspect", "hf://models/x", **found)
        assert (wrong.returncode, "hf://datasets/ORG/NAME" in wrong.stderr) == (2, True), wrong.stderr
        for run in (shown, packed, denied, nowhere, wrong):
            assert not any(secret in run.stdout + run.stderr for secret in ("s3cr3t", "wr0ng"))
