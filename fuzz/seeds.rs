//! Writes the seed corpus: small files of every kind that the targets know. `cargo run --bin seeds` in this folder.

use std::path::Path;

use feedline_pixels::pieces::{Form, table};
use feedline_pixels::turbo::{Encoding, encode};
use feedline_pixels::{ImageRef, PixelLayout, Size, dct, yuv};

fn main() {
    pictures();
    scans();
    pieces();
    images();
    formats();
    columns();
    pack();
    beton();
    files("audio", "audio");
    files("video", "video_index");
}

/// The images of the repository: each codec has its own.
fn images() {
    let found = std::fs::read_dir("seeds/images").expect("the seeds are in the repository");
    for (number, path) in found.map(|entry| entry.expect("a name").path()).enumerate() {
        let bytes = std::fs::read(&path).expect("a readable file");
        let name = path.file_name().expect("a file").to_string_lossy().into_owned();
        let codec = name.split(['-', '.']).next().expect("a codec");
        write("images", number as u32, &bytes);
        write(codec, number as u32, &bytes);
        if codec == "jpeg" {
            write("exif", number as u32, bytes.get(20..200).unwrap_or(&bytes));
        }
    }
}

/// The files of a folder of the repository, for one target.
fn files(folder: &str, target: &str) {
    let found = std::fs::read_dir(Path::new("seeds").join(folder)).expect("the seeds are in the repository");
    for (number, entry) in found.enumerate() {
        let path = entry.expect("a name").path();
        write(target, number as u32, &std::fs::read(path).expect("a readable file"));
    }
}

/// Each recorded file as it is, with one change at its beginning, and with one at its end.
fn beton() {
    for file in 0..3 {
        write("beton", file, &[file as u8]);
        write("beton", file + 10, &[file as u8, 16, 0, 1]);
        write("beton", file + 20, &[file as u8, 16, 0x80, 1]);
    }
}

fn columns() {
    for (number, name) in [
        "parquet/types-plain.parquet",
        "parquet/types-zstd.parquet",
        "parquet/types-dictionary.parquet",
        "arrow/types.arrow",
        "arrow/types.arrows",
        "arrow/types-lz4.arrows",
        "arrow/types.feather",
    ]
    .iter()
    .enumerate()
    {
        let path = Path::new("../testdata/formats").join(name);
        let file = path.file_name().expect("a file").to_string_lossy().into_owned();
        write("columns", number as u32, &archive(&[(file, std::fs::read(&path).expect("recorded files"))]));
    }
}

fn pack() {
    let manifest = std::fs::read("../testdata/compat/pack-v1/feedline.json").expect("recorded files");
    write("pack", 0, &manifest);
    write("pack", 1, &[&manifest[..], &[0, 40, 0, 0, 1, 200, 1, 0x80, 0xFF]].concat());
}

/// Files that other systems wrote, as small archives: for each a byte with the length of its name, the name, three bytes
/// with its length, and its bytes.
fn formats() {
    let recorded = Path::new("../testdata/formats");
    let sets = [
        "recordio",
        "lmdb/caffe",
        "lmdb/files",
        "litdata/old-0.2.39/plain",
        "litdata/classic",
        "litdata/zstd-chunk",
        "mds/small",
        "mds/zstd",
        "mds/json",
        "mds/tsv",
        "zarr/one",
        "zarr/v2",
        "zarr/v3",
    ];
    let single = [
        "hdf5/all.h5",
        "hdf5/latest.h5",
        "checked/a.array_record",
        "checked/a.zip",
        "checked/a.tar.gz",
        "checked/a.tar.zst",
        "tfrecord/plain.tfrecord",
        "tfrecord/gzip.tfrecord",
        "tbl/plain.tbl",
        "tbl/lz4.tbl",
    ];
    for (number, name) in sets.iter().chain(&single).enumerate() {
        let path = recorded.join(name);
        let files = if path.is_dir() { folder(&path, "") } else { vec![read(&path, "")] };
        write("formats", number as u32, &archive(&files));
    }
    let tar = tar(&[("a.txt", b"hello"), ("a.cls", b"3"), ("b.txt", b"you"), ("b.json", b"{\"x\": 1}")]);
    write("formats", 100, &archive(&[("data.tar".to_owned(), tar)]));
}

fn read(path: &Path, prefix: &str) -> (String, Vec<u8>) {
    let name = path.file_name().expect("a file").to_string_lossy();
    (format!("{prefix}{name}"), std::fs::read(path).expect("a readable file"))
}

/// The files of a folder and of those in it, by their names from there.
fn folder(path: &Path, prefix: &str) -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::new();
    for path in std::fs::read_dir(path).expect("recorded files").map(|entry| entry.expect("a name").path()) {
        if path.is_dir() {
            let name = path.file_name().expect("a folder").to_string_lossy();
            files.extend(folder(&path, &format!("{prefix}{name}/")));
        } else {
            files.push(read(&path, prefix));
        }
    }
    files
}

fn archive(files: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (name, content) in files {
        bytes.push(name.len() as u8);
        bytes.extend(name.as_bytes());
        bytes.extend(&(content.len() as u32).to_le_bytes()[..3]);
        bytes.extend(content);
    }
    bytes
}

