//! Any bytes as each of the portable maps.
#![no_main]

mod shared;

use libfuzzer_sys::fuzz_target;
use shared::images::{beginning, check};

fuzz_target!(|input: &[u8]| {
    check(input);
    let Some((choice, rest)) = input.split_first() else { return };
    let start: &[u8] = match choice % 9 {
        kind @ 0..=5 => &[b'P', b'1' + kind, b'\n'],
        6 => b"P7\n",
        7 => b"Pf\n",
        _ => b"PF\n",
    };
    check(&beginning(start, rest));
});
