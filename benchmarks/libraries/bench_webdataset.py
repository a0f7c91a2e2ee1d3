import webdataset
from epochs import main, recipe


def write(files, out):
    writer = webdataset.ShardWriter(f"{out}/part-%04d.tar", maxcount=200, verbose=0)
    for number, (file, label) in enumerate(files):
        writer.write({"__key__": f"{number:06d}", "jpg": file.read_bytes(), "cls": label})
    writer.close()


def prepare(folder, batch_size, workers):
    from pathlib import Path

    shards = sorted(str(shard) for shard in Path(folder).glob("*.tar"))
    chain = webdataset.WebDataset(shards, shardshuffle=len(shards), nodesplitter=None)
    chain = chain.shuffle(1000).decode("pil").to_tuple("jpg", "cls").map_tuple(recipe()).batched(batch_size)

    def epoch():
        loader = webdataset.WebLoader(chain, batch_size=None, num_workers=workers)
        return sum(len(labels) for _, labels in loader)

    return epoch


if __name__ == "__main__":
    main(write, prepare)
