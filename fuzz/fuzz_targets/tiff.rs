//! Any bytes as TIFF.
#![no_main]

mod shared;

use libfuzzer_sys::fuzz_target;
use shared::images::{beginning, check};

fuzz_target!(|input: &[u8]| {
    check(input);
    check(&beginning(b"II*0", input));
});
