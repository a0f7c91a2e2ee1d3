//! Any bytes as QOI: our pixels are those of the `qoi` crate.
#![no_main]

mod shared;

use libfuzzer_sys::fuzz_target;
use shared::images::{beginning, check};

fuzz_target!(|input: &[u8]| {
    let bytes = beginning(b"qoif", input);
    let Some(ours) = check(&bytes) else { return };
    let Ok((header, theirs)) = qoi::decode_to_vec(&bytes) else { return };
    let channels = header.channels.as_u8() as usize;
    let step = ours.len() / (header.width as usize * header.height as usize);
    let pairs = ours.chunks_exact(step).zip(theirs.chunks_exact(channels));
    assert!(pairs.into_iter().all(|(a, b)| a[..3] == b[..3]), "pixels differ");
});
