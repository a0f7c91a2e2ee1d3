"""Other loaders doing the same work. Runs in a process, and if need be in an environment, of its own: imports nothing of
feedline but for feedline's own turn.

    python peers.py NAME write FOLDER OUT            makes what the loader reads, where it has a format of its own
    python peers.py NAME run RECIPE BATCH THREADS EPOCHS FOLDER OUT      measures; prints one JSON document

`train` is RandomResizedCrop 224, flip, normalise, float32, shuffled; `validation` Resize 256, CenterCrop 224, normalise, in
order; `decode` every image whole, as RGB bytes, in order; `raw` every image's undecoded bytes, shuffled. What a loader
cannot do raises `Left` with the reason.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
Epoch = Callable[[], Iterable[Any]]


SHUFFLED = ("train", "raw")


class Left(Exception):  # noqa: N818 - a reason, not a mistake
    """What this loader does not do."""


def only(work: str, *possible: str, reason: str) -> None:
    """Leaves all other work out."""
    if work not in possible:
        raise Left(reason)


def groups(values: Iterable[Any], size: int) -> Iterator[list[Any]]:
    """Lists of `size`, for loaders whose batches must have one shape."""
    group: list[Any] = []
    for value in values:
        group.append(value)
        if len(group) == size:
            yield group
            group = []
    if group:
        yield group


def as_list(pairs: list[tuple[Any, int]]) -> tuple[list[Any], list[int]]:
    """A batch of images that differ in size."""
    return [image for image, _ in pairs], [label for _, label in pairs]


def files(folder: str) -> list[tuple[Path, int]]:
    """Every image with its class."""
    classes = sorted(entry.name for entry in os.scandir(folder) if entry.is_dir())
    return [(file, label) for label, name in enumerate(classes) for file in sorted(Path(folder, name).iterdir())]


def work_is_whole(work: str) -> bool:
    return work in ("decode", "raw")


def whole_image(image: Any) -> Any:
    """All pixels of a PIL image."""
    import numpy as np

    return np.asarray(image.convert("RGB"))


def recipe(name: str) -> Any:
    """torchvision's, on PIL images; a function of the image."""
    if work_is_whole(name):
        return whole_image
    import torch
    from torchvision.transforms import v2

    crops = {
        "train": [v2.RandomResizedCrop(224), v2.RandomHorizontalFlip()],
        "validation": [v2.Resize(256), v2.CenterCrop(224)],
    }
    last = [v2.PILToTensor(), v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD)]
    return v2.Compose([v2.RGB(), *crops[name], *last])


class Folder:
    """Images of a folder, by index."""

    def __init__(self, folder: str, work: str, *, tensors: str = "") -> None:
        self.files, self.recipe = files(folder), recipe(work)
        self.work, self.tensors = work, tensors

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, at: int) -> Any:
        file, label = self.files[at]
        if self.work == "raw":
            return file.read_bytes(), label
        if self.tensors:
            return self.tensor(str(file)), label
        from PIL import Image

        with Image.open(file) as image:
            return self.recipe(image), label

    def tensor(self, file: str) -> Any:
        """The same by a decoder that gives tensors."""
        if self.tensors == "torchcodec":
            from torchcodec.decoders import decode_image

            image = decode_image(file, mode="RGB")
        else:
            from torchvision.io import ImageReadMode, decode_image

            image = decode_image(file, ImageReadMode.RGB)
        if self.work == "decode":
            return image.permute(1, 2, 0)
        for step in self.recipe.transforms:
            image = image if type(step).__name__ in ("PILToTensor", "RGB") else step(image)
        return image


def torch_loader(data: Any, work: str, batch: int, threads: int) -> Epoch:
    from torch.utils.data import DataLoader

    # All worker processes that there are cores for, as its documentation advises.
    loader = DataLoader(
        data,
        batch,
        shuffle=work in SHUFFLED,
        num_workers=threads,
        persistent_workers=threads > 0,
        collate_fn=as_list if work_is_whole(work) else None,
    )
    return lambda: (images for images, _ in loader)


def torch(work: str, batch: int, threads: int, folder: str, _out: str) -> Epoch:
    return torch_loader(Folder(folder, work), work, batch, threads)


def torchvision_io(work: str, batch: int, threads: int, folder: str, _out: str) -> Epoch:
    only(work, "train", "validation", "decode", reason="nothing of it is used for undecoded bytes")
    return torch_loader(Folder(folder, work, tensors="torchvision"), work, batch, threads)


