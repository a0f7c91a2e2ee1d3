from epochs import main, recipe
from streaming import MDSWriter, StreamingDataset
from torch.utils.data import DataLoader


def write(files, out):
    with MDSWriter(out=out, columns={"image": "jpeg", "label": "int"}) as writer:
        for file, label in files:
            writer.write({"image": file.read_bytes(), "label": label})


class Images(StreamingDataset):
    def __init__(self, **how):
        super().__init__(**how)
        self.recipe = recipe()

    def __getitem__(self, at):
        sample = super().__getitem__(at)
        return self.recipe(sample["image"]), sample["label"]


def prepare(folder, batch_size, workers):
    data = Images(local=folder, batch_size=batch_size, shuffle=True)

    def epoch():
        return sum(len(labels) for _, labels in DataLoader(data, batch_size=batch_size, num_workers=workers))

    return epoch


if __name__ == "__main__":
    main(write, prepare)
