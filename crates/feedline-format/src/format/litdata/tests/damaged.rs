//! Damaged and malicious chunks.

use super::*;

/// Numbers at limits, and random ones.
fn damage(bytes: &mut [u8], random: &mut u64) {
    let mut next = |below: usize| {
        *random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*random >> 33) as usize % below.max(1)
    };
    let at = next(bytes.len());
    match next(4) {
        0 => bytes[at] = next(256) as u8,
        1 => {
            let word = [0, 1, 0x7fff_ffff, 0x8000_0000, u32::MAX, next(1 << 16) as u32][next(6)];
            let end = (at / 4 * 4 + 4).min(bytes.len());
            let start = end.saturating_sub(4);
            bytes[start..end].copy_from_slice(&word.to_le_bytes()[..end - start]);
        }
        2 => bytes[at] ^= 1 << next(8),
        _ => {
            let other = next(bytes.len());
            bytes.swap(at, other);
        }
    }
}

/// Reading a damaged chunk never panics, loops for ever or allocates what a number in it claims.
#[test]
fn damaged_fixtures_give_values_or_errors() {
    let mut random = 7;
    let names = [
        "classic",
        "zstd-chunk",
        "zstd-sample",
        "frames",
        "tokens",
        "temporal",
        "json",
        "arrow",
        "arrow-kinds",
        "arrow-stream",
        "arrow-lz4",
        "arrow-nested",
    ];
    for name in names {
        let files: Vec<(String, Vec<u8>)> = std::fs::read_dir(folder(name))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .map(|path| {
                (path.file_name().unwrap().to_str().unwrap().to_owned(), std::fs::read(path).unwrap())
            })
            .collect();
        for _ in 0..400 {
            let mut changed = files.clone();
            for (file, bytes) in &mut changed {
                if file != "index.json" {
                    (0..3).for_each(|_| damage(bytes, &mut random));
                }
            }
            let Ok(set) = LitData::open(Arc::new(MemorySource::new(changed)), &ReadingOptions::default())
            else {
                continue;
            };
            let fields = FieldSet::all(set.schema().fields.len());
            let mut buffer = SampleBuffer::new();
            for number in 0..set.len() {
                if let Err(error) = set.read(number, &fields, &mut buffer) {
                    assert!(error.to_string().len() > 10);
                }
                assert!(buffer.used() < 1 << 20, "{name}: {} bytes", buffer.used());
                let _ = (set.byte_length(number, 0), set.int_value(number, 0));
                set.extents(number, &fields, &mut Vec::new());
            }
        }
    }
}

#[test]
fn a_chunk_that_is_a_decompression_bomb_is_refused() {
    // 200 MiB of zeros in a few kB, with the right length in the index.
    let frame = zstd::encode_all(&vec![0; 200 << 20][..], 3).unwrap();
    let index = format!(
        r#"{{"chunks": [{{"chunk_bytes": {}, "chunk_size": 1, "dim": null, "filename": "c.zstd.bin"}}],
        "config": {{"compression": "zstd", "data_format": ["bytes"], "item_loader": "PyTreeLoader", "encryption": null,
        "data_spec": "[1, {{\"type\": null, \"context\": null, \"children_spec\": []}}]"}}}}"#,
        200u64 << 20
    );
    let source = MemorySource::new([("index.json", index.into_bytes()), ("c.zstd.bin", frame)]);
    let opened = LitData::open(Arc::new(source), &ReadingOptions::default());
    let read = opened.and_then(|set| set.read(0, &FieldSet::all(1), &mut SampleBuffer::new()));
    let message = read.unwrap_err().to_string();
    assert!(message.contains("c.zstd.bin") && message.contains("refused"), "{message}");
}
