//! Files of one folder, without an allocation for each: a folder of a data set may have millions.

/// Files of one folder, by their own names.
#[derive(Clone, Debug, Default)]
pub struct FolderFiles {
    /// One after the other.
    names: String,
    files: Vec<Place>,
}

/// A file and the place of its name.
#[derive(Clone, Copy, Debug)]
struct Place {
    start: usize,
    end: usize,
    size: u64,
    version: u64,
}

/// One of [`FolderFiles`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FolderFile<'a> {
    /// Its own name, without the folder's.
    pub name: &'a str,
    /// Length in bytes.
    pub size: u64,
    /// As in [`Entry::version`](super::Entry::version).
    pub version: u64,
}

impl FolderFiles {
    /// Adds a file.
    pub fn push(&mut self, file: FolderFile<'_>) {
        let start = self.names.len();
        self.names.push_str(file.name);
        let FolderFile { size, version, .. } = file;
        self.files.push(Place { start, end: self.names.len(), size, version });
    }

    /// Number of files.
    pub fn len(&self) -> usize {
        self.files.len()
    }

    /// Whether there are no files.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// The files, in the order in which they were added, or sorted.
    pub fn iter(&self) -> impl Iterator<Item = FolderFile<'_>> {
        self.files.iter().map(|place| self.at(*place))
    }

    /// Sorts by name, and keeps only the files for which `keep` says so.
    pub fn sort_and_keep(&mut self, mut keep: impl FnMut(FolderFile<'_>) -> bool) {
        let FolderFiles { names, files } = self;
        files.sort_unstable_by(|a, b| names[a.start..a.end].cmp(&names[b.start..b.end]));
        files.retain(|place| {
            let Place { start, end, size, version } = *place;
            keep(FolderFile { name: &names[start..end], size, version })
        });
    }

    fn at(&self, Place { start, end, size, version }: Place) -> FolderFile<'_> {
        FolderFile { name: &self.names[start..end], size, version }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_sorted_and_selected() {
        let mut files = FolderFiles::default();
        for (size, name) in (0..).zip(["b", "", "\u{e9}", "a.txt", "a"]) {
            files.push(FolderFile { name, size, version: size + 10 });
        }
        let mut left_out = Vec::new();
        files.sort_and_keep(|file| {
            let keep = !file.name.contains(".txt");
            left_out.extend((!keep).then(|| (file.name.to_owned(), file.size)));
            keep
        });
        let found: Vec<_> = files.iter().map(|file| (file.name, file.size, file.version)).collect();
        assert_eq!(found, [("", 1, 11), ("a", 4, 14), ("b", 0, 10), ("\u{e9}", 2, 12)]);
        assert_eq!((left_out, files.len()), (vec![("a.txt".to_owned(), 3)], 4));
    }
}
