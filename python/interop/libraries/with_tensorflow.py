"""Runs under TensorFlow: writes samples as records, with TensorFlow's own writer or the `tfrecord` package's."""

import subprocess
import sys

import numpy as np
from samples import COUNT, encoded, sample
from values import save


def row(number):
    """What is written."""
    values = sample(number)
    return {
        "image/encoded": encoded(number, "JPEG"),
        "image/class/label": number,
        "integer": values["integer"],
        "number": np.float32(number / 4),
        "text": f"text {values['text']}",
        "blob": b"\x00\xff" + values["blob"],
        "several": np.arange(number % 4 + 1, dtype=np.int64),
        "floats": np.arange(3, dtype=np.float32) + number,
    }


def feature(value):
    """One value as a feature."""
    import tensorflow as tf

    if isinstance(value, bytes):
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))
    if isinstance(value, str):
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value.encode()]))
    numbers = np.atleast_1d(value)
    if np.issubdtype(numbers.dtype, np.integer):
        return tf.train.Feature(int64_list=tf.train.Int64List(value=numbers.tolist()))
    return tf.train.Feature(float_list=tf.train.FloatList(value=numbers.tolist()))


def write(folder):
    """TensorFlow's own writer, with and without compression, and the package's."""
    import tensorflow as tf

    rows = [row(number) for number in range(COUNT)]
    for name, compression in [("plain", None), ("gzip", "GZIP"), ("zlib", "ZLIB")]:
        with tf.io.TFRecordWriter(f"{folder}/{name}.tfrecord", compression) as writer:
            for one in rows:
                features = tf.train.Features(feature={name: feature(value) for name, value in one.items()})
                writer.write(tf.train.Example(features=features).SerializeToString())
    # Both define the same protobuf messages, and do not get on in one process.
    subprocess.run([sys.executable, __file__, "package", folder], check=True)
    save(f"{folder}/expected.json", [{**one, "number": float(one["number"])} for one in rows])


def package(folder):
    """With the package that torch users take."""
    from tfrecord.writer import TFRecordWriter

    writer = TFRecordWriter(f"{folder}/package.tfrecord")
    for number in range(COUNT):
        writer.write({name: _for_package(value) for name, value in row(number).items()})
    writer.close()


def _for_package(value):
    if isinstance(value, (bytes, str)):
        return (value if isinstance(value, bytes) else value.encode(), "byte")
    whole = np.issubdtype(np.atleast_1d(value).dtype, np.integer)
    return (np.atleast_1d(value).tolist(), "int" if whole else "float")


if __name__ == "__main__":
    {"write": write, "package": package}[sys.argv[1]](*sys.argv[2:])
