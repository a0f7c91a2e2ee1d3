"""Azure's own emulator: a pack is sent there and read back, in every order."""

import base64
import datetime as dt
import hashlib
import hmac
import socket
import subprocess
import time
import urllib.parse
import urllib.request

import feedline as fl
import numpy as np
import pytest
from conftest import ENVIRONMENTS

ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""The emulator's well-known account."""


@pytest.fixture
def endpoint(tmp_path):
    program = ENVIRONMENTS / "azurite" / "node_modules" / ".bin" / "azurite-blob"
    assert program.exists(), f"{program} is missing: run tools/interop/setup.sh"
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    options = ["--silent", "--skipApiVersionCheck", "--location", tmp_path / "azurite", "--blobPort", str(port)]
    with subprocess.Popen([program, *options], stdout=subprocess.DEVNULL) as process:
        wait_for(port)
        yield f"http://127.0.0.1:{port}/{ACCOUNT}"
        process.terminate()


def wait_for(port):
    for _ in range(300):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    pytest.fail("the emulator does not answer")


def make_container(endpoint, name):
    """A container is made by the user, not by feedline."""
    date = dt.datetime.now(dt.timezone.utc).strftime("%a, %d %b %Y %H:%M:%S GMT")
    resource = f"/{ACCOUNT}/{ACCOUNT}/{name}\nrestype:container"
    to_sign = "PUT" + "\n" * 12 + f"x-ms-date:{date}\nx-ms-version:2021-08-06\n{resource}"
    signature = base64.b64encode(hmac.new(base64.b64decode(KEY), to_sign.encode(), hashlib.sha256).digest())
    headers = {
        "x-ms-date": date,
        "x-ms-version": "2021-08-06",
        "Authorization": f"SharedKey {ACCOUNT}:{signature.decode()}",
        "Content-Length": "0",
    }
    request = urllib.request.Request(f"{endpoint}/{name}?restype=container", method="PUT", headers=headers)
    with urllib.request.urlopen(request) as answer:
        assert answer.status == 201


def shared_access(name, permissions):
    """A signature that lets whoever has it do this with a container, for an hour."""
    until = (dt.datetime.now(dt.timezone.utc) + dt.timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    version = "2020-12-06"
    fields = [permissions, "", until, f"/blob/{ACCOUNT}/{name}", "", "", "", version, "c", "", "", "", "", "", "", ""]
    signature = hmac.new(base64.b64decode(KEY), "\n".join(fields).encode(), hashlib.sha256).digest()
    query = {"sv": version, "sr": "c", "sp": permissions, "se": until, "sig": base64.b64encode(signature).decode()}
    return urllib.parse.urlencode(query)


def batches(ds, shuffle):
    with fl.Loader(ds, batch_size=7, shuffle=shuffle, output="numpy") as loader:
        return [(bytes(batch["blob"].data), batch["number"].tolist()) for batch in loader]


# Two loaders over the same data, on purpose.
@pytest.mark.filterwarnings("ignore::feedline.errors.RepeatedEpochWarning")
def test_a_pack_round_trips_through_azure(endpoint, tmp_path):
    make_container(endpoint, "box")
    rng = np.random.default_rng(0)
    rows = [{"blob": rng.bytes(int(rng.integers(1, 60_000))), "number": n} for n in range(60)]
    fl.pack(rows, tmp_path / "local", progress=False)
    options = {"account": ACCOUNT, "account_key": KEY, "endpoint_url": endpoint}
    fl.pack(tmp_path / "local", "az://box/a/pack", part_bytes=200_000, progress=False, storage_options=options)
    local, remote = fl.open(tmp_path / "local"), fl.open("az://box/a/pack", storage_options=options)
    for shuffle in (False, True, "block"):
        assert batches(remote, shuffle) == batches(local, shuffle)
    with pytest.raises(PermissionError, match="credentials in storage_options"):
        fl.open("az://box/a/pack", storage_options={**options, "account_key": base64.b64encode(b"no").decode()})
    with pytest.raises(FileNotFoundError):
        fl.open("az://nobody/a/pack", storage_options=options)


def test_a_shared_access_signature_is_enough_and_is_not_shown(endpoint, tmp_path):
    make_container(endpoint, "box")
    fl.pack([{"number": n} for n in range(5)], tmp_path / "local", progress=False)
    whole = {"account": ACCOUNT, "endpoint_url": endpoint, "sas_token": shared_access("box", "rcwdl")}
    fl.pack(tmp_path / "local", "az://box/pack", progress=False, storage_options=whole)
    reading = {**whole, "sas_token": shared_access("box", "rl")}
    remote = fl.open("az://box/pack", storage_options=reading)
    assert [remote[n]["number"] for n in range(5)] == list(range(5))
    assert "sig" not in repr(remote)
    with pytest.raises(PermissionError) as caught:
        fl.pack(tmp_path / "local", "az://box/other", progress=False, storage_options=reading)
    assert "sig=" not in str(caught.value)
