import tensorflow as tf
from epochs import main

MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


def write(files, out):
    with tf.io.TFRecordWriter(f"{out}/data.tfrecord") as writer:
        for file, label in files:
            feature = {
                "image/encoded": tf.train.Feature(bytes_list=tf.train.BytesList(value=[file.read_bytes()])),
                "image/class/label": tf.train.Feature(int64_list=tf.train.Int64List(value=[label])),
            }
            writer.write(tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString())


def parse(record):
    spec = {
        "image/encoded": tf.io.FixedLenFeature([], tf.string),
        "image/class/label": tf.io.FixedLenFeature([], tf.int64),
    }
    found = tf.io.parse_single_example(record, spec)
    data = found["image/encoded"]
    begin, size, _ = tf.image.sample_distorted_bounding_box(
        tf.image.extract_jpeg_shape(data),
        tf.zeros([1, 0, 4]),
        area_range=(0.08, 1.0),
        aspect_ratio_range=(3 / 4, 4 / 3),
        max_attempts=10,
        use_image_if_no_bounding_boxes=True,
    )
    window = tf.concat([begin[:2], size[:2]], 0)
    image = tf.image.decode_and_crop_jpeg(data, window, channels=3)
    image = tf.image.resize(image, [224, 224], antialias=True)
    image = tf.image.random_flip_left_right(image)
    return tf.transpose((image / 255 - MEAN) / STD, [2, 0, 1]), found["image/class/label"]


def prepare(folder, batch_size, workers):
    tf.config.threading.set_inter_op_parallelism_threads(workers)
    tf.config.threading.set_intra_op_parallelism_threads(workers)
    options = tf.data.Options()
    options.threading.private_threadpool_size = workers
    chain = tf.data.TFRecordDataset(f"{folder}/data.tfrecord").shuffle(1000)
    chain = chain.map(parse, num_parallel_calls=workers).batch(batch_size).prefetch(2).with_options(options)
    return lambda: sum(len(labels) for _, labels in chain)


if __name__ == "__main__":
    main(write, prepare)
