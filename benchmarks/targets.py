"""Segmentation, DINO and mixing beside torch's DataLoader with torchvision v2: samples per CPU-second, in one run.

    python benchmarks/targets.py FOLDER_OF_JPEGS [--images 200] [--rounds 3]

Masks for the photos are made here: regions of similar brightness, as palette PNGs. Both sides read the same files, on one
thread each; CPU time is that of the process. Every figure is the best of some rounds, taken in turn.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import tempfile
import time
from pathlib import Path

import feedline as fl
import numpy as np
import torch
from feedline import recipes
from feedline import transforms as T
from PIL import Image, ImageFilter
from torchvision import tv_tensors
from torchvision.transforms import InterpolationMode, v2

MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


def make_data(source: Path, count: int, root: Path) -> int:
    for folder in ("images", "masks", "classes/one"):
        (root / folder).mkdir(parents=True)
    files = sorted(p for p in source.rglob("*") if p.suffix.lower() in (".jpg", ".jpeg"))[:count]
    palette = np.random.default_rng(0).integers(0, 255, 768).tolist()
    for number, file in enumerate(files):
        shutil.copy(file, root / "images" / f"{number:05d}.jpg")
        shutil.copy(file, root / "classes" / "one" / f"{number:05d}.jpg")
        grey = Image.open(file).convert("L").filter(ImageFilter.GaussianBlur(6))
        mask = Image.fromarray(np.asarray(grey) // 13, "P")
        mask.putpalette(palette)
        mask.save(root / "masks" / f"{number:05d}.png")
    return len(files)


class Pairs(torch.utils.data.Dataset):
    def __init__(self, root, transform):
        self.names = sorted(p.stem for p in (root / "images").iterdir())
        self.root, self.transform = root, transform

    def __len__(self):
        return len(self.names)

    def __getitem__(self, index):
        name = self.names[index]
        image = tv_tensors.Image(
            v2.functional.pil_to_tensor(Image.open(self.root / "images" / f"{name}.jpg").convert("RGB"))
        )
        mask = tv_tensors.Mask(torch.from_numpy(np.array(Image.open(self.root / "masks" / f"{name}.png"))))
        image, mask = self.transform(image, mask)
        return image, mask.long()


class Photos(torch.utils.data.Dataset):
    def __init__(self, root, transform):
        self.names = sorted((root / "images").iterdir())
        self.transform = transform

    def __len__(self):
        return len(self.names)

    def __getitem__(self, index):
        return self.transform(Image.open(self.names[index]).convert("RGB"))


def pairs_loader(root, size):
    finish = [v2.ToDtype({tv_tensors.Image: torch.float32, "others": None}, scale=True), v2.Normalize(MEAN, STD)]
    crop = [v2.RandomResizedCrop(size, scale=(0.25, 1.0), antialias=True), v2.RandomHorizontalFlip()]
    jitter = [v2.ColorJitter(0.4, 0.4, 0.4, 0.1)]
    return torch.utils.data.DataLoader(Pairs(root, v2.Compose([*crop, *jitter, *finish])), 16)


def our_pairs(root, size):
    ops = [T.RandomResizedCrop(size, scale=(0.25, 1.0)), T.RandomHorizontalFlip(), T.ColorJitter(0.4, 0.4, 0.4, 0.1)]
    ds = fl.open({"image": root / "images", "mask": root / "masks"})
    fields, transforms = ["image", "mask"], {"image": [*ops, T.Normalize(MEAN, STD)]}
    return fl.Loader(ds, batch_size=16, num_workers=1, fields=fields, transforms=transforms, targets={"mask": T.Mask()})


class Dino:
    """main_dino.py's DataAugmentationDINO, on PIL images."""

    def __init__(self, local_crops=6):
        jitter = [v2.RandomApply([v2.ColorJitter(0.4, 0.4, 0.2, 0.1)], p=0.8), v2.RandomGrayscale(0.2)]
        finish = [v2.ToImage(), v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD)]
        cubic = InterpolationMode.BICUBIC

        def blur(image, p):
            if torch.rand(1).item() >= p:
                return image
            return image.filter(ImageFilter.GaussianBlur(radius=0.1 + 1.9 * torch.rand(1).item()))

        def view(size, scale, p, solarize):
            crop = [v2.RandomResizedCrop(size, scale=scale, interpolation=cubic), v2.RandomHorizontalFlip()]
            extra = [v2.RandomSolarize(128, 0.2)] if solarize else []
            return v2.Compose([*crop, *jitter, v2.Lambda(lambda image: blur(image, p)), *extra, *finish])

        self.views = [view(224, (0.4, 1.0), 1.0, solarize=False), view(224, (0.4, 1.0), 0.1, solarize=True)]
        self.views += [view(96, (0.05, 0.4), 0.5, solarize=False) for _ in range(local_crops)]

    def __call__(self, image):
        return [view(image) for view in self.views]


def our_images(root, transforms, **more):
    ds = fl.open(root / "classes")
    return fl.Loader(ds, batch_size=16, num_workers=1, transforms={"image": transforms}, **more)


def cpu_seconds(loader) -> tuple[float, int]:
    seen, begun = 0, time.process_time()
    for batch in loader:
        first = next(iter(batch.values())) if isinstance(batch, dict) else batch[0]
        first = next(iter(first.values())) if isinstance(first, dict) else first
        seen += len(first)
    return time.process_time() - begun, seen


def best(loaders: dict[str, object], rounds: int) -> dict[str, float]:
    """Samples per CPU-second of each, the best of rounds in turn."""
    rates = dict.fromkeys(loaders, 0.0)
    for _ in range(rounds):
        for name, loader in loaders.items():
            seconds, seen = cpu_seconds(loader)
            rates[name] = max(rates[name], seen / seconds)
    return rates


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path)
    parser.add_argument("--images", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=["segmentation", "dino", "mixing"])
    args = parser.parse_args()
    torch.set_num_threads(1)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        count = make_data(args.source, args.images, root)
        print(f"{count} photos with masks, one thread, samples per CPU-second")
        if args.only in (None, "segmentation"):
            rates = best({"torch": pairs_loader(root, 512), "feedline": our_pairs(root, 512)}, args.rounds)
            found["segmentation 512"] = {**rates, "ratio": rates["feedline"] / rates["torch"]}
        if args.only in (None, "dino"):
            theirs = torch.utils.data.DataLoader(Photos(root, Dino()), 16)
            rates = best({"torch": theirs, "feedline": our_images(root, recipes.dino())}, args.rounds)
            found["dino 2x224 + 6x96"] = {**rates, "ratio": rates["feedline"] / rates["torch"]}
        if args.only in (None, "mixing"):
            train = recipes.imagenet_train(224)
            loaders = {"plain": our_images(root, train)}
            for per in ("batch", "pair"):
                loaders[f"mixup {per}"] = our_images(root, train, batch_transforms=[T.MixUp(0.4, 1000, per=per)])
                loaders[f"cutmix {per}"] = our_images(root, train, batch_transforms=[T.CutMix(1.0, 1000, per=per)])
            rates = best(loaders, max(5, args.rounds))
            found["mixing"] = {**rates, **{f"{n} costs %": 100 * (rates["plain"] / r - 1) for n, r in rates.items()}}
    for name, row in found.items():
        print(f"{name:20}", "  ".join(f"{key} {value:.2f}" for key, value in row.items()))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
