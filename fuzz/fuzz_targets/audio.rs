//! Any bytes as audio: an error, or as many samples as were asked for.
#![no_main]

use feedline_audio::Reader;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(mut reader) = Reader::open(bytes) else { return };
    let info = reader.info();
    for start in [0, info.frames / 2] {
        if let Ok(clip) = reader.window(start, 1000) {
            assert_eq!(clip.data.len(), 1000 * info.channels);
        }
    }
});
