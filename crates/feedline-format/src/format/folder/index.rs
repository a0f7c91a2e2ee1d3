//! The files of an image folder, in bytes that are used in place: just made, or mapped from a saved index.
//!
//! ```text
//! u64 length of the JSON; JSON (`About`), padded to 8
//! files in the order of samples: (u64 end of name, u64 size, u64 version) each
//! names, one after the other
//! ```

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::source::{FolderFile, FolderVersion, HeldBytes};

const FILE: usize = 24;

/// What is known about the whole data set, and about each of its folders.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct About {
    pub(super) classes: Vec<String>,
    /// First sample of each class, and the number of samples; empty for a flat set.
    pub(super) class_starts: Vec<u64>,
    pub(super) files: u64,
    pub(super) name_bytes: u64,
    /// blake3 of names, sizes and versions.
    pub(super) hash: String,
    pub(super) folders: Vec<Folder>,
}

/// One folder: how to see later whether it must be listed again, and its content if not.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Folder {
    /// Relative to the source's root.
    pub(super) name: String,
    pub(super) version: FolderVersion,
    /// Index of its first image, and the number of its images.
    pub(super) start: u64,
    pub(super) images: u64,
    /// Number of files that are not images, and the names of the first ones.
    pub(super) others: u64,
    pub(super) named: Vec<String>,
    /// Folders inside, by their own names.
    pub(super) folders: Vec<String>,
}

/// A file, as it was listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct File<'a> {
    pub(super) name: &'a str,
    pub(super) size: u64,
    pub(super) version: u64,
}

/// All files.
#[derive(Debug, Clone)]
pub(super) struct Files {
    about: About,
    bytes: HeldBytes,
    /// Offset of the files, and of their names.
    table: usize,
    names: usize,
}

impl Files {
    /// Reads the index in `bytes`; `None` if they are not one.
    pub(super) fn parse(bytes: HeldBytes) -> Option<Self> {
        let json = usize::try_from(word(&bytes, 0)?).ok()?;
        let about: About = serde_json::from_slice(bytes.get(8..8usize.checked_add(json)?)?).ok()?;
        let table = (8 + json).next_multiple_of(8);
        let names = usize::try_from(about.files).ok()?.checked_mul(FILE)?.checked_add(table)?;
        let end = names.checked_add(usize::try_from(about.name_bytes).ok()?)?;
        (end <= bytes.len()).then_some(Files { about, bytes, table, names })
    }

    pub(super) fn about(&self) -> &About {
        &self.about
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(super) fn len(&self) -> u64 {
        self.about.files
    }

    /// File `number`; `None` past the end, or if the index is damaged.
    pub(super) fn get(&self, number: u64) -> Option<File<'_>> {
        if number >= self.about.files {
            return None;
        }
        let at = self.table + number as usize * FILE;
        let start = if number == 0 { 0 } else { word(&self.bytes, at - FILE)? };
        let end = word(&self.bytes, at)?;
        let range: Range<usize> =
            self.names.checked_add(start as usize)?..self.names.checked_add(end as usize)?;
        let name = std::str::from_utf8(self.bytes.get(range)?).ok()?;
        Some(File { name, size: word(&self.bytes, at + 8)?, version: word(&self.bytes, at + 16)? })
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?))
}

/// Writes an index, file by file in the order of samples.
#[derive(Debug, Default)]
pub(super) struct Builder {
    files: Vec<u8>,
    names: Vec<u8>,
}

impl Builder {
    pub(super) fn add(&mut self, file: File<'_>) {
        self.names.extend_from_slice(file.name.as_bytes());
        self.add_named(file.size, file.version);
    }

    /// Adds a file of the folder called `folder`.
    pub(super) fn add_below(&mut self, folder: &str, file: FolderFile<'_>) {
        if !folder.is_empty() {
            self.names.extend_from_slice(folder.as_bytes());
            self.names.push(b'/');
        }
        self.names.extend_from_slice(file.name.as_bytes());
        self.add_named(file.size, file.version);
    }

    /// Adds a file whose name has just been added.
    fn add_named(&mut self, size: u64, version: u64) {
        for number in [self.names.len() as u64, size, version] {
            self.files.extend_from_slice(&number.to_le_bytes());
        }
    }

    pub(super) fn len(&self) -> u64 {
        (self.files.len() / FILE) as u64
    }

    /// Finishes the index of these files with `about`.
    pub(super) fn finish(self, about: About) -> Files {
        // At once: small pieces would be hashed without SIMD.
        let mut hasher = blake3::Hasher::new();
        hasher.update(&self.files).update(&self.names);
        let about = About {
            files: self.len(),
            name_bytes: self.names.len() as u64,
            hash: hasher.finalize().to_hex().to_string(),
            ..about
        };
        let json = serde_json::to_vec(&about).expect("plain data are JSON");
        let mut bytes = (json.len() as u64).to_le_bytes().to_vec();
        bytes.reserve(json.len() + 8 + self.files.len() + self.names.len());
        bytes.extend_from_slice(&json);
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        bytes.extend_from_slice(&self.files);
        bytes.extend_from_slice(&self.names);
        Files::parse(HeldBytes::Owned(bytes.into())).expect("it was written just now")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_round_trips_through_a_file_and_damage_never_panics() {
        let files = [("a/1.jpg", 3, 7), ("b/\u{e9}.png", 0, u64::MAX)].map(|(name, size, version)| File {
            name,
            size,
            version,
        });
        let mut builder = Builder::default();
        for file in files {
            builder.add(file);
        }
        let index = builder.finish(About { classes: vec!["a".to_owned()], ..About::default() });
        let bytes = index.bytes().to_vec();
        let again = Files::parse(HeldBytes::Owned(bytes.clone().into())).unwrap();
        assert_eq!(again.about(), index.about());
        assert_eq!([again.get(0), again.get(1), again.get(2)], [Some(files[0]), Some(files[1]), None]);
        for at in 0..bytes.len() {
            assert!(Files::parse(HeldBytes::Owned(bytes[..at].to_vec().into())).is_none());
            let mut bad = bytes.clone();
            bad[at] ^= 0xff;
            if let Some(index) = Files::parse(HeldBytes::Owned(bad.into())) {
                let _ = (index.get(0), index.get(1));
            }
        }
    }
}
