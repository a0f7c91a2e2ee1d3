//! `feedline doctor`.

use crate::kit::{command, finish, run};

#[test]
fn tells_about_the_machine() {
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
fn forced_kernels_are_noticed() {
    let document =
        finish(command().args(["doctor", "--json"]).env("FEEDLINE_CPU", "scalar")).success().json();
    assert_eq!(document["kernels"], "scalar");
    assert!(document["threads"].as_u64().unwrap() >= 1);
    if document["best_kernels"] != "scalar" {
        assert!(document["advice"].to_string().contains("FEEDLINE_CPU"), "{document}");
    }
}
