//! Text shards: a line of JSON, or of separated values, for each sample.

use super::encoding::Encoding;
use super::index::{Column, Style};
use crate::sample::{FieldSet, Kind, SampleBuffer, Value};

/// Sets the wanted fields of the sample in `line`. `columns` have the field and the kind of each.
pub(super) fn read_line(
    style: &Style,
    line: &[u8],
    columns: &[(Column, usize, Kind)],
    wanted: &FieldSet,
    into: &mut SampleBuffer,
) -> Result<(), String> {
    let text = std::str::from_utf8(line).map_err(|_| "the line is not UTF-8".to_owned())?;
    match style {
        Style::Mds => Err("a binary shard has no lines".to_owned()),
        Style::Json { .. } => {
            let object: serde_json::Map<String, serde_json::Value> =
                serde_json::from_str(text).map_err(|e| format!("the line is not a JSON object: {e}"))?;
            for (column, field, kind) in columns.iter().filter(|(_, field, _)| wanted.has(*field)) {
                let value = object.get(&column.name);
                let value = value.ok_or_else(|| format!("the line lacks '{}'", column.name))?;
                let value = json_value(*kind, value, into)
                    .ok_or_else(|| format!("'{}' is {value}, not of its type", column.name))?;
                into.set(*field, value);
            }
            Ok(())
        }
        Style::Separated { separator, newline } => {
            let text = text.strip_suffix(newline.as_str()).ok_or("the line has no end")?;
            let parts = text.split(separator.as_str());
            if parts.clone().count() != columns.len() {
                return Err(format!("the line has {} values, not {}", parts.count(), columns.len()));
            }
            for ((column, field, kind), part) in columns.iter().zip(parts) {
                if !wanted.has(*field) {
                    continue;
                }
                let range = into.append(part.as_bytes());
                let value = column.encoding.decode(*kind, range, into);
                let value = value.map_err(|reason| format!("'{}': {reason}", column.name))?;
                into.set(*field, value);
            }
            Ok(())
        }
    }
}

fn json_value(kind: Kind, value: &serde_json::Value, into: &mut SampleBuffer) -> Option<Value> {
    match kind {
        Kind::Int => value.as_i64().map(Value::Int),
        Kind::Float => value.as_f64().map(Value::Float),
        // Integers that do not fit in 64 bits are returned as their digits.
        Kind::Text if value.is_number() => Some(Value::Bytes(into.append(value.to_string().as_bytes()))),
        _ => value.as_str().map(|text| Value::Bytes(into.append(text.as_bytes()))),
    }
}

/// The first value of each column, as bytes, for columns whose kind depends on it.
pub(super) fn first_values(style: &Style, line: &[u8], columns: &[Column]) -> Vec<Option<Vec<u8>>> {
    let text = std::str::from_utf8(line).unwrap_or_default();
    let none = || columns.iter().map(|_| None).collect();
    match style {
        Style::Mds => none(),
        Style::Json { .. } => {
            let object: Option<serde_json::Map<String, serde_json::Value>> = serde_json::from_str(text).ok();
            let Some(object) = object else { return none() };
            let value = |column: &Column| match column.encoding {
                Encoding::DecimalInt => Some(object.get(&column.name)?.to_string().into_bytes()),
                _ => None,
            };
            columns.iter().map(value).collect()
        }
        Style::Separated { separator, newline } => {
            let text = text.strip_suffix(newline.as_str()).unwrap_or(text);
            let mut parts = text.split(separator.as_str());
            columns.iter().map(|_| parts.next().map(|part| part.as_bytes().to_vec())).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(style: &Style, line: &[u8]) -> Result<Vec<Value>, String> {
        let column = |(n, (name, encoding)): (usize, (&str, Encoding))| {
            let kind = encoding.kind(None);
            (Column { name: name.to_owned(), encoding }, n, kind)
        };
        let columns = [("f", Encoding::DecimalFloat), ("i", Encoding::DecimalInt), ("s", Encoding::Text)];
        let columns: Vec<_> = columns.into_iter().enumerate().map(column).collect();
        let mut buffer = SampleBuffer::new();
        buffer.reset(3);
        read_line(style, line, &columns, &FieldSet::all(3), &mut buffer)?;
        Ok(buffer.values().to_vec())
    }

    #[test]
    fn lines_are_read_or_refused() {
        let csv = Style::Separated { separator: ",".to_owned(), newline: "\n".to_owned() };
        let expected = [Value::Float(1.5), Value::Int(-2)];
        assert_eq!(read(&csv, b"1.5,-2,t t\n").map(|v| v[..2].to_vec()), Ok(expected.to_vec()));
        for bad in
            [&b"1.5,-2,t"[..], b"1.5,-2\n", b"1.5,-2,a,b\n", b"x,-2,a\n", b"1.5,2.0,a\n", b"\xff,1,a\n"]
        {
            assert!(read(&csv, bad).is_err(), "{bad:?}");
        }
        let json = Style::Json { newline: "\n".to_owned() };
        assert_eq!(read(&json, br#"{"f":1.5,"i":-2,"s":"t"}"#).unwrap()[..2], expected);
        for bad in [
            &br#"{"f":1.5,"i":-2}"#[..],
            br#"{"f":"1","i":-2,"s":""}"#,
            b"[1]",
            br#"{"f":1"#,
            br#"{"f":1,"i":1.5,"s":""}"#,
        ] {
            assert!(read(&json, bad).is_err(), "{bad:?}");
        }
    }
}
