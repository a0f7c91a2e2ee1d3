"""Small files by array_record: compressions, groups, a record over several blocks, examples, transposed records.

Files are padded to blocks of 64 KiB, so they are kept as zstd. Python packages: array_record, zstandard.
"""

from pathlib import Path

import zstandard
from array_record.python.array_record_module import ArrayRecordWriter

HERE = Path(__file__).parent


def field(number, content):
    """A field of a protobuf that has a length below 128."""
    return bytes([number << 3 | 2, len(content)]) + content


def feature(name, kind, value):
    """One entry of a tf.train.Example's map."""
    return field(1, field(1, name) + field(2, field(kind, field(1, value))))


def example(number):
    """A tf.train.Example with a text and an integer."""
    features = feature(b"text", 1, b"sample %d" % number) + feature(b"label", 3, bytes([number]))
    return field(1, features)


def make(name, options, records):
    """One file."""
    path = HERE / f"{name}.array_record"
    writer = ArrayRecordWriter(str(path), options)
    for record in records:
        writer.write(record)
    writer.close()
    packed = zstandard.ZstdCompressor(19).compress(path.read_bytes())
    path.with_name(path.name + ".zst").write_bytes(packed)
    path.unlink()


RECORDS = [b"record %d " % n + b"x" * (70_000 if n == 3 else 20 * n) for n in range(7)]
make("single", "group_size:1,uncompressed", RECORDS)
make("group", "group_size:3", RECORDS)
make("brotli", "group_size:2,brotli:5", RECORDS)
make("snappy", "group_size:2,snappy", RECORDS)
make("blocks", "group_size:4,uncompressed,pad_to_block_boundary:true", RECORDS)
make("examples", "group_size:1", [example(n) for n in range(3)])
make("transposed", "group_size:2,transpose:true", RECORDS)
