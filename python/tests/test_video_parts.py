"""Videos of which only parts are read: indexes that are kept, packs, buckets; fragmented and damaged files."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import time

import av
import feedline as fl
import numpy as np
import pytest
from buckets import Servers
from feedline import transforms as T
from feedline.errors import OptionError, SampleError
from test_video import encoded, folder_of, frame_pixels, near, sequential

OPS = {"video": [T.Clip(4, 2), T.Resize((32, 48))]}


def clips(ds, epochs=2, **knobs):
    knobs = {"transforms": OPS, "batch_size": 2, "shuffle": True, "seed": 5, "output": "numpy", **knobs}
    with fl.Loader(ds, **knobs) as loader:
        return [batch["video"] for _ in range(epochs) for batch in loader], loader.stats()


def noisy(frames=120, size=(320, 240), **options):
    """A video of many bytes: noise does not compress."""
    out, draw = io.BytesIO(), np.random.default_rng(1)
    with av.open(out, "w", format="mp4", options=options.pop("container", {})) as file:
        stream = file.add_stream("libx264", rate=25)
        stream.width, stream.height, stream.pix_fmt = *size, "yuv420p"
        stream.options = {"g": "10", "preset": "ultrafast", **options}
        for number in range(frames):
            shown = frame_pixels(number, *size) // 2 + draw.integers(0, 128, (size[1], size[0], 3), dtype=np.uint8)
            file.mux(stream.encode(av.VideoFrame.from_ndarray(shown, format="rgb24")))
        file.mux(stream.encode())
    return out.getvalue()


@pytest.fixture(scope="module")
def files():
    return {"a.mp4": encoded(40, g=8, bf=2), "b.mkv": encoded(30, kind="matroska", g=6), "c.mp4": encoded(50, g=50)}


def test_a_pack_keeps_the_index(tmp_path, files):
    ds = fl.open(folder_of(tmp_path, files))
    pack = fl.pack(ds, tmp_path / "pack", progress=False)
    assert [pack[i]["video"] for i in range(3)] == [ds[i]["video"] for i in range(3)]
    ours, _ = clips(pack)
    theirs, _ = clips(ds)
    for one, other in zip(ours, theirs, strict=True):
        assert np.array_equal(one, other)
    command = [sys.executable, "-m", "feedline", "verify", tmp_path / "pack"]
    subprocess.run(command, check=True, capture_output=True)
    (part,) = (tmp_path / "pack").glob("part-*.fl")
    stored = part.read_bytes()
    # The tables of the container are not read again: the clips are the same without them.
    moov = stored.index(b"moov")
    part.write_bytes(stored[: moov + 4] + bytes(60) + stored[moov + 64 :])
    again, _ = clips(fl.open(tmp_path / "pack"))
    for one, other in zip(again, theirs, strict=True):
        assert np.array_equal(one, other)


def test_a_damaged_packet_in_a_pack_is_found(tmp_path, files):
    fl.pack(fl.open(folder_of(tmp_path, files)), tmp_path / "pack", progress=False)
    (part,) = (tmp_path / "pack").glob("part-*.fl")
    stored = bytearray(part.read_bytes())
    at = bytes(stored).index(files["c.mp4"]) + bytes(files["c.mp4"]).index(b"mdat") + 900
    stored[at] ^= 1
    part.write_bytes(stored)
    ops = {"video": [T.Clip(50, policy="start"), T.Resize((8, 8))]}
    ds = fl.open(tmp_path / "pack").select([2])
    with pytest.raises(SampleError, match="checksum"):
        list(fl.Loader(ds, transforms=ops))


def test_indexes_of_a_folder_are_kept(tmp_path, files, monkeypatch):
    monkeypatch.setenv("FEEDLINE_CACHE_DIR", str(tmp_path / "cache"))
    where = folder_of(tmp_path, files)
    first, before = clips(fl.open(where), epochs=1, index="build")
    assert list((tmp_path / "cache").rglob("*.seeks"))
    second, after = clips(fl.open(where), epochs=1, index="build")
    for one, other in zip(first, second, strict=True):
        assert np.array_equal(one, other)
    assert after["bytes_read"] < before["bytes_read"]
    # A file that was replaced does not meet the old index.
    (where / "c.mp4").write_bytes(encoded(20, g=3))
    third, _ = clips(fl.open(where), epochs=1, index="build")
    fresh, _ = clips(fl.open(where), epochs=1, index="off")
    for one, other in zip(third, fresh, strict=True):
        assert np.array_equal(one, other)


def test_clips_of_a_bucket_read_only_what_they_need(servers: Servers, tmp_path, monkeypatch):
    monkeypatch.setenv("FEEDLINE_CACHE_DIR", str(tmp_path / "cache"))
    content = noisy()
    where = servers.folder / "bucket" / "films"
    where.mkdir()
    for name in "abcd":
        (where / f"{name}.mp4").write_bytes(content)
    fl.pack(where, servers.folder / "bucket" / "films-packed", progress=False)
    tar = {"transforms": {"video": [T.Clip(4, policy="random"), T.Resize((32, 48))]}, "batch_size": 4}
    near_by, _ = clips(fl.open(where), epochs=1, **tar)
    for name in ("films", "films-packed"):
        far, stats = clips(fl.open(f"s3://bucket/{name}", storage_options=servers.options), epochs=1, **tar)
        assert np.array_equal(far[0], near_by[0])
        # Four clips of at most 14 of 120 frames, and the tables.
        asked = stats["storage"]["bytes"]
        assert 4 * len(content) * 0.01 < asked < 4 * len(content) * 0.3, (name, asked, len(content))


@pytest.mark.parametrize(("how", "keys"), [("gop=4", 4), ("gop=10", 10)])
def test_packs_with_short_groups(tmp_path, how, keys):
    content = encoded(40, g=40, bf=3)
    where = folder_of(tmp_path, {"a.mp4": content, "b.mkv": encoded(21, kind="matroska", rate=10)})
    pack = fl.pack(where, tmp_path / "pack", video=how, progress=False)
    for sample, original in enumerate(sorted(where.iterdir())):
        stored = pack[sample]["video"]
        with av.open(io.BytesIO(stored)) as file:
            decoded = list(file.decode(video=0))
        assert [n for n, frame in enumerate(decoded) if frame.key_frame] == list(range(0, len(decoded), keys))
        theirs, times = sequential(original.read_bytes())
        video = fl._feedline.Video(stored)
        assert np.allclose(video.times, times - times[0], atol=2e-3)
        assert np.abs(video.frames(list(range(len(times)))).astype(int) - theirs).mean() < 6
    again = fl.pack(where, tmp_path / "again", video=how, progress=False)
    assert again.fingerprint == pack.fingerprint


def test_short_groups_need_ffmpeg(tmp_path, monkeypatch):
    where = folder_of(tmp_path, {"a.mp4": encoded(4), "b.mp4": b"not a video"})
    for wrong in ("gop=0", "gop", "best", 8, "gop=1001"):
        with pytest.raises(OptionError, match="gop=N"):
            fl.pack(where, tmp_path / "pack", video=wrong, progress=False)
    with pytest.raises(fl.Error, match=r"(?s)b\.mp4.*ffmpeg cannot encode it once more"):
        fl.pack(where, tmp_path / "pack", video="gop=4", progress=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(OptionError, match=r"(?s)needs the ffmpeg program.*install FFmpeg"):
        fl.pack(where, tmp_path / "other", video="gop=4", progress=False)
    kept = fl.pack(where, tmp_path / "kept", progress=False)
    assert kept[1]["video"] == b"not a video"


def fragmented(frames=40, flags="frag_keyframe+empty_moov", **options):
    out = io.BytesIO()
    with av.open(out, "w", format="mp4", options={"movflags": flags}) as file:
        stream = file.add_stream("libx264", rate=25)
        stream.width, stream.height, stream.pix_fmt = 96, 64, "yuv420p"
        stream.options = {name: str(value) for name, value in options.items()}
        for number in range(frames):
            file.mux(stream.encode(av.VideoFrame.from_ndarray(frame_pixels(number, 96, 64), format="rgb24")))
        file.mux(stream.encode())
    return out.getvalue()


@pytest.mark.parametrize(
    "flags",
    ["frag_keyframe+empty_moov", "frag_keyframe+empty_moov+default_base_moof", "frag_every_frame+empty_moov",
     "frag_keyframe", "dash+frag_keyframe+empty_moov", "cmaf+frag_keyframe"],
)  # fmt: skip
def test_fragmented_files(flags):
    content = fragmented(flags=flags, g=7, bf=2)
    theirs, times = sequential(content)
    video = fl._feedline.Video(content)
    assert len(video) == len(theirs) == 40
    assert np.allclose(np.diff(video.times), np.diff(times), atol=1e-3)
    draw = np.random.default_rng(2)
    for _ in range(30):
        wanted = draw.integers(0, 40, 4).tolist()
        assert near(video.frames(wanted), theirs[wanted])


def test_fragmented_files_cut_off():
    """A fragment that is not whole is an error, at every length."""
    content = fragmented(g=7)
    whole = 0
    for length in range(0, len(content), max(1, len(content) // 100)):
        try:
            video = fl._feedline.Video(content[:length])
            video.frames(list(range(len(video))))
            whole += 1
        except fl.Error:
            continue
    # Cut between two fragments, the rest is a whole file.
    assert whole < 12


def replaced(content, table, change):
    """The same file with the numbers of a table changed."""
    at = content.index(table)
    (size,) = struct.unpack(">I", content[at - 4 : at])
    body = bytearray(content[at + 4 : at - 4 + size])
    change(body)
    return content[: at + 4] + bytes(body) + content[at - 4 + size :]


def test_files_without_a_key_frame_and_with_wrong_tables(tmp_path):
    content = encoded(40, g=8, bf=2)

    def no_keys(body):
        body[4:8] = bytes(4)

    def outside(body):
        body[8:12] = struct.pack(">I", len(content) - 10)

    def shifted(body):
        (first,) = struct.unpack(">I", body[8:12])
        body[8:12] = struct.pack(">I", first + 37)

    def many(body):
        body[8:12] = struct.pack(">I", 2**31)

    def later_key(body):
        body[8:12] = struct.pack(">I", 3)

    wrong = {
        "0.mp4": replaced(content, b"stss", no_keys),
        "1.mp4": replaced(content, b"stco", outside),
        "2.mp4": replaced(content, b"stco", shifted),
        "3.mp4": replaced(content, b"stsz", many),
        "4.mp4": content[: len(content) // 2],
        "5.mp4": content,
    }
    ds = fl.open(folder_of(tmp_path, wrong))
    ops = {"video": [T.Clip(40, policy="start"), T.Resize((8, 8))]}
    for decoder in ("ffmpeg", "built-in"):
        os.environ["FEEDLINE_VIDEO_DECODER"] = decoder
        try:
            with fl.Loader(ds, transforms=ops, on_error="skip", batch_size=6, output="numpy") as loader:
                (batch,) = list(loader)
                reasons = {error["index"]: error["reason"] for error in loader.errors()}
        finally:
            del os.environ["FEEDLINE_VIDEO_DECODER"]
        assert batch["index"].tolist() == [5]
        assert "no key frame" in reasons[0]
        assert "past the end" in reasons[1]
        assert sorted(reasons) == [0, 1, 2, 3, 4]
    # A key frame that is none: frames are decoded from further back, or are errors; never wrong.
    theirs, _ = sequential(content)
    video = fl._feedline.Video(replaced(content, b"stss", later_key))
    for number in range(len(video)):
        try:
            (ours,) = video.frames([number])
        except fl.Error:
            continue
        assert np.abs(theirs - ours.astype(int)).mean(axis=(1, 2, 3)).min() < 2


def test_a_thousand_random_seeks():
    content = noisy(150, (128, 96), bf="2", g="12")
    theirs, _ = sequential(content)
    video, draw = fl._feedline.Video(content), np.random.default_rng(7)
    for wanted in draw.integers(0, len(theirs), 1000).tolist():
        assert near(video.frames([wanted])[0], theirs[wanted]), wanted


def test_videos_in_tar_shards(tmp_path, files):
    where = folder_of(tmp_path, {name: content for name, content in files.items() if name.endswith("mp4")})
    fl.convert(where, tmp_path / "tars", to="webdataset", progress=False)
    ds = fl.open(tmp_path / "tars")
    field = next(name for name, kind in ds.schema.items() if kind in ("video", "bytes") and name != "key")
    ops = {field: OPS["video"]}
    knobs = {"batch_size": 2, "shuffle": True, "seed": 5, "output": "numpy"}
    with fl.Loader(ds, transforms=ops, **knobs) as one, fl.Loader(where, transforms=OPS, **knobs) as other:
        for ours, theirs in zip(one, other, strict=True):
            assert np.array_equal(ours[field], theirs["video"])
    shutil.rmtree(tmp_path / "tars")


def test_early_stops_leave_nothing_behind(tmp_path, files):
    where = folder_of(tmp_path, files)
    with fl.Loader(where, transforms=OPS, batch_size=1, shuffle=True, num_workers=3, output="numpy") as loader:
        for _ in range(40):
            next(iter(loader))
    for _ in range(10):
        loader = fl.Loader(where, transforms=OPS, batch_size=1, num_workers=2, output="numpy")
        next(iter(loader))
        loader.close()


def test_an_interrupt_ends_a_run(tmp_path, files):
    """Ctrl-C while clips are decoded."""
    where = folder_of(tmp_path, files)
    script = f"""
