//! Tests of the contract in `mod.rs`, run by every source.

use std::sync::Arc;

use super::Source;

/// Checks a source made by `make` from the given objects.
pub(crate) fn check(make: impl FnOnce(&[(&str, Vec<u8>)]) -> Arc<dyn Source>) {
    let large: Vec<u8> = (0..200_000u32).map(|i| (i * 31 % 251) as u8).collect();
    let objects = [
        ("a.bin", large.clone()),
        ("sub/empty", Vec::new()),
        ("sub/deep/ü name", b"xyz".to_vec()),
        ("subway", vec![1]),
    ];
    let source = make(&objects);
    lists(&*source);
    reads_ranges(&*source, &large);
    notices_changes(&*source);
    refuses_what_is_not_there(&*source);
    serves_many_threads(&source, &large);
}

fn lists(source: &dyn Source) {
    let names = |prefix: &str| {
        let mut names: Vec<_> =
            source.list(prefix).unwrap().entries.into_iter().map(|e| (e.name, e.size)).collect();
        names.sort();
        names
    };
    let sub = [("sub/deep/ü name".to_owned(), 3), ("sub/empty".to_owned(), 0)];
    assert_eq!(names("sub"), sub);
    assert_eq!(names("").len(), 4);
    let children = |folder: &str| {
        let mut names = source.children(folder).unwrap();
        names.sort();
        names
    };
    assert_eq!(children(""), ["a.bin", "sub/", "subway"]);
    assert_eq!(children("sub"), ["deep/", "empty"]);
    assert!(source.exists("subway").unwrap() && !source.exists("subwa").unwrap());
}

fn reads_ranges(source: &dyn Source, large: &[u8]) {
    let object = source.open("a.bin").unwrap();
    assert_eq!(object.size(), large.len() as u64);
    for range in [0..1, 0..large.len(), 77..100_000, large.len() - 1..large.len(), 5..5] {
        let mut bytes = vec![0; range.len()];
        object.read_at(range.start as u64, &mut bytes).unwrap();
        assert_eq!(bytes, large[range.clone()]);
        let held = object.hold(range.start as u64..range.end as u64).unwrap();
        assert_eq!(&*held, &large[range]);
    }
    let mut whole = vec![9; 3];
    source.read_whole("sub/deep/ü name", &mut whole).unwrap();
    assert_eq!(whole, b"xyz");
    source.read_whole("sub/empty", &mut whole).unwrap();
    assert!(whole.is_empty());
}

fn notices_changes(source: &dyn Source) {
    let version = source.list("").unwrap().entries.into_iter().find(|e| e.name == "subway").unwrap().version;
    assert_eq!(source.open("subway").unwrap().version(), version);
    let mut byte = [0];
    source.read_unchanged("subway", version, &mut byte).unwrap();
    assert_eq!(byte, [1]);
    let message = source.read_unchanged("subway", version, &mut [0; 2]).unwrap_err().to_string();
    assert!(message.contains("subway") && message.contains("changed"), "{message}");
}

fn refuses_what_is_not_there(source: &dyn Source) {
    let object = source.open("a.bin").unwrap();
    let past = object.read_at(object.size() - 1, &mut [0; 2]).unwrap_err();
    assert!(past.to_string().contains("a.bin"), "{past}");
    assert!(object.hold(0..object.size() + 1).is_err());
    assert!(object.read_at(u64::MAX, &mut [0; 2]).is_err());
    let missing = source.open("nobody").unwrap_err();
    assert!(missing.to_string().contains("nobody"), "{missing}");
}

fn serves_many_threads(source: &Arc<dyn Source>, large: &[u8]) {
    let object = source.open("a.bin").unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4usize {
            let object = &object;
            scope.spawn(move || {
                for i in 0..100 {
                    let start = (thread * 7919 + i * 104_729) % (large.len() - 64);
                    let mut bytes = [0; 64];
                    object.read_at(start as u64, &mut bytes).unwrap();
                    assert_eq!(bytes, large[start..start + 64]);
                }
            });
        }
    });
}
