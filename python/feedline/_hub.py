"""`hf://datasets/...`: resolves files on the Hugging Face hub to the https addresses of one commit.

Opening a data set sends two requests to the hub: for the commit of the revision, and for its files. After that, files
are read by range like any others over https, always of that commit.
"""

from __future__ import annotations

import fnmatch
import json
import os
import re
import urllib.parse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .errors import AccessError, DataError, NotFoundError, OptionError, StorageError

if TYPE_CHECKING:
    from urllib.error import HTTPError

__all__ = ["is_hub", "located"]

_SCHEME = "hf://"
_SECONDS = 30
# Data files of a repository, in the order of preference.
_KINDS = (".parquet", ".tar", ".arrow", ".tfrecord", ".jsonl", ".csv", ".tsv", ".beton", ".zip")


def is_hub(uri: object) -> bool:
    """Whether it is on the hub."""
    return isinstance(uri, str) and uri.startswith(_SCHEME)


def located(
    uris: Sequence[str], options: Mapping[str, object] | None, split: str | None
) -> tuple[list[str], dict[str, Any]]:
    """The https addresses of the files in `uris`, and the storage options to read them with."""
    if not all(is_hub(uri) for uri in uris):
        raise OptionError(
            "uri: files on the hub and files elsewhere cannot be mixed; open them separately, then concat"
        )
    given = dict(options or {})
    endpoint = str(given.pop("endpoint_url", None) or os.environ.get("HF_ENDPOINT") or "https://huggingface.co").rstrip(
        "/"
    )
    token = given.pop("token", None) or _token()
    hub = _Hub(endpoint, None if token is None else str(token))
    found = [address for uri in uris for address in hub.files(uri, split)]
    if token is not None:
        headers = given.get("headers") or {}
        given["headers"] = {"Authorization": f"Bearer {token}", **(headers if isinstance(headers, Mapping) else {})}
    if endpoint.startswith("http://"):
        given.setdefault("allow_http", True)
    return found, given


def _token() -> str | None:
    """The token from the places that `huggingface_hub` uses: the environment, else the file written by logging in."""
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        if os.environ.get(name, "").strip():
            return os.environ[name].strip()
    if os.environ.get("HF_HUB_DISABLE_IMPLICIT_TOKEN", "").upper() in ("1", "ON", "YES", "TRUE"):
        return None
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    home = os.environ.get("HF_HOME") or str(Path(cache) / "huggingface")
    file = Path(os.environ.get("HF_TOKEN_PATH") or Path(home) / "token").expanduser()
    try:
        return file.read_text().strip() or None
    except OSError:
        return None


class _Hub:
    def __init__(self, endpoint: str, token: str | None) -> None:
        self._endpoint = endpoint
        self._token = token

    def files(self, uri: str, split: str | None) -> list[str]:
        """The addresses of one uri's files."""
        repository, revision, path = _parts(uri)
        quoted = urllib.parse.quote(revision, safe="")
        commit = self._ask(uri, f"/api/datasets/{repository}/revision/{quoted}")[0]["sha"]
        if re.fullmatch(r"[0-9a-f]{40,64}", str(commit)) is None:
            raise DataError(f"{uri}: the hub does not say which commit '{revision}' is")
        folder = path.split("*", maxsplit=1)[0].rpartition("/")[0] if "*" in path else path
        names = [entry["path"] for entry in self._tree(uri, repository, commit, folder) if entry.get("type") == "file"]
        chosen = _choose(uri, names, path, split)
        base = f"{self._endpoint}/datasets/{repository}/resolve/{commit}/"
        return [base + urllib.parse.quote(name) for name in chosen]

    def _tree(self, uri: str, repository: str, commit: str, folder: str) -> Iterator[dict[str, Any]]:
        address = (
            f"/api/datasets/{repository}/tree/{commit}/{urllib.parse.quote(folder)}".rstrip("/") + "?recursive=true"
        )
        seen: set[str] = set()
        while address and address not in seen:
            seen.add(address)
            try:
                entries, links = self._ask(uri, address)
            except NotFoundError:
                # The path is a file, or does not exist: list its folder.
                above = folder.rpartition("/")[0]
                if not folder or len(seen) > 1:
                    raise
                yield from self._tree(uri, repository, commit, above)
                return
            yield from entries
            following = re.search(r'<([^>]+)>;\s*rel="next"', links)
            address = following.group(1).removeprefix(self._endpoint) if following else ""

    def _ask(self, uri: str, path: str) -> tuple[Any, str]:
        # Only the hub needs these, and they are slow to import.
        import urllib.error  # noqa: PLC0415
        import urllib.request  # noqa: PLC0415

        # Only this hub: a Link header to another host must not get the token.
        request = urllib.request.Request(self._endpoint + path)  # noqa: S310 - the endpoint is the user's
        if self._token is not None:
            request.add_header("Authorization", f"Bearer {self._token}")
        try:
            with urllib.request.urlopen(request, timeout=_SECONDS) as answer:  # noqa: S310
                return json.load(answer), answer.headers.get("Link", "")
        except urllib.error.HTTPError as error:
            raise _refused(uri, error) from error
        except (OSError, ValueError) as error:
            raise StorageError(0, f"{uri}: the hub at {self._endpoint} does not answer: {error}") from error


def _refused(uri: str, error: HTTPError) -> StorageError:
    if error.code in (401, 403):
        return AccessError(13, f"{uri}: the hub refuses access\nhint: set HF_TOKEN, or log in; gated data need consent")
    if error.code == 404:  # noqa: PLR2004 - not found
        return NotFoundError(2, f"{uri}: the hub has no such data set, revision or file")
    return StorageError(0, f"{uri}: the hub answers {error.code} {error.reason}")


def _parts(uri: str) -> tuple[str, str, str]:
    """Repository, revision and path of `hf://datasets/org/name@revision/path`."""
    match = re.fullmatch(r"hf://datasets/([^/@]+/[^/@]+)(?:@([^/]+))?(?:/(.*))?", uri)
    if match is None:
        raise OptionError(f"uri: {uri} is not of the form hf://datasets/ORG/NAME[@REVISION][/PATH]")
    # A slash in a revision is written as %2F, as in the hub's own library.
    return match[1], urllib.parse.unquote(match[2] or "main"), (match[3] or "").strip("/")


def _choose(uri: str, names: Sequence[str], path: str, split: str | None) -> list[str]:
    if path in names:
        return [path]
    if "*" in path:
        chosen = [name for name in names if fnmatch.fnmatchcase(name, path)]
    else:
        below = [name for name in names if not path or name.startswith(path + "/")]
        kind = next((kind for kind in _KINDS if any(name.endswith(kind) for name in below)), None)
        chosen = [name for name in below if kind is not None and name.endswith(kind)]
    if split is not None:
        chosen = [name for name in chosen if split in re.split(r"[^A-Za-z0-9]+", name)]
    if not chosen:
        of = f" of split '{split}'" if split else ""
        raise NotFoundError(2, f"{uri}: no data files{of}; there are: {', '.join(sorted(names)[:10]) or 'none'}")
    return sorted(chosen)
