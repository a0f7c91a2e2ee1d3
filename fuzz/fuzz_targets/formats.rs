//! Hostile files of every container but the columnar ones (see `columns.rs`).
#![no_main]

mod shared;

use libfuzzer_sys::fuzz_target;
use shared::containers::{files, is_columns, read_all};

fuzz_target!(|input: &[u8]| {
    let files = files(input);
    if !files.iter().any(|(_, content)| is_columns(content)) {
        read_all(files);
    }
});
