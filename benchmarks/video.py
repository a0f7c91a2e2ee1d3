"""Random clips of videos beside torchcodec, PyAV and decord, in one run.

    python benchmarks/video.py FOLDER [--clips 30] [--frames 16] [--rounds 3] [--seeks 1000] [--epochs 50] [--write NAME]

Every library opens each file once and keeps its decoder; then it decodes the same random clips of consecutive frames to RGB
bytes. One thread each, libraries in turns, the best round of each counts, by CPU time and by wall time. feedline runs
with FFmpeg's libraries and with its own decoders. `--seeks` compares single random frames with PyAV's sequential
decode; `--epochs` runs a loader over the files and tells its memory after the first and after the last epoch.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import resource
import time
from collections.abc import Callable
from pathlib import Path

import av
import feedline as fl
import numpy as np
from feedline import transforms as T

Decode = Callable[[list[int]], np.ndarray]


def feedline(decoder: str) -> Callable[[Path], Decode]:
    """feedline with one kind of decoder."""

    def opened(path: Path) -> Decode:
        os.environ["FEEDLINE_VIDEO_DECODER"] = decoder
        video = fl._feedline.Video(path.read_bytes())  # noqa: SLF001 - what `decoded()` returns
        video.frames([0])  # The decoder is chosen when the first frame is decoded.
        return video.frames

    return opened


def torchcodec(path: Path) -> Decode:
    """torchcodec, which scans the file when it is opened."""
    from torchcodec.decoders import VideoDecoder

    decoder = VideoDecoder(str(path), num_ffmpeg_threads=1, dimension_order="NHWC", seek_mode="exact")
    return lambda wanted: decoder.get_frames_at(wanted).data.numpy()


def decord(path: Path) -> Decode:
    """decord."""
    from decord import VideoReader

    reader = VideoReader(str(path), num_threads=1)
    return lambda wanted: reader.get_batch(wanted).asnumpy()


def pyav(path: Path) -> Decode:
    """PyAV as its users seek: back to the key frame before the first time, then on until the last."""
    container = av.open(str(path))
    stream = container.streams.video[0]
    stream.thread_type, stream.codec_context.thread_count = "NONE", 1
    times = sorted(packet.pts for packet in container.demux(stream) if packet.pts is not None)

    def clip(wanted: list[int]) -> np.ndarray:
        missing = {times[number]: at for at, number in enumerate(wanted)}
        found: list[np.ndarray | None] = [None] * len(wanted)
        container.seek(min(missing), stream=stream, backward=True)
        for frame in container.decode(stream):
            if frame.pts in missing:
                found[missing.pop(frame.pts)] = frame.to_ndarray(format="rgb24")
            if not missing:
                break
        return np.stack([frame for frame in found if frame is not None])

    return clip


LIBRARIES: dict[str, Callable[[Path], Decode]] = {
    "feedline, FFmpeg": feedline("ffmpeg"),
    "feedline, built in": feedline("built-in"),
    "torchcodec": torchcodec,
    "decord": decord,
    "PyAV": pyav,
}


def frame_count(path: Path) -> int:
    """Number of frames by PyAV's demuxer."""
    with av.open(str(path)) as file:
        return sum(packet.size > 0 for packet in file.demux(video=0))


def timed(decode: Decode, clips: list[list[int]]) -> tuple[float, float]:
    """CPU and wall seconds of all clips."""
    cpu, wall = time.process_time(), time.perf_counter()
    for clip in clips:
        decode(clip)
    return time.process_time() - cpu, time.perf_counter() - wall


def measured(path: Path, args: argparse.Namespace) -> dict[str, dict[str, float | str]]:
    """Milliseconds per clip of every library."""
    draw, count = np.random.default_rng(0), frame_count(path)
    starts = draw.integers(0, count - args.frames + 1, args.clips)
    clips = [list(range(start, start + args.frames)) for start in starts.tolist()]
    opened, result = {}, {}
    for name, library in LIBRARIES.items():
        if name in ("torchcodec", "decord") and importlib.util.find_spec(name) is None:
            result[name] = {"why": "not installed"}
            continue
        try:
            decode = library(path)
            decode(clips[0])
            opened[name] = decode
        except Exception as error:  # noqa: BLE001 - the table says which library cannot do what
            result[name] = {"why": str(error).splitlines()[0][:80]}
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in opened}
    for _ in range(args.rounds):
        for name, decode in opened.items():
            times[name].append(timed(decode, clips))
    for name, rounds in times.items():
        cpu, wall = (min(each[at] for each in rounds) / len(clips) * 1e3 for at in (0, 1))
        result[name] = {"cpu_ms": round(cpu, 2), "wall_ms": round(wall, 2)}
    return {name: result[name] for name in LIBRARIES}


