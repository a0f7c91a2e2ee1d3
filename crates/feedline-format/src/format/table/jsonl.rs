//! JSON lines: one object per sample. A key that is absent or null is a missing value.

use std::collections::BTreeMap;

use serde_json::Value;

use super::column::Column;
use crate::sample::Kind;

/// The reason in a few words.
fn reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    if text.contains("recursion limit") {
        return "values nested more than 127 deep are refused".to_owned();
    }
    if text.contains("number out of range") {
        return "a number that does not fit in 64 bits".to_owned();
    }
    text.split(" at line ").next().unwrap_or_default().to_owned()
}

/// The columns of the text, in the order in which their names first occur.
pub(super) fn parse(text: &str, schema: &BTreeMap<String, Kind>) -> Result<Vec<Column>, String> {
    let mut names: Vec<String> = Vec::new();
    let mut rows = Vec::new();
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let row: serde_json::Map<String, Value> = serde_json::from_str(line).map_err(|e| {
            format!("line {} is not a JSON object (column {}): {}", number + 1, e.column(), reason(&e))
        })?;
        for name in row.keys() {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
        rows.push(row);
    }
    Ok(names.iter().map(|name| column(name, &rows, schema.get(name).copied())).collect())
}

fn column(name: &str, rows: &[serde_json::Map<String, Value>], asked: Option<Kind>) -> Column {
    let values = || rows.iter().map(|row| row.get(name).filter(|value| !value.is_null()));
    let all = |fits: fn(&Value) -> bool| values().flatten().all(fits);
    let kind = match asked {
        Some(Kind::Json) => Kind::Json,
        _ if all(|v| v.is_i64() || v.is_boolean()) && asked != Some(Kind::Float) => Kind::Int,
        _ if all(Value::is_number) => Kind::Float,
        _ if all(Value::is_string) => Kind::Text,
        _ => Kind::Json,
    };
    let mut column = Column::new(name, kind);
    for value in values() {
        match (kind, value) {
            (_, None) => column.push_missing(),
            (Kind::Int, Some(value)) => {
                column.push_int(value.as_i64().unwrap_or_else(|| i64::from(value.as_bool() == Some(true))));
            }
            (Kind::Float, Some(value)) => column.push_float(value.as_f64().unwrap_or(f64::NAN)),
            (Kind::Text, Some(value)) => column.push_bytes(value.as_str().unwrap_or_default().as_bytes()),
            (_, Some(value)) => column.push_bytes(value.to_string().as_bytes()),
        }
    }
    column
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_become_columns() {
        let text =
            "{\"path\": \"a.jpg\", \"n\": 1, \"x\": 1}\n\n{\"path\": \"b.jpg\", \"x\": 2.5, \"o\": [1]}\n";
        let found = parse(text, &BTreeMap::new()).unwrap();
        let kinds: Vec<_> = found.iter().map(|c| (c.name.as_str(), c.kind)).collect();
        assert_eq!(kinds, [("n", Kind::Int), ("path", Kind::Text), ("x", Kind::Float), ("o", Kind::Json)]);
        assert!(found[0].is_missing(1) && found[3].is_missing(0));
        assert!(parse("{}\n[1]\n", &BTreeMap::new()).unwrap_err().contains("line 2"));
    }
}
