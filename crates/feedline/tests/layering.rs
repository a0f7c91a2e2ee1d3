//! The folders are the architecture: who may use whom is a table, and this test reads every import of every file
//! against it. Only test files and items under `#[cfg(test)]` are left out. `ARCHITECTURE.md` explains the table, and
//! its list of folders must be the tree.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

type Table = &'static [(&'static str, &'static [&'static str])];

/// Folder or file of the engine and the crate below it, and what it may use besides itself. `pixels` is the crate.
const STAGES: Table = &[
    ("error", &[]),
    ("field", &["pixels"]),
    ("sample", &["field"]),
    ("owned", &["field"]),
    ("source", &[]),
    ("format", &["field", "owned", "pixels", "source"]),
    ("spec", &["field", "transform"]),
    ("random", &[]),
    ("dataset", &["encode", "field", "format", "owned", "pixels", "source"]),
    ("order", &["random"]),
    ("transform", &["field", "pixels", "random"]),
    ("render", &["field", "pixels", "transform"]),
    ("encode", &["field", "format", "pixels", "render", "transform"]),
    ("apply", &["field", "pixels", "render", "transform"]),
    ("batch", &["field"]),
    ("video", &[]),
    ("read", &["dataset", "order", "source"]),
    (
        "loader",
        &["batch", "dataset", "field", "order", "pixels", "random", "read", "render", "source", "transform"],
    ),
];

/// The same inside `feedline-pixels`.
const KERNELS: Table = &[
    ("error", &[]),
    ("cpu", &[]),
    ("view", &[]),
    ("room", &[]),
    ("checksum", &["cpu"]),
    ("colour", &["cpu", "point"]),
    ("turbo", &["view"]),
    ("resize", &["cpu", "geometry", "room", "view"]),
    ("geometry", &["resize", "view"]),
    ("normalize", &["cpu", "view"]),
    ("orient", &["room", "view"]),
    ("outline", &["room", "view"]),
    ("warp", &["cpu", "view"]),
    ("sharpen", &["colour", "cpu", "view"]),
    ("histogram", &["colour", "cpu", "point", "view"]),
    ("blur", &["cpu", "room", "view"]),
    ("exif", &["orient"]),
    ("jpeg", &["cpu", "exif", "geometry", "orient", "room", "turbo", "view"]),
    ("dct", &["cpu", "jpeg", "room", "turbo", "view"]),
    ("yuv", &["cpu", "jpeg", "view"]),
    ("pieces", &["checksum", "dct", "jpeg", "view", "yuv"]),
    ("decode", &["cpu", "exif", "jpeg", "orient", "room", "turbo", "view"]),
    ("render", &["colour", "cpu", "geometry", "normalize", "resize", "view"]),
    (
        "nearest",
        &["cpu", "geometry", "orient", "patches", "resize", "room", "sample", "view", "warp", "whole"],
    ),
    ("blend", &["normalize", "view"]),
    ("noise", &["view"]),
    ("box_blur", &["cpu", "room", "view"]),
    ("filter2d", &["colour", "cpu", "room", "view"]),
    ("clahe", &["filter2d", "room", "view"]),
    ("mixture", &["colour", "cpu", "room"]),
    ("patches", &["view"]),
    ("point", &["colour", "cpu"]),
    ("recompress", &["jpeg", "room", "turbo", "view"]),
    ("spectrum", &["noise", "room", "view"]),
    ("sample", &["cpu", "filter2d", "noise", "room", "view", "warp"]),
    ("opponent", &["filter2d", "normalize", "room", "view"]),
    ("mask", &["effect", "spectrum", "view"]),
    (
        "effect",
        &[
            "box_blur",
            "clahe",
            "cpu",
            "filter2d",
            "histogram",
            "mask",
            "noise",
            "patches",
            "recompress",
            "sample",
            "view",
        ],
    ),
    ("whole", &["blur", "colour", "cpu", "effect", "histogram", "room", "sharpen", "view", "warp"]),
];

/// What everybody may use.
const EVERYBODYS: [&str; 3] = ["error", "sample", "spec"];

/// One file without its tests.
struct Source {
    path: PathBuf,
    /// The folder or file directly below `src` that it belongs to.
    stage: String,
    /// How many `super::` lead from it to the crate's root.
    depth: usize,
    code: String,
}

fn root_of(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join(name).join("src")
}

fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
}

