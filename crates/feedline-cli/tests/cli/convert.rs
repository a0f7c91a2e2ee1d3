//! `feedline convert`.

use std::fs;

use crate::kit::{Place, run, text};

#[test]
fn conversions_round_trip() {
    let place = Place::new();
    let (pictures, shards, back) = (place.pictures(20), place.path("shards"), place.path("back"));
    let shown = run(&["convert", text(&pictures), text(&shards), "--to", "webdataset"]).success().stdout();
    assert!(shown.contains("samples     20"), "{shown}");
    run(&["convert", text(&shards), text(&back), "--to", "pack", "--quiet"]).success();
    let document = run(&["inspect", text(&back), "--json"]).success().json();
    assert_eq!((&document["format"], &document["samples"]), (&"pack".into(), &20.into()));
}

#[test]
fn json_is_one_document() {
    let place = Place::new();
    let (pictures, mds) = (place.pictures(20), place.path("mds"));
    let arguments = ["convert", text(&pictures), text(&mds), "--to", "mds", "--shard-bytes", "8K", "--json"];
    let document = run(&arguments).success().json();
    assert_eq!((&document["samples"], &document["to"]), (&20.into(), &"mds".into()));
    assert!(document["files"].as_u64().unwrap() > 1);
}

#[test]
fn errors_name_the_mistake() {
    let place = Place::new();
    let pictures = place.pictures(4);
    let unknown = run(&["convert", text(&pictures), text(&place.path("x")), "--to", "zip"]);
    assert_eq!(unknown.code(), 2);
    assert!(unknown.stderr().contains("not one of pack, webdataset"), "{}", unknown.stderr());
    let full = place.path("full");
    fs::create_dir(&full).unwrap();
    fs::write(full.join("mine.txt"), "x").unwrap();
    let refused = run(&["convert", text(&pictures), text(&full), "--to", "mds"]);
    assert_eq!(refused.code(), 1);
    assert!(refused.stderr().contains("mine.txt"), "{}", refused.stderr());
}

#[test]
fn converting_again_has_nothing_to_do() {
    let place = Place::new();
    let pictures = place.pictures(12);
    for (to, name) in [("webdataset", "shards"), ("mds", "mds"), ("beton", "all.beton")] {
        let target = place.path(name);
        let arguments = ["convert", text(&pictures), text(&target), "--to", to, "--json"];
        let first = run(&arguments).success().json();
        let again = run(&arguments).success().json();
        assert_eq!((&again["samples"], &again["bytes"]), (&first["samples"], &first["bytes"]));
        assert_eq!(again["files_found"], again["files"]);
    }
    // With other options, or if a file is missing, it is converted again or refused.
    let shards = place.path("shards");
    let other = ["convert", text(&pictures), text(&shards), "--to", "webdataset", "--shard-bytes", "8K"];
    run(&other).fails(1, &["a finished conversion of other data, or with other options"]);
}
