//! Finds the file of a sample, and the row in that file.

/// The first row of each file, counted through all files, and the total number of rows.
#[derive(Debug)]
pub(in crate::format) struct FirstRows(Vec<u64>);

impl FirstRows {
    /// No files yet.
    pub(in crate::format) fn new() -> Self {
        FirstRows(vec![0])
    }

    /// Adds a file of `rows` rows; `None` if the total does not fit in `u64`.
    pub(in crate::format) fn push(&mut self, rows: u64) -> Option<()> {
        self.0.push(self.count().checked_add(rows)?);
        Some(())
    }

    /// Number of rows of all files.
    pub(in crate::format) fn count(&self) -> u64 {
        self.0.last().copied().unwrap_or(0)
    }

    /// The file that row `row` is in, and its row there.
    pub(in crate::format) fn find(&self, row: u64) -> Option<(usize, u64)> {
        if row >= self.count() {
            return None;
        }
        let file = self.0.partition_point(|first| *first <= row) - 1;
        Some((file, row - self.0[file]))
    }
}
