"""Video beside PyAV: frames by number equal those of a sequential decode."""

from __future__ import annotations

import io
import json
from fractions import Fraction

import av
import feedline as fl
import numpy as np
import pytest
from feedline import transforms as T
from feedline.errors import OptionError, SampleError


def frame_pixels(number, width, height):
    """A frame that says its number: a gradient that moves, and a bright bar."""
    x, y = np.meshgrid(np.arange(width), np.arange(height))
    frame = np.stack([(x * 2 + number * 5) % 256, (y * 3 + number * 2) % 256, (x + y) % 256], axis=2).astype(np.uint8)
    frame[:, number * 7 % width] = 255
    return frame


def encoded(frames=40, size=(96, 64), codec="libx264", kind="mp4", rate=25, times=None, **options):
    """A clip that PyAV writes."""
    out = io.BytesIO()
    with av.open(out, "w", format=kind) as file:
        stream = file.add_stream(codec, rate=rate)
        stream.width, stream.height = size
        stream.pix_fmt = options.pop("pix_fmt", "yuv420p")
        stream.options = {name: str(value) for name, value in options.items()}
        if times is not None:
            stream.codec_context.time_base = Fraction(1, 1000)
        for number in range(frames):
            frame = av.VideoFrame.from_ndarray(frame_pixels(number, *size), format="rgb24")
            frame.pts = number if times is None else times[number]
            frame.time_base = Fraction(1, rate) if times is None else Fraction(1, 1000)
            file.mux(stream.encode(frame))
        file.mux(stream.encode())
    return out.getvalue()


def sequential(content):
    """All frames and their times, decoded one after the other by PyAV."""
    with av.open(io.BytesIO(content)) as file:
        frames = list(file.decode(video=0))
        return np.stack([frame.to_ndarray(format="rgb24") for frame in frames]), np.array([f.time for f in frames])


def folder_of(tmp_path, files):
    where = tmp_path / "videos"
    where.mkdir()
    for name, content in files.items():
        (where / name).write_bytes(content)
    return where


def can_decode(content):
    """Whether the libraries of FFmpeg are there: without them, feedline says so."""
    try:
        fl._feedline.Video(content).frames([0])
    except fl.Error as error:
        return "no decoder" not in str(error)
    return True


@pytest.fixture(scope="module")
def plain():
    content = encoded()
    assert can_decode(content), "FFmpeg's libraries are not there (make setup-test)"
    return content


def near(ours, theirs):
    """Within two levels, except where swscale takes its own way at the edges of colours."""
    apart = np.abs(ours.astype(int) - theirs.astype(int))
    return apart.max() <= 4 and (apart <= 2).mean() > 0.99


