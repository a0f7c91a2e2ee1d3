//! `feedline pack`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use feedline_pixels::Size;
use feedline_pixels::turbo::{self, Encoding};

use crate::kit::{Place, command, finish, picture, run, text};

/// All files of a folder with their bytes, by name.
fn contents(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<(String, Vec<u8>)> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap()))
        .collect();
    files.sort();
    files
}

#[test]
fn writes_a_pack_and_a_summary() {
    let place = Place::new();
    let (pictures, pack) = (place.pictures(20), place.path("pack"));
    let shown = run(&["pack", text(&pictures), text(&pack)]).success().stdout();
    assert!(shown.contains("samples      20") && shown.contains("fingerprint"), "{shown}");
    run(&["verify", text(&pack)]).success();
    let again = run(&["pack", text(&pictures), text(&pack)]).success().stdout();
    assert!(again.contains("nothing to do"), "{again}");
}

#[test]
fn json_is_one_document() {
    let place = Place::new();
    let (pictures, pack) = (place.pictures(20), place.path("pack"));
    let document =
        run(&["pack", text(&pictures), text(&pack), "--part-bytes", "8K", "--json"]).success().json();
    assert_eq!((&document["samples"], &document["skipped_count"]), (&20.into(), &0.into()));
    assert!(document["parts"].as_u64().unwrap() > 1);
}

#[test]
fn progressive_files_are_counted_and_can_be_rewritten() {
    let place = Place::new();
    let pictures = place.pictures(4);
    let size = Size::new(60, 40);
    let encoding = Encoding { progressive: true, ..Encoding::baseline(size, 3, 85, (2, 2)) };
    let pixels: Vec<u8> = (0..60 * 40 * 3).map(|n: u32| (n * n / 77) as u8).collect();
    fs::write(pictures.join("cat/p.jpg"), turbo::encode(&pixels, &encoding).unwrap()).unwrap();
    let (kept, written) = (place.path("kept"), place.path("written"));
    let finished = run(&["pack", text(&pictures), text(&kept), "--json"]).success();
    assert_eq!((&finished.json()["progressive"], &finished.json()["rewritten"]), (&1.into(), &0.into()));
    let hint = finished.stderr();
    assert!(hint.contains("1 progressive JPEG stored unchanged") && hint.contains("--baseline"), "{hint}");
    let finished = run(&["pack", text(&pictures), text(&written), "--json", "--baseline"]).success();
    assert_eq!((&finished.json()["progressive"], &finished.json()["rewritten"]), (&0.into(), &1.into()));
    assert!(finished.stderr().contains("rewritten as baseline"), "{}", finished.stderr());
}

#[test]
fn quiet_says_nothing() {
    let place = Place::new();
    let pictures = place.pictures(4);
    fs::write(pictures.join("cat/notes.txt"), "x").unwrap();
    let finished = run(&["pack", text(&pictures), text(&place.path("pack")), "--quiet"]).success();
    assert_eq!((finished.stdout(), finished.stderr()), (String::new(), String::new()));
}

#[test]
fn files_that_are_no_images_are_mentioned() {
    let place = Place::new();
    let pictures = place.pictures(4);
    fs::write(pictures.join("cat/notes.txt"), "x").unwrap();
    let finished = run(&["pack", text(&pictures), text(&place.path("pack"))]).success();
    assert!(
        finished.stderr().contains("warning: ") && finished.stderr().contains("notes.txt"),
        "{finished:?}"
    );
}

#[test]
fn several_folders_become_one_pack() {
    let (one, two) = (Place::new(), Place::new());
    let (a, b, pack) = (one.pictures(6), two.pictures(8), one.path("pack"));
    let document = run(&["pack", text(&a), text(&b), text(&pack), "--json"]).success().json();
    assert_eq!(document["samples"], 14);
}

#[test]
fn bad_images_stop_it_or_are_skipped() {
    let place = Place::new();
    let (pictures, pack) = (place.pictures(12), place.path("pack"));
    fs::write(pictures.join("dog/00003.jpg"), b"\xff\xd8\xffnot really").unwrap();
    run(&["pack", text(&pictures), text(&pack)]).fails(1, &["dog/00003.jpg", "hint: ", "--on-error skip"]);
    let finished = run(&["pack", text(&pictures), text(&pack), "--on-error", "skip"]).success();
    assert!(finished.stderr().contains("1 sample left out"), "{finished:?}");
    let document = run(&["inspect", text(&pack), "--json"]).success().json();
    assert_eq!((&document["samples"], &document["pack"]["skipped_count"]), (&11.into(), &1.into()));
}

#[test]
fn other_files_are_never_overwritten() {
    let place = Place::new();
    let (pictures, taken) = (place.pictures(4), place.path("taken"));
    fs::create_dir(&taken).unwrap();
    fs::write(taken.join("thesis.txt"), "years of work").unwrap();
    run(&["pack", text(&pictures), text(&taken), "--overwrite"]).fails(1, &["thesis.txt", "hint: "]);
    assert_eq!(fs::read(taken.join("thesis.txt")).unwrap(), b"years of work");
}

