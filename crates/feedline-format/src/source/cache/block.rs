//! One block of one object, in a file of its own:
//!
//! ```text
//! payload │ description (JSON) │ its length u32 │ crc32c of the payload u32 │ crc32c of the description u32 │ magic
//! ```
//!
//! The payload begins at offset 0, so that a read is one `pread`. A block is renamed into place, whole or not at all;
//! the checksums detect damage on disk.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;

use serde::{Deserialize, Serialize};

use crate::sample::Fingerprint;

const MAGIC: &[u8; 8] = b"flblock1";
const FOOTER: u64 = 20;

/// Bytes that are summed, and then written or forgotten.
const PIECE: usize = 256 << 10;

/// A description has a few hundred bytes; a longer one is damaged.
const MOST_DESCRIPTION: u32 = 64 << 10;

/// Which bytes a block contains.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Description {
    /// The source's root.
    pub(super) uri: String,
    /// The object.
    pub(super) name: String,
    /// The object's version.
    pub(super) version: u64,
    /// The object's length.
    pub(super) size: u64,
    /// Index of the block in the object.
    pub(super) block: u64,
    /// Bytes per block; the last one may be shorter.
    pub(super) block_bytes: u64,
}

impl Description {
    /// Name of the block's file. It contains the version, so that blocks of another version of the object are never
    /// used.
    pub(super) fn file_name(&self) -> String {
        let numbers = [self.version, self.size, self.block, self.block_bytes].map(u64::to_le_bytes);
        let Fingerprint(bytes) =
            Fingerprint::of([self.uri.as_bytes(), self.name.as_bytes(), numbers.as_flattened()]);
        Fingerprint(bytes).to_hex()
    }

    /// Offset of the block in its object.
    pub(super) fn start(&self) -> u64 {
        self.block * self.block_bytes
    }

    /// Length of the block.
    pub(super) fn length(&self) -> u64 {
        self.block_bytes.min(self.size.saturating_sub(self.start()))
    }
}

/// Length of the block's file.
pub(super) fn file_length(payload: &[u8], description: &Description) -> io::Result<u64> {
    let text = serde_json::to_vec(description)?;
    Ok((payload.len() + text.len()) as u64 + FOOTER)
}

/// Writes a block.
pub(super) fn write(file: &mut File, payload: &[u8], description: &Description) -> io::Result<()> {
    let text = serde_json::to_vec(description)?;
    let mut sum = 0;
    // In pieces that the cache still has when they are written.
    for piece in payload.chunks(PIECE) {
        sum = crc32c::crc32c_append(sum, piece);
        file.write_all(piece)?;
    }
    file.write_all(&text)?;
    let mut footer = [0; FOOTER as usize];
    footer[..4].copy_from_slice(&(text.len() as u32).to_le_bytes());
    footer[4..8].copy_from_slice(&sum.to_le_bytes());
    footer[8..12].copy_from_slice(&crc32c::crc32c(&text).to_le_bytes());
    footer[12..].copy_from_slice(MAGIC);
    file.write_all(&footer)
}

/// Reads the description and the payload's checksum from a block's file.
pub(super) fn describe(file: &File) -> io::Result<(Description, u32)> {
    let bad = |reason: &str| io::Error::new(io::ErrorKind::InvalidData, reason.to_owned());
    let length = file.metadata()?.len();
    let mut footer = [0; FOOTER as usize];
    let at = length.checked_sub(FOOTER).ok_or_else(|| bad("too short for a block"))?;
    file.read_exact_at(&mut footer, at)?;
    if &footer[12..] != MAGIC {
        return Err(bad("not a block"));
    }
    let number = |at: usize| u32::from_le_bytes(footer[at..at + 4].try_into().expect("four bytes"));
    let (text_length, payload_sum, text_sum) = (number(0), number(4), number(8));
    if text_length > MOST_DESCRIPTION || u64::from(text_length) > at {
        return Err(bad("an invalid description"));
    }
    let mut text = vec![0; text_length as usize];
    let payload_end = at - u64::from(text_length);
    file.read_exact_at(&mut text, payload_end)?;
    if crc32c::crc32c(&text) != text_sum {
        return Err(bad("a damaged description"));
    }
    let description: Description = serde_json::from_slice(&text)?;
    if description.block_bytes == 0 || description.length() != payload_end {
        return Err(bad("a description that does not fit the file"));
    }
    Ok((description, payload_sum))
}

/// Reads a block's payload and compares it with its checksum.
pub(super) fn check(file: &File) -> io::Result<Description> {
    let (description, sum) = describe(file)?;
    let (mut buffer, mut at, mut found) = (vec![0; PIECE], 0, 0);
    while at < description.length() {
        let room = (description.length() - at).min(buffer.len() as u64) as usize;
        file.read_exact_at(&mut buffer[..room], at)?;
        found = crc32c::crc32c_append(found, &buffer[..room]);
        at += room as u64;
    }
    if found != sum {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the checksum does not fit"));
    }
    Ok(description)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn description() -> Description {
        Description {
            uri: "s3://b".into(),
            name: "a".into(),
            version: 7,
            size: 1000,
            block: 1,
            block_bytes: 600,
        }
    }

    #[test]
    fn a_block_describes_its_content_and_every_flipped_byte_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        let payload: Vec<u8> = (0..400u32).map(|i| i as u8).collect();
        write(&mut File::create(&path).unwrap(), &payload, &description()).unwrap();
        assert_eq!(check(&File::open(&path).unwrap()).unwrap(), description());
        let whole = std::fs::read(&path).unwrap();
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            std::fs::write(&path, damaged).unwrap();
            assert!(check(&File::open(&path).unwrap()).is_err(), "byte {at}");
        }
        for end in 0..whole.len() {
            std::fs::write(&path, &whole[..end]).unwrap();
            assert!(check(&File::open(&path).unwrap()).is_err(), "length {end}");
        }
    }

    #[test]
    fn names_differ_if_anything_differs() {
        let one = description();
        let others = [
            Description { version: 8, ..one.clone() },
            Description { size: 1001, ..one.clone() },
            Description { block: 0, ..one.clone() },
            Description { name: "b".into(), ..one.clone() },
        ];
        assert!(others.iter().all(|other| other.file_name() != one.file_name()));
    }
}
