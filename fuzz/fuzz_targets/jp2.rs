//! Any bytes as JPEG 2000, as a file (JP2) and as a bare code stream.
#![no_main]

mod shared;

use libfuzzer_sys::fuzz_target;
use shared::images::{beginning, check};

fuzz_target!(|input: &[u8]| {
    check(input);
    check(&beginning(b"\xFF\x4F\xFF\x51", input));
    check(&beginning(b"\0\0\0\x0CjP  \r\n\x87\n", input));
});