/// A file's text without items under `#[cfg(test)]` and without comments, and the names of its test modules.
///
/// The code is formatted, so an item ends with the first line that begins with its own indentation and a bracket.
fn without_tests(text: &str) -> (String, Vec<String>) {
    let (mut code, mut modules) = (String::new(), Vec::new());
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let trimmed = line.trim_start();
        if trimmed.starts_with("//") {
            code.push('\n');
            continue;
        }
        if !(trimmed.starts_with("#[cfg(test)]") || trimmed.starts_with("#[cfg(all(test")) {
            code.push_str(line);
            code.push('\n');
            continue;
        }
        code.push('\n');
        let mut item = lines.next().unwrap_or_default();
        while item.trim_start().starts_with("#[") {
            code.push('\n');
            item = lines.next().unwrap_or_default();
        }
        code.push('\n');
        let words = item.trim_start().trim_start_matches("pub(crate) ").trim_start_matches("pub ");
        if let Some(name) = words.strip_prefix("mod ").and_then(|rest| rest.strip_suffix(';')) {
            modules.push(name.to_owned());
        }
        if item.ends_with(';') || item.ends_with('}') {
            continue;
        }
        let indent = &item[..item.len() - item.trim_start().len()];
        for line in lines.by_ref() {
            code.push('\n');
            if line.strip_prefix(indent).is_some_and(|rest| rest.starts_with(['}', ')'])) {
                break;
            }
        }
    }
    (code, modules)
}

/// All files of a crate that are not tests.
fn sources(name: &str) -> Vec<Source> {
    let root = root_of(name);
    let mut paths = Vec::new();
    rust_files(&root, &mut paths);
    let mut tests: BTreeSet<PathBuf> = BTreeSet::new();
    let mut found = Vec::new();
    for path in paths {
        let (code, modules) = without_tests(&std::fs::read_to_string(&path).unwrap());
        let is_root = path.file_name().is_some_and(|n| n == "mod.rs" || n == "lib.rs");
        let folder = if is_root { path.parent().unwrap().to_owned() } else { path.with_extension("") };
        tests.extend(modules.iter().map(|module| folder.join(module)));
        let inside = path.strip_prefix(&root).unwrap().with_extension("");
        let parts: Vec<String> =
            inside.components().map(|c| c.as_os_str().to_string_lossy().into_owned()).collect();
        let depth = parts.len() - usize::from(is_root);
        found.push(Source { stage: parts[0].clone(), path, depth, code });
    }
    let is_test = |path: &Path| tests.iter().any(|test| path.with_extension("").starts_with(test));
    found.retain(|source| !is_test(&source.path));
    found
}

/// Which folder a name at the crate's root comes from.
fn exports(name: &str) -> BTreeMap<String, String> {
    let text = std::fs::read_to_string(root_of(name).join("lib.rs")).unwrap();
    let mut found = BTreeMap::new();
    for (at, _) in text.match_indices("pub use ") {
        let statement = text[at + 8..].split(';').next().unwrap();
        let Some((module, names)) = statement.split_once("::") else { continue };
        // Modules of the crate below go by their own names.
        if module == "feedline_format" {
            continue;
        }
        for name in names.split(['{', '}', ',', ' ', '\n']).filter(|n| !n.is_empty()) {
            found.insert(name.to_owned(), module.to_owned());
        }
    }
    found
}

fn word(text: &str) -> String {
    text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}

/// The names that follow `crate::` (or as many `super::` as lead to the root), with their lines.
fn used(source: &Source) -> Vec<(usize, String)> {
    let mut places: Vec<(usize, usize)> =
        source.code.match_indices("crate::").map(|(at, found)| (at, at + found.len())).collect();
    let climb = "super::".repeat(source.depth);
    if source.depth > 0 {
        places.extend(source.code.match_indices(&climb).map(|(at, found)| (at, at + found.len())));
    }
    let mut found = Vec::new();
    for (at, end) in places {
        let before = source.code[..at].chars().next_back();
        if before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':') {
            continue;
        }
        let line = source.code[..at].matches('\n').count() + 1;
        let rest = &source.code[end..];
        if let Some(list) = rest.strip_prefix('{') {
            found.extend(listed(list).into_iter().map(|name| (line, name)));
        } else {
            found.push((line, word(rest)));
        }
    }
    if let Some(at) = source.code.find("feedline_pixels::") {
        found.push((source.code[..at].matches('\n').count() + 1, "pixels".to_owned()));
    }
    found
}

/// The first words of a list in braces, whatever is nested in it.
fn listed(text: &str) -> Vec<String> {
    let (mut depth, mut names, mut fresh) = (0, Vec::new(), true);
    for (at, c) in text.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => fresh = true,
            c if fresh && depth == 0 && (c.is_alphabetic() || c == '_') => {
                names.push(word(&text[at..]));
                fresh = false;
            }
            _ => {}
        }
    }
    names
}

/// Every import of a crate that its table forbids, and how many were looked at.
fn forbidden(name: &str, table: Table, wrong: &mut Vec<String>) -> usize {
    let exports = exports(name);
    let mut checked = 0;
    for source in sources(name).iter().filter(|source| source.stage != "lib") {
        let Some((_, allowed)) = table.iter().find(|(stage, _)| *stage == source.stage) else {
            wrong.push(format!("{} is in no row of the table", source.path.display()));
            continue;
        };
        for (line, name) in used(source) {
            let stage = exports.get(&name).unwrap_or(&name).as_str();
            let known = stage == "pixels" || table.iter().any(|(row, _)| *row == stage);
            if !known || stage == source.stage || EVERYBODYS.contains(&stage) {
                continue;
            }
            checked += 1;
            if !allowed.contains(&stage) {
                wrong.push(format!("{}:{line} uses {stage}", source.path.display()));
            }
        }
    }
    checked
}

