//! `feedline cache`.

use std::sync::Arc;

use feedline::source::{CachedSource, MemorySource, Source};

use crate::kit::{Place, run, text};

#[test]
fn a_cache_is_listed_checked_and_cleared() {
    let place = Place::new();
    let folder = place.path("cache");
    let inner = Arc::new(MemorySource::new([("a.tar", vec![7; 5000])]));
    let source = CachedSource::new(inner, &folder, None).unwrap();
    source.open("a.tar").unwrap().read_at(0, &mut [0; 10]).unwrap();

    let shown = run(&["cache", "ls", text(&folder)]).success().stdout();
    assert!(shown.contains("memory:/a.tar") && shown.contains("100 %"), "{shown}");
    let document = run(&["cache", "verify", text(&folder), "--json"]).success().json();
    assert_eq!((document["blocks"].as_u64(), document["bytes"].as_u64()), (Some(1), Some(5000)));
    let document = run(&["cache", "clear", text(&folder), "--json"]).success().json();
    assert_eq!(document["blocks"].as_u64(), Some(1));
    assert!(run(&["cache", "ls", text(&folder)]).success().stdout().contains("0 objects"));
}

#[test]
fn another_folder_is_not_taken_for_a_cache() {
    let place = Place::new();
    run(&["cache", "clear", text(&place.pictures(1))]).fails(1, &["not a cache folder"]);
}
