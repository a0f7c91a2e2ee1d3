import numpy as np
from epochs import main
from ffcv.fields import IntField, RGBImageField
from ffcv.fields.basics import IntDecoder
from ffcv.fields.rgb_image import RandomResizedCropRGBImageDecoder
from ffcv.loader import Loader, OrderOption
from ffcv.transforms import NormalizeImage, RandomHorizontalFlip, Squeeze, ToTensor, ToTorchImage
from ffcv.writer import DatasetWriter
from PIL import Image


class Pairs:
    def __init__(self, files):
        self.files = files

    def __len__(self):
        return len(self.files)

    def __getitem__(self, at):
        file, label = self.files[at]
        return Image.open(file).convert("RGB"), label


def write(files, out):
    fields = {"image": RGBImageField(write_mode="jpg", jpeg_quality=90), "label": IntField()}
    DatasetWriter(f"{out}/data.beton", fields, num_workers=2).from_indexed_dataset(Pairs(files))


def prepare(folder, batch_size, workers):
    mean, std = np.array([0.485, 0.456, 0.406]) * 255, np.array([0.229, 0.224, 0.225]) * 255
    image = [
        RandomResizedCropRGBImageDecoder((224, 224)),
        RandomHorizontalFlip(),
        NormalizeImage(mean, std, np.float32),
        ToTensor(),
        ToTorchImage(),
    ]
    pipelines = {"image": image, "label": [IntDecoder(), ToTensor(), Squeeze()]}
    how = {"order": OrderOption.RANDOM, "os_cache": True, "drop_last": False, "seed": 0}
    loader = Loader(f"{folder}/data.beton", batch_size, num_workers=workers, pipelines=pipelines, **how)
    return lambda: sum(len(labels) for _, labels in loader)


if __name__ == "__main__":
    main(write, prepare)
