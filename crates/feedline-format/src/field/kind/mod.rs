//! What a field contains. Each kind is a [`Row`] in a file of its own; the list below is the only place that names
//! all of them.

mod array;
mod bytes;
mod image;
mod media;
mod number;
mod text;

use serde::{Deserialize, Serialize};

use super::DType;

/// Everything that is known about a kind.
struct Row {
    /// Name in manifests, in Python and on the command line.
    name: &'static str,
    /// Code in a pack's digest. Never changes.
    code: u8,
    /// How its values are held.
    carrier: Carrier,
    /// What its undecoded bytes mean to the user.
    meaning: Meaning,
    /// Checks that stored bytes are valid for the kind; the error says why not.
    check: fn(&[u8]) -> Result<(), String>,
    /// File extension of its members in tar shards.
    tar: &'static str,
    /// The name of litdata's serializer.
    litdata: &'static str,
    /// The name of the MDS encoding.
    mds: &'static str,
}

/// How a field's value is held in memory and in packs. This is all that code which moves values has to distinguish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// One 64-bit integer.
    Int,
    /// One 64-bit float.
    Float,
    /// Bytes and nothing else.
    Bytes,
    /// Bytes of an image with its size and, if present, its seek index.
    Image,
    /// Elements with their type and shape.
    Array,
}

impl Carrier {
    /// Whether values have bytes and are not just a number.
    pub const fn has_bytes(self) -> bool {
        !matches!(self, Carrier::Int | Carrier::Float)
    }

    /// The element type of a column of such values, if they are numbers.
    pub const fn number(self) -> Option<DType> {
        match self {
            Carrier::Int => Some(DType::I64),
            Carrier::Float => Some(DType::F64),
            _ => None,
        }
    }
}

/// The meaning of a column's elements, beyond their type.
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
        /// What a field contains.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[serde(into = "&'static str", try_from = "String")]
        #[non_exhaustive]
        pub enum Kind {
            $($(#[$doc])* $kind,)+
        }

        impl Kind {
            /// All kinds.
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
    /// An n-d array. Each value has its own element type and shape, which may differ between samples.
    Array = array::ROW,
    /// A file of audio.
    Audio = media::AUDIO,
    /// A file of video.
    Video = media::VIDEO,
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

    /// What its undecoded bytes mean to the user.
    pub const fn meaning(self) -> Meaning {
        self.row().meaning
    }

    /// Whether its bytes are text. Other systems distinguish text from bytes.
    pub const fn is_text(self) -> bool {
        matches!(self.row().meaning, Meaning::Text | Meaning::Json)
    }

    /// Whether a value that a program made as kind `made` can be stored in a field of this kind.
    pub(crate) fn takes(self, made: Kind) -> bool {
        let bytes = made == Kind::Bytes && self.carrier() == Carrier::Bytes && !self.is_text();
        made == self || bytes
    }

    /// Checks that stored bytes are valid for the kind; the error says why not.
    pub fn check(self, bytes: &[u8]) -> Result<(), String> {
        (self.row().check)(bytes)
    }

    /// Code in a pack's digest.
    pub(crate) const fn code(self) -> u8 {
        self.row().code
    }

    /// File extension of its members in tar shards.
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

/// The check of kinds for which all bytes are valid.
#[expect(clippy::unnecessary_wraps, reason = "one of several checks")]
fn anything(_: &[u8]) -> Result<(), String> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_and_codes_are_distinct() {
        let names: BTreeSet<&str> = Kind::ALL.iter().map(|kind| kind.name()).collect();
        let codes: BTreeSet<u8> = Kind::ALL.iter().map(|kind| kind.code()).collect();
        assert_eq!((names.len(), codes.len()), (Kind::ALL.len(), Kind::ALL.len()));
        for kind in Kind::ALL {
            assert_eq!(Kind::from_name(kind.name()), Some(kind));
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
        }
    }

    #[test]
    fn codes_in_packs_never_change() {
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
