//! The `json` leaf: JSON text, or a compact binary form of lists and dictionaries. Both are returned as JSON text.

use std::io::Write;

/// Maximum depth of nesting.
const MAX_DEPTH: usize = 64;

/// A first byte above this is the beginning of JSON text.
const LAST_TAG: u8 = 0x20;

/// Whether the leaf's bytes already are JSON text.
pub(super) fn is_text(leaf: &[u8]) -> bool {
    leaf.first().is_some_and(|first| *first > LAST_TAG)
}

/// Appends the JSON text of a leaf in binary form to `out`.
pub(super) fn to_text(leaf: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
    let mut cursor = Cursor { rest: leaf };
    value(&mut cursor, 0, out)?;
    if cursor.rest.is_empty() { Ok(()) } else { Err(format!("{} bytes too many", cursor.rest.len())) }
}

struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], String> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or("the json leaf is cut off")?;
        self.rest = rest;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8, String> {
        Ok(self.take(1)?[0])
    }

    fn count(&mut self) -> Result<usize, String> {
        Ok(u32::from_le_bytes(self.eight_or_four()?) as usize)
    }

    fn eight_or_four<const N: usize>(&mut self) -> Result<[u8; N], String> {
        Ok(self.take(N)?.try_into().expect("N bytes were taken"))
    }

    fn text(&mut self) -> Result<&'a str, String> {
        let length = self.count()?;
        std::str::from_utf8(self.take(length)?).map_err(|_| "a text is not UTF-8".to_owned())
    }
}

fn value(cursor: &mut Cursor<'_>, depth: usize, out: &mut Vec<u8>) -> Result<(), String> {
    if depth > MAX_DEPTH {
        return Err(format!("nested more than {MAX_DEPTH} deep"));
    }
    match cursor.byte()? {
        0 => out.extend_from_slice(cursor.text()?.as_bytes()),
        1 => list(cursor, out, |cursor, out| cursor.text().map(|t| string(t, out)))?,
        2 => list(cursor, out, integer)?,
        3 => list(cursor, out, float)?,
        4 => list(cursor, out, boolean)?,
        5 => dictionary(cursor, depth, out)?,
        6 => records(cursor, out)?,
        7 => string(cursor.text()?, out),
        8 => integer(cursor, out)?,
        9 => float(cursor, out)?,
        10 => boolean(cursor, out)?,
        11 => out.extend_from_slice(b"null"),
        tag => return Err(format!("tag {tag} is unknown")),
    }
    Ok(())
}

/// Nothing is allocated for counts from the file: if they are too large, the bytes end first.
fn list<'a>(
    cursor: &mut Cursor<'a>,
    out: &mut Vec<u8>,
    element: impl Fn(&mut Cursor<'a>, &mut Vec<u8>) -> Result<(), String>,
) -> Result<(), String> {
    let count = cursor.count()?;
    out.push(b'[');
    for number in 0..count {
        separate(number, out);
        element(cursor, out)?;
    }
    out.push(b']');
    Ok(())
}

fn dictionary(cursor: &mut Cursor<'_>, depth: usize, out: &mut Vec<u8>) -> Result<(), String> {
    let count = cursor.count()?;
    out.push(b'{');
    for number in 0..count {
        separate(number, out);
        string(cursor.text()?, out);
        out.push(b':');
        value(cursor, depth + 1, out)?;
    }
    out.push(b'}');
    Ok(())
}

/// A list of dictionaries with the same keys: the keys once, then the cells row by row.
fn records(cursor: &mut Cursor<'_>, out: &mut Vec<u8>) -> Result<(), String> {
    let (rows, count) = (cursor.count()?, cursor.count()?);
    let mut keys = Vec::new();
    for _ in 0..count {
        keys.push(cursor.text()?);
    }
    if keys.is_empty() && rows > 0 {
        return Err("records without keys".to_owned());
    }
    out.push(b'[');
    for row in 0..rows {
        separate(row, out);
        out.push(b'{');
        for (number, key) in keys.iter().enumerate() {
            separate(number, out);
            string(key, out);
            out.push(b':');
            cell(cursor, out)?;
        }
        out.push(b'}');
    }
    out.push(b']');
    Ok(())
}

fn cell(cursor: &mut Cursor<'_>, out: &mut Vec<u8>) -> Result<(), String> {
    match cursor.byte()? {
        0x10 => out.extend_from_slice(b"null"),
        0x11 => string(cursor.text()?, out),
        0x12 => integer(cursor, out)?,
        0x13 => float(cursor, out)?,
        0x14 => boolean(cursor, out)?,
        tag => return Err(format!("cell tag {tag} is unknown")),
    }
    Ok(())
}