#[test]
fn a_different_pack_is_replaced_only_on_request() {
    let place = Place::new();
    let pack = place.pack(6);
    let pictures = place.pictures(9);
    run(&["pack", text(&pictures), text(&pack)]).fails(1, &["finished pack", "hint: ", "--overwrite"]);
    run(&["pack", text(&pictures), text(&pack), "--overwrite"]).success();
    assert_eq!(run(&["verify", text(&pack), "--json"]).success().json()["samples"], 9);
}

/// A copy of the binary that any user may run, and that user.
fn as_nobody(place: &Place) -> Command {
    fs::set_permissions(place.path("."), fs::Permissions::from_mode(0o755)).unwrap();
    let binary = place.path("feedline");
    fs::copy(env!("CARGO_BIN_EXE_feedline"), &binary).unwrap();
    let mut command = Command::new(binary);
    // The superuser may do everything, so the superuser's tests run as somebody else.
    if rustix::process::geteuid().is_root() {
        command.uid(65534).gid(65534);
    }
    command
}

#[test]
fn no_permission_to_write() {
    let place = Place::new();
    let (pictures, locked) = (place.pictures(4), place.path("locked"));
    fs::create_dir(&locked).unwrap();
    fs::set_permissions(&locked, fs::Permissions::from_mode(0o555)).unwrap();
    let pack = locked.join("pack");
    finish(as_nobody(&place).args(["pack", text(&pictures), text(&pack)]))
        .fails(1, &["error: ", text(&pack), "denied", "hint: "]);
}

#[test]
fn no_permission_to_read() {
    let place = Place::new();
    let pictures = place.pictures(4);
    let secret = pictures.join("cat/00002.jpg");
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o000)).unwrap();
    let (public, pack) = (place.path("public"), place.path("public/pack"));
    fs::create_dir(&public).unwrap();
    fs::set_permissions(&public, fs::Permissions::from_mode(0o777)).unwrap();
    finish(as_nobody(&place).args(["pack", text(&pictures), text(&pack)])).fails(1, &["00002.jpg", "denied"]);
    let shown = finish(as_nobody(&place).args(["verify", text(&pictures)])).fails(1, &[]).stdout();
    assert!(shown.contains("00002.jpg") && shown.contains("denied"), "{shown}");
}

#[test]
fn impossible_encodings_are_refused() {
    run(&["pack", "a", "b", "--image", "gif"]).fails(2, &["--image"]);
    run(&["pack", "a", "b", "--image", "as-is", "--shorter-side", "256"]).fails(2, &["as-is"]);
    run(&["pack", "a", "b", "--image", "rgb", "--quality", "90"]).fails(2, &["quality"]);
    run(&["pack", "a", "b", "--quality", "0"]).fails(2, &["--quality"]);
}

/// Enough small files for packing to take a while: every part is a file of its own, brought safely to disk.
fn many(place: &Place) -> PathBuf {
    let folder = place.path("many");
    fs::create_dir(&folder).unwrap();
    let bytes = picture(1);
    for number in 0..1500 {
        fs::write(folder.join(format!("{number:05}.jpg")), &bytes).unwrap();
    }
    folder
}

fn part_count(pack: &Path) -> usize {
    let is_part = |name: &str| name.starts_with("part-");
    fs::read_dir(pack).map_or(0, |entries| {
        entries.flatten().filter(|e| e.file_name().to_str().is_some_and(is_part)).count()
    })
}

fn wait_for_parts(pack: &Path, child: &mut Child) {
    let begun = Instant::now();
    while part_count(pack) < 3 {
        assert!(begun.elapsed() < Duration::from_secs(60), "no part was written");
        assert!(child.try_wait().unwrap().is_none(), "packing ended before it could be stopped");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn ctrl_c_stops_cleanly_and_the_same_command_resumes() {
    let place = Place::new();
    let (source, pack, whole) = (many(&place), place.path("pack"), place.path("whole"));
    let args = ["pack", text(&source), text(&pack), "--part-bytes", "6K", "--workers", "1"];
    let mut child = command().args(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for_parts(&pack, &mut child);
    let id = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(id, rustix::process::Signal::INT).unwrap();
    let stopped = crate::kit::Finished(child.wait_with_output().unwrap());
    let stopped = stopped.fails(130, &["stopped: ", "parts are kept", "hint: run the same command again"]);
    assert_eq!(stopped.stdout(), "");
    let temporary = contents(&pack).into_iter().find(|(name, _)| name.starts_with('.'));
    assert!(temporary.is_none(), "{temporary:?}");
    run(&["inspect", text(&pack)]).fails(1, &["unfinished"]);
    let resumed = run(&args).success();
    assert!(resumed.stderr().contains("resuming an unfinished pack"), "{resumed:?}");
    run(&["verify", text(&pack)]).success();
    run(&["pack", text(&source), text(&whole), "--part-bytes", "6K", "--quiet"]).success();
    assert!(contents(&pack) == contents(&whole), "the resumed pack differs from an undisturbed one");
}
