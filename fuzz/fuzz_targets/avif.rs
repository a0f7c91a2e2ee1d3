//! Any bytes as AVIF, and any bytes as the AV1 stream of a well-formed file.
#![no_main]

mod shared;

use libfuzzer_sys::fuzz_target;
use shared::images::{beginning, check};

const GOOD: &[u8] = include_bytes!("../seeds/images/avif.avif");

fuzz_target!(|input: &[u8]| {
    check(input);
    check(&beginning(b"\0\0\0\x1cftypavif\0\0\0\0avifmif1miaf", input));
    // The stream is the last of a file that libavif wrote.
    let at = GOOD.windows(4).position(|name| name == b"mdat").expect("a box of data") + 4;
    let mut bytes = GOOD[..at].to_vec();
    bytes.extend_from_slice(input);
    bytes.resize(bytes.len().max(GOOD.len()), 0);
    check(&bytes);
});
