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
fn pixels_equal_pillow() {
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
fn decompression_bombs_are_refused_by_their_header() {
    let mut bytes = load("rgb.png");
    bytes[16..24].copy_from_slice(&[0, 1, 0, 0, 0, 1, 0, 0]);
    let error = Decoder::new().decode(&bytes).map(|_| ()).unwrap_err();
    assert_eq!(error, Error::TooLarge { width: 65536, height: 65536, limit: Decoder::DEFAULT_MAX_PIXELS });
    let error = Decoder::with_max_pixels(390).decode(&load("lossy.webp")).map(|_| ()).unwrap_err();
    assert_eq!(error, Error::TooLarge { width: 23, height: 17, limit: 390 });
}

/// A baseline or progressive JPEG with its declared size replaced.
fn with_jpeg_size(mut bytes: Vec<u8>, width: u16, height: u16) -> Vec<u8> {
    let at = bytes.windows(2).position(|pair| matches!(pair, [0xFF, 0xC0 | 0xC2])).unwrap();
    bytes[at + 5..at + 7].copy_from_slice(&height.to_be_bytes());
    bytes[at + 7..at + 9].copy_from_slice(&width.to_be_bytes());
    bytes
}

fn flat_jpeg(side: u32, channels: u8, progressive: bool) -> Vec<u8> {
    let size = Size::new(side, side);
    let mut encoding = turbo::Encoding::baseline(size, channels, 50, (2, 2));
    (encoding.progressive, encoding.optimize) = (progressive, true);
    turbo::encode(&vec![128; (size.area() * u64::from(channels)) as usize], &encoding).unwrap()
}

fn refusal(bytes: &[u8]) -> Error {
    let size = probe(bytes).unwrap().size;
    let error = check_amount(bytes, size).unwrap_err();
    let decoded = Decoder::with_max_pixels(u64::MAX).decode(bytes).map(|_| ()).unwrap_err();
    assert_eq!(error, decoded);
    error
}

#[test]
fn more_pixels_than_the_bytes_can_hold_are_refused_before_allocating() {
    let mut png = load("rgb.png");
    png[16..24].copy_from_slice(&[0, 0, 0xFF, 0xFF, 0, 0, 0xFF, 0xFF]);
    assert!(refusal(&png).to_string().contains("bytes cannot hold 65535x65535 pixels"));
    for progressive in [false, true] {
        let jpeg = with_jpeg_size(flat_jpeg(64, 3, progressive), 20_000, 20_000);
        assert!(matches!(refusal(&jpeg), Error::Truncated { codec: "jpeg", .. }));
    }
    let cut = flat_jpeg(3000, 3, false);
    let error = check_amount(&cut[..cut.len() - 10], Size::new(3000, 3000)).unwrap_err();
    assert_eq!(error, Error::Truncated { codec: "jpeg", reason: "no end-of-image marker".into() });
    let mut gif = load("palette.gif");
    gif[6..10].copy_from_slice(&[0xFF; 4]);
    assert!(matches!(refusal(&gif), Error::Truncated { codec: "gif", .. }));
    let mut bmp = load("l.bmp");
    bmp[18..20].copy_from_slice(&[0xFF; 2]);
    bmp[22..24].copy_from_slice(&[0xFF; 2]);
    assert!(matches!(refusal(&bmp), Error::Truncated { codec: "bmp", .. }));
}

#[test]
fn more_tiff_qoi_or_portable_map_pixels_than_the_bytes_can_hold_are_refused() {
    assert!(matches!(refusal(&tiff(60_000, 60_000, 8, &[0; 16])), Error::Truncated { codec: "tiff", .. }));
    let qoi = b"qoif\0\0\xFF\xFF\0\0\xFF\xFF\x03\0\xC0";
    assert!(matches!(refusal(qoi), Error::Truncated { codec: "qoi", .. }));
    for map in
        [&b"P1 60000 60000 0"[..], b"P4 60000 60000 0", b"P3 60000 60000 255 0", b"Pf\n60000 60000 1\n"]
    {
        assert!(matches!(refusal(map), Error::Truncated { codec: "pnm", .. }));
    }
    // Few pixels of many bits, too.
    let error = Decoder::new().decode(&tiff(1400, 1400, 64, &[0; 16])).map(|_| ()).unwrap_err();
    assert!(error.to_string().contains("bytes cannot hold 1400x1400 pixels"), "{error}");
}

#[test]
fn flat_images_are_not_taken_for_bombs() {
    for (channels, progressive) in [(1, false), (3, false), (1, true), (3, true)] {
        let bytes = flat_jpeg(3000, channels, progressive);
        check_amount(&bytes, Size::new(3000, 3000)).unwrap();
    }
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, 8000, 8000);
    encoder.set_depth(png::BitDepth::One);
    encoder.set_compression(png::Compression::High);
    encoder.write_header().unwrap().write_image_data(&vec![0; 8_000_000]).unwrap();
    let mut decoder = Decoder::new();
    let (header, image) = decoder.decode(&bytes).unwrap();
    assert_eq!((header.size, image.row(7999)[31_999]), (Size::new(8000, 8000), 255));
}

/// A TIFF of one uncompressed strip with these many bits in a sample.
fn tiff(width: u32, height: u32, bits: u32, pixels: &[u8]) -> Vec<u8> {
    let entries = [
        (256u16, width),
        (257, height),
        (258, bits),
        (259, 1),
        (262, 1),
        (273, 8 + 2 + 9 * 12 + 4),
        (277, 1),
        (278, height),
        (279, pixels.len() as u32),
    ];
    let mut bytes = b"II*\0\x08\0\0\0\x09\0".to_vec();
    for (tag, value) in entries {
        bytes.extend(tag.to_le_bytes());
        bytes.extend(4u16.to_le_bytes());
        bytes.extend(1u32.to_le_bytes());
        bytes.extend(value.to_le_bytes());
    }
    bytes.extend([0; 4]);
    bytes.extend(pixels);
    bytes
}

#[test]
fn unusual_samples_are_refused_before_allocating() {
    let error = Decoder::new().decode(&tiff(5000, 8000, 143, &vec![0; 600_000])).map(|_| ()).unwrap_err();
    assert_eq!(error, Error::Unsupported { codec: "tiff", reason: "143 bits per sample".into() });
    assert!(Decoder::new().decode(&tiff(4, 4, 8, &[7; 16])).is_ok());
}