import feedline as fl, itertools
from feedline import transforms as T
ops = {{"video": [T.Clip(30, 1), T.Resize((32, 48))]}}
with fl.Loader({str(where)!r}, transforms=ops, batch_size=3, num_workers=2, output="numpy") as loader:
    print("ready", flush=True)
    for epoch in itertools.count():
        for batch in loader:
            pass
"""
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    assert b"KeyboardInterrupt" in said


def test_indexes_are_made_ahead(tmp_path, files, monkeypatch):
    monkeypatch.setenv("FEEDLINE_CACHE_DIR", str(tmp_path / "cache"))
    where = folder_of(tmp_path, {**files, "d.mp4": b"not a video"})
    command = [sys.executable, "-m", "feedline", "index", where, "--json"]
    found = [json.loads(subprocess.run(command, check=False, capture_output=True, text=True).stdout) for _ in range(2)]
    counts = [[report[name] for name in ("indexed", "known", "unreadable")] for report in found]
    assert counts == [[3, 0, 1], [0, 3, 1]]
    pack = fl.pack(folder_of(tmp_path / "cache", files), tmp_path / "pack", progress=False)
    again = subprocess.run([*command[:4], pack.uri, "--json"], check=True, capture_output=True, text=True)
    assert json.loads(again.stdout)["known"] == 3
