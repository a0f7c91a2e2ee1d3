//! Text, and JSON kept as its text.

use super::{Carrier, Meaning, Row};

pub(super) const TEXT: Row = Row {
    name: "text",
    code: 3,
    carrier: Carrier::Bytes,
    meaning: Meaning::Text,
    check: is_text,
    tar: "txt",
    litdata: "str",
    mds: "str",
};

pub(super) const JSON: Row = Row {
    name: "json",
    code: 4,
    carrier: Carrier::Bytes,
    meaning: Meaning::Json,
    check: is_json,
    tar: "json",
    // Only recent versions of litdata have a leaf type for JSON; every version reads text.
    litdata: "str",
    mds: "json",
};

fn is_text(bytes: &[u8]) -> Result<(), String> {
    std::str::from_utf8(bytes).map(drop).map_err(|e| format!("the text is not UTF-8: {e}"))
}

fn is_json(bytes: &[u8]) -> Result<(), String> {
    let parsed = serde_json::from_slice::<serde::de::IgnoredAny>(bytes);
    parsed.map(drop).map_err(|e| format!("not valid JSON: {e}"))
}
