//! The words of a question: what stands behind the `?`.

use std::collections::BTreeMap;

use percent_encoding::percent_decode_str;

/// Names and values.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Query {
    words: BTreeMap<String, String>,
}

/// A question that makes no sense.
pub(crate) type Wrong = String;

impl Query {
    /// Reads what stands behind the `?`; the last of several values of one name counts.
    pub(crate) fn new(text: &str) -> Self {
        let decode =
            |text: &str| percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned();
        let pairs = text.split('&').filter(|pair| !pair.is_empty());
        let words = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        Query { words: words.map(|(name, value)| (decode(name), decode(value))).collect() }
    }

    /// A value, if it is given and not empty.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.words.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// A number, or `default`.
    pub(crate) fn number(&self, name: &str, default: u64) -> Result<u64, Wrong> {
        match self.get(name) {
            None => Ok(default),
            Some(text) => text.parse().map_err(|_| format!("{name}: {text:?} is not a whole number")),
        }
    }

    /// A number that must be there or not at all.
    pub(crate) fn maybe<T: std::str::FromStr>(&self, name: &str) -> Result<Option<T>, Wrong> {
        let parse = |text: &str| text.parse().map_err(|_| format!("{name}: {text:?} is not a number"));
        self.get(name).map(parse).transpose()
    }

    /// These names alone.
    pub(crate) fn only(&self, names: &[&str]) -> Query {
        let known = |(name, value): (&String, &String)| {
            (names.contains(&name.as_str()) && !value.is_empty()).then(|| (name.clone(), value.clone()))
        };
        Query { words: self.words.iter().filter_map(known).collect() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.words.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_decoded() {
        let query = Query::new("class=3&text=a%20b%26c+d&empty=&bad");
        assert_eq!((query.get("text"), query.get("empty"), query.get("bad")), (Some("a b&c d"), None, None));
        assert_eq!((query.number("class", 0), query.number("from", 7)), (Ok(3), Ok(7)));
        assert!(query.number("text", 0).is_err());
        assert_eq!(query.only(&["class", "empty"]).words.len(), 1);
        assert_eq!(Query::new("x=%ff").get("x"), Some("\u{fffd}"));
    }
}
