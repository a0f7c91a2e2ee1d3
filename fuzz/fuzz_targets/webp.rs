//! Any bytes as WebP. Lossless images have the pixels of the `image-webp` crate.
#![no_main]

mod shared;

use libfuzzer_sys::fuzz_target;
use shared::images::{LIMIT, check};

/// RIFF's lengths are set right, so that inputs get past the first check.
fn framed(input: &[u8]) -> Vec<u8> {
    let mut bytes = b"RIFF\0\0\0\0WEBP".to_vec();
    bytes.extend_from_slice(input.get(12..).unwrap_or_default());
    let length = (bytes.len() as u32 - 8).to_le_bytes();
    bytes[4..8].copy_from_slice(&length);
    bytes
}

fn lossless(bytes: &[u8]) -> Option<(Vec<u8>, usize)> {
    let mut decoder = image_webp::WebPDecoder::new(std::io::Cursor::new(bytes)).ok()?;
    let (width, height) = decoder.dimensions();
    if decoder.is_lossy() || decoder.is_animated() || u64::from(width) * u64::from(height) > LIMIT {
        return None;
    }
    let mut pixels = vec![0; decoder.output_buffer_size()?];
    decoder.read_image(&mut pixels).ok()?;
    Some((pixels, if decoder.has_alpha() { 4 } else { 3 }))
}

fuzz_target!(|input: &[u8]| {
    check(input);
    let bytes = framed(input);
    let Some(ours) = check(&bytes) else { return };
    let Some((theirs, channels)) = lossless(&bytes) else { return };
    if ours.len() / 4 != theirs.len() / channels {
        return;
    }
    let pairs = ours.chunks_exact(4).zip(theirs.chunks_exact(channels));
    assert!(pairs.into_iter().all(|(a, b)| a[..3] == b[..3]), "pixels differ");
});
