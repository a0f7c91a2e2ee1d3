"""Writes this folder's files with TensorFlow: python make.py (tensorflow-cpu 2.x)."""

import json
from pathlib import Path

import tensorflow as tf

HERE = Path(__file__).parent
IMAGE = (HERE / "../../images/rgb.png").resolve().read_bytes()


def feature(value):
    if isinstance(value[0], bytes):
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=value))
    if isinstance(value[0], float):
        return tf.train.Feature(float_list=tf.train.FloatList(value=value))
    return tf.train.Feature(int64_list=tf.train.Int64List(value=value))


def sample(i):
    values = {
        "image/encoded": [IMAGE],
        "image/class/label": [i + 1],
        "image/filename": [f"bild-{i}-ä.png".encode()],
        "image/object/bbox/xmin": [0.25 * n for n in range(i + 1)],
        "scores": [1.5, -2.0],
        "ids": [-1, 0, 2**62],
        "names": [b"a", "ü".encode()],
        "raw": [bytes(range(i, i + 5))],
    }
    if i % 2:
        values["sometimes"] = [i]
    return values


def write(name, compression):
    with tf.io.TFRecordWriter(str(HERE / name), compression) as writer:
        for i in range(5):
            features = {key: feature(value) for key, value in sample(i).items()}
            writer.write(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())


def plain(value):
    return [v.decode("latin1") if isinstance(v, bytes) else v for v in value]


write("plain.tfrecord", "")
write("gzip.tfrecord", "GZIP")
write("zlib.tfrecord", "ZLIB")
with tf.io.TFRecordWriter(str(HERE / "sequence.tfrecord")) as writer:
    steps = tf.train.FeatureLists(feature_list={"x": tf.train.FeatureList(feature=[feature([1])])})
    writer.write(tf.train.SequenceExample(feature_lists=steps).SerializeToString())
expected = [{key: plain(value) for key, value in sample(i).items()} for i in range(5)]
(HERE / "expected.json").write_text(json.dumps(expected, indent=1, ensure_ascii=True) + "\n")
