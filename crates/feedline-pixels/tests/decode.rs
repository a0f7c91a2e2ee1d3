//! Decoding against what Pillow gave (`tools/make_image_golden.py`), and against files that end early or lie.

use feedline_pixels::*;
use sha2::{Digest, Sha256};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/images/");

fn load(name: &str) -> Vec<u8> {
    std::fs::read(format!("{FOLDER}{name}")).unwrap()
}

struct Golden {
    name: String,
    stored: (String, String),
    upright: (String, String),
}

fn goldens() -> Vec<Golden> {
    let table = std::fs::read_to_string(format!("{FOLDER}golden.txt")).unwrap();
    let parse = |line: &str| {
        let words: Vec<String> = line.split(' ').map(Into::into).collect();
        let [name, size, hash, upright_size, upright_hash] = <[String; 5]>::try_from(words).unwrap();
        Golden { name, stored: (size, hash), upright: (upright_size, upright_hash) }
    };
    table.lines().map(parse).collect()
}

/// Size and hash of the RGB bytes.
fn summary(image: ImageRef<'_>) -> (String, String) {
    let mut hash = Sha256::new();
    for y in 0..image.size.height {
        for pixel in image.row(y).chunks_exact(image.layout.bytes()) {
            hash.update(&pixel[..3]);
        }
    }
    let digits = hash.finalize().iter().flat_map(|byte| [byte >> 4, byte & 15]).map(digit).collect();
    (format!("{}x{}", image.size.width, image.size.height), digits)
}

fn digit(value: u8) -> char {
    char::from_digit(u32::from(value), 16).unwrap()
}

#[test]
fn pixels_are_pillows() {
    let mut decoder = Decoder::new();
    for golden in goldens() {
        let bytes = load(&golden.name);
        let (header, image) =
            decoder.decode(&bytes).unwrap_or_else(|error| panic!("{}: {error}", golden.name));
        assert_eq!(header.size, image.size, "{}", golden.name);
        assert_eq!(summary(image), golden.stored, "{}", golden.name);
        let (header, image) = decoder.decode_upright(&bytes).unwrap();
        assert_eq!(header.upright_size(), image.size, "{}", golden.name);
        assert_eq!(summary(image), golden.upright, "{} upright", golden.name);
        assert_eq!(probe(&bytes).unwrap(), header, "{}", golden.name);
    }
}

#[test]
fn files_that_end_early_are_errors() {
    let mut decoder = Decoder::new();
    for golden in goldens() {
        let bytes = load(&golden.name);
        let mut accepted = 0;
        for length in 0..bytes.len() {
            // What lies behind the pixels may be missing; pixels may not.
            if let Ok((_, image)) = decoder.decode(&bytes[..length]) {
                assert_eq!(summary(image), golden.stored, "{} cut to {length} bytes", golden.name);
                accepted += 1;
            }
        }
        // The first frame is all that is decoded, and TIFF may keep anything anywhere.
        let any = golden.name.contains("tiff") || golden.name == "animated.gif";
        let tail = if any { bytes.len() } else { 80 };
        assert!(accepted <= tail, "{}: {accepted} of {} cuts were accepted", golden.name, bytes.len());
    }
}

#[test]
fn flipped_bytes_never_panic() {
    let mut decoder = Decoder::with_max_pixels(1 << 20);
    for golden in goldens() {
        let original = load(&golden.name);
        for position in 0..original.len().min(400) {
            for value in [0x00, 0x7F, 0xFF, original[position] ^ 1] {
                let mut bytes = original.clone();
                bytes[position] = value;
                let _ = probe(&bytes);
                let _ = decoder.decode_upright(&bytes);
            }
        }
    }
}

#[test]
fn bombs_are_refused_by_their_header() {
    let mut bytes = load("rgb.png");
    bytes[16..24].copy_from_slice(&[0, 1, 0, 0, 0, 1, 0, 0]);
    let error = Decoder::new().decode(&bytes).map(|_| ()).unwrap_err();
    assert_eq!(error, Error::TooLarge { width: 65536, height: 65536, limit: Decoder::DEFAULT_MAX_PIXELS });
    let error = Decoder::with_max_pixels(390).decode(&load("lossy.webp")).map(|_| ()).unwrap_err();
    assert_eq!(error, Error::TooLarge { width: 23, height: 17, limit: 390 });
}
