"""A small web server with ranges, which can be made to fail or to stop answering."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar


class Handler(BaseHTTPRequestHandler):
    """Files below `folder`."""

    folder: ClassVar[Path]
    broken: ClassVar[bool] = False
    """Answers everything with 503."""
    silent: ClassVar[bool] = False
    """Never answers again."""
    delay: ClassVar[float] = 0.0
    """Seconds before each answer."""
    failures: ClassVar[int] = 0
    """So many questions are answered with 503, then all is well."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """A file, or a range of it."""
        while Handler.silent:
            time.sleep(0.1)
        time.sleep(Handler.delay)
        if Handler.failures > 0:
            Handler.failures -= 1
            return self.answer(503, b"", {})
        file = Handler.folder / self.path.lstrip("/")
        if Handler.broken or not file.is_file():
            return self.answer(503 if Handler.broken else 404, b"", {})
        data = file.read_bytes()
        asked = self.headers.get("Range")
        if asked is None:
            return self.answer(200, data, {})
        first, _, last = asked.removeprefix("bytes=").partition("-")
        begin = int(first) if first else len(data) - int(last)
        end = min(int(last) + 1, len(data)) if first and last else len(data)
        return self.answer(206, data[begin:end], {"Content-Range": f"bytes {begin}-{end - 1}/{len(data)}"})

    do_HEAD = do_GET  # noqa: N815 - the name that the standard library asks for

    def answer(self, code: int, data: bytes, headers: dict[str, str]) -> None:
        """Sends one answer."""
        self.send_response(code)
        sized = {"Content-Length": str(len(data)), "Accept-Ranges": "bytes", "ETag": '"one"', **headers}
        for name, value in sized.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Says nothing."""


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[str]:
    """The address of a server over `folder`."""
    Handler.folder, Handler.silent, Handler.broken = folder, False, False
    Handler.delay, Handler.failures = 0.0, 0
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        Handler.silent = False
        server.shutdown()
        thread.join()
        server.server_close()
