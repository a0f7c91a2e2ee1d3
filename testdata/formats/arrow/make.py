"""Writes this folder and ../parquet with pyarrow and datasets: python make.py (pip install pyarrow datasets pillow)."""

import base64
import datetime
import decimal
import json
import shutil
from pathlib import Path

import datasets
import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq

HERE = Path(__file__).parent
PARQUET = HERE.parent / "parquet"
IMAGES = [(HERE / "../../images" / name).resolve().read_bytes() for name in ("rgb.png", "l.png", "p.png")]
N = 7


def b64(data):
    return {"base64": base64.b64encode(data).decode()}


def array(dtype, values):
    values = np.array(values, dtype)
    return {"dtype": dtype, "shape": list(values.shape), "values": values.ravel().tolist()}


def rows():
    for i in range(N):
        yield {
            "i8": -i,
            "u64": 2**40 + i,
            "flag": i % 2 == 0,
            "half": i / 4,
            "f32": i / 8 - 1,
            "f64": i / 3,
            "text": f"grün {i} 日本",
            "large": "x" * (i * 3),
            "bin": bytes(range(i, 2 * i)),
            "pic": IMAGES[i % 3],
            "fixed": bytes([i, i + 1, i + 2]),
            "when": i * 1000,
            "day": 19000 + i,
            "price": f"{i}.{25 + i:02d}",
            "vec": [0.5 * n for n in range(i)],
            "box": [[1, 2, 3, i]] * (i % 3),
            "mask": [[True, False], [i % 2 == 0, True]],
            "words": [f"w{n}" for n in range(i % 4)],
            "meta": {"a": i, "b": None if i % 2 else ["x", "y"]},
            "cat": ["red", "green", "blue"][i % 3],
            "view": "short" if i % 2 else "a text of more than twelve bytes",
            "maybe": None if i % 3 == 1 else i,
            "none": None,
        }


SCHEMA = pa.schema(
    [
        ("i8", pa.int8()),
        ("u64", pa.uint64()),
        ("flag", pa.bool_()),
        ("half", pa.float16()),
        ("f32", pa.float32()),
        ("f64", pa.float64()),
        ("text", pa.string()),
        ("large", pa.large_string()),
        ("bin", pa.binary()),
        ("pic", pa.large_binary()),
        ("fixed", pa.binary(3)),
        ("when", pa.timestamp("ms")),
        ("day", pa.date32()),
        ("price", pa.decimal128(10, 2)),
        ("vec", pa.list_(pa.float64())),
        ("box", pa.list_(pa.list_(pa.int32(), 4))),
        ("mask", pa.large_list(pa.list_(pa.bool_()))),
        ("words", pa.list_(pa.string())),
        ("meta", pa.struct([("a", pa.int64()), ("b", pa.list_(pa.string()))])),
        ("cat", pa.dictionary(pa.int8(), pa.string())),
        ("view", pa.string_view()),
        ("maybe", pa.int64()),
        ("none", pa.null()),
    ]
)


def table():
    columns = {name: [] for name in SCHEMA.names}
    for row in rows():
        for name, value in row.items():
            columns[name].append(value)
    columns["half"] = [np.float16(v) for v in columns["half"]]
    columns["price"] = [decimal.Decimal(v) for v in columns["price"]]
    columns["when"] = [datetime.datetime(1970, 1, 1) + datetime.timedelta(milliseconds=v) for v in columns["when"]]
    columns["day"] = [datetime.date(1970, 1, 1) + datetime.timedelta(days=v) for v in columns["day"]]
    arrays = [pa.array(columns[f.name], f.type) for f in SCHEMA]
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def expected(row):
    out = dict(row)
    for name in ("bin", "pic", "fixed"):
        out[name] = b64(row[name])
    out["flag"] = int(row["flag"])
    out["vec"] = array("float64", row["vec"])
    out["box"] = array("int32", np.array(row["box"], np.int32).reshape(-1, 4))
    out["mask"] = array("bool", row["mask"])
    return out


