//! Columns whose rows lie in mapped files: nothing is copied, and a row is only a place.

use std::fmt::Debug;
use std::sync::{Arc, OnceLock};

/// A mapped file.
pub type MappedBytes = Arc<dyn AsRef<[u8]> + Send + Sync>;

/// The files that rows of a column lie in, mapped when they are first needed and kept as long as a batch or its loader.
pub struct ViewFiles {
    files: Box<[OnceLock<MappedBytes>]>,
}

/// Numbers of a row: its file, its start there, and its length.
pub(crate) const PLACE: usize = 3;

impl ViewFiles {
    /// Room for `count` files.
    pub(crate) fn new(count: usize) -> Self {
        ViewFiles { files: (0..count).map(|_| OnceLock::new()).collect() }
    }

    /// Number of files.
    pub fn len(&self) -> usize {
        self.files.len()
    }

    /// Whether there are no files.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// File `number`, if a row lies in it.
    pub fn file(&self, number: usize) -> Option<&[u8]> {
        self.files.get(number)?.get().map(|file| (**file).as_ref())
    }

    /// File `number`, mapped by `map` if it was not needed yet.
    pub(crate) fn file_or<E>(
        &self,
        number: usize,
        map: impl FnOnce() -> Result<MappedBytes, E>,
    ) -> Result<&[u8], E> {
        let slot = &self.files[number];
        if slot.get().is_none() {
            // Two threads may map it at once; one mapping is kept.
            let _ = slot.set(map()?);
        }
        Ok((**slot.get().expect("set above")).as_ref())
    }
}

impl Debug for ViewFiles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mapped = self.files.iter().filter(|file| file.get().is_some()).count();
        write!(f, "ViewFiles({mapped} of {} mapped)", self.files.len())
    }
}

/// The same files, not the same content.
impl PartialEq for ViewFiles {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for ViewFiles {}

/// The numbers of row `row` in a column's memory.
pub(super) fn place(bytes: &[u8], row: usize) -> [usize; PLACE] {
    let number = |at: usize| {
        let start = (row * PLACE + at) * 8;
        i64::from_le_bytes(bytes[start..start + 8].try_into().expect("eight bytes")) as usize
    };
    [number(0), number(1), number(2)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_mapped_once_and_on_first_use() {
        let files = ViewFiles::new(2);
        let map = |bytes: &'static [u8]| move || Ok::<_, ()>(Arc::new(bytes) as MappedBytes);
        assert_eq!((files.len(), files.file(1), files.file(7)), (2, None, None));
        assert_eq!(files.file_or(1, map(b"one")), Ok(&b"one"[..]));
        assert_eq!(files.file_or(1, || panic!("mapped already")), Ok::<_, ()>(&b"one"[..]));
        assert_eq!(files.file_or(0, || Err("no")), Err("no"));
        assert_eq!((files.file(0), files.file(1)), (None, Some(&b"one"[..])));
        assert_eq!(format!("{files:?}"), "ViewFiles(1 of 2 mapped)");
    }
}
