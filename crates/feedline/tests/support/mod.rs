//! Small files that tests make for themselves, and how several tests read data.

use std::fs;
use std::path::Path;

use feedline::format::{PackOptions, ReadingOptions};
use feedline::{Dataset, DecodeMode, Epoch, LoaderOptions, OpenOptions, Shuffle, pack};

/// The same images as a folder, tars and a pack: (what to open, name).
pub(crate) const FORMATS: [(&str, &str); 3] =
    [("photos", "folder"), ("shards/*.tar", "webdataset"), ("packed", "pack")];

/// Files that other systems' own writers wrote, below `testdata/formats/`.
pub(crate) const RECORDED: [&str; 12] = [
    "litdata/classic",
    "litdata/zstd-chunk",
    "mds/small",
    "mds/zstd",
    "mds/json",
    "mds/tsv",
    "parquet/hub/data/train-*.parquet",
    "parquet/types-zstd.parquet",
    "arrow/saved",
    "arrow/types.arrow",
    "tfrecord/plain.tfrecord",
    "tbl/plain.tbl",
];

/// Options to open recorded files, with their indexes in a folder of the test.
pub(crate) fn recorded_options(indexes: &Path) -> OpenOptions {
    let reading = ReadingOptions {
        allow_pickle: true,
        index_dir: Some(indexes.to_owned()),
        ..ReadingOptions::default()
    };
    OpenOptions { reading, ..OpenOptions::default() }
}

/// Options of a loader of stored bytes.
pub(crate) fn undecoded(batch_size: u64, shuffle: Shuffle) -> LoaderOptions {
    LoaderOptions::default()
        .with_batch_size(batch_size)
        .with_shuffle(shuffle)
        .with_seed(5)
        .with_num_workers(2)
        .with_decode(DecodeMode::None)
}

/// Every byte of every column of every batch.
pub(crate) fn all_bytes(epoch: Epoch) -> feedline::Result<Vec<Vec<Vec<u8>>>> {
    epoch.map(|batch| Ok(batch?.columns().iter().map(|column| column.bytes().to_vec()).collect())).collect()
}

/// Writes `count` images in every form of [`FORMATS`] below `root`.
pub(crate) fn write_formats(root: &Path, count: usize, side: u32) {
    let mut members = Vec::new();
    for number in 0..count {
        let (image, class) = (bitmap(side + number as u32 % 5, number as u64), number % 3);
        let path = root.join(format!("photos/c{class}/{number:04}.bmp"));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, &image).unwrap();
        let label = class.to_string().into_bytes();
        members.push([(format!("{number:04}.bmp"), image), (format!("{number:04}.cls"), label)]);
    }
    fs::create_dir_all(root.join("shards")).unwrap();
    for (number, shard) in members.chunks(count.div_ceil(3)).enumerate() {
        fs::write(root.join(format!("shards/{number:03}.tar")), tar(shard.as_flattened())).unwrap();
    }
    let photos = Dataset::open(root.join("photos").display().to_string()).unwrap();
    let parts = PackOptions { part_bytes: Some(100_000), workers: 1, ..PackOptions::default() };
    pack(&**photos.format(), root.join("packed"), &parts, &()).unwrap();
}

/// An image of `side` × `side` pixels, different for every `seed`.
pub(crate) fn bitmap(side: u32, seed: u64) -> Vec<u8> {
    let row = (side * 3).next_multiple_of(4);
    let mut bytes = Vec::new();
    bytes.extend(b"BM");
    bytes.extend((54 + row * side).to_le_bytes());
    bytes.extend([0; 4]);
    for number in [54, 40, side, side] {
        bytes.extend(number.to_le_bytes());
    }
    bytes.extend([1, 0, 24, 0]);
    bytes.extend([0; 24]);
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    for _ in 0..row * side {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        bytes.push((state >> 56) as u8);
    }
    bytes
}

/// A tar file of these members.
pub(crate) fn tar(members: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (name, content) in members {
        let mut header = [0u8; 512];
        header[..name.len()].copy_from_slice(name.as_bytes());
        header[100..108].copy_from_slice(b"0000644\0");
        header[124..136].copy_from_slice(format!("{:011o}\0", content.len()).as_bytes());
        header[136..148].copy_from_slice(b"00000000000\0");
        header[148..156].copy_from_slice(b"        ");
        header[156] = b'0';
        header[257..265].copy_from_slice(b"ustar\x0000");
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
        header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        bytes.extend(header);
        bytes.extend(content);
        bytes.resize(bytes.len().next_multiple_of(512), 0);
    }
    bytes.resize(bytes.len() + 1024, 0);
    bytes
}
