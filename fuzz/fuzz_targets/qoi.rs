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
    // An index that was never set is transparent black, and is stored like every pixel: so in the format, in Pillow and
    // here. The crate does not store it, and has other colours from then on.
    if step == 4 && ours.chunks_exact(4).any(|pixel| pixel == [0; 4]) {
        return;
    }
    let pairs = ours.chunks_exact(step).zip(theirs.chunks_exact(channels));
    assert!(pairs.into_iter().all(|(a, b)| a[..3] == b[..3]), "pixels differ");
});
