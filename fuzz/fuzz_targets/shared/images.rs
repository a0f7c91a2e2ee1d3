//! Any bytes as an image: headers, whole pixels, every mode. What decodes must have the size its header says and the same
//! pixels whatever was decoded before.

use feedline_pixels::{Decoder, Mode, check_amount, probe};

pub const LIMIT: u64 = 1 << 18;

/// The image's upright size and pixels, if it decodes.
pub fn check(bytes: &[u8]) -> Option<Vec<u8>> {
    let header = probe(bytes).ok()?;
    check_amount(bytes, header.size).ok();
    let mut decoder = Decoder::with_max_pixels(LIMIT);
    for mode in Mode::ALL {
        decoder.decode_as(bytes, mode).ok();
    }
    let (_, image) = decoder.decode_upright(bytes).ok()?;
    assert_eq!(image.size, header.upright_size());
    let first = image.bytes.to_vec();
    let mut again = Decoder::with_max_pixels(LIMIT);
    // Memory that another image left must not show through.
    again.decode_upright(include_bytes!("../../seeds/images/png-RGB.png")).expect("own file");
    let (_, image) = again.decode_upright(bytes).expect("it decoded before");
    assert!(image.bytes == first, "pixels depend on what was decoded before");
    again.set_allow_truncated(true);
    again.set_background(Some([255, 0, 128]));
    again.set_upright(false);
    again.decode_upright(bytes).ok();
    Some(first)
}

/// The input with the first bytes of a codec, so that no time is spent on finding them.
pub fn beginning(start: &[u8], input: &[u8]) -> Vec<u8> {
    let mut bytes = start.to_vec();
    bytes.extend_from_slice(input.get(start.len()..).unwrap_or_default());
    bytes
}
