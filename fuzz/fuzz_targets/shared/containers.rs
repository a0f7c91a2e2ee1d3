//! The input is a small archive of named files (see `seeds.rs`), opened as a folder from memory and read to the end, also on
//! the paths that loaders plan with.

use std::sync::Arc;

use feedline::format::ReadingOptions;
use feedline::sample::FieldSet;
use feedline::source::{MemorySource, Target};
use feedline::{Dataset, OpenOptions};

const SAMPLES: u64 = 64;

pub fn files(mut rest: &[u8]) -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::new();
    while let Some((length, after)) = rest.split_first() {
        let Some((name, after)) = after.split_at_checked(usize::from(*length)) else { break };
        let Some((length, after)) = after.split_first_chunk::<3>() else { break };
        let length = u32::from_le_bytes([length[0], length[1], length[2], 0]) as usize;
        let (content, after) = after.split_at(length.min(after.len()));
        files.push((String::from_utf8_lossy(name).into_owned(), content.to_vec()));
        rest = after;
    }
    files
}

pub fn is_columns(content: &[u8]) -> bool {
    content.starts_with(b"PAR1") || content.starts_with(b"ARROW1") || content.starts_with(&[0xFF; 4])
}

pub fn read_all(files: Vec<(String, Vec<u8>)>) {
    // Indexes are not saved: no folder can be made there.
    let reading =
        ReadingOptions { allow_pickle: true, index_dir: Some("/dev/null/none".into()), ..Default::default() };
    let options = OpenOptions { reading, ..OpenOptions::default() };
    let target = Target::Folder(Arc::new(MemorySource::new(files)));
    let Ok(dataset) = Dataset::open_target(&target, &options) else { return };
    let (format, fields) = (dataset.format(), dataset.schema().fields.len());
    let all = FieldSet::all(fields);
    let mut extents = Vec::new();
    for sample in 0..dataset.len().min(SAMPLES) {
        dataset.get(sample).ok();
        // What loaders ask before they read.
        format.extents(sample, &all, &mut extents);
        for field in 0..fields {
            format.image_meta(sample, field);
            let Some(length) = format.byte_length(sample, field).filter(|length| *length < 1 << 20) else {
                continue;
            };
            format.read_bytes(sample, field, &mut vec![0; length as usize]).ok();
        }
    }
}
