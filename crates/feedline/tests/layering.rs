//! The folders of the engine are its architecture: who may use whom is a table, and this test reads every import
//! against it. `ARCHITECTURE.md` explains the table.

use std::path::{Path, PathBuf};

/// Folder or file, and what it may use besides itself. `error`, `sample` and `spec` are everybody's.
const MAY_USE: &[(&str, &[&str])] = &[
    ("error", &[]),
    ("sample", &[]),
    ("spec", &["transform"]),
    ("random", &[]),
    ("owned", &[]),
    ("source", &[]),
    ("format", &["source", "owned"]),
    ("dataset", &["encode", "source", "format", "owned"]),
    ("order", &["random"]),
    ("decode", &["transform"]),
    ("encode", &["decode", "format", "transform"]),
    ("transform", &["random"]),
    ("batch", &[]),
    ("read", &["dataset", "order", "source"]),
    ("loader", &["batch", "dataset", "decode", "order", "random", "read", "source", "transform"]),
    ("lib", &[]),
];

const EVERYBODYS: [&str; 3] = ["error", "sample", "spec"];

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
}

fn stage(path: &Path, root: &Path) -> String {
    let first = path
        .strip_prefix(root)
        .unwrap()
        .components()
        .next()
        .unwrap()
        .as_os_str()
        .to_string_lossy()
        .into_owned();
    first.trim_end_matches(".rs").to_owned()
}

#[test]
fn stages_use_only_what_they_may() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    let mut wrong = Vec::new();
    let mut checked = 0;
    for file in files {
        let here = stage(&file, &root);
        let Some((_, allowed)) = MAY_USE.iter().find(|(name, _)| *name == here) else {
            wrong.push(format!("{} is in no row of the table", file.display()));
            continue;
        };
        let text = std::fs::read_to_string(&file).unwrap();
        // Tests at the end of a file may use anything.
        let code = text.split("#[cfg(test)]").next().unwrap_or(&text);
        for (number, line) in code.lines().enumerate() {
            for (at, _) in line.match_indices("crate::") {
                let rest = &line[at + 7..];
                let used: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
                if used.is_empty()
                    || used.starts_with(char::is_uppercase)
                    || line.trim_start().starts_with("//")
                {
                    continue;
                }
                checked += 1;
                if used != here && !EVERYBODYS.contains(&used.as_str()) && !allowed.contains(&used.as_str()) {
                    wrong.push(format!("{}:{} uses {used}", file.display(), number + 1));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(checked > 50, "only {checked} imports were seen: has the layout changed?");
}

#[test]
fn the_engine_knows_no_terminal_and_no_interpreter() {
    let manifest = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml")).unwrap();
    for banned in ["pyo3", "clap", "anyhow", "indicatif"] {
        assert!(!manifest.contains(banned), "{banned} has no place in the engine");
    }
}

/// Async ends at the door of `source/remote/`.
#[test]
fn only_remote_sources_are_async() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    let inside = root.join("source").join("remote");
    let named = |line: &str| {
        !line.trim_start().starts_with("//")
            && ["tokio::", "object_store::", "futures_util::", "async fn", ".await"]
                .iter()
                .any(|word| line.contains(word))
    };
    let (outside, within): (Vec<_>, Vec<_>) = files.into_iter().partition(|file| !file.starts_with(&inside));
    for file in outside {
        let text = std::fs::read_to_string(&file).unwrap();
        let wrong: Vec<&str> = text.lines().filter(|line| named(line)).collect();
        assert!(wrong.is_empty(), "{}: {wrong:?}", file.display());
    }
    let some = within.iter().any(|file| std::fs::read_to_string(file).unwrap().lines().any(named));
    assert!(some, "nothing async was seen: has the layout changed?");
}
