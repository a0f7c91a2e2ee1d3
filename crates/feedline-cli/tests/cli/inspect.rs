//! `feedline inspect`.

use crate::kit::{Place, run, text};

#[test]
fn a_folder() {
    let place = Place::new();
    let pictures = place.pictures(10);
    std::fs::write(pictures.join("cat/notes.txt"), "x").unwrap();
    let shown = run(&["inspect", text(&pictures), "--samples", "2"]).success().stdout();
    for word in ["folder", "2: cat, dog", "0 (cat)", "jpeg 40x30", "notes.txt", "image", "label", "path"] {
        assert!(shown.contains(word), "'{word}' is not in: {shown}");
    }
}

#[test]
fn a_pack_as_json() {
    let place = Place::new();
    let pack = place.pack(30);
    let document = run(&["inspect", text(&pack), "--json", "--samples", "3"]).success().json();
    assert_eq!(document["format"], "pack");
    assert_eq!(document["samples"], 30);
    assert_eq!(document["pack"]["version"][0], 1);
    assert!(document["pack"]["parts"].as_u64().unwrap() > 1);
    assert!(document["pack"]["index_bytes"].as_u64().unwrap() > 0);
    assert_eq!(document["classes"], serde_json::json!(["cat", "dog"]));
    assert_eq!(document["fields"][0]["kind"], "image");
    assert_eq!(document["fields"][0]["encodings"]["jpeg"], 30);
    let total = document["fields"][0]["total_bytes"].as_u64().unwrap();
    let files: u64 = (0..30).map(|n| crate::kit::picture(n).len() as u64).sum();
    assert_eq!(total, files);
    let samples = document["first_samples"].as_array().unwrap();
    assert_eq!(samples.len(), 3);
    assert_eq!(samples[0]["fields"]["image"]["size"], serde_json::json!([40, 30]));
    assert_eq!(samples[0]["fields"]["label"], 0);
}

#[test]
fn fields_can_be_picked() {
    let place = Place::new();
    let pack = place.pack(4);
    let document = run(&["inspect", text(&pack), "--json", "--field", "picture=image"]).success().json();
    assert_eq!(document["fields"].as_array().unwrap().len(), 1);
    assert_eq!(document["fields"][0]["name"], "picture");
}

#[test]
fn an_unfinished_pack_says_how_to_resume() {
    let place = Place::new();
    let pack = place.pack(10);
    std::fs::rename(pack.join("feedline.json"), pack.join("feedline-plan.json")).unwrap();
    run(&["inspect", text(&pack)]).fails(1, &["unfinished", "hint: run the same pack command again"]);
}

#[test]
fn a_truncated_pack_is_a_problem_with_the_data() {
    let place = Place::new();
    let pack = place.pack(30);
    let part = pack.join("part-000001.fl");
    let length = std::fs::metadata(&part).unwrap().len();
    std::fs::File::options().write(true).open(&part).unwrap().set_len(length / 2).unwrap();
    run(&["inspect", text(&pack)]).fails(1, &["part-000001.fl"]);
    run(&["inspect", text(&pack), "--json"]).fails(1, &["part-000001.fl"]);
    std::fs::File::options().write(true).open(pack.join("part-000000.fl")).unwrap().set_len(10).unwrap();
    assert_eq!(run(&["inspect", text(&pack)]).code(), 1);
}

#[test]
fn a_table_and_a_list_of_images() {
    let place = Place::new();
    let pictures = place.pictures(6);
    let table = place.path("train.csv");
    let rows: Vec<String> = walk(&pictures).iter().map(|name| format!("{name},{}\n", &name[..3])).collect();
    let rows = rows.concat();
    std::fs::write(&table, format!("file,label\n{rows}")).unwrap();
    let arguments = ["inspect", text(&table), "--root", text(&pictures), "--json"];
    let document = run(&arguments).success().json();
    assert_eq!((&document["format"], &document["samples"]), (&"table".into(), &6.into()));
    assert_eq!(document["classes"], serde_json::json!(["cat", "dog"]));
    let kept = ["inspect", text(&table), "--root", text(&pictures), "--kind", "label=text", "--json"];
    assert_eq!(run(&kept).success().json()["classes"], serde_json::Value::Null);
    run(&["inspect", text(&table)]).fails(1, &["none of the 6 files", "--root FOLDER"]);
    let list = format!("{}/*/*.jpg", text(&pictures));
    assert_eq!(run(&["inspect", &list, "--json"]).success().json()["format"], "files");
}

/// Names of all images below `folder`.
fn walk(folder: &std::path::Path) -> Vec<String> {
    let mut names = Vec::new();
    for class in ["cat", "dog"] {
        for entry in std::fs::read_dir(folder.join(class)).unwrap() {
            names.push(format!("{class}/{}", entry.unwrap().file_name().display()));
        }
    }
    names.sort();
    names
}