fn tar(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (name, content) in members {
        let mut head = [0; 512];
        head[..name.len()].copy_from_slice(name.as_bytes());
        head[100..107].copy_from_slice(b"0000644");
        head[124..135].copy_from_slice(format!("{:011o}", content.len()).as_bytes());
        head[148..156].copy_from_slice(b"        ");
        head[156] = b'0';
        head[257..263].copy_from_slice(b"ustar\0");
        let sum: u32 = head.iter().map(|byte| u32::from(*byte)).sum();
        head[148..154].copy_from_slice(format!("{sum:06o}").as_bytes());
        bytes.extend(head);
        bytes.extend(*content);
        bytes.resize(bytes.len().next_multiple_of(512), 0);
    }
    bytes.resize(bytes.len() + 1024, 0);
    bytes
}

fn pictures() {
    let mut number = 0;
    for (width, height) in [(1, 1), (8, 8), (17, 9), (40, 33), (130, 20)] {
        for (channels, sampling) in
            [(1, (1, 1)), (3, (1, 1)), (3, (2, 1)), (3, (1, 2)), (3, (2, 2)), (3, (4, 1)), (4, (1, 1))]
        {
            for kind in 0..4 {
                let size = Size::new(width, height);
                let base = Encoding::baseline(size, channels, 60 + 10 * kind, sampling);
                let encoding = Encoding {
                    restart_interval: u32::from(kind == 1) * 2,
                    optimize: kind == 2,
                    progressive: kind == 3,
                    ..base
                };
                let pixels: Vec<u8> =
                    (0..size.area() * u64::from(channels)).map(|i| (i * i / 7 + i * 13) as u8).collect();
                let jpeg = encode(&pixels, &encoding).expect("valid parameters");
                number += 1;
                write("jpeg_vs_turbo", number, &[&[kind, 200, 200, 40, 40, kind, 0, 0], &jpeg[..]].concat());
                write("jpeg_index", number, &[&[4, 0, 0, 1, 0, 64], &jpeg[..]].concat());
                write("dct", number, &jpeg);
                if let Ok(packed) = dct::compact::encode(&jpeg, 1 << 20) {
                    write("dct", number + 2000, &packed);
                }
                if let Ok(packed) = dct::encode(&jpeg, 1 << 20) {
                    write("dct", number + 1000, &packed);
                }
            }
        }
    }
}

/// Images of every form that are large enough for a table, with their tables and without.
fn pieces() {
    let size = Size::new(150, 120);
    let pixels: Vec<u8> = (0..size.area() * 3).map(|i| (i * i / 7 + i * 13) as u8).collect();
    let jpeg = encode(&pixels, &Encoding::baseline(size, 3, 97, (2, 2))).expect("valid parameters");
    let large: Vec<u8> = (0..220u64 * 190 * 3).map(|i| (i / 80) as u8).collect();
    let rgb = ImageRef::new(&large, Size::new(220, 190), 660, PixelLayout::Rgb).expect("a valid image");
    let images = [
        (Form::Rgb, size, pixels),
        (Form::Yuv420, Size::new(220, 190), yuv::encode(rgb)),
        (Form::Dct, size, dct::encode(&jpeg, 1 << 20).expect("a valid file")),
        (Form::Compact, size, dct::compact::encode(&jpeg, 1 << 20).expect("a valid file")),
    ];
    for (number, (form, size, image)) in images.iter().enumerate() {
        let own = table(*form, *size, image);
        for (variant, given) in [&own[..], &[]].into_iter().enumerate() {
            let Size { width, height } = *size;
            let choice = [width as u16 - 1, height as u16 - 1, 20, 40, 30, given.len() as u16];
            let choice: Vec<u8> = choice.iter().flat_map(|value| value.to_le_bytes()).collect();
            let bytes = [&[number as u8, variant as u8][..], &choice, given, image].concat();
            write("pieces", (number * 2 + variant) as u32, &bytes);
        }
    }
}

/// Lists of scans: libjpeg-turbo's own, and complete ones.
fn scans() {
    let lists: [&[[u8; 4]]; 4] = [
        &[],
        &[[7, 0, 0, 0], [1, 1, 63, 0], [2, 1, 63, 0], [4, 1, 63, 0]],
        &[
            [7, 0, 0, 1],
            [1, 1, 5, 2],
            [1, 6, 63, 2],
            [2, 1, 63, 0],
            [4, 1, 63, 0],
            [1, 1, 63, 0x21],
            [1, 1, 63, 0x10],
        ],
        &[[1, 0, 0, 0], [1, 1, 63, 1], [1, 1, 63, 0x10]],
    ];
    for (number, list) in lists.iter().enumerate() {
        for variant in 0..6u8 {
            let grey = u8::from(number == 3);
            let choice = [40, 33, grey, variant, 90, 4 * variant, variant, 200, 200, 40, 40, variant];
            let bytes = [&choice[..], &list.concat(), &[255], &[100, 2, variant]].concat();
            write("jpeg_scans", number as u32 * 10 + u32::from(variant), &bytes);
        }
    }
}

fn write(target: &str, number: u32, bytes: &[u8]) {
    let folder = Path::new("corpus").join(target);
    std::fs::create_dir_all(&folder).expect("a writable folder");
    std::fs::write(folder.join(format!("seed-{number}")), bytes).expect("a writable folder");
}
