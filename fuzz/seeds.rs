//! Writes the seed corpus: small files of every kind that the targets know. `cargo run --bin seeds` in this folder.

use std::path::Path;

use feedline_pixels::turbo::{Encoding, encode};
use feedline_pixels::{Size, dct};

fn main() {
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
                let pixels: Vec<u8> = (0..size.area() * u64::from(channels))
                    .map(|i| (i * i / 7 + i * 13) as u8)
                    .collect();
                let jpeg = encode(&pixels, &encoding).expect("valid parameters");
                number += 1;
                write("jpeg_vs_turbo", number, &[&[kind, 200, 200, 40, 40, kind, 0, 0], &jpeg[..]].concat());
                write("jpeg_index", number, &[&[4, 0, 0, 1, 0, 64], &jpeg[..]].concat());
                write("dct", number, &jpeg);
                if let Ok(packed) = dct::encode(&jpeg, 1 << 20) {
                    write("dct", number + 1000, &packed);
                }
            }
        }
    }
}

fn write(target: &str, number: u32, bytes: &[u8]) {
    let folder = Path::new("corpus").join(target);
    std::fs::create_dir_all(&folder).expect("a writable folder");
    std::fs::write(folder.join(format!("seed-{number}")), bytes).expect("a writable folder");
}
