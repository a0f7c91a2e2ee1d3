//! A pack's manifest and parts. The input is the manifest, a zero byte, and bytes that are laid over the part: each change is
//! three bytes of place and one to XOR. Checksums protect parts, so most changes end there; those of the manifest do not.
#![no_main]

mod shared;

use libfuzzer_sys::fuzz_target;

const PARTS: [(&str, &[u8]); 2] = [
    ("part-000000.fl", include_bytes!("../../testdata/compat/pack-v1/part-000000.fl")),
    ("part-000001.fl", include_bytes!("../../testdata/compat/pack-v1/part-000001.fl")),
];

fuzz_target!(|input: &[u8]| {
    let split = input.iter().position(|byte| *byte == 0).unwrap_or(input.len());
    let (manifest, changes) = input.split_at(split);
    let mut files: Vec<(String, Vec<u8>)> =
        PARTS.iter().map(|(name, bytes)| ((*name).to_owned(), bytes.to_vec())).collect();
    for change in changes.get(1..).unwrap_or_default().chunks_exact(4) {
        let at = usize::from(change[0]) | usize::from(change[1]) << 8 | usize::from(change[2] & 1) << 16;
        let part = &mut files[usize::from(change[2] >> 7)].1;
        if let Some(byte) = part.get_mut(at) {
            *byte ^= change[3];
        }
    }
    files.push(("feedline.json".to_owned(), manifest.to_vec()));
    shared::containers::read_all(files);
});
