//! `feedline demo`.

use crate::kit::{Place, command, finish, run, text};

#[test]
fn runs_and_cleans_up() {
    let place = Place::new();
    let temporary = place.path("tmp");
    std::fs::create_dir(&temporary).unwrap();
    let shown =
        finish(command().args(["demo", "--samples", "24"]).env("TMPDIR", &temporary)).success().stdout();
    for word in ["1. Draw 24", "2. Pack", "3. Look", "4. Load", "images/s", "where the time", "5. Clean up"] {
        assert!(shown.contains(word), "'{word}' is not in: {shown}");
    }
    assert_eq!(std::fs::read_dir(&temporary).unwrap().count(), 0);
}

#[test]
fn keeps_its_data_where_asked() {
    let place = Place::new();
    let folder = place.path("demo");
    run(&["demo", "--samples", "8", "--dir", text(&folder)]).success();
    run(&["verify", text(&folder.join("images.pack")), "--decode"]).success();
    run(&["demo", "--samples", "8", "--dir", text(&folder)]).fails(2, &["not empty", "hint: "]);
}
