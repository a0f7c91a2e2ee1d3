//! Comma- and tab-separated text: names in the first line, one sample in each other line. Values may be in quotation
//! marks, with separators and line feeds inside; a doubled quotation mark is one.

use std::collections::BTreeMap;

use super::column::Column;
use crate::sample::Kind;

/// The columns of the text, with types from their content or from `schema`.
pub(super) fn parse(text: &str, tabs: bool, schema: &BTreeMap<String, Kind>) -> Result<Vec<Column>, String> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let separator = if tabs { b'\t' } else { separator(text) };
    let mut lines = Lines { rest: text, line: 0, separator };
    let mut cells = Vec::new();
    if !lines.next(&mut cells)? {
        return Err("the file is empty".to_owned());
    }
    let names: Vec<String> = cells.iter().map(|name| name.trim().to_owned()).collect();
    check_names(&names)?;
    let mut columns: Vec<Column> = names.iter().map(|name| Column::new(name, Kind::Text)).collect();
    while lines.next(&mut cells)? {
        if cells.len() != columns.len() {
            let reason =
                format!("line {} has {} values, line 1 has {}", lines.line, cells.len(), columns.len());
            return Err(reason);
        }
        for (column, cell) in columns.iter_mut().zip(&cells) {
            column.push_bytes(cell.as_bytes());
        }
    }
    Ok(columns.into_iter().map(|column| typed(column, schema)).collect())
}

fn check_names(names: &[String]) -> Result<(), String> {
    for (at, name) in names.iter().enumerate() {
        if name.is_empty() {
            return Err(format!("line 1: column {} has no name", at + 1));
        }
        if names[..at].contains(name) {
            return Err(format!("line 1: two columns are called '{name}'"));
        }
    }
    Ok(())
}

/// A comma, unless the first line has none but contains another usual separator.
fn separator(text: &str) -> u8 {
    let first = text.lines().next().unwrap_or_default();
    [b',', b';', b'\t'].into_iter().find(|s| first.as_bytes().contains(s)).unwrap_or(b',')
}

struct Lines<'a> {
    rest: &'a str,
    line: usize,
    separator: u8,
}

impl Lines<'_> {
    /// Reads the next line's values; false at the end. Empty lines are skipped.
    fn next(&mut self, cells: &mut Vec<String>) -> Result<bool, String> {
        cells.clear();
        loop {
            self.line += 1;
            if self.rest.is_empty() {
                return Ok(false);
            }
            let blank = self.rest.strip_prefix("\r\n").or_else(|| self.rest.strip_prefix('\n'));
            match blank {
                Some(rest) => self.rest = rest,
                None => break,
            }
        }
        let mut more = true;
        while more {
            let (cell, ended) = if self.rest.starts_with('"') { self.quoted()? } else { self.plain() };
            cells.push(cell);
            more = ended;
        }
        Ok(true)
    }

    /// A value up to the next separator or line feed, and whether another one follows.
    fn plain(&mut self) -> (String, bool) {
        let stop = |byte: &u8| *byte == self.separator || *byte == b'\n';
        let end = self.rest.as_bytes().iter().position(stop).unwrap_or(self.rest.len());
        let more = self.rest.as_bytes().get(end) == Some(&self.separator);
        let cell = &self.rest[..end];
        let cell = if more { cell } else { cell.strip_suffix('\r').unwrap_or(cell) };
        self.rest = &self.rest[(end + 1).min(self.rest.len())..];
        (cell.to_owned(), more)
    }

    fn quoted(&mut self) -> Result<(String, bool), String> {
        let begun = self.line;
        let mut cell = String::new();
        self.rest = &self.rest[1..];
        loop {
            let end =
                self.rest.find('"').ok_or_else(|| format!("line {begun}: a quotation mark is not closed"))?;
            cell.push_str(&self.rest[..end]);
            self.line += self.rest[..end].matches('\n').count();
            self.rest = &self.rest[end + 1..];
            let Some(rest) = self.rest.strip_prefix('"') else { break };
            cell.push('"');
            self.rest = rest;
        }
        let (after, more) = self.plain();
        if after.is_empty() {
            Ok((cell, more))
        } else {
            Err(format!("line {}: text after a closing quotation mark", self.line))
        }
    }
}

/// Converts the values to numbers, if all of them are numbers; empty ones are then missing.
fn typed(column: Column, schema: &BTreeMap<String, Kind>) -> Column {
    let asked = schema.get(&column.name).copied();
    if matches!(asked, Some(Kind::Text | Kind::Image | Kind::Json | Kind::Bytes)) {
        return column;
    }
    let filled = || column.texts().filter(|text| !text.is_empty());
    let some = filled().next().is_some();
    let kind = if some && asked != Some(Kind::Float) && filled().all(|text| whole(text).is_some()) {
        Kind::Int
    } else if some && asked != Some(Kind::Int) && filled().all(|text| float(text).is_some()) {
        Kind::Float
    } else {
        return column;
    };
    let mut numbers = Column::new(&column.name, kind);
    for row in 0..column.rows {
        match (kind, column.text(row)) {
            (_, "") => numbers.push_missing(),
            (Kind::Int, text) => numbers.push_int(whole(text).unwrap_or_default()),
            (_, text) => numbers.push_float(float(text).unwrap_or_default()),
        }
    }
    numbers
}

/// Parses an integer; `007` is a name made of digits.
fn whole(text: &str) -> Option<i64> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let name = digits.len() > 1 && digits.starts_with('0');
    if name { None } else { text.parse().ok().filter(|_| !text.starts_with('+')) }
}

fn float(text: &str) -> Option<f64> {
    let plain = text.strip_prefix('-').unwrap_or(text);
    let name =
        plain.len() > 1 && plain.starts_with('0') && !plain.starts_with("0.") && !plain.starts_with("0e");
    if name { None } else { text.parse().ok() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns(text: &str) -> Vec<Column> {
        parse(text, false, &BTreeMap::new()).unwrap()
    }

    #[test]
    fn quotes_line_feeds_and_types_are_read() {
        let found =
            columns("\u{feff}path,label,x,id\r\n\"a, \"\"b\"\"\n.jpg\",3,1.5,007\r\n\r\nc.jpg,,2,08\r\n");
        assert_eq!(found[0].texts().collect::<Vec<_>>(), ["a, \"b\"\n.jpg", "c.jpg"]);
        assert_eq!(
            found.iter().map(|c| c.kind).collect::<Vec<_>>(),
            [Kind::Text, Kind::Int, Kind::Float, Kind::Text]
        );
        assert_eq!((found[1].int(0), found[1].int(1)), (Some(3), None));
        assert_eq!(columns("a;b\n1;2\n")[1].int(0), Some(2));
        assert_eq!(columns("a\n1").len(), 1);
    }

    #[test]
    fn errors_name_the_line() {
        for (text, word) in [
            ("", "empty"),
            ("a,b\n1\n", "line 2 has 1 values"),
            ("a,a\n", "two columns"),
            ("a,\n", "column 2 has no name"),
            ("a\n\"x", "line 2: a quotation mark"),
            ("a\n\"x\"y\n", "line 2: text after"),
        ] {
            let message = parse(text, false, &BTreeMap::new()).unwrap_err();
            assert!(message.contains(word), "{message}");
        }
    }
}
