"""The live page of a loader: its own, or the one that all ranks send to."""

from __future__ import annotations

import logging
import sys
import threading
import weakref
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from feedline._loader import Loader

__all__ = ["Dashboard"]

_LOGGER = logging.getLogger("feedline")

# Seconds between two messages to another rank's page.
_SEND_SECONDS = 1.0


class Dashboard:
    """Serves a page about a loader, or sends its statistics to a page that another rank serves."""

    def __init__(self, loader: Loader, wanted: bool | str) -> None:
        self._core: Any = loader._core  # noqa: SLF001 - same package
        rank = int(loader.options["rank"] or 0)
        self._stop = threading.Event()
        if isinstance(wanted, str):
            self.url = wanted
            sending = threading.Thread(target=_send, args=(weakref.ref(loader), wanted, rank, self._stop), daemon=True)
            sending.start()
            self._serves = False
            return
        self.url, self._serves = str(self._core.serve(rank, 0)), True
        sys.stderr.write(f"feedline: live page at {self.url}\n")

    def close(self) -> None:
        """Ends it."""
        self._stop.set()
        if self._serves:
            self._core.stop_serving()


def _send(loader: weakref.ref[Loader], url: str, rank: int, stop: threading.Event) -> None:
    # Only here: these imports take longer than all of feedline's.
    import urllib.parse  # noqa: PLC0415
    import urllib.request  # noqa: PLC0415

    parts = urllib.parse.urlsplit(url)
    token = urllib.parse.parse_qs(parts.query).get("token", [""])[0]
    address = f"{parts.scheme}://{parts.netloc}/api/live?rank={rank}&token={token}"
    failed = False
    # Requests to this machine do not go through a proxy.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    while not stop.wait(_SEND_SECONDS):
        alive = loader()
        if alive is None:
            return
        text = alive._core.stats().encode()  # noqa: SLF001 - same package
        del alive
        try:
            opener.open(urllib.request.Request(address, data=text, method="POST"), timeout=5).close()  # noqa: S310
            failed = False
        except OSError as error:
            if not failed:
                _LOGGER.warning("the live page does not answer: %s", error)
            failed = True
