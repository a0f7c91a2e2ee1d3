//! Any bytes as an mp4, mkv or webm file: the index is an error, or every packet of it is in the file.
#![no_main]

use feedline::video::Index;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    // Any bytes as a stored index, too.
    if let Ok(stored) = Index::from_bytes(bytes, 1 << 20) {
        assert!(stored.packets.iter().all(|packet| packet.offset + u64::from(packet.size) <= 1 << 20));
    }
    let Ok(index) = Index::read(bytes) else { return };
    assert!(!index.is_empty() && index.len() <= index.packets.len());
    for packet in &index.packets {
        assert!(packet.offset + u64::from(packet.size) <= bytes.len() as u64);
    }
    let mut last = f64::NEG_INFINITY;
    for frame in 0..index.len() {
        assert!(index.time(frame) >= last);
        last = index.time(frame);
    }
    assert!(index.fps() >= 0.0);
    let size = bytes.len() as u64;
    if let Ok(stored) = Index::from_bytes(&index.to_bytes(size), size) {
        assert_eq!(stored, index);
    }
});
