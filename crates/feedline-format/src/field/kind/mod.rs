//! What a field holds. Each kind is a [`Row`] in a file of its own; the list below is the only place that names them
//! all.

mod array;
mod bytes;
mod image;
mod number;
mod text;

use serde::{Deserialize, Serialize};

use super::DType;

/// Everything that is known of a kind.
struct Row {
    /// In manifests, in Python and on the command line.
    name: &'static str,
    /// What a pack's digest calls it. Never changes.
    code: u8,
    /// Which values carry it.
    carrier: Carrier,
    /// What its bytes mean to the user, as long as nobody decodes them.
    meaning: Meaning,
    /// Whether stored bytes are what the kind promises; the error says why not.
    check: fn(&[u8]) -> Result<(), String>,
    /// The ending of its members in tar shards.
    tar: &'static str,
    /// The name of litdata's serializer.
    litdata: &'static str,
    /// The name of the MDS encoding.
    mds: &'static str,
}

/// How a value of a field is held in memory and in packs: what code that moves values about has to tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// One 64-bit integer.
    Int,
    /// One 64-bit float.
    Float,
    /// Bytes with nothing beside them.
    Bytes,
    /// Bytes of an image with its size and, where there is one, its seek index.
    Image,
    /// Elements with their type and shape.
    Array,
}

impl Carrier {
    /// Whether values have bytes, not just a number.
    pub const fn has_bytes(self) -> bool {
        !matches!(self, Carrier::Int | Carrier::Float)
    }

    /// The element type of a column of such numbers.
    pub const fn number(self) -> Option<DType> {
        match self {
            Carrier::Int => Some(DType::I64),
            Carrier::Float => Some(DType::F64),
            _ => None,
        }
    }
}

/// What a column's elements mean beyond their type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// Numbers.
    Numbers,
    /// Opaque bytes (an undecoded image, a blob).
    Bytes,
    /// UTF-8 text.
    Text,
    /// JSON text.
    Json,
}

impl Meaning {
    /// Its name in Python.
    pub const fn name(self) -> &'static str {
        match self {
            Meaning::Numbers => "numbers",
            Meaning::Bytes => "bytes",
            Meaning::Text => "text",
            Meaning::Json => "json",
        }
    }
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident = $row:path,)+) => {
        /// What a field holds.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[serde(into = "&'static str", try_from = "String")]
        #[non_exhaustive]
        pub enum Kind {
            $($(#[$doc])* $kind,)+
        }

        impl Kind {
            /// All of them.
            pub const ALL: [Kind; [$(Kind::$kind,)+].len()] = [$(Kind::$kind,)+];

            const fn row(self) -> &'static Row {
                match self {
                    $(Kind::$kind => &$row,)+
                }
            }
        }
    };
}

kinds! {
    /// An encoded image, or raw pixels with their size.
    Image = image::ROW,
    /// One 64-bit integer.
    Int = number::INT,
    /// One 64-bit float.
    Float = number::FLOAT,
    /// UTF-8 text.
    Text = text::TEXT,
    /// One JSON value, kept as its text.
    Json = text::JSON,
    /// Bytes of no known meaning.
    Bytes = bytes::ROW,
    /// An n-d array; element type and shape travel with each value and may differ between samples.
    Array = array::ROW,
}

super::spelled_by_name!(Kind, "kind of field");

impl Kind {
    /// The name in manifests, in Python and on the command line.
    pub const fn name(self) -> &'static str {
        self.row().name
    }

    /// How its values are held.
    #[inline]
    pub const fn carrier(self) -> Carrier {
        self.row().carrier
    }

    /// What its bytes mean to the user, as long as nobody decodes them.
    pub const fn meaning(self) -> Meaning {
        self.row().meaning
    }

    /// Whether its bytes are text, which other systems keep apart from bytes.
    pub const fn is_text(self) -> bool {
        matches!(self.row().meaning, Meaning::Text | Meaning::Json)
    }

    /// Whether a value that a program made for kind `made` can be stored in a field of this kind.
    pub(crate) fn takes(self, made: Kind) -> bool {
        let bytes = made == Kind::Bytes && self.carrier() == Carrier::Bytes && !self.is_text();
        made == self || bytes
    }

    /// Whether stored bytes are what the kind promises; the error says why not.
    pub fn check(self, bytes: &[u8]) -> Result<(), String> {
        (self.row().check)(bytes)
    }

    /// What a pack's digest calls it.
    pub(crate) const fn code(self) -> u8 {
        self.row().code
    }

    /// The ending of its members in tar shards.
    pub(crate) const fn tar(self) -> &'static str {
        self.row().tar
    }

    /// The name of litdata's serializer.
    pub(crate) const fn litdata(self) -> &'static str {
        self.row().litdata
    }

    /// The name of the MDS encoding.
    pub(crate) const fn mds(self) -> &'static str {
        self.row().mds
    }
}

/// The check of kinds that promise nothing.
#[expect(clippy::unnecessary_wraps, reason = "one of several checks")]
fn anything(_: &[u8]) -> Result<(), String> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_and_codes_are_told_apart() {
        let names: BTreeSet<&str> = Kind::ALL.iter().map(|kind| kind.name()).collect();
        let codes: BTreeSet<u8> = Kind::ALL.iter().map(|kind| kind.code()).collect();
        assert_eq!((names.len(), codes.len()), (Kind::ALL.len(), Kind::ALL.len()));
        for kind in Kind::ALL {
            assert_eq!(Kind::from_name(kind.name()), Some(kind));
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
        }
    }

    #[test]
    fn codes_in_packs_stay_what_they_are() {
        let known: Vec<_> = Kind::ALL.iter().map(|kind| (kind.name(), kind.code())).collect();
        let first =
            [("image", 0), ("int", 1), ("float", 2), ("text", 3), ("json", 4), ("bytes", 5), ("array", 6)];
        assert!(first.iter().all(|row| known.contains(row)), "{known:?}");
    }

    #[test]
    fn texts_are_checked() {
        assert!(Kind::Text.check(b"\xff").unwrap_err().contains("UTF-8"));
        assert!(Kind::Json.check(b"{").unwrap_err().contains("not valid JSON"));
        assert!(Kind::Bytes.check(b"\xff").is_ok());
    }
}
