//! Reads past the page cache (`O_DIRECT`), for data that are read once and must not displace others.
//!
//! The system reads whole blocks, into memory that begins at a multiple of one. So a range is read with the rest of its
//! first and last block, and found inside.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU8, Ordering};

use super::Storage;
use crate::error::{Error, Result};

/// The name of the setting.
pub(super) const SETTING: &str = "page_cache";

/// A multiple of the blocks of common devices (512 and 4096).
const BLOCK: u64 = 4096;

/// What a read needs besides its bytes: the rest of two blocks, and what is left out to begin at a multiple of a block.
pub(super) const MARGIN: usize = 3 * BLOCK as usize;

/// Bytes read at once by a thread that needs them itself.
const PIECE: u64 = 1 << 20;

const ALWAYS: u8 = 2;
const WHEN_OPEN: u8 = 1;

/// Whether the reads of a source avoid the page cache.
#[derive(Debug, Default)]
pub(super) struct Bypass(AtomicU8);

impl Bypass {
    /// What `storage` asks for: from the moment when the data set is open. Opening reads many small pieces, each of which
    /// would wait for the disk.
    pub(super) fn asked(storage: &Storage) -> Result<Self> {
        let refuse = |reason: String| Err(Error::option(SETTING, reason));
        match storage.options.get(SETTING).map(String::as_str) {
            None | Some("use") => Ok(Bypass::default()),
            Some("bypass") if cfg!(target_os = "linux") => Ok(Bypass(WHEN_OPEN.into())),
            Some("bypass") => refuse("'bypass' needs Linux".to_owned()),
            Some(other) => refuse(format!("'{other}' is not one of use, bypass")),
        }
    }

    /// The same from now on, for a source whose files are all read as samples.
    pub(super) fn at_once(self) -> Self {
        self.opening_finished();
        self
    }

    pub(super) fn opening_finished(&self) {
        // It only ever grows, and either way of reading returns the same bytes.
        let _ = self.0.compare_exchange(WHEN_OPEN, ALWAYS, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Whether reads will avoid the page cache once the data set is open.
    pub(super) fn is_asked(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }

    /// Whether they do now.
    pub(super) fn is_on(&self) -> bool {
        self.0.load(Ordering::Relaxed) == ALWAYS
    }
}

/// Opens a file for reads past the page cache. An error if its file system has none.
#[cfg(target_os = "linux")]
pub(super) fn open(path: &Path) -> io::Result<File> {
    use rustix::fs::{Mode, OFlags};
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::DIRECT;
    Ok(File::from(rustix::fs::open(path, flags, Mode::empty()).map_err(|errno| explained(errno.into()))?))
}

#[cfg(not(target_os = "linux"))]
pub(super) fn open(_: &Path) -> io::Result<File> {
    Err(io::ErrorKind::Unsupported.into())
}

/// "Invalid argument" tells nobody what is wrong.
fn explained(error: io::Error) -> io::Error {
    if error.kind() != io::ErrorKind::InvalidInput {
        return error;
    }
    let reason = "this file system refuses reads past the page cache\nhint: leave out page_cache='bypass'";
    io::Error::new(io::ErrorKind::Unsupported, reason)
}

/// Reads `range` into `room`, which has [`MARGIN`] bytes more. Returns the place of the first byte in it.
pub(super) fn read_aligned(file: &File, range: Range<u64>, room: &mut [u8]) -> io::Result<usize> {
    let base = room.as_ptr().align_offset(BLOCK as usize);
    let first = range.start / BLOCK * BLOCK;
    let wanted = (range.end - first) as usize;
    let whole = wanted.next_multiple_of(BLOCK as usize);
    let room = room.get_mut(base..base + whole).ok_or(io::ErrorKind::InvalidInput)?;
    let mut done = 0;
    while done < wanted {
        match file.read_at(&mut room[done..], first + done as u64) {
            // Less than a block is the end of the file.
            Ok(count) if done + count < wanted && !(count as u64).is_multiple_of(BLOCK) || count == 0 => {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            Ok(count) => done += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(explained(error)),
        }
    }
    Ok(base + (range.start - first) as usize)
}

/// Fills `into` from `offset` on, piece by piece through memory of this thread.
pub(super) fn read_exact_at(file: &File, into: &mut [u8], offset: u64) -> io::Result<()> {
    thread_local! {
        static ROOM: std::cell::RefCell<Vec<u8>> = const { std::cell::RefCell::new(Vec::new()) };
    }
    ROOM.with_borrow_mut(|room| {
        let most = into.len().min(PIECE as usize) + MARGIN;
        if room.len() < most {
            room.try_reserve_exact(most - room.len()).map_err(|_| io::ErrorKind::OutOfMemory)?;
            room.resize(most, 0);
        }
        let mut at = offset;
        for piece in into.chunks_mut(PIECE as usize) {
            let end = at + piece.len() as u64;
            let start = read_aligned(file, at..end, room)?;
            piece.copy_from_slice(&room[start..start + piece.len()]);
            at = end;
        }
        Ok(())
    })
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn storage(value: &str) -> Storage {
        Storage::new([(SETTING.to_owned(), value.to_owned())].into())
    }

    #[test]
    fn only_two_words_are_known_and_nothing_changes_before_the_data_set_is_open() {
        let asked = Bypass::asked(&storage("bypass")).unwrap();
        assert!(asked.is_asked() && !asked.is_on());
        asked.opening_finished();
        assert!(asked.is_on());
        let plain = Bypass::asked(&storage("use")).unwrap().at_once();
        assert!(!plain.is_asked() && !plain.is_on());
        let message = Bypass::asked(&storage("none")).unwrap_err().to_string();
        assert!(message.contains("page_cache") && message.contains("use, bypass"), "{message}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn every_range_is_read_exactly_and_none_past_the_end(
            length in 1usize..3_000_000,
            ranges in prop::collection::vec((0.0..1.2f64, 0.0..1.2f64), 1..8),
        ) {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("a");
            let bytes: Vec<u8> = (0..length).map(|n| (n * 31 % 251) as u8).collect();
            std::fs::write(&path, &bytes).unwrap();
            // A file system without such reads (tmpfs before Linux 6.6) has nothing to compare.
            let file = match open(&path) {
                Ok(file) => file,
                Err(error) => {
                    prop_assert!(error.to_string().contains("page_cache='bypass'"), "{}", error);
                    return Ok(());
                }
            };
            for (a, b) in ranges {
                let [start, end] = [a.min(b), a.max(b)].map(|part| (part * length as f64) as usize);
                let mut into = vec![7; end - start];
                let read = read_exact_at(&file, &mut into, start as u64);
                if end <= length || start == end {
                    prop_assert!(read.is_ok() && into == bytes[start.min(length)..end.min(length)]);
                } else {
                    prop_assert_eq!(read.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
                }
            }
        }
    }
}
