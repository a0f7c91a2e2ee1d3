//! Any bytes as an image of any codec.
#![no_main]

mod shared;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    shared::images::check(bytes);
});
