//! Any bytes as each of the portable maps.
#![no_main]

mod shared;

use libfuzzer_sys::fuzz_target;
use shared::images::{beginning, check};

fuzz_target!(|input: &[u8]| {
    check(input);
    let Some((choice, rest)) = input.split_first() else { return };
    let kind = b"1234567fF"[usize::from(choice % 9)];
    check(&beginning(&[b'P', kind, b'\n'], rest));
});
