//! Translates the engine's names of settings to the options of the command line.

/// A setting, its option, and the placeholder for its value; switches have none.
const SETTINGS: [(&str, &str, &str); 15] = [
    ("fields", "--field", "NAME=SRC"),
    ("schema", "--kind", "COLUMN=KIND"),
    ("root", "--root", "FOLDER"),
    ("dtype", "--dtype", "TYPE"),
    ("split", "--split", "NAME"),
    ("format", "--format", "NAME"),
    ("password", "--password-from", "VARIABLE"),
    ("storage_options", "--storage", "NAME=VALUE"),
    ("cache_dir", "--cache-dir", "FOLDER"),
    ("allow_pickle", "--allow-pickle", ""),
    ("verify_hashes", "--verify-hashes", ""),
    ("overwrite", "--overwrite", ""),
    ("append", "--append", ""),
    ("anon", "--storage anon=true", ""),
    ("uri", "PATH", ""),
];

/// Replaces the setting's name at the beginning of a message by the option.
pub(crate) fn knob(message: &str) -> String {
    for (name, option, _) in SETTINGS {
        if let Some(rest) = message.strip_prefix(name).filter(|rest| rest.starts_with(": ")) {
            return format!("{option}{}", translate(rest));
        }
    }
    translate(message)
}

/// Replaces every `name=value` of a known setting by the option with that value.
pub(crate) fn translate(text: &str) -> String {
    let mut rest = text;
    let mut out = String::with_capacity(text.len());
    while let Some((at, (name, option, stand_in))) = next_setting(rest) {
        out.push_str(&rest[..at]);
        out.push_str(option);
        let value = &rest[at + name.len() + 1..];
        let (value, length) = value_of(value);
        if !stand_in.is_empty() {
            out.push(' ');
            out.push_str(value.filter(|value| !value.is_empty() && *value != "...").unwrap_or(stand_in));
        }
        rest = &rest[at + name.len() + 1 + length..];
    }
    out.push_str(rest);
    out
}

fn next_setting(text: &str) -> Option<(usize, (&'static str, &'static str, &'static str))> {
    let find = |setting: &(&'static str, &'static str, &'static str)| {
        let needle = format!("{}=", setting.0);
        let whole = |at: &usize| !text[..*at].ends_with(|c: char| c.is_alphanumeric() || "_-.".contains(c));
        let at = text.match_indices(&needle).map(|(at, _)| at).find(whole)?;
        Some((at, *setting))
    };
    SETTINGS.iter().filter_map(find).min_by_key(|(at, _)| *at)
}

/// The content of a value, if it is plain text; and its length.
fn value_of(text: &str) -> (Option<&str>, usize) {
    let closed = |open: usize, close: char| text[open..].find(close).map(|at| open + at + close.len_utf8());
    match text.chars().next() {
        Some(quote @ ('"' | '\'')) => {
            let end = closed(1, quote).unwrap_or(text.len());
            (text.get(1..end.saturating_sub(1)), end)
        }
        Some('{') => (None, closed(0, '}').unwrap_or(text.len())),
        Some('.') => (None, text.len() - text.trim_start_matches('.').len()),
        _ => {
            let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
            (Some(&text[..end]), end)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_in_hints_become_options() {
        for (engine, here) in [
            (
                "leave them out with fields={...}, or use allow_pickle=True if",
                "leave them out with --field NAME=SRC, or use --allow-pickle if",
            ),
            ("use split=\"train\", or open x/train", "use --split train, or open x/train"),
            (
                "choose one with format=\"...\", or give a pattern",
                "choose one with --format NAME, or give a pattern",
            ),
            ("use format=... if you know", "use --format NAME if you know"),
            ("use root=\"...\" if", "use --root FOLDER if"),
            ("rename with fields=", "rename with --field NAME=SRC"),
            (
                "give credentials: storage_options={'key': 1}, or anon=True",
                "give credentials: --storage NAME=VALUE, or --storage anon=true",
            ),
            ("nothing to change: x=1, myformat=2", "nothing to change: x=1, myformat=2"),
        ] {
            assert_eq!(translate(engine), here);
        }
        assert_eq!(knob("fields: x has no field 'y'"), "--field: x has no field 'y'");
        assert_eq!(knob("/data: no"), "/data: no");
    }
}
