import datasets
from epochs import main, recipe
from torch.utils.data import DataLoader


def write(files, out):
    # Bytes in the table, as on the hub; a path would be stored as a path.
    pictures = [{"bytes": file.read_bytes(), "path": file.name} for file, _ in files]
    features = datasets.Features({"image": datasets.Image(), "label": datasets.Value("int64")})
    rows = {"image": pictures, "label": [label for _, label in files]}
    table = datasets.Dataset.from_dict(rows, features=features)
    table.to_parquet(f"{out}/data.parquet")


class Recipe:
    def __init__(self):
        self.recipe = recipe()

    def __call__(self, rows):
        return {"image": [self.recipe(image) for image in rows["image"]], "label": rows["label"]}


def prepare(folder, batch_size, workers):
    data = datasets.load_dataset("parquet", data_files=f"{folder}/data.parquet", split="train")
    data = data.cast_column("image", datasets.Image()).with_transform(Recipe())

    def epoch():
        loader = DataLoader(data, batch_size=batch_size, shuffle=True, num_workers=workers)
        return sum(len(batch["label"]) for batch in loader)

    return epoch


if __name__ == "__main__":
    main(write, prepare)