def torchcodec(work: str, batch: int, threads: int, folder: str, _out: str) -> Epoch:
    only(work, "train", "validation", "decode", reason="nothing of it is used for undecoded bytes")
    return torch_loader(Folder(folder, work, tensors="torchcodec"), work, batch, threads)


def feedline(work: str, batch: int, threads: int, folder: str, _out: str) -> Epoch:
    import feedline as fl
    from feedline import transforms as T

    last = T.Normalize(MEAN, STD)
    knobs: dict[str, Any] = {
        "train": {"transforms": [T.RandomResizedCrop(224), T.RandomHorizontalFlip(), last]},
        "validation": {"transforms": [T.Resize(256), T.CenterCrop(224), last]},
        "decode": {"dtype": "uint8", "memory_format": "channels_last"},
        "raw": {"decode": "none"},
    }[work]
    loader = fl.Loader(folder, batch_size=batch, shuffle=work in SHUFFLED, num_workers=threads, output="numpy", **knobs)
    return lambda: (one["image"] for one in loader)


def feedline_pack(work: str, batch: int, threads: int, _folder: str, out: str) -> Epoch:
    return feedline(work, batch, threads, f"{out}/pack", out)


def write_feedline_pack(folder: str, out: str) -> None:
    import feedline as fl

    fl.pack(folder, f"{out}/pack", progress=False)


def feedline_compact(work: str, batch: int, threads: int, _folder: str, out: str) -> Epoch:
    only(
        work,
        "train",
        "validation",
        "decode",
        reason="stored values are not image files; `feedline convert` restores them",
    )
    return feedline(work, batch, threads, f"{out}/compact", out)


def write_feedline_compact(folder: str, out: str) -> None:
    import feedline as fl

    fl.pack(folder, f"{out}/compact", image="compact", progress=False)


def feedline_dct(work: str, batch: int, threads: int, _folder: str, out: str) -> Epoch:
    return feedline(work, batch, threads, f"{out}/dct", out)


def write_feedline_dct(folder: str, out: str) -> None:
    import feedline as fl

    fl.pack(folder, f"{out}/dct", image="dct", progress=False)


def webdataset(work: str, batch: int, threads: int, _folder: str, out: str) -> Epoch:
    import webdataset as wds
    from torch.utils.data import DataLoader

    shards = sorted(map(str, Path(out, "wds").glob("*.tar")))
    data = wds.WebDataset(shards, shardshuffle=len(shards) if work in SHUFFLED else False)
    data = data.shuffle(1000) if work in SHUFFLED else data
    if work == "raw":
        data = data.to_tuple("jpg", "cls").batched(batch, collation_fn=as_list)
    else:
        data = data.decode("pil").to_tuple("jpg", "cls").map_tuple(recipe(work), int)
        data = data.batched(batch, collation_fn=as_list) if work == "decode" else data.batched(batch)
    loader = DataLoader(data, None, num_workers=min(threads, len(shards)))
    return lambda: (images for images, _ in loader)