def write_stream(name, data, rows_each, **options):
    with pa.OSFile(str(HERE / name), "wb") as sink, pa.ipc.new_stream(sink, data.schema, **options) as writer:
        writer.write_table(data, max_chunksize=rows_each)


def main():
    data = table()
    zstd = pa.ipc.IpcWriteOptions(compression="zstd", unify_dictionaries=True)
    lz4 = pa.ipc.IpcWriteOptions(compression="lz4", unify_dictionaries=True)
    write_stream("types.arrows", data, 3)
    write_stream("types-zstd.arrows", data, 3, options=zstd)
    write_stream("types-lz4.arrows", data, 4, options=lz4)
    with pa.OSFile(str(HERE / "types.arrow"), "wb") as sink, pa.ipc.new_file(sink, data.schema) as writer:
        writer.write_table(data, max_chunksize=2)
    feather.write_feather(data.drop(["view"]), str(HERE / "types.feather"), compression="zstd", chunksize=5)
    (HERE / "expected.json").write_text(json.dumps([expected(r) for r in rows()], indent=1) + "\n")

    stored = data.drop(["view", "half"]) if pa.__version__ < "15" else data
    for name, options in {
        "plain": {"compression": "none", "use_dictionary": False},
        "dictionary": {"compression": "none", "use_dictionary": True},
        "snappy": {"compression": "snappy", "data_page_size": 64, "write_batch_size": 2},
        "gzip": {"compression": "gzip", "data_page_version": "2.0"},
        "zstd": {"compression": "zstd", "write_page_index": True, "data_page_size": 64, "write_batch_size": 1},
        "lz4": {"compression": "lz4", "write_page_checksum": True},
        "brotli": {"compression": "brotli", "data_page_version": "2.0", "use_dictionary": False},
        "delta": {
            "use_dictionary": False,
            "column_encoding": {
                "text": "DELTA_BYTE_ARRAY",
                "large": "DELTA_LENGTH_BYTE_ARRAY",
                "i8": "DELTA_BINARY_PACKED",
            },
        },
    }.items():
        pq.write_table(stored, PARQUET / f"types-{name}.parquet", row_group_size=3, **options)

    hugging_face()


def hugging_face():
    features = datasets.Features({"image": datasets.Image(), "label": datasets.ClassLabel(names=["cat", "dog", "owl"])})
    images = [{"bytes": IMAGES[i % 3], "path": f"{i}.png"} for i in range(6)]
    whole = datasets.Dataset.from_dict({"image": images, "label": [i % 3 for i in range(6)]}, features=features)
    for name in ("saved", "split"):
        shutil.rmtree(HERE / name, ignore_errors=True)
    whole.save_to_disk(str(HERE / "saved"), num_shards=2)
    parts = datasets.DatasetDict({"train": whole.select(range(4)), "test": whole.select(range(4, 6))})
    parts.save_to_disk(str(HERE / "split"))
    for kind, part in parts.items():
        (PARQUET / "hub/data").mkdir(parents=True, exist_ok=True)
        part.to_parquet(str(PARQUET / f"hub/data/{kind}-00000-of-00001.parquet"))
    # As datasets 1.x saved a shuffled data set: the rows as they were, and which of them in which order.
    shuffled = HERE / "shuffled"
    shutil.rmtree(shuffled, ignore_errors=True)
    shutil.copytree(HERE / "saved", shuffled)
    indices = pa.table({"indices": pa.array([5, 0, 3], pa.uint64())})
    with pa.OSFile(str(shuffled / "indices.arrow"), "wb") as sink, pa.ipc.new_stream(sink, indices.schema) as writer:
        writer.write_table(indices)
    state = json.loads((shuffled / "state.json").read_text())
    state["_indices_files"] = [{"filename": "indices.arrow"}]
    (shuffled / "state.json").write_text(json.dumps(state, indent=2))


main()
