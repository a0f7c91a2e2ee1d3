//! What users find at the root of the crate and in its modules. A change here is a change of the API: update
//! `public_names.txt` or `public_module_names.txt` on purpose, and the changelog with it.

use std::path::{Path, PathBuf};

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

/// What begins a public item, and ends before its name.
const ITEMS: [&str; 9] = [
    "pub const fn ",
    "pub unsafe fn ",
    "pub fn ",
    "pub struct ",
    "pub enum ",
    "pub trait ",
    "pub type ",
    "pub const ",
    "pub static ",
];

/// The name of an item that begins here, `$name` in a macro.
fn item_name(item: &str) -> Option<&str> {
    let rest = ITEMS.iter().find_map(|kind| item.strip_prefix(kind))?;
    rest.split(|c: char| !c.is_alphanumeric() && !matches!(c, '_' | '$')).next()
}

/// The first word of a macro's call, after its documentation.
fn first_word(call: &str) -> &str {
    let line = call.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with(['/', '#']));
    line.unwrap_or_default().split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default()
}

/// The public items that a module's own macros make: the names in the macro's text, or the first word of each call if
/// the text has `$name` there.
fn made_by_macros(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for definition in text.split("\nmacro_rules! ").skip(1) {
        let (name, rest) = definition.split_once(" {").expect("a macro has a body");
        let body = rest.split("\n}").next().unwrap_or_default();
        let call = format!("\n{name}! {{");
        let items = body.match_indices("\n        pub ").map(|(at, _)| body[at..].trim_start());
        for item in items.filter_map(item_name) {
            let calls = text.split(&call).skip(1);
            found.extend(calls.map(|call| if item.starts_with('$') { first_word(call) } else { item }));
        }
    }
    found
}

/// A module: its path for users, its text, and the folder of the modules in it.
struct Module {
    path: String,
    text: String,
    folder: PathBuf,
}

impl Module {
    /// A module of a folder, if it has a file there.
    fn in_folder(folder: &Path, name: &str, path: String) -> Option<Self> {
        let files = [folder.join(format!("{name}.rs")), folder.join(name).join("mod.rs")];
        let text = files.iter().find_map(|file| std::fs::read_to_string(file).ok())?;
        Some(Module { path, text, folder: folder.join(name) })
    }

    /// Where `pub use …::NAME::*` takes its names from: a module beside this one's, or another crate.
    fn all_of(&self, name: &str) -> Module {
        let other = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name.replace('_', "-")).join("src");
        Module::in_folder(&self.folder, name, self.path.clone())
            .or_else(|| Module::in_folder(&other, "lib", self.path.clone()))
            .unwrap_or_else(|| panic!("{}: no file of {name}", self.path))
    }

    /// A module in this one: in braces, or in a file.
    fn inner(&self, item: &str) -> Module {
        let name = item.split([';', ' ']).next().unwrap_or_default();
        let path = format!("{}::{name}", self.path);
        match item[name.len()..].strip_prefix(" {") {
            Some(rest) => {
                let text = rest.split("\n}").next().unwrap_or_default().replace("\n    ", "\n");
                Module { path, text, folder: self.folder.clone() }
            }
            None => Module::in_folder(&self.folder, name, path).expect("a module has a file"),
        }
    }

    /// Adds the public names of the module and of the public modules in it. The code is formatted, so items begin their
    /// lines.
    fn collect(&self, found: &mut Vec<String>) {
        found.extend(made_by_macros(&self.text).into_iter().map(|name| format!("{}::{name}", self.path)));
        for (at, _) in self.text.match_indices("\npub ") {
            let item = &self.text[at + 1..];
            if let Some(path) = item.strip_prefix("pub use ") {
                for name in exported(path.split(';').next().unwrap_or_default()) {
                    match name.strip_suffix("::*") {
                        Some(all) => self.all_of(all).collect(found),
                        None => found.push(format!("{}::{name}", self.path)),
                    }
                }
            } else if let Some(inner) = item.strip_prefix("pub mod ") {
                self.inner(inner).collect(found);
            } else if let Some(name) = item_name(item) {
                found.push(format!("{}::{name}", self.path));
            }
        }
    }
}

/// The names of a `pub use`, whatever is nested in it; `NAME::*` for all of a module.
fn exported(path: &str) -> Vec<String> {
    let ends = path.split_inclusive([',', '{', '}']).filter(|piece| !piece.ends_with('{'));
    let names = ends.map(|piece| piece.trim_end_matches([',', '}']).trim());
    let last = |name: &str| {
        let from = name.strip_suffix("::*").unwrap_or(name).rfind([' ', ':']).map_or(0, |at| at + 1);
        name[from..].to_owned()
    };
    names.map(last).filter(|name| !name.is_empty()).collect()
}

/// How the names of a `pub use` are read.
#[test]
fn nested_exports_are_read() {
    assert_eq!(exported("a::b"), ["b"]);
    assert_eq!(exported("a::{b, c::{d, e as f},\n    g}"), ["b", "d", "f", "g"]);
    assert_eq!(exported("super::a::*"), ["a::*"]);
}

/// How the names that macros make are read.
#[test]
fn names_made_by_macros_are_read() {
    let text = "
macro_rules! made {
    ($name:ident) => {
        pub struct $name {
            pub field: u8,
        }
        pub(crate) struct Private;
        pub enum Fixed {}
    };
}

made! {
    /// With a description.
    #[derive(Debug)]
    First, 1
}
";
    assert_eq!(made_by_macros(text), ["First", "Fixed"]);
}

#[test]
fn the_public_modules_have_exactly_the_listed_names() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folders = [here.join("src"), here.join("../feedline-format/src")];
    let root = names(&std::fs::read_to_string(here.join("src/lib.rs")).unwrap());
    let mut found = Vec::new();
    for name in root.iter().filter_map(|name| name.strip_suffix("::")) {
        let module = folders.iter().find_map(|folder| Module::in_folder(folder, name, name.to_owned()));
        module.expect("a module has a file").collect(&mut found);
    }
    found.sort();
    found.dedup();
    let listed = std::fs::read_to_string(here.join("tests/public_module_names.txt")).unwrap();
    let listed: Vec<String> = listed.lines().map(str::to_owned).collect();
    let new: Vec<&String> = found.iter().filter(|name| !listed.contains(name)).collect();
    let gone: Vec<&String> = listed.iter().filter(|name| !found.contains(name)).collect();
    assert!(new.is_empty() && gone.is_empty(), "not listed: {new:#?}\nno longer there: {gone:#?}");
    assert_eq!(found, listed, "public_module_names.txt is not sorted");
}
