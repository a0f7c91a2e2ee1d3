//! The command line itself: help, mistakes, exit codes, closed pipes.

use std::io::Read;
use std::process::Stdio;

use crate::kit::{Place, command, finish, run, text};

#[test]
fn help_names_every_command_and_gives_examples() {
    let help = run(&["--help"]).success().stdout();
    for name in ["pack", "inspect", "verify", "bench", "doctor", "demo"] {
        assert!(help.contains(name), "{help}");
    }
    for name in ["pack", "inspect", "verify", "bench", "demo"] {
        let help = run(&[name, "--help"]).success().stdout();
        assert!(help.contains("Examples:") && help.contains(&format!("feedline {name}")), "{help}");
    }
    assert!(run(&["--version"]).success().stdout().starts_with("feedline "));
}

#[test]
fn usage_errors_exit_with_2() {
    run(&[]).fails(2, &["Usage"]);
    run(&["convert", "a", "b"]).fails(2, &["convert"]);
    run(&["look", "a"]).fails(2, &["look"]);
    run(&["pack", "only-one"]).fails(2, &["DST"]);
    run(&["pack", "a", "b", "--image", "tiff"]).fails(2, &["tiff", "yuv420"]);
    run(&["pack", "a", "b", "--part-bytes", "lots"]).fails(2, &["lots", "64M"]);
    run(&["pack", "a", "b", "--field", "image"]).fails(2, &["NAME=SRC"]);
    run(&["inspect"]).fails(2, &["PATH"]);
    run(&["bench", "a", "--recipe", "soup"]).fails(2, &["soup"]);
}

#[test]
fn impossible_settings_exit_with_2() {
    let place = Place::new();
    let pictures = place.pictures(4);
    run(&["inspect", text(&pictures), "--format", "beton2"])
        .fails(2, &["error: --format: 'beton2'", "folder"]);
    run(&["inspect", text(&pictures), "--field", "image=nope"]).fails(2, &["no field 'nope'", "label"]);
    run(&["inspect", "ftp://host/x"]).fails(2, &["ftp"]);
    run(&["bench", text(&pictures), "--batch-size", "0"]).fails(2, &["batch_size"]);
    run(&["bench", text(&pictures), "--against", "torch"])
        .fails(2, &["--against torch", "python -m feedline bench"]);
}

#[test]
fn missing_paths_exit_with_1_and_a_hint() {
    for name in ["inspect", "verify", "bench"] {
        run(&[name, "/nowhere/at/all"]).fails(1, &["error: ", "/nowhere/at/all", "\nhint: "]);
    }
    let document = run(&["inspect", "/nowhere/at/all", "--json"]).fails(1, &["error: "]).json();
    assert!(document["error"]["message"].as_str().unwrap().contains("/nowhere"), "{document}");
    assert_eq!(document["error"]["exit_code"], 1);
}

#[test]
fn unrecognised_folders_exit_with_1() {
    let place = Place::new();
    std::fs::create_dir(place.path("empty")).unwrap();
    run(&["inspect", text(&place.path("empty"))]).fails(1, &["error: ", "empty"]);
    std::fs::write(place.path("notes.txt"), "hello").unwrap();
    run(&["inspect", text(&place.path("notes.txt"))]).fails(1, &["error: ", "notes.txt"]);
}

#[test]
fn a_closed_pipe_is_no_panic() {
    let place = Place::new();
    let pictures = place.pictures(40);
    for args in [
        vec!["inspect", text(&pictures), "--samples", "40"],
        vec!["inspect", text(&pictures), "--samples", "40", "--json"],
        vec!["doctor"],
        vec!["--help"],
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let finished = finish(command().args(&args).stdout(writer));
        assert!(!finished.stderr().contains("panicked"), "{args:?}: {finished:?}");
        assert_eq!(finished.code(), 0, "{args:?}: {finished:?}");
    }
}

#[test]
fn a_pipe_closed_midway_is_no_panic() {
    let place = Place::new();
    let pictures = place.pictures(200);
    let mut child = command()
        .args(["inspect", text(&pictures), "--samples", "200"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdout.take().unwrap().read_exact(&mut [0; 20]).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(output.stderr.is_empty(), "{output:?}");
}

#[test]
fn hints_name_command_line_options() {
    let place = Place::new();
    let pictures = place.pictures(4);
    run(&["inspect", text(&pictures), "--field", "a=nothing"])
        .fails(2, &["--field: ", "has no field 'nothing'"]);
    run(&["inspect", text(&pictures), "--split", "nobody"]).fails(2, &["--split: "]);
    let both = place.path("both");
    std::fs::create_dir(&both).unwrap();
    std::fs::write(both.join("1.jpg"), crate::kit::picture(1)).unwrap();
    run(&["convert", text(&pictures), text(&both.join("x")), "--to", "mds", "--quiet"]).success();
    std::fs::rename(both.join("x/index.json"), both.join("index.json")).unwrap();
    let refused = run(&["inspect", text(&both)]);
    assert_eq!(refused.code(), 1, "{refused:?}");
    let said = refused.stderr();
    assert!(said.contains("--format NAME") && !said.contains("format="), "{said}");
}