def write_webdataset(folder: str, out: str) -> None:
    import webdataset as wds

    Path(out, "wds").mkdir()
    all_files = files(folder)
    per_shard = max(1, len(all_files) // 4 + 1)
    with wds.ShardWriter(f"{out}/wds/%06d.tar", maxcount=per_shard, verbose=0) as writer:
        for number, (file, label) in enumerate(all_files):
            writer.write({"__key__": f"{number:08}", "jpg": file.read_bytes(), "cls": label})


def mosaicml(work: str, batch: int, threads: int, _folder: str, out: str) -> Epoch:
    only(work, "train", "validation", "decode", reason="images are decoded when they are read")
    from streaming import StreamingDataset
    from torch.utils.data import DataLoader

    class Images(StreamingDataset):  # type: ignore[misc]
        def __getitem__(self, at: int) -> Any:
            sample = super().__getitem__(at)
            return self.recipe(sample["image"]), sample["label"]

    data = Images(local=f"{out}/mds", batch_size=batch, shuffle=work == "train")
    data.recipe = recipe(work)
    collate = as_list if work == "decode" else None
    loader = DataLoader(data, batch, num_workers=threads, persistent_workers=threads > 0, collate_fn=collate)
    return lambda: (images for images, _ in loader)


def write_mosaicml(folder: str, out: str) -> None:
    from streaming import MDSWriter

    with MDSWriter(out=f"{out}/mds", columns={"image": "jpeg", "label": "int"}) as writer:
        for file, label in files(folder):
            writer.write({"image": file.read_bytes(), "label": label})


def litdata_item(pair: tuple[Path, int]) -> dict[str, Any]:
    from PIL import Image

    return {"image": Image.open(pair[0]), "label": pair[1]}


def litdata(work: str, batch: int, threads: int, _folder: str, out: str) -> Epoch:
    only(work, "train", "validation", "decode", reason="images are decoded when they are read")
    import litdata as lit
    from torchvision.transforms.v2.functional import to_pil_image

    steps = recipe(work)

    class Images(lit.StreamingDataset):  # type: ignore[misc]
        def __getitem__(self, at: Any) -> Any:
            sample = super().__getitem__(at)
            image = sample["image"]
            return steps(image if hasattr(image, "convert") else to_pil_image(image)), sample["label"]

    data = Images(f"{out}/litdata", shuffle=work == "train")
    more = {"collate_fn": as_list} if work == "decode" else {}
    loader = lit.StreamingDataLoader(data, batch_size=batch, num_workers=threads, **more)
    return lambda: (images for images, _ in loader)


def write_litdata(folder: str, out: str) -> None:
    import litdata as lit

    lit.optimize(litdata_item, files(folder), output_dir=f"{out}/litdata", num_workers=1, chunk_bytes="64MB")


def ffcv(work: str, batch: int, threads: int, _folder: str, out: str) -> Epoch:
    only(work, "train", "validation", reason="images of one batch have one size, and are decoded when they are read")
    import numpy as np
    from ffcv.fields.basics import IntDecoder
    from ffcv.fields.rgb_image import CenterCropRGBImageDecoder, RandomResizedCropRGBImageDecoder
    from ffcv.loader import Loader, OrderOption
    from ffcv.transforms import NormalizeImage, RandomHorizontalFlip, Squeeze, ToTensor, ToTorchImage

    crop = {
        "train": [RandomResizedCropRGBImageDecoder((224, 224)), RandomHorizontalFlip()],
        "validation": [CenterCropRGBImageDecoder((224, 224), ratio=224 / 256)],
    }[work]
    last = [NormalizeImage(np.array(MEAN) * 255, np.array(STD) * 255, np.float32), ToTensor(), ToTorchImage()]
    pipelines = {"image": [*crop, *last], "label": [IntDecoder(), ToTensor(), Squeeze()]}
    order = OrderOption.RANDOM if work == "train" else OrderOption.SEQUENTIAL
    loader = Loader(
        f"{out}/data.beton",
        batch,
        num_workers=threads,
        order=order,
        os_cache=True,
        drop_last=False,
        pipelines=pipelines,
    )
    return lambda: (images for images, _ in loader)


def write_ffcv(folder: str, out: str) -> None:
    from ffcv.fields import IntField, RGBImageField
    from ffcv.writer import DatasetWriter
    from PIL import Image

    class Pairs:
        pairs = files(folder)

        def __len__(self) -> int:
            return len(self.pairs)

        def __getitem__(self, at: int) -> Any:
            file, label = self.pairs[at]
            return Image.open(file).convert("RGB"), label

    fields = {"image": RGBImageField(write_mode="jpg", jpeg_quality=90), "label": IntField()}
    DatasetWriter(f"{out}/data.beton", fields, num_workers=1).from_indexed_dataset(Pairs())


def dali(work: str, batch: int, threads: int, folder: str, _out: str) -> Epoch:
    from nvidia.dali import fn, pipeline_def, types
    from nvidia.dali.plugin.base_iterator import LastBatchPolicy
    from nvidia.dali.plugin.pytorch import DALIGenericIterator

    @pipeline_def(batch_size=batch, num_threads=threads, device_id=None)  # type: ignore[misc]
    def pipeline() -> Any:
        data, label = fn.readers.file(
            file_root=folder, random_shuffle=work in SHUFFLED, name="files", pad_last_batch=not work_is_whole(work)
        )
        if work_is_whole(work):
            return (data if work == "raw" else fn.decoders.image(data)), label
        how = {"mean": [m * 255 for m in MEAN], "std": [s * 255 for s in STD], "crop": (224, 224), "dtype": types.FLOAT}
        if work == "train":
            images = fn.decoders.image_random_crop(data, random_area=(0.08, 1.0), random_aspect_ratio=(3 / 4, 4 / 3))
            images = fn.resize(images, size=(224, 224), antialias=True)
            return fn.crop_mirror_normalize(images, mirror=fn.random.coin_flip(), **how), label
        images = fn.resize(fn.decoders.image(data), resize_shorter=256, antialias=True)
        return fn.crop_mirror_normalize(images, **how), label

    if work_is_whole(work):
        made = pipeline()
        made.build()
        size = len(files(folder))

        def whole() -> Iterator[Any]:
            for first in range(0, size, batch):
                images = made.run()[0]
                yield [images.at(at) for at in range(min(batch, size - first))]

        return whole
    loader = DALIGenericIterator(
        [pipeline()],
        ["image", "label"],
        reader_name="files",
        last_batch_policy=LastBatchPolicy.PARTIAL,
        auto_reset=True,
    )
    return lambda: (one[0]["image"] for one in loader)


def spdl(work: str, batch: int, threads: int, folder: str, _out: str) -> Epoch:
    import random

    import numpy as np
    import spdl.io
    from spdl.pipeline import PipelineBuilder

    if work == "train":
        raise Left("its filters draw no RandomResizedCrop")
    only(work, "validation", "decode", reason="it is for decoding")
    scale = "scale=256:256:force_original_aspect_ratio=increase:flags=bilinear,crop=224:224"
    mean, std = np.array(MEAN, np.float32).reshape(3, 1, 1), np.array(STD, np.float32).reshape(3, 1, 1)

    def whole(file: Path) -> Any:
        return spdl.io.to_numpy(spdl.io.load_image(str(file), filter_desc="format=pix_fmts=rgb24"))

    def decode(file: Path) -> Any:
        if work == "decode":
            return whole(file)
        packets = spdl.io.demux_image(str(file))
        frames = spdl.io.decode_packets(
            packets, filter_desc=spdl.io.get_filter_desc(packets, filter_desc=scale, pix_fmt="rgb24")
        )
        image = spdl.io.to_numpy(spdl.io.convert_frames(frames))
        return (image.reshape(224, 224, 3).transpose(2, 0, 1).astype(np.float32) / 255 - mean) / std

    all_files = [file for file, _ in files(folder)]

    def epoch() -> Iterator[Any]:
        order = random.sample(all_files, len(all_files)) if work == "train" else all_files
        builder = PipelineBuilder().add_source(order).pipe(decode, concurrency=threads, output_order="input")
        builder = builder.aggregate(batch)
        builder = builder if work == "decode" else builder.pipe(np.stack)
        pipeline = builder.add_sink(3).build(num_threads=threads + 1)
        with pipeline.auto_stop():
            yield from pipeline

    return epoch


def turboloader(work: str, batch: int, threads: int, _folder: str, out: str) -> Epoch:
    import turboloader as turbo

    only(work, "train", "validation", reason="gives images of one size")
    if work == "validation":
        raise Left("resizes to the square without keeping the aspect ratio; no CenterCrop of a resized image")

    def epoch() -> Iterator[Any]:
        loader = turbo.DataLoader(
            f"{out}/data.tar",
            batch_size=batch,
            num_workers=threads,
            shuffle=True,
            train_aug=True,
            image_size=224,
            antialias=True,
            transform=turbo.ImageNetNormalize(),
            output_format="pytorch",
        )
        for images, _ in loader:
            yield images

    return epoch


def write_turboloader(folder: str, out: str) -> None:
    import tarfile

    with tarfile.open(f"{out}/data.tar", "w") as tar:
        for number, (file, _) in enumerate(files(folder)):
            tar.add(file, f"{number:08}.jpg")


def tfdata(work: str, batch: int, threads: int, folder: str, _out: str) -> Epoch:
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(threads)
    mean, std = tf.constant(MEAN) * 255, tf.constant(STD) * 255
    names = [str(file) for file, _ in files(folder)]

    def train(name: Any) -> Any:
        data = tf.io.read_file(name)
        shape = tf.io.extract_jpeg_shape(data)
        begin, size, _ = tf.image.sample_distorted_bounding_box(
            shape,
            tf.zeros([0, 0, 4]),
            area_range=(0.08, 1.0),
            aspect_ratio_range=(3 / 4, 4 / 3),
            use_image_if_no_bounding_boxes=True,
        )
        window = tf.stack([begin[0], begin[1], size[0], size[1]])
        image = tf.image.decode_and_crop_jpeg(data, window, channels=3)
        image = tf.image.random_flip_left_right(tf.image.resize(image, (224, 224), antialias=True))
        return (image - mean) / std

    def validation(name: Any) -> Any:
        image = tf.io.decode_jpeg(tf.io.read_file(name), channels=3)
        shape = tf.cast(tf.shape(image)[:2], tf.float32)
        size = tf.cast(tf.math.floor(shape * 256 / tf.reduce_min(shape)), tf.int32)
        image = tf.image.resize(image, size, antialias=True)
        return (tf.image.resize_with_crop_or_pad(image, 224, 224) - mean) / std

    def decode(name: Any) -> Any:
        return tf.io.decode_jpeg(tf.io.read_file(name), channels=3)

    steps = {"train": train, "validation": validation, "decode": decode, "raw": tf.io.read_file}
    data = tf.data.Dataset.from_tensor_slices(names)
    data = data.shuffle(len(names)) if work in SHUFFLED else data
    options = tf.data.Options()
    options.threading.private_threadpool_size = threads
    data = data.map(steps[work], num_parallel_calls=threads)
    if work_is_whole(work):
        data = data.prefetch(2 * batch).with_options(options)
        return lambda: groups((one.numpy() for one in data), batch)
    data = data.batch(batch).prefetch(2).with_options(options)
    return lambda: (one.numpy() for one in data)


def grain(work: str, batch: int, threads: int, folder: str, _out: str) -> Epoch:
    import grain.python as pg

    data = pg.MapDataset.source(Folder(folder, work))
    data = data.shuffle(seed=0) if work in SHUFFLED else data
    data = data.map(lambda pair: pair[0] if work_is_whole(work) else pair[0].numpy()).to_iter_dataset(
        pg.ReadOptions(num_threads=threads, prefetch_buffer_size=64)
    )
    if work_is_whole(work):
        return lambda: groups(data, batch)
    return lambda: iter(data.batch(batch))


def datago(work: str, batch: int, threads: int, folder: str, _out: str) -> Epoch:
    only(work, "decode", reason="resizes to sizes of its own; it has no such crop, and gives no undecoded bytes")
    os.environ["DATAGO_MAX_TASKS"] = str(threads)
    from datago import DatagoClient

    size = len(files(folder))
    config = {
        "source_type": "file",
        "source_config": {"root_path": folder, "random_sampling": False, "rank": 0, "world_size": 1},
        "image_config": {"crop_and_resize": False, "image_to_rgb8": True},
        "prefetch_buffer_size": 2 * batch,
        "samples_buffer_size": 2 * batch,
        "limit": size,
    }

    def images() -> Iterator[Any]:
        client = DatagoClient(json.dumps(config))
        for _ in range(size):
            yield client.get_sample().image.to_numpy_array()

    return lambda: groups(images(), batch)


WRITERS: dict[str, Callable[[str, str], None]] = {
    "feedline-pack": write_feedline_pack,
    "feedline-compact": write_feedline_compact,
    "feedline-dct": write_feedline_dct,
    "webdataset": write_webdataset,
    "mosaicml": write_mosaicml,
    "litdata": write_litdata,
    "ffcv": write_ffcv,
    "turboloader": write_turboloader,
}
PEERS: dict[str, tuple[Callable[..., Epoch], str, str]] = {
    "feedline": (feedline, "feedline", "feedline"),
    "feedline-pack": (feedline_pack, "feedline", "feedline"),
    "feedline-compact": (feedline_compact, "feedline", "feedline"),
    "feedline-dct": (feedline_dct, "feedline", "feedline"),
    "torch": (torch, "torch", "torch"),
    "torchvision-io": (torchvision_io, "torchvision", "torchvision"),
    "torchcodec": (torchcodec, "torchcodec", "torchcodec"),
    "ffcv": (ffcv, "ffcv", "ffcv"),
    "dali": (dali, "nvidia.dali", "nvidia-dali-cuda120"),
    "webdataset": (webdataset, "webdataset", "webdataset"),
    "litdata": (litdata, "litdata", "litdata"),
    "mosaicml": (mosaicml, "streaming", "mosaicml-streaming"),
    "spdl": (spdl, "spdl.io", "spdl-io"),
    "turboloader": (turboloader, "turboloader", "turboloader"),
    "tfdata": (tfdata, "tensorflow", "tensorflow-cpu"),
    "grain": (grain, "grain", "grain"),
    "datago": (datago, "datago", "datago"),
}
"""By name: what does the work, what is imported for it, and the package that brings it."""


def cpu() -> float:
    """CPU seconds of this process, of its finished children and of those that still run."""
    both = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(use.ru_utime + use.ru_stime for use in both) + sum(_used(child) for child in descendants())


def descendants() -> list[int]:
    """Processes below this one."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir() if Path("/proc").is_dir() else ():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError):
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                parents.setdefault(parent, []).append(int(entry.name))
    found, unread = [], [os.getpid()]
    while unread:
        children = parents.get(unread.pop(), [])
        found += children
        unread += children
    return found


def _used(process: int) -> float:
    with contextlib.suppress(OSError, ValueError, IndexError):
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return 0.0


def _resident(process: int) -> int:
    """Memory that is this process's share: pages that several have count in parts."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0


class Memory(threading.Thread):
    """The most memory that this process and its children have at once."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.most, self.over = 0, threading.Event()

    def run(self) -> None:
        while not self.over.wait(0.1):
            self.measure()

    def measure(self) -> None:
        """Notes what is used now."""
        self.most = max(self.most, sum(map(_resident, [os.getpid(), *descendants()])))


def measure(epoch: Epoch, epochs: int) -> dict[str, Any]:
    """Seconds, CPU seconds and images of each epoch, and the first batch's pixels in a few numbers."""
    memory = Memory()
    memory.start()
    found: list[dict[str, float]] = []
    image: dict[str, Any] = {}
    for _ in range(epochs):
        begun, used, images, first = time.perf_counter(), cpu(), 0, 0.0
        for batch in epoch():
            if not images:
                first = time.perf_counter() - begun
                image = image or first_image_of(batch)
            images += len(batch)
        found.append({"images": images, "seconds": time.perf_counter() - begun, "cpu": cpu() - used, "first": first})
    memory.over.set()
    # A short run may end before the thread has measured.
    memory.measure()
    return {"epochs": found, "memory": memory.most, "first_image": image}


def first_image_of(batch: Any) -> dict[str, Any]:
    """The form of a batch, and a small thumbnail of its first image for comparing."""
    import numpy as np

    if not hasattr(batch, "ndim"):
        return thumbnail(batch[0])

    array = np.asarray(batch.numpy() if hasattr(batch, "numpy") else batch, np.float32)
    image = array[0] if array.shape[1] == 3 else np.moveaxis(array[0], -1, 0)  # noqa: PLR2004 - colours
    return {
        "shape": list(array.shape[1:]),
        "image": [round(float(value), 3) for value in image[:, ::8, ::8].reshape(-1)],
    }


def thumbnail(first: Any) -> dict[str, Any]:
    """The same of a batch whose images differ in size. Undecoded bytes have no pixels."""
    import numpy as np

    array = np.asarray(first)
    if array.ndim != 3:  # noqa: PLR2004 - height, width, colours
        return {"shape": [], "image": []}
    small = array[::8, ::8].reshape(-1) / 255
    return {"shape": list(array.shape), "image": [round(float(value), 3) for value in small]}


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print must not get into the answer
    name, what = sys.argv[1], sys.argv[2]
    # LitData and Streaming keep things in the temporary folder, and clear it.
    tempfile.tempdir = os.environ["TMPDIR"] = tempfile.mkdtemp(prefix="peer-")
    if what == "write":
        if name in WRITERS:
            WRITERS[name](sys.argv[3], sys.argv[4])
        return
    work, batch, threads, epochs, folder, out = sys.argv[3], *map(int, sys.argv[4:7]), sys.argv[7], sys.argv[8]
    try:
        begun = time.perf_counter()
        epoch = PEERS[name][0](work, batch, threads, folder, out)
        result = {"open": time.perf_counter() - begun, **measure(epoch, epochs)}
    except Left as reason:
        result = {"left": str(reason)}
    answers.write(json.dumps(result) + "\n")
    answers.flush()
    answers.close()
    # Threads and processes of some loaders do not end by themselves.
    os._exit(0)


if __name__ == "__main__":
    main()
