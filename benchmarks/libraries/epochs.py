"""What the library scripts share: the recipe, and epochs on demand."""

import json
import os
import resource
import sys
import time
from pathlib import Path


def files(folder, repeat):
    """Every image with its class, the whole set `repeat` times."""
    classes = sorted(entry.name for entry in os.scandir(folder) if entry.is_dir())
    once = [(file, label) for label, name in enumerate(classes) for file in sorted(Path(folder, name).iterdir())]
    return once * int(repeat)


def recipe():
    """torchvision's, as in its training reference."""
    import torch
    from torchvision.transforms import v2

    return v2.Compose(
        [
            v2.RGB(),
            v2.RandomResizedCrop(224),
            v2.RandomHorizontalFlip(),
            v2.PILToTensor(),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
        ]
    )


def cpu():
    """CPU seconds of this process and of its finished children."""
    both = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(use.ru_utime + use.ru_stime for use in both)


def serve(epoch):
    """One epoch for every line that comes in; prints images, seconds and CPU seconds of each."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is not an answer
    for _ in sys.stdin:
        wall, used = time.perf_counter(), cpu()
        images = epoch()
        answers.write(json.dumps([images, time.perf_counter() - wall, cpu() - used]) + "\n")
        answers.flush()


def main(write, prepare):
    """`write FOLDER REPEAT OUT` or `serve OUT BATCH WORKERS`."""
    if sys.argv[1] == "write":
        write(files(sys.argv[2], sys.argv[3]), sys.argv[4])
    else:
        serve(prepare(sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