def by_formula(frame: av.VideoFrame) -> np.ndarray:
    """The standard's formula in floats on PyAV's planes of 8 bits; every pixel has the colour of its block."""
    planes = []
    for plane in frame.planes[:3]:
        rows = (
            np.frombuffer(plane, np.uint8).reshape(plane.height, plane.line_size)[:, : plane.width].astype(np.float64)
        )
        rows = rows.repeat(-(-frame.height // plane.height), 0).repeat(-(-frame.width // plane.width), 1)
        planes.append(rows[: frame.height, : frame.width])
    kr, kb = {1: (0.2126, 0.0722), 9: (0.2627, 0.0593)}.get(int(frame.colorspace), (0.299, 0.114))
    full = int(frame.color_range) == 2
    bright = planes[0] if full else (planes[0] - 16) * 255 / 219
    u, v = ((plane - 128) * (1 if full else 255 / 224) for plane in planes[1:])
    red, blue = bright + 2 * (1 - kr) * v, bright + 2 * (1 - kb) * u
    green = (bright - kr * red - kb * blue) / (1 - kr - kb)
    return np.stack([red, green, blue], -1).clip(0, 255)


def seeks(path: Path, count: int) -> dict[str, float]:
    """Single random frames, forwards and backwards, beside a sequential decode.

    `from_formula` is the largest difference from the formula on PyAV's planes: up to 0.52 is rounding, so the planes are
    the same. The other differences are those from swscale's RGB, which rounds more coarsely.
    """
    with av.open(str(path)) as file:
        frames = list(file.decode(video=0))
    theirs = [frame.to_ndarray(format="rgb24") for frame in frames]
    worst, apart, wrong, rounding = 0, 0.0, 0, 0.0
    for decoder in ("ffmpeg", "built-in"):
        try:
            decode = feedline(decoder)(path)
        except fl.Error:
            continue
        for number in np.random.default_rng(1).integers(0, len(theirs), count).tolist():
            ours = decode([number])[0].astype(np.int16)
            difference = np.abs(ours - theirs[number])
            rounding = max(rounding, float(np.abs(ours - by_formula(frames[number])).max()))
            worst, apart = max(worst, int(difference.max())), max(apart, float((difference > 2).mean()))
            near = [n for n in (number - 1, number + 1) if 0 <= n < len(theirs)]
            wrong += any(np.abs(ours - theirs[n]).mean() < difference.mean() for n in near)
    return {
        "seeks": count,
        "frames": len(theirs),
        "wrong": wrong,
        "from_formula": round(rounding, 3),
        "from_swscale": worst,
        "share_above_2": apart,
    }


def memory(folder: Path, epochs: int) -> dict[str, float]:
    """Resident memory of a loader after its second and its last epoch, in MiB."""
    ops = {"video": [T.Clip(16), T.RandomResizedCrop(112), T.Normalize.imagenet()]}
    found = []
    with fl.Loader(folder, transforms=ops, batch_size=2, shuffle=True, num_workers=2, output="numpy") as loader:
        for _ in range(epochs):
            for _ in loader:
                pass
            pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
            found.append(pages * resource.getpagesize() / 2**20)
    return {"epochs": epochs, "second_mib": round(found[1], 1), "last_mib": round(found[-1], 1)}


def table(files: dict[str, dict[str, dict[str, float | str]]]) -> str:
    """The result as a page."""
    lines = ["| file | library | CPU ms per clip | wall ms per clip | feedline with FFmpeg is faster by (CPU) |"]
    lines.append("|---|---|---:|---:|---:|")
    for file, rows in files.items():
        ours = rows["feedline, FFmpeg"].get("cpu_ms")
        for name, row in rows.items():
            if "why" in row:
                lines.append(f"| {file} | {name} | {row['why']} | | |")
                continue
            ratio = f"{float(row['cpu_ms']) / float(ours):.2f} x" if ours else ""
            lines.append(f"| {file} | {name} | {row['cpu_ms']} | {row['wall_ms']} | {ratio} |")
    return "\n".join(lines)


def main() -> None:
    """Runs the comparison."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--clips", type=int, default=30)
    parser.add_argument("--frames", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=3, help="0 measures nothing")
    parser.add_argument("--seeks", type=int, default=0)
    parser.add_argument("--epochs", type=int, default=0)
    parser.add_argument("--write", type=Path, help="writes NAME.json and NAME.md")
    args = parser.parse_args()
    paths = sorted(path for path in args.folder.iterdir() if path.suffix in {".mp4", ".mkv", ".webm", ".mov"})
    result: dict[str, object] = {"files": {path.name: measured(path, args) for path in paths if args.rounds}}
    print(table(result["files"]))  # type: ignore[arg-type]
    if args.seeks:
        result["seeks"] = {path.name: seeks(path, args.seeks) for path in paths}
        print(json.dumps(result["seeks"], indent=1))
    os.environ["FEEDLINE_VIDEO_DECODER"] = "auto"
    if args.epochs:
        result["memory"] = memory(args.folder, args.epochs)
        print(json.dumps(result["memory"]))
    if args.write:
        args.write.with_suffix(".json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
        about = (
            f"`benchmarks/video.py`: {args.clips} random clips of {args.frames} frames per file, one thread each.\n\n"
        )
        args.write.with_suffix(".md").write_text(
            f"# Video clips\n\n{about}{table(result['files'])}\n", encoding="utf-8"
        )  # type: ignore[arg-type]


if __name__ == "__main__":
    main()
