//! Hostile Parquet and Arrow files. Their crates panic on damage, which the reader catches: a panic that comes through to
//! here is a finding, one that was caught is not, so the hook that would end the process is taken away.
#![no_main]

mod shared;

use libfuzzer_sys::fuzz_target;
use shared::containers::{files, is_columns, read_all};

fuzz_target!(
    init: std::panic::set_hook(Box::new(|_| {})),
    |input: &[u8]| {
        let files = files(input);
        if files.iter().any(|(_, content)| is_columns(content)) {
            read_all(files);
        }
    }
);