fn integer(cursor: &mut Cursor<'_>, out: &mut Vec<u8>) -> Result<(), String> {
    write_integer(i64::from_le_bytes(cursor.eight_or_four()?), out);
    Ok(())
}

fn float(cursor: &mut Cursor<'_>, out: &mut Vec<u8>) -> Result<(), String> {
    write_float(f64::from_le_bytes(cursor.eight_or_four()?), out);
    Ok(())
}

fn boolean(cursor: &mut Cursor<'_>, out: &mut Vec<u8>) -> Result<(), String> {
    write_boolean(cursor.byte()? != 0, out);
    Ok(())
}

/// Writes a comma, except before the first element.
pub(super) fn separate(number: usize, out: &mut Vec<u8>) {
    if number > 0 {
        out.push(b',');
    }
}

/// A JSON string.
pub(super) fn string(text: &str, out: &mut Vec<u8>) {
    serde_json::to_writer(out, text).expect("writing to memory does not fail");
}

/// A JSON integer.
pub(super) fn write_integer(number: i64, out: &mut Vec<u8>) {
    write!(out, "{number}").expect("writing to memory does not fail");
}

/// A JSON boolean.
pub(super) fn write_boolean(is_true: bool, out: &mut Vec<u8>) {
    out.extend_from_slice(if is_true { b"true" } else { b"false" });
}

/// Writes a JSON number that reads back as the same float; what JSON lacks is spelt like in Python's `json`.
pub(super) fn write_float(number: f64, out: &mut Vec<u8>) {
    if number.is_nan() {
        out.extend_from_slice(b"NaN");
    } else if number.is_infinite() {
        out.extend_from_slice(if number > 0.0 { b"Infinity" } else { b"-Infinity" });
    } else {
        write!(out, "{number:?}").expect("writing to memory does not fail");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(leaf: &[u8]) -> Result<String, String> {
        let mut out = Vec::new();
        to_text(leaf, &mut out).map(|()| String::from_utf8(out).unwrap())
    }

    fn utf8(text: &str) -> Vec<u8> {
        [&(text.len() as u32).to_le_bytes()[..], text.as_bytes()].concat()
    }

    fn tagged(tag: u8, count: u32, rest: &[u8]) -> Vec<u8> {
        [&[tag][..], &count.to_le_bytes(), rest].concat()
    }

    #[test]
    fn every_tag_becomes_its_text() {
        let floats = [1.0f64.to_le_bytes(), 1e16f64.to_le_bytes(), f64::NAN.to_le_bytes()].concat();
        let inner = [utf8("k\""), vec![11], utf8("m"), tagged(4, 2, &[1, 0])].concat();
        let cells = [&[0x10, 0x11][..], &utf8("é"), &[0x12], &(-3i64).to_le_bytes(), &[0x14, 1]].concat();
        let records = [&tagged(6, 2, &2u32.to_le_bytes())[..], &utf8("a"), &utf8("b"), &cells].concat();
        for (leaf, expected) in [
            (tagged(0, 3, b"[1]"), "[1]"),
            (tagged(1, 0, b""), "[]"),
            (tagged(1, 2, &[utf8("a"), utf8("\n")].concat()), r#"["a","\n"]"#),
            (
                tagged(2, 2, &[7i64.to_le_bytes(), i64::MIN.to_le_bytes()].concat()),
                "[7,-9223372036854775808]",
            ),
            (tagged(3, 3, &floats), "[1.0,1e16,NaN]"),
            (tagged(5, 2, &inner), r#"{"k\"":null,"m":[true,false]}"#),
            (records, r#"[{"a":null,"b":"é"},{"a":-3,"b":true}]"#),
            ([&[7][..], &utf8("x")].concat(), r#""x""#),
            ([&[8][..], &5i64.to_le_bytes()].concat(), "5"),
            ([&[9][..], &0.5f64.to_le_bytes()].concat(), "0.5"),
            (vec![10, 1], "true"),
            (vec![11], "null"),
        ] {
            assert_eq!(text(&leaf).unwrap(), expected);
            for length in 0..leaf.len() {
                assert!(text(&leaf[..length]).is_err(), "{expected} cut at {length}");
            }
        }
    }

    #[test]
    fn impossible_counts_and_depths_are_errors() {
        assert!(text(&tagged(2, u32::MAX, &[0; 16])).is_err());
        assert!(text(&tagged(6, u32::MAX, &0u32.to_le_bytes())).is_err());
        assert!(text(&[12]).is_err());
        let one = [&tagged(5, 1, b"")[..], &utf8("k")].concat();
        assert!(text(&one.repeat(1000)).unwrap_err().contains("deep"));
        assert!(text(&[11, 11]).is_err());
    }
}
