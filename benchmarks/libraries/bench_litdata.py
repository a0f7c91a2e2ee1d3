import litdata
from epochs import main, recipe
from PIL import Image


def item(pair):
    file, label = pair
    return {"image": Image.open(file), "label": label}


def write(files, out):
    litdata.optimize(item, files, output_dir=out, num_workers=1, chunk_bytes="64MB")


class Images(litdata.StreamingDataset):
    def __init__(self, *where, **how):
        super().__init__(*where, **how)
        self.recipe = recipe()

    def __getitem__(self, at):
        sample = super().__getitem__(at)
        image = sample["image"]
        # LitData decodes JPEG leaves to tensors where torchvision can.
        if not hasattr(image, "convert"):
            from torchvision.transforms.v2.functional import to_pil_image

            image = to_pil_image(image)
        return self.recipe(image), sample["label"]


def prepare(folder, batch_size, workers):
    data = Images(folder, shuffle=True)

    def epoch():
        loader = litdata.StreamingDataLoader(data, batch_size=batch_size, num_workers=workers)
        return sum(len(labels) for _, labels in loader)

    return epoch


if __name__ == "__main__":
    main(write, prepare)