#[test]
fn stages_import_only_what_they_may() {
    let mut wrong = Vec::new();
    let crates =
        [("feedline", STAGES, 60), ("feedline-format", STAGES, 60), ("feedline-pixels", KERNELS, 60)];
    for (name, table, least) in crates {
        let checked = forbidden(name, table, &mut wrong);
        assert!(checked >= least, "only {checked} imports were seen in {name}: has the layout changed?");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Checks how this test reads files: code after a test item counts, and so does every form of import.
#[test]
fn the_layering_check_reads_whole_files() {
    let text = "use crate::batch::Pool;\n#[cfg(test)]\nmod tests;\n#[cfg(test)]\nfn only_tests() {\n    crate::loader::f();\n}\n\
                // crate::order in a comment\nuse crate::{error::Error, read::{A, B}, order};\nfn late() {\n    super::super::dataset::open();\n}\n";
    let (code, modules) = without_tests(text);
    assert_eq!(modules, ["tests"]);
    assert_eq!(code.lines().count(), text.lines().count());
    let source = Source { path: PathBuf::new(), stage: "x".to_owned(), depth: 2, code };
    let names: Vec<String> = used(&source).into_iter().map(|(_, name)| name).collect();
    assert_eq!(names, ["batch", "error", "read", "order", "dataset"]);
}

/// What the crates' `src` folders hold, as the list in ARCHITECTURE.md names them.
#[test]
fn the_documented_folders_are_those_of_the_tree() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ARCHITECTURE.md");
    let page = std::fs::read_to_string(page).unwrap();
    let mut wrong = Vec::new();
    for name in ["feedline", "feedline-format", "feedline-pixels"] {
        let begin = format!("### `{name}`");
        let section = page.split_once(&begin).unwrap_or_else(|| panic!("no section '{begin}'")).1;
        let section = section.split("\n#").next().unwrap();
        let rows = section.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
        let listed: BTreeSet<&str> = rows.collect();
        let entries = std::fs::read_dir(root_of(name)).unwrap();
        let there: BTreeSet<String> = entries
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.file_name().is_some_and(|n| n != "lib.rs"))
            .map(|path| path.file_stem().unwrap().to_string_lossy().into_owned())
            .collect();
        wrong.extend(
            there
                .iter()
                .filter(|f| !listed.contains(f.as_str()))
                .map(|f| format!("{name}: {f} is not listed")),
        );
        wrong.extend(
            listed.iter().filter(|f| !there.contains(**f)).map(|f| format!("{name}: {f} is not there")),
        );
    }
    assert!(wrong.is_empty(), "ARCHITECTURE.md, list of folders:\n{}", wrong.join("\n"));
}

#[test]
fn the_engine_knows_no_terminal_and_no_interpreter() {
    for name in ["feedline", "feedline-format"] {
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name).join("Cargo.toml");
        let manifest = std::fs::read_to_string(manifest).unwrap();
        for banned in ["pyo3", "clap", "anyhow", "indicatif"] {
            assert!(!manifest.contains(banned), "{banned} has no place in {name}");
        }
    }
}

/// Async code stays inside `source/remote/`.
#[test]
fn only_remote_sources_are_async() {
    let inside = root_of("feedline-format").join("source/remote");
    let words = ["tokio::", "object_store::", "futures_util::", "async fn", ".await"];
    let named = |line: &str| words.iter().any(|word| line.contains(word));
    let mut seen = 0;
    for source in ["feedline", "feedline-format"].iter().flat_map(|name| sources(name)) {
        let lines: Vec<&str> = source.code.lines().filter(|line| named(line)).collect();
        if source.path.starts_with(&inside) {
            seen += lines.len();
        } else {
            assert!(lines.is_empty(), "{}: {lines:?}", source.path.display());
        }
    }
    assert!(seen > 20, "nothing async was seen: has the layout changed?");
}

/// Integration tests of a crate are one program, whose list of files is written by hand.
#[test]
fn every_file_of_tests_is_run() {
    for member in ["feedline", "feedline-pixels"] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(member).join("tests");
        let listed = std::fs::read_to_string(folder.join("all.rs")).unwrap();
        let listed: BTreeSet<_> =
            listed.lines().filter_map(|l| l.strip_prefix("mod ")?.strip_suffix(';')).collect();
        let files = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
        let names = files.filter(|path| path.extension().is_some_and(|e| e == "rs"));
        for name in names.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned()) {
            assert!(name == "all" || listed.contains(&*name), "{member}/tests/all.rs lacks `mod {name};`");
        }
    }
}