KINDS = {
    "h264 with b-frames": {"g": 12, "bf": 3},
    "h264 open groups": {"g": 10, "bf": 3, "x264-params": "open-gop=1"},
    "h264 one key frame": {"g": 400},
    "h264 odd size": {"size": (98, 66)},
    "h264 4:4:4": {"pix_fmt": "yuv444p"},
    "h264 10 bits": {"pix_fmt": "yuv420p10le"},
    "h264 in mkv": {"kind": "matroska", "g": 12, "bf": 2},
    "vp9 in webm": {"codec": "libvpx-vp9", "kind": "webm", "g": 10, "frames": 25},
    "vp8 in webm": {"codec": "libvpx", "kind": "webm", "g": 10, "frames": 25},
    "hevc": {"codec": "libx265", "g": 12, "x265-params": "log-level=none"},
    "mpeg4": {"codec": "mpeg4", "g": 12},
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.usefixtures("plain")
def test_random_frames_equal_a_sequential_decode(kind):
    try:
        content = encoded(**KINDS[kind])
    except (av.error.FFmpegError, ValueError) as error:
        pytest.skip(f"PyAV does not write it: {error}")
    theirs, times = sequential(content)
    video = fl._feedline.Video(content)
    assert len(video) == len(theirs)
    assert np.allclose(video.times, times, atol=2e-3)
    draw = np.random.default_rng(0)
    for _ in range(60):
        wanted = draw.integers(0, len(theirs), draw.integers(1, 6)).tolist()
        ours = video.frames(wanted).astype(int)
        # swscale blends the colours of 10-bit neighbours, so only the frame itself is compared there.
        assert "10 bits" in kind or near(ours, theirs[wanted]), wanted
        for frame, number in zip(ours, wanted, strict=True):
            assert np.abs(theirs - frame).mean(axis=(1, 2, 3)).argmin() == number


def test_a_folder_of_videos(tmp_path, plain):
    ds = fl.open(folder_of(tmp_path, {"a.mp4": plain, "b.mp4": encoded(30, g=7)}))
    assert ds.schema["video"] == "video"
    assert ds[0]["video"] == plain
    video = ds.decoded()[0]["video"]
    theirs, times = sequential(plain)
    assert (len(video), video.fps, round(video.duration, 3)) == (40, 25.0, 1.6)
    assert near(video.frames([3, 1, 39]), theirs[[3, 1, 39]])
    ops = {"video": [T.Clip(8, stride=3, policy="start"), T.CenterCrop(48)]}
    with fl.Loader(ds, transforms=ops, batch_size=2, output="numpy", dtype="uint8") as loader:
        (batch,) = list(loader)
    assert batch["video"].shape == (2, 8, 3, 48, 48)
    assert np.allclose(batch["video.times"][0], times[:24:3], atol=1e-6)
    middle = theirs[:24:3, 8:56, 24:72].transpose(0, 3, 1, 2)
    assert near(batch["video"][0], middle)


@pytest.mark.usefixtures("plain")
def test_one_draw_for_all_frames_and_resume(tmp_path):
    ds = fl.open(folder_of(tmp_path, {f"{n}.mp4": encoded(30, g=5 + n) for n in range(4)}))
    ops = {"video": [T.Clip(6, 2), T.RandomResizedCrop(32), T.RandomHorizontalFlip(), T.Normalize.imagenet()]}
    knobs = {"transforms": ops, "batch_size": 1, "shuffle": True, "seed": 2, "output": "numpy"}
    whole, states = [], []
    with fl.Loader(ds, num_workers=1, **knobs) as loader:
        for batch in loader:
            assert batch["video"].shape == (1, 6, 3, 32, 32)
            whole.append(batch)
            states.append(json.dumps(loader.state_dict()))
        second = next(iter(loader))
    assert not np.array_equal(second["video"], whole[0]["video"])
    for at, state in enumerate(states[:-1]):
        with fl.Loader(ds, num_workers=2, **knobs) as loader:
            loader.load_state_dict(json.loads(state))
            for ours, batch in zip(whole[at + 1 :], loader, strict=True):
                assert np.array_equal(ours["video"], batch["video"])
                assert np.array_equal(ours["video.times"], batch["video.times"])
    # The same still image in every frame: one draw gives one result.
    still = encoded(1, g=1)
    (tmp_path / "one").mkdir()
    ds = fl.open(folder_of(tmp_path / "one", {"a.mp4": still}))
    with fl.Loader(ds, transforms=ops, output="numpy") as loader:
        clip = next(iter(loader))["video"][0]
    assert all(np.array_equal(clip[0], frame) for frame in clip)


@pytest.mark.usefixtures("plain")
def test_several_clips_of_a_video(tmp_path, plain):
    ds = fl.open(folder_of(tmp_path, {"0.mp4": plain}))
    every = ds.decoded()[0]["video"].frames(list(range(40)))

    def clips(**options):
        ops = {"video": [T.Clip(4, 2, clips=3, **options)]}
        with fl.Loader(ds, transforms=ops, batch_size=1, output="numpy", dtype="uint8", seed=5) as loader:
            return next(iter(loader))

    batch = clips(policy="regular")
    assert batch["video"][0].shape == (3, 4, 3, 64, 96)
    starts = [0, 16, 33]
    for clip, times, start in zip(batch["video"][0], batch["video.times"][0], starts, strict=True):
        assert np.array_equal(clip.transpose(0, 2, 3, 1), every[start : start + 7 : 2])
        assert np.allclose(times, (start + 2 * np.arange(4)) / 25)
    drawn = clips(policy="random")["video.times"][0]
    assert drawn.shape == (3, 4)
    assert len({times[0] for times in drawn.tolist()}) > 1
    ops = {"video": [T.Clip(4, clips=2), T.Resize((8, 8))]}
    with fl.Loader(ds, transforms=ops, batch_size=1, output="numpy") as loader:
        batch = next(iter(loader))
        assert batch["video"].shape == (1, 2, 4, 3, 8, 8)
        assert batch["video.times"].shape == (1, 2, 4)
    with pytest.raises(OptionError, match="clips"):
        T.Clip(4, policy="uniform", clips=2)


def test_variable_rates_are_sampled_by_time(tmp_path):
    times = np.cumsum([0, *np.random.default_rng(1).integers(15, 120, 39)]).tolist()
    content = encoded(times=times, g=8, bf=2)
    _, real = sequential(content)
    ds = fl.open(folder_of(tmp_path, {"a.mp4": content}))
    ops = {"video": [T.Clip(10, policy="start", fps=10), T.Resize((16, 16))]}
    with fl.Loader(ds, transforms=ops, output="numpy") as loader:
        found = next(iter(loader))["video.times"][0]
    shown = [real[real <= real[0] + at / 10 + 1e-6].max() for at in range(10)]
    assert np.allclose(found, shown, atol=1e-3)


def test_all_frames_are_ragged(tmp_path, plain):
    ds = fl.open(folder_of(tmp_path, {"a.mp4": plain, "b.mp4": encoded(7)}))
    with fl.Loader(ds, transforms={"video": [T.Clip(1, 2, "all"), T.Resize((8, 8))]}, output="numpy") as loader:
        (batch,) = list(loader)
    assert [clip.shape for clip in batch["video"]] == [(20, 3, 8, 8), (4, 3, 8, 8)]
    assert [len(times) for times in batch["video.times"]] == [20, 4]


def test_damaged_files_are_named(tmp_path, plain, capfd):
    middle = len(plain) // 3
    files = {"0.mp4": plain, "1.mp4": plain[:-200], "2.mp4": b"nothing", "3.mkv": encoded(kind="matroska")[:900]}
    files["4.mp4"] = plain[:middle] + bytes(200) + plain[middle + 200 :]
    ds = fl.open(folder_of(tmp_path, files))
    ops = {"video": [T.Clip(40, policy="start"), T.Resize((8, 8))]}
    with fl.Loader(ds, transforms=ops, on_error="skip", batch_size=5, output="numpy") as loader:
        (batch,) = list(loader)
        assert batch["index"].tolist() == [0]
        assert len(loader.errors()) == 4
    with pytest.raises(SampleError, match="1.mp4"):
        list(fl.Loader(ds, transforms=ops, batch_size=5))
    assert "h264" not in capfd.readouterr().err, "the decoder's own messages"


def joined(*contents, kind="webm"):
    """One file with the packets of several, one after the other, though their frames differ in size."""
    out, began = io.BytesIO(), 0
    with av.open(out, "w", format=kind) as file:
        stream = None
        for content in contents:
            with av.open(io.BytesIO(content)) as part:
                stream = stream or file.add_stream_from_template(part.streams.video[0])
                packets = [packet for packet in part.demux(video=0) if packet.dts is not None]
                for packet in packets:
                    packet.pts, packet.dts = packet.pts + began, packet.dts + began
                    packet.stream = stream
                    file.mux(packet)
                began += int(part.duration / av.time_base / packets[0].time_base)
    return out.getvalue()


@pytest.mark.usefixtures("plain")
def test_frames_that_change_their_size_are_refused(tmp_path):
    sizes = (96, 64), (64, 48)
    content = joined(*(encoded(10, size, "libvpx-vp9", "webm", g=10) for size in sizes))
    video = fl._feedline.Video(content)
    assert len(video) == 20
    assert video.frames([3, 0]).shape == (2, 64, 96, 3)
    assert video.frames([13, 19]).shape == (2, 48, 64, 3)
    with pytest.raises(fl.Error, match="a frame of 64x48 after frames of 96x64"):
        video.frames([3, 13])
    ds = fl.open(folder_of(tmp_path, {"a.webm": content}))
    clips = {
        frames: fl.Loader(ds, transforms={"video": [T.Clip(frames, policy="start")]}, batch_size=1, output="numpy")
        for frames in (10, 11)
    }
    assert next(iter(clips[10]))["video"][0].shape == (10, 3, 64, 96)
    with pytest.raises(SampleError, match=r"a\.webm.*a frame of 64x48 in a video of 96x64"):
        next(iter(clips[11]))


def test_every_cut_of_a_file_is_an_error_or_a_video(plain):
    for content in (plain, encoded(6, kind="matroska")):
        for length in range(0, len(content), max(1, len(content) // 60)):
            try:
                video = fl._feedline.Video(content[:length])
                video.frames(list(range(len(video))))
            except fl.Error:
                continue


def test_impossible_settings_are_refused(tmp_path, plain):
    ds = fl.open(folder_of(tmp_path, {"a.mp4": plain}))
    for knobs, words in [
        ({}, "T.Clip"),
        ({"transforms": {"video": [T.CenterCrop(8)]}}, "Clip"),
        ({"transforms": {"video": [T.Clip(4), T.Clip(4)]}}, "Clip"),
        ({"transforms": {"video": [T.Clip(4), T.FiveCrop(8)]}}, "several crops"),
        ({"transforms": {"video": [T.Clip(4)]}, "decode": "none"}, "none"),
    ]:
        with pytest.raises(OptionError, match=words):
            fl.Loader(ds, **knobs)
    with fl.Loader(ds, decode="none", output="numpy") as loader:
        assert bytes(next(iter(loader))["video"][0]) == plain
