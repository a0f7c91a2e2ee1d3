//! `feedline index`.

use feedline_pixels::{Size, turbo};

use crate::kit::{Place, command, finish, run, text};

#[test]
fn indexes_are_built_once_and_reported() {
    let place = Place::new();
    let folder = place.pictures(2); // Too small to be worth an index.
    for number in 0..3u32 {
        let size = Size::new(320, 240);
        let pixel = |n: u32| (n.wrapping_mul(2654435761 + number) >> 13) as u8;
        let pixels: Vec<u8> = (0..size.width * size.height * 3).map(pixel).collect();
        let mut settings = turbo::Encoding::baseline(size, 3, 85, (2, 2));
        settings.progressive = number == 2;
        let file = turbo::encode(&pixels, &settings).unwrap();
        std::fs::write(folder.join(format!("cat/photo{number}.jpg")), file).unwrap();
    }
    let index = |cache: &str| {
        let cache = place.path(cache);
        finish(command().args(["index", text(&folder), "--json"]).env("FEEDLINE_CACHE_DIR", cache))
    };
    let first = index("cache").success().json();
    assert_eq!((&first["indexed"], &first["known"], &first["without"]), (&2.into(), &0.into(), &3.into()));
    assert!(first["saved"].as_bool().unwrap() && first["bytes"].as_u64().unwrap() > 100);
    let again = index("cache").success().json();
    assert_eq!((&again["indexed"], &again["known"]), (&0.into(), &2.into()));
    // A cache that cannot be written is reported.
    std::fs::write(place.path("file"), b"").unwrap();
    assert_eq!(index("file").fails(1, &[]).json()["saved"], false);
    run(&["index", text(&place.path("nothing"))]).fails(1, &["nothing"]);
}
