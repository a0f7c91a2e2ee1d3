//! FFCV's files. They are 4 MiB, mostly zeros, so the input is changes to a real one: two bytes of place, counted from the
//! beginning or from the end (where header, records and allocations are), and the bits to flip.
#![no_main]

mod shared;

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;

const PACKED: [&[u8]; 3] = [
    include_bytes!("../../testdata/formats/beton/jpg.beton.zst"),
    include_bytes!("../../testdata/formats/beton/raw.beton.zst"),
    include_bytes!("../../testdata/formats/beton/smart.beton.zst"),
];
static FILES: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    PACKED.iter().map(|packed| zstd::decode_all(*packed).expect("a recorded file")).collect()
});

fuzz_target!(|input: &[u8]| {
    let Some((choice, changes)) = input.split_first() else { return };
    let mut file = FILES[usize::from(*choice) % FILES.len()].clone();
    for change in changes.chunks_exact(3) {
        let place = usize::from(u16::from_le_bytes([change[0], change[1]]) & 0x7FFF);
        let at = if change[1] & 0x80 == 0 { place } else { file.len() - 1 - place };
        file[at] ^= change[2];
    }
    if choice & 0x80 != 0 {
        file.truncate(file.len() / 2 + usize::from(*choice) * 64);
    }
    shared::containers::read_all(vec![("data.beton".to_owned(), file)]);
});
