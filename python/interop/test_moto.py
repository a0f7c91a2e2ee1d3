"""AWS's emulator: a versioned bucket with delete markers, other tools' folder markers, keys that cannot be names."""

import socket
import subprocess

import feedline as fl
import pytest
from conftest import ENVIRONMENTS, PROJECT
from test_azure import wait_for


@pytest.fixture
def endpoint():
    program = ENVIRONMENTS / "moto" / "bin" / "python"
    assert program.exists(), f"{program} is missing: run tools/interop/setup.sh"
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [program, "-m", "moto.server", "-p", str(port)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        wait_for(port)
        yield f"http://127.0.0.1:{port}"
        process.terminate()


def make_images(folder):
    image = (PROJECT / "testdata" / "formats" / "litdata" / "a.jpg").read_bytes()
    for number in range(6):
        path = folder / ("cat", "dog")[number % 2] / f"{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(image)


def test_current_versions_are_read_and_markers_are_not(endpoint, run, tmp_path):
    folder, written = tmp_path / "bucket", ("webdataset", "mds", "litdata", "parquet", "pack")
    make_images(folder / "animals")
    for to in written:
        fl.convert(folder / "animals", folder / to, to=to, progress=False)
    run("moto", endpoint, folder)
    options = {"key": "a", "secret": "b", "endpoint_url": endpoint, "region": "us-east-1"}
    for name in ("animals", *written):
        local, remote = fl.open(folder / name), fl.open(f"s3://bucket/{name}", storage_options=options)
        assert (remote.format, len(remote)) == (local.format, len(local))
        assert [sample["image"] for sample in remote] == [sample["image"] for sample in local]
        assert all("odd.jpg" in problem["message"] for problem in remote.problems)
        assert bool(remote.problems) == (name == "animals")
