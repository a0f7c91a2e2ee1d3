"""TurboLoader trains from tars of JPEGs: its .tbl reader hands out bytes, and its loader takes raw pixels there."""

import io
import tarfile

import turboloader
from epochs import main


def write(files, out):
    with tarfile.open(f"{out}/data.tar", "w") as tar:
        for number, (file, label) in enumerate(files):
            for name, data in [("jpg", file.read_bytes()), ("cls", str(label).encode())]:
                member = tarfile.TarInfo(f"{number:06d}.{name}")
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))


def prepare(folder, batch_size, workers):
    loader = turboloader.DataLoader(
        f"{folder}/data.tar",
        batch_size=batch_size,
        num_workers=workers,
        shuffle=True,
        image_size=224,
        output_format="pytorch",
        transform=turboloader.ImageNetNormalize(),
        train_aug=True,
        antialias=True,
    )
    number = 0

    def epoch():
        nonlocal number
        loader.set_epoch(number)
        number += 1
        images = 0
        for batch in loader:
            pictures = batch[0] if isinstance(batch, tuple) else batch
            assert pictures.shape[1:] == (3, 224, 224), pictures.shape
            images += len(pictures)
        return images

    return epoch


if __name__ == "__main__":
    main(write, prepare)
