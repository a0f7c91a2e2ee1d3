//! `feedline doctor`.

use crate::kit::{Place, command, finish, run, text};

#[test]
fn shows_the_machine() {
    let shown = run(&["doctor"]).success().stdout();
    for word in [
        "feedline",
        "libjpeg-turbo",
        "kernels",
        "threads",
        "memory",
        "open files",
        "webdataset, zip, npy, hdf5, zarr, arrayrecord, tokens, table, files, folder",
    ] {
        assert!(shown.contains(word), "'{word}' is not in: {shown}");
    }
}

#[test]
fn storage_is_tested() {
    let place = Place::new();
    let images = place.pictures(30);
    let path = text(&images);
    let document = run(&["doctor", path, "--json"]).success().json();
    let storage = &document["storage"];
    assert_eq!(
        (storage["reads"].as_u64(), storage["remote"].as_bool()),
        (Some(30), Some(false)),
        "{document}"
    );
    assert!(storage["median_seconds"].as_f64().unwrap() > 0.0 && storage["bytes"].as_u64().unwrap() > 0);
    assert!(run(&["doctor", path]).success().stdout().contains("30 reads,"));
    run(&["doctor", "/no/such/folder"]).fails(1, &["/no/such/folder"]);
}

#[test]
fn forced_kernels_are_noticed() {
    let document =
        finish(command().args(["doctor", "--json"]).env("FEEDLINE_CPU", "scalar")).success().json();
    assert_eq!(document["kernels"], "scalar");
    assert!(document["threads"].as_u64().unwrap() >= 1);
    if document["best_kernels"] != "scalar" {
        assert!(document["advice"].to_string().contains("FEEDLINE_CPU"), "{document}");
    }
}
