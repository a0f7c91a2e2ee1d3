//! All printing: the only place that writes to standard output and standard error.
//!
//! A reader that goes away (`feedline inspect x | head`) is not an error: the rest is dropped, and the command
//! ends as usual.

use std::io::{self, Write};

use serde_json::{Value, json};

use crate::failure::Failure;

/// Output of a command.
#[derive(Debug)]
pub(crate) struct Output {
    json: bool,
    closed: bool,
}

impl Output {
    /// With `json`, text for people is not printed.
    pub(crate) fn new(json: bool) -> Self {
        Output { json, closed: false }
    }

    /// Whether one JSON document is requested.
    pub(crate) fn is_json(&self) -> bool {
        self.json
    }

    /// Prints a line of the result for people; nothing with `--json`.
    pub(crate) fn line(&mut self, text: impl AsRef<str>) {
        if !self.json {
            self.write(text.as_ref());
        }
    }

    /// Prints the result for programs; nothing without `--json`.
    pub(crate) fn document(&mut self, document: impl FnOnce() -> Value) {
        if self.json {
            let text = serde_json::to_string_pretty(&document()).expect("a value is plain data");
            self.write(&text);
        }
    }

    /// Prints a table; nothing with `--json`.
    pub(crate) fn table(&mut self, table: &Table) {
        for line in table.lines() {
            self.line(line);
        }
    }

    /// Prints why the command failed.
    pub(crate) fn failure(&mut self, failure: &Failure) {
        let label = if matches!(failure, Failure::Interrupted { .. }) { "stopped" } else { "error" };
        message(&format!("{label}: {}", failure.message()));
        if let Some(hint) = failure.hint() {
            message(&format!("hint: {hint}"));
        }
        let (code, text, hint) = (failure.exit_code().code(), failure.message(), failure.hint());
        self.document(|| json!({ "error": { "message": text, "hint": hint, "exit_code": code } }));
    }

    fn write(&mut self, text: &str) {
        if self.closed {
            return;
        }
        let mut stdout = io::stdout().lock();
        if let Err(error) = writeln!(stdout, "{text}").and_then(|()| stdout.flush()) {
            self.closed = true;
            if error.kind() != io::ErrorKind::BrokenPipe {
                message(&format!("error: writing the result: {error}"));
            }
        }
    }
}

/// Prints a line on standard error. If standard error cannot be written, there is nobody to tell.
pub(crate) fn message(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Prints warnings, the first few in full.
pub(crate) fn warnings(what: &str, problems: &[String], shown: usize) {
    if problems.is_empty() {
        return;
    }
    message(&format!("warning: {what}"));
    for problem in problems.iter().take(shown) {
        message(&format!("  {}", problem.replace('\n', "\n  ")));
    }
    if problems.len() > shown {
        message(&format!("  ... and {} more", problems.len() - shown));
    }
}

/// Rows of cells in aligned columns.
#[derive(Debug)]
pub(crate) struct Table {
    alignment: &'static [u8],
    indent: usize,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with one letter per column, `l` for text and `r` for numbers; the last one applies to all further
    /// columns.
    pub(crate) fn new(alignment: &'static str) -> Self {
        Table { alignment: alignment.as_bytes(), indent: 0, rows: Vec::new() }
    }

    /// The same, indented.
    pub(crate) fn indented(mut self, indent: usize) -> Self {
        self.indent = indent;
        self
    }

    /// Adds a row; rows may differ in length.
    pub(crate) fn row<T: Into<String>>(&mut self, cells: impl IntoIterator<Item = T>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    fn lines(&self) -> Vec<String> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns)
            .map(|c| {
                self.rows.iter().filter_map(|r| r.get(c)).map(|cell| cell.chars().count()).max().unwrap_or(0)
            })
            .collect();
        self.rows.iter().map(|row| self.render(row, &widths)).collect()
    }

    fn render(&self, row: &[String], widths: &[usize]) -> String {
        use std::fmt::Write;
        let mut line = " ".repeat(self.indent);
        for (column, (cell, width)) in row.iter().zip(widths).enumerate() {
            if column > 0 {
                line.push_str("  ");
            }
            let last = self.alignment.len() - 1;
            if self.alignment[column.min(last)] == b'l' {
                let _ = write!(line, "{cell:<width$}");
            } else {
                let _ = write!(line, "{cell:>width$}");
            }
        }
        line.truncate(line.trim_end().len());
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_align() {
        let mut table = Table::new("lr").indented(2);
        table.row(["name", "n"]);
        table.row(["x", "1000"]);
        assert_eq!(table.lines(), ["  name     n", "  x     1000"]);
    }
}
