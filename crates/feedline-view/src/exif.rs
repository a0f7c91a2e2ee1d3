//! What cameras write into JPEG files: the entries that people ask for.

use serde_json::{Map, Value, json};

/// Tag, name. The second directory (0x8769) has those of the exposure.
const TAGS: [(u16, &str); 13] = [
    (0x010e, "description"),
    (0x010f, "make"),
    (0x0110, "model"),
    (0x0112, "orientation"),
    (0x0131, "software"),
    (0x0132, "date"),
    (0x013b, "artist"),
    (0x8298, "copyright"),
    (0x829a, "exposure"),
    (0x829d, "f_number"),
    (0x8827, "iso"),
    (0x9003, "taken"),
    (0x920a, "focal_length"),
];
const SECOND: u16 = 0x8769;

/// Directories and entries that are looked at; more are no camera's.
const MOST_ENTRIES: u16 = 200;
const MOST_TEXT: usize = 200;

/// The entries of a JPEG file, or null.
pub(crate) fn exif(file: &[u8]) -> Value {
    let Some(tiff) = segment(file).and_then(Tiff::new) else { return Value::Null };
    let mut found = Map::new();
    let second = tiff.directory(tiff.number(4, 4), &mut found);
    if let Some(second) = second {
        tiff.directory(Some(second), &mut found);
    }
    if found.is_empty() { Value::Null } else { Value::Object(found) }
}

/// What follows `Exif` in the file's first segments.
fn segment(file: &[u8]) -> Option<&[u8]> {
    let mut rest = file.strip_prefix(&[0xff, 0xd8])?;
    loop {
        let [0xff, marker, high, low, ..] = rest else { return None };
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        let body = rest.get(4..2 + length)?;
        match marker {
            0xe1 if body.starts_with(b"Exif\0\0") => return Some(&body[6..]),
            0xda | 0xd9 => return None,
            _ => rest = &rest[2 + length..],
        }
    }
}

struct Tiff<'a> {
    bytes: &'a [u8],
    little: bool,
}

impl<'a> Tiff<'a> {
    fn new(bytes: &'a [u8]) -> Option<Self> {
        let little = match bytes.get(..4)? {
            b"II*\0" => true,
            b"MM\0*" => false,
            _ => return None,
        };
        Some(Tiff { bytes, little })
    }

    fn number(&self, at: usize, size: usize) -> Option<usize> {
        let bytes = self.bytes.get(at..at.checked_add(size)?)?;
        let add = |all: usize, byte: &u8| all << 8 | usize::from(*byte);
        Some(if self.little { bytes.iter().rev().fold(0, add) } else { bytes.iter().fold(0, add) })
    }

    /// Notes the entries of a directory; gives the place of the second one.
    fn directory(&self, at: Option<usize>, found: &mut Map<String, Value>) -> Option<usize> {
        let at = at?;
        let entries = self.number(at, 2)?.min(usize::from(MOST_ENTRIES));
        let mut second = None;
        for entry in (0..entries).map(|number| at + 2 + 12 * number) {
            let tag = self.number(entry, 2)? as u16;
            if tag == SECOND {
                second = self.number(entry + 8, 4);
            }
            if let Some((_, name)) = TAGS.iter().find(|(known, _)| *known == tag)
                && let Some(value) = self.value(entry)
            {
                found.insert((*name).to_owned(), value);
            }
        }
        second
    }

    fn value(&self, entry: usize) -> Option<Value> {
        let (kind, count) = (self.number(entry + 2, 2)?, self.number(entry + 4, 4)?);
        let place = || self.number(entry + 8, 4);
        match kind {
            2 => {
                let at = if count <= 4 { entry + 8 } else { place()? };
                let text = self.bytes.get(at..at.checked_add(count.min(MOST_TEXT))?)?;
                let text = String::from_utf8_lossy(text);
                Some(json!(text.trim_end_matches(['\0', ' '])))
            }
            3 => self.number(entry + 8, 2).map(|value| json!(value)),
            4 => place().map(|value| json!(value)),
            5 => {
                let at = place()?;
                let (above, below) = (self.number(at, 4)?, self.number(at.checked_add(4)?, 4)?);
                Some(if below == 1 { json!(above) } else { json!(format!("{above}/{below}")) })
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_camera_model_is_read_and_nonsense_ignored() {
        let mut tiff = b"II*\0\x08\0\0\0\x02\0".to_vec();
        tiff.extend(b"\x10\x01\x02\0\x07\0\0\0\x26\0\0\0");
        tiff.extend(b"\x12\x01\x03\0\x01\0\0\0\x06\0\0\0");
        tiff.extend([0; 4]);
        tiff.extend(b"Box 13\0");
        let mut file = vec![0xff, 0xd8, 0xff, 0xe1];
        file.extend((tiff.len() as u16 + 8).to_be_bytes());
        file.extend(b"Exif\0\0");
        file.extend(&tiff);
        assert_eq!(exif(&file), json!({"model": "Box 13", "orientation": 6}));
        for cut in 0..file.len() {
            exif(&file[..cut]);
        }
        for at in 12..file.len() {
            for value in [0, 0x7f, 0xff] {
                let mut wrong = file.clone();
                wrong[at] = value;
                exif(&wrong);
            }
        }
    }
}
