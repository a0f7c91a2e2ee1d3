//! The head of an http message, as far as tests need it.

use std::io::{self, BufRead, Write};

/// The head of a request or an answer.
pub(crate) struct HttpHead {
    pub(crate) first: String,
    pub(crate) headers: Vec<(String, String)>,
}

impl HttpHead {
    /// Reads a head; `None` at the end of the connection.
    pub(crate) fn read(from: &mut impl BufRead) -> io::Result<Option<HttpHead>> {
        let mut first = String::new();
        if from.read_line(&mut first)? == 0 {
            return Ok(None);
        }
        let mut headers = Vec::new();
        loop {
            let mut line = String::new();
            if from.read_line(&mut line)? == 0 || line.trim().is_empty() {
                break;
            }
            if let Some((name, value)) = line.trim_end().split_once(':') {
                headers.push((name.trim().to_owned(), value.trim().to_owned()));
            }
        }
        Ok(Some(HttpHead { first: first.trim_end().to_owned(), headers }))
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    pub(crate) fn set(&mut self, name: &str, value: String) {
        self.headers.retain(|(n, _)| !n.eq_ignore_ascii_case(name));
        self.headers.push((name.to_owned(), value));
    }

    pub(crate) fn length(&self) -> u64 {
        self.get("content-length").and_then(|length| length.parse().ok()).unwrap_or(0)
    }

    pub(crate) fn write(&self, to: &mut impl Write) -> io::Result<()> {
        let mut text = format!("{}\r\n", self.first);
        for (name, value) in &self.headers {
            text.extend([name, ": ", value, "\r\n"]);
        }
        to.write_all((text + "\r\n").as_bytes())
    }
}
