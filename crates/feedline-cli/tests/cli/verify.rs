//! `feedline verify`.

use std::fs;
use std::path::Path;

use crate::kit::{Place, run, text};

fn flip(path: &Path, offset: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[offset] ^= 0x10;
    fs::write(path, bytes).unwrap();
}

#[test]
fn an_intact_pack() {
    let place = Place::new();
    let pack = place.pack(30);
    let shown = run(&["verify", text(&pack)]).success().stdout();
    assert!(shown.contains("intact (30 samples"), "{shown}");
    let document = run(&["verify", text(&pack), "--decode", "--json"]).success().json();
    assert_eq!((&document["intact"], &document["samples"]), (&true.into(), &30.into()));
}

#[test]
fn a_flipped_bit_names_part_and_sample() {
    let place = Place::new();
    let pack = place.pack(30);
    flip(&pack.join("part-000001.fl"), 100);
    let shown = run(&["verify", text(&pack)]).fails(1, &[]).stdout();
    assert!(shown.contains("broken: part-000001.fl, sample "), "{shown}");
    assert!(shown.contains("checksum"), "{shown}");
    let document = run(&["verify", text(&pack), "--json"]).fails(1, &[]).json();
    assert_eq!(document["intact"], false);
    assert_eq!(document["damage"][0]["file"], "part-000001.fl");
    assert!(document["damage"][0]["sample"].is_u64() && document["damage"][0]["offset"].is_u64());
}

#[test]
fn missing_and_truncated_parts_are_named() {
    let place = Place::new();
    let pack = place.pack(30);
    fs::remove_file(pack.join("part-000000.fl")).unwrap();
    let part = pack.join("part-000002.fl");
    let bytes = fs::read(&part).unwrap();
    fs::write(&part, &bytes[..bytes.len() / 2]).unwrap();
    let shown = run(&["verify", text(&pack)]).fails(1, &[]).stdout();
    assert!(shown.contains("part-000000.fl") && shown.contains("part-000002.fl"), "{shown}");
    assert!(!shown.contains("part-000001.fl"), "{shown}");
}

#[test]
fn a_damaged_manifest_is_named() {
    let place = Place::new();
    let pack = place.pack(10);
    flip(&pack.join("feedline.json"), 200);
    run(&["verify", text(&pack)]).fails(1, &["error: ", "feedline.json"]);
}

#[test]
fn a_folder_is_read_whole() {
    let place = Place::new();
    let pictures = place.pictures(12);
    let shown = run(&["verify", text(&pictures)]).success().stdout();
    assert!(shown.contains("intact (12 samples"), "{shown}");
}

#[test]
fn decoding_finds_what_reading_does_not() {
    let place = Place::new();
    let pictures = place.pictures(12);
    fs::write(pictures.join("dog/00003.jpg"), b"\xff\xd8\xffnot really").unwrap();
    run(&["verify", text(&pictures)]).success();
    let shown = run(&["verify", text(&pictures), "--decode"]).fails(1, &[]).stdout();
    assert!(shown.contains("dog/00003.jpg"), "{shown}");
    assert!(shown.contains("1 problem"), "{shown}");
}

#[test]
fn dangling_links_are_reported() {
    let place = Place::new();
    let pictures = place.pictures(6);
    std::os::unix::fs::symlink("/nowhere/x.jpg", pictures.join("cat/link.jpg")).unwrap();
    let shown = run(&["verify", text(&pictures)]).fails(1, &[]).stdout();
    assert!(shown.contains("cat/link.jpg"), "{shown}");
}

#[test]
fn skipped_checks_are_reported() {
    let place = Place::new();
    let pictures = place.pictures(6);
    let shown = run(&["verify", text(&pictures)]).success().stdout();
    assert!(shown.contains("not checked: whether files are what they were"), "{shown}");
    assert!(shown.contains("not checked: whether the images can be decoded; --decode does that"), "{shown}");
    let shown = run(&["verify", text(&pictures), "--decode"]).success().stdout();
    assert!(!shown.contains("decoded; --decode"), "{shown}");
    let pack = place.pack(6);
    let document = run(&["verify", text(&pack), "--decode", "--json"]).success().json();
    assert_eq!(document["not_checked"], serde_json::json!([]));
}
