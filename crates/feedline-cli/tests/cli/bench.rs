//! `feedline bench`.

use crate::kit::{Place, run, text};

#[test]
fn all_recipes_as_json() {
    let place = Place::new();
    let pack = place.pack(20);
    let document =
        run(&["bench", text(&pack), "--batch-size", "8", "--workers", "2", "--json"]).success().json();
    let recipes = document["recipes"].as_array().unwrap();
    let names: Vec<&str> = recipes.iter().map(|r| r["recipe"].as_str().unwrap()).collect();
    assert_eq!(names, ["raw", "decode", "train", "validation"]);
    for recipe in recipes {
        let epochs = recipe["epochs"].as_array().unwrap();
        assert_eq!(epochs.len(), 3);
        for epoch in epochs {
            assert_eq!(epoch["samples"], 20);
            assert_eq!(epoch["failed"], 0);
            assert!(epoch["bytes"].as_u64().unwrap() > 0, "{recipe}");
            assert!(epoch["images_per_second"].as_f64().unwrap() > 0.0);
            assert!(epoch["cpu_seconds_per_1000"].as_f64().unwrap() > 0.0);
        }
        assert!(recipe["first_epoch"]["cold"].is_string());
    }
    assert!(document["memory_copy"]["bytes_per_second_one_thread"].as_f64().unwrap() > 0.0);
}

#[test]
fn one_recipe_as_a_table() {
    let place = Place::new();
    let pictures = place.pictures(12);
    let shown = run(&["bench", text(&pictures), "--recipe", "train", "--epochs", "2", "--batch-size", "5"])
        .success()
        .stdout();
    for word in ["images/s", "CPU s/1000", "peak RSS", "1 warm", "-bound: "] {
        assert!(shown.contains(word), "'{word}' is not in: {shown}");
    }
    assert!(!shown.contains("memory copy"), "{shown}");
}

#[test]
fn broken_images_are_counted_not_fatal() {
    let place = Place::new();
    let pictures = place.pictures(12);
    std::fs::write(pictures.join("dog/00003.jpg"), b"\xff\xd8\xffnot really").unwrap();
    let args = ["bench", text(&pictures), "--recipe", "decode", "--epochs", "1", "--json"];
    let document = run(&args).success().json();
    let epoch = &document["recipes"][0]["epochs"][0];
    assert_eq!((&epoch["samples"], &epoch["failed"]), (&11.into(), &1.into()));
}
