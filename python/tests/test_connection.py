"""How a bucket is reached: whose credentials, through which proxy, with whose certificates, from which process."""

from __future__ import annotations

import multiprocessing
import selectors
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import feedline as fl
import pytest
import trustme
from buckets import Servers


def pump(one: socket.socket, two: socket.socket) -> None:
    """Bytes from each to the other, until either ends."""
    with selectors.DefaultSelector() as ready:
        ready.register(one, selectors.EVENT_READ, two)
        ready.register(two, selectors.EVENT_READ, one)
        while True:
            for key, _ in ready.select():
                source, other = key.fileobj, key.data
                assert isinstance(source, socket.socket)
                while True:
                    data = source.recv(65536)
                    if not data:
                        return
                    other.sendall(data)
                    # What TLS has decrypted already is not seen by `select`.
                    if not (isinstance(source, ssl.SSLSocket) and source.pending()):
                        break


@contextmanager
def relay(serve: Callable[[socket.socket], None]) -> Iterator[int]:
    """A port where every connection is handed to `serve`."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def run(client: socket.socket) -> None:
            with client:
                with suppress(OSError):
                    serve(client)

        def accept() -> None:
            while True:
                try:
                    client, _ = listening.accept()
                except OSError:
                    return
                threading.Thread(target=run, args=(client,), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        yield listening.getsockname()[1]
        listening.shutdown(socket.SHUT_RDWR)


def address(servers: Servers) -> tuple[str, int]:
    host, port = servers.options["endpoint_url"].removeprefix("http://").split(":")
    return host, int(port)


def read_all(ds: fl.Dataset) -> list[bytes]:
    with fl.Loader(ds, batch_size=4, decode="none", output="numpy") as loader:
        return [bytes(batch["image"].data) for batch in loader]


@pytest.fixture
def local(servers: Servers) -> list[bytes]:
    return read_all(fl.open(servers.folder / "bucket" / "packed"))


@pytest.fixture
def nobody(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No credentials of this machine's user."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))


def write_profile(path: Path, name: str, key: str, secret: str) -> None:
    path.write_text(f"[{name}]\naws_access_key_id = {key}\naws_secret_access_key = {secret}\n")


@pytest.mark.usefixtures("nobody")
def test_credentials_come_from_the_environment(
    servers: Servers, local: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", servers.options["key"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", servers.options["secret"])
    monkeypatch.setenv("AWS_ENDPOINT_URL", servers.options["endpoint_url"])
    assert read_all(fl.open("s3://bucket/packed")) == local
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    with pytest.raises(PermissionError, match="with the credentials in the environment"):
        fl.open("s3://bucket/packed")


@pytest.mark.usefixtures("nobody")
def test_credentials_come_from_a_profile(servers: Servers, local: list[bytes], tmp_path: Path) -> None:
    endpoint = servers.options["endpoint_url"]
    write_profile(tmp_path / "credentials", "lab", servers.options["key"], servers.options["secret"])
    ds = fl.open("s3://bucket/packed", storage_options={"endpoint_url": endpoint, "profile": "lab"})
    assert read_all(ds) == local
    with pytest.raises(fl.OptionError, match="nobody"):
        fl.open("s3://bucket/packed", storage_options={"endpoint_url": endpoint, "profile": "nobody"})
    write_profile(tmp_path / "credentials", "lab", servers.options["key"], "wrong")
    with pytest.raises(PermissionError, match="profile 'lab'"):
        fl.open("s3://bucket/packed", storage_options={"endpoint_url": endpoint, "profile": "lab"})


def test_requests_go_through_a_proxy(servers: Servers, local: list[bytes]) -> None:
    """A plain http proxy is asked for whole addresses; this one notes them and passes everything on."""
    asked: list[bytes] = []

    def serve(client: socket.socket) -> None:
        first = client.recv(65536)
        asked.append(first.split(b"\r\n")[0])
        with socket.create_connection(address(servers)) as server:
            server.sendall(first)
            pump(client, server)

    with relay(serve) as port:
        # The name leads nowhere: only the proxy knows the way.
        remote = {"endpoint_url": "http://store.invalid", "proxy": f"http://127.0.0.1:{port}"}
        assert read_all(fl.open("s3://bucket/packed", storage_options={**servers.options, **remote})) == local
    assert asked
    assert all(b" http://store.invalid/bucket" in line for line in asked)


def test_custom_certificates_are_trusted_if_named(servers: Servers, local: list[bytes], tmp_path: Path) -> None:
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    bundle = tmp_path / "bundle.pem"
    authority.cert_pem.write_to_path(bundle)

    def serve(client: socket.socket) -> None:
        with (
            context.wrap_socket(client, server_side=True) as secure,
            socket.create_connection(address(servers)) as server,
        ):
            pump(secure, server)

    with relay(serve) as port:
        options = {**servers.options, "endpoint_url": f"https://localhost:{port}"}
        ds = fl.open("s3://bucket/packed", storage_options={**options, "ca_bundle": str(bundle)})
        assert read_all(ds) == local
        with pytest.raises(fl.StorageError, match="certificate"):
            fl.open("s3://bucket/packed", storage_options={**options, "retry_seconds": "1"})
        with pytest.raises(fl.OptionError, match="ca_bundle"):
            fl.open("s3://bucket/packed", storage_options={**options, "ca_bundle": str(tmp_path / "none.pem")})


def read_in_child(ds: fl.Dataset, results: multiprocessing.SimpleQueue[list[bytes]]) -> None:
    results.put([ds[n]["image"] for n in range(len(ds))])


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_makes_its_own_connection(servers: Servers) -> None:
    ds = fl.open("s3://bucket/packed", storage_options=servers.options)
    mine = [ds[n]["image"] for n in range(len(ds))]
    context = multiprocessing.get_context("fork")
    results: multiprocessing.SimpleQueue[list[bytes]] = context.SimpleQueue()
    child = context.Process(target=read_in_child, args=(ds, results))
    child.start()
    assert results.get() == mine
    child.join(30)
    assert child.exitcode == 0
    assert ds[0]["image"] == mine[0]
