//! Any bytes as an image of any codec: headers, whole pixels, every mode. What decodes must have the size its header says
//! and the same pixels whatever was decoded before.
#![no_main]

use feedline_pixels::{Decoder, Mode, check_amount, probe};
use libfuzzer_sys::fuzz_target;

const LIMIT: u64 = 1 << 18;

fuzz_target!(|bytes: &[u8]| {
    let Ok(header) = probe(bytes) else { return };
    check_amount(bytes, header.size).ok();
    let mut decoder = Decoder::with_max_pixels(LIMIT);
    let Ok((_, image)) = decoder.decode_upright(bytes) else { return };
    assert_eq!(image.size, header.upright_size());
    let first = image.bytes.to_vec();
    let mut again = Decoder::with_max_pixels(LIMIT);
    // Memory that another image left must not show through.
    again.decode_upright(include_bytes!("../seeds/images/png-RGB.png")).expect("own file");
    let (_, image) = again.decode_upright(bytes).expect("it decoded before");
    assert!(image.bytes == first, "pixels depend on what was decoded before");
    for mode in Mode::ALL {
        decoder.decode_as(bytes, mode).ok();
    }
});
