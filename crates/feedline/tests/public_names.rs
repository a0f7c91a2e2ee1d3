//! What users find at the root of the crate. A change here is a change of the API: update `public_names.txt` on purpose,
//! and the changelog with it.

use std::path::Path;

/// The names at the root: re-exports and public modules.
fn names(text: &str) -> Vec<String> {
    let code: String =
        text.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n");
    let mut found = Vec::new();
    for statement in code.split(';') {
        let statement = statement.trim();
        if let Some(module) = statement.strip_prefix("pub mod ") {
            found.push(format!("{module}::"));
        } else if let Some(path) = statement.strip_prefix("pub use ") {
            let modules = path.starts_with("feedline_format::{");
            let list = path.rsplit_once("::").map_or(path, |(_, list)| list).trim_matches(['{', '}']);
            let list = list.split(',').map(str::trim).filter(|name| !name.is_empty());
            found.extend(list.map(|name| if modules { format!("{name}::") } else { name.to_owned() }));
        }
    }
    found.sort();
    found
}

#[test]
fn the_crate_root_has_exactly_the_listed_names() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let found = names(&std::fs::read_to_string(here.join("src/lib.rs")).unwrap());
    let listed = std::fs::read_to_string(here.join("tests/public_names.txt")).unwrap();
    let listed: Vec<String> = listed.lines().map(str::to_owned).collect();
    assert_eq!(found, listed, "the names at the root are not those of public_names.txt");
    let items = found.iter().filter(|name| !name.ends_with("::")).count();
    assert!(items <= 24, "{items} names: the root is for what most programs need");
}
