//! THE RESULT: batches.
//!
//! A [`Batch`] is sealed memory with an owner. Every column's memory goes back to the pool when its last holder drops
//! it, be it a Rust value, a NumPy array or a torch tensor; until then only the holder writes it. `README.md` in this
//! folder explains why.

mod alloc;
mod budget;
mod elements;
mod filling;
mod memory;
mod ring;
mod sync;
mod views;

use std::sync::Arc;

use crate::field::{DType, Meaning};

pub use alloc::{BatchMemory, MemoryBlock};
pub(crate) use budget::Budget;
pub(crate) use filling::{Filling, Room, RowMut, Sealed, Shape};
pub(crate) use memory::Pool;
pub use memory::{PoolStats, Slab, SlabPool};
pub(crate) use ring::{Claim, Ring, Take};
pub use views::{MappedBytes, ViewFiles};

/// How a column's rows are stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Every row has this shape; the column is one array `[rows, shape…]`.
    Dense {
        /// Dimensions of one row.
        shape: Vec<u64>,
    },
    /// Rows differ in length; the column is one flat array with offsets.
    Ragged {
        /// Whether each row also has a shape of its own.
        shaped: bool,
    },
    /// Rows are bytes in mapped files; the column is `[rows, 3]`: file, start and length.
    Views {
        /// The files.
        files: Arc<ViewFiles>,
    },
}

/// Description of a column, known before the first batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnSpec {
    /// Name of the column; a view of a field is `field.view`.
    pub name: String,
    /// Element type.
    pub dtype: DType,
    /// How rows are stored.
    pub layout: Layout,
    /// What the elements mean.
    pub meaning: Meaning,
}

impl ColumnSpec {
    /// Creates a dense column of numbers.
    pub(crate) fn dense(name: impl Into<String>, dtype: DType, shape: &[u64]) -> Self {
        let layout = Layout::Dense { shape: shape.to_vec() };
        ColumnSpec { name: name.into(), dtype, layout, meaning: Meaning::Numbers }
    }

    /// Creates a ragged column.
    pub(crate) fn ragged(name: impl Into<String>, dtype: DType, shaped: bool, meaning: Meaning) -> Self {
        ColumnSpec { name: name.into(), dtype, layout: Layout::Ragged { shaped }, meaning }
    }

    /// Bytes of one row, if all have as many; 0 otherwise.
    pub fn row_bytes(&self) -> usize {
        match &self.layout {
            Layout::Dense { shape } => shape.iter().product::<u64>() as usize * self.dtype.size(),
            Layout::Views { .. } => views::PLACE * 8,
            Layout::Ragged { .. } => 0,
        }
    }

    /// Creates a column of views.
    pub(crate) fn views(name: impl Into<String>, files: Arc<ViewFiles>) -> Self {
        let (layout, meaning) = (Layout::Views { files }, Meaning::Bytes);
        ColumnSpec { name: name.into(), dtype: DType::I64, layout, meaning }
    }
}

/// One sealed batch.
#[derive(Clone, Debug)]
pub struct Batch {
    number: u64,
    rows: usize,
    columns: Vec<Column>,
}

impl Batch {
    /// Number of the batch in the epoch, from 0.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Number of samples.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The columns, in the order of the loader's specification.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// The column with this name.
    pub fn column(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|c| c.name == name)
    }
}

/// One column of a sealed batch. Clones share the memory.
#[derive(Clone, Debug)]
pub struct Column {
    /// Name of the column.
    pub name: String,
    /// Element type.
    pub dtype: DType,
    /// What the elements mean.
    pub meaning: Meaning,
    /// Dimensions: `[rows, …]` if dense, `[elements]` if ragged.
    pub shape: Vec<u64>,
    memory: Arc<Slab>,
    offsets: Option<Arc<[i64]>>,
    shapes: Option<Arc<[Shape]>>,
    files: Option<Arc<ViewFiles>>,
}

impl Column {
    fn dense(spec: &ColumnSpec, memory: Slab, rows: usize) -> Self {
        let row = match &spec.layout {
            Layout::Dense { shape } => shape,
            Layout::Views { files } => {
                let shape = vec![rows as u64, views::PLACE as u64];
                return Column { shape, files: Some(files.clone()), ..Column::new(spec, memory, None, None) };
            }
            Layout::Ragged { .. } => unreachable!("a spec of equal rows"),
        };
        let shape = std::iter::once(rows as u64).chain(row.iter().copied()).collect();
        Column { shape, ..Column::new(spec, memory, None, None) }
    }

    fn ragged(spec: &ColumnSpec, memory: Slab, byte_offsets: Vec<i64>, shapes: Option<Arc<[Shape]>>) -> Self {
        let size = spec.dtype.size() as i64;
        let offsets: Arc<[i64]> = byte_offsets.into_iter().map(|o| o / size).collect();
        let elements = *offsets.last().expect("there is always a first offset") as u64;
        Column { shape: vec![elements], ..Column::new(spec, memory, Some(offsets), shapes) }
    }

    fn new(
        spec: &ColumnSpec,
        memory: Slab,
        offsets: Option<Arc<[i64]>>,
        shapes: Option<Arc<[Shape]>>,
    ) -> Self {
        let (name, dtype, meaning) = (spec.name.clone(), spec.dtype, spec.meaning);
        let (shape, files) = (Vec::new(), None);
        Column { name, dtype, meaning, shape, memory: Arc::new(memory), offsets, shapes, files }
    }

    /// The files that rows lie in, if they are views.
    pub fn view_files(&self) -> Option<&Arc<ViewFiles>> {
        self.files.as_ref()
    }

    /// The elements, little-endian. Of views: file, start and length of each row.
    pub fn bytes(&self) -> &[u8] {
        let elements: u64 = self.shape.iter().product();
        &self.memory.bytes()[..elements as usize * self.dtype.size()]
    }

    /// The memory, for sharing its ownership.
    pub fn memory(&self) -> &Arc<Slab> {
        &self.memory
    }

    /// Offset of each row in elements, and the end of the last row; only if ragged.
    pub fn offsets(&self) -> Option<&[i64]> {
        self.offsets.as_deref()
    }

    /// Dimensions of row `row`, if each row has its own shape.
    pub fn row_shape(&self, row: usize) -> Option<&[u64]> {
        self.shapes.as_ref().map(|s| s[row].as_slice())
    }

    /// The bytes of row `row`.
    pub fn row(&self, row: usize) -> &[u8] {
        if let Some(files) = &self.files {
            let [file, start, length] = views::place(self.bytes(), row);
            return &files.file(file).expect("mapped when the row was made")[start..start + length];
        }
        let size = self.dtype.size();
        if let Some(offsets) = &self.offsets {
            return &self.bytes()[offsets[row] as usize * size..offsets[row + 1] as usize * size];
        }
        let row_bytes = self.shape[1..].iter().product::<u64>() as usize * size;
        &self.bytes()[row * row_bytes..(row + 1) * row_bytes]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{Error, Location, Stage};

    fn specs() -> Vec<ColumnSpec> {
        vec![
            ColumnSpec::dense("index", DType::I64, &[]),
            ColumnSpec::ragged("text", DType::U8, false, Meaning::Text),
            ColumnSpec::ragged("boxes", DType::F32, true, Meaning::Numbers),
        ]
    }

    /// Fills `rows` rows through a real ring with `threads` threads; rows for which `fails` is true fail.
    fn fill(rows: u64, threads: usize, group: u64, fails: fn(u64) -> bool) -> Vec<Sealed> {
        let (ring, pool, specs) = (Ring::new(2, 4, rows, group), Pool::new(8, u64::MAX), specs());
        let open = |number: u64| {
            let samples: Vec<u64> = (number * 4..number * 4 + ring.rows(number)).collect();
            let lengths: Vec<u64> = samples.iter().map(|s| s % 3).collect();
            let planned = |column| (column == 1).then(|| lengths.clone());
            Filling::new(number, samples, &specs, &pool, planned).unwrap()
        };
        let fill_row = |mut row: RowMut<'_>| {
            let sample = row.sample();
            if fails(sample) {
                return row.failed(Error::sample(
                    Location::new("x").with_sample(sample),
                    Stage::Decode,
                    "bad",
                ));
            }
            row.dense(0).copy_from_slice(&(sample as i64).to_le_bytes());
            let (Room::Planned(room), _) = row.ragged(1) else { panic!("lengths were given") };
            room.fill(b'a' + sample as u8 % 26);
            let (Room::Free(room), shape) = row.ragged(2) else { panic!("lengths were not given") };
            for number in 0..sample % 5 * 2 {
                room.extend_from_slice(&(number as f32).to_le_bytes());
            }
            *shape = Shape::new(&[sample % 5, 2]);
            row.done();
        };
        let fill_rows = |filling: &Filling, claim: &Claim| filling.rows(claim).for_each(fill_row);
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    while let Some(claim) = ring.claim() {
                        ring.work(claim, open, fill_rows, |filling| filling.seal(&specs, &pool));
                    }
                });
            }
            let mut sealed = Vec::new();
            while let Take::Batch(filling) = ring.take(None) {
                sealed.push(filling.into_sealed());
            }
            sealed
        })
    }

    fn check(batch: &Batch, samples: &[u64]) {
        assert_eq!(batch.rows(), samples.len());
        let index = batch.column("index").unwrap();
        assert_eq!(index.shape, [samples.len() as u64]);
        for (row, sample) in samples.iter().enumerate() {
            assert_eq!(index.row(row), (*sample as i64).to_le_bytes());
            let text = batch.column("text").unwrap().row(row);
            assert_eq!(text, vec![b'a' + *sample as u8 % 26; *sample as usize % 3]);
            let boxes = batch.column("boxes").unwrap();
            assert_eq!(boxes.row(row).len() as u64, sample % 5 * 8);
            assert_eq!(boxes.row_shape(row).unwrap(), [sample % 5, 2]);
        }
    }

    #[test]
    fn rows_arrive_whole_and_in_order() {
        for (threads, group) in [(1, 1), (3, 1), (3, 2), (2, 4)] {
            let sealed = fill(10, threads, group, |_| false);
            assert_eq!(sealed.len(), 3);
            for (number, sealed) in sealed.iter().enumerate() {
                let first = number as u64 * 4;
                check(sealed.batch.as_ref().unwrap(), &(first..(first + 4).min(10)).collect::<Vec<_>>());
                assert!(sealed.failures.is_empty() && sealed.lost == 0);
            }
        }
    }

    #[test]
    fn a_batch_that_cannot_be_allocated_reports_it() {
        let (pool, specs) = (Pool::new(8, u64::MAX), specs());
        let lengths = vec![1 << 62, 1 << 62, 1 << 62];
        let error =
            Filling::new(0, vec![0, 1, 2], &specs, &pool, |column| (column == 1).then(|| lengths.clone()));
        let mut broken = Filling::without_memory(0, vec![0, 1, 2], error.unwrap_err());
        broken.seal(&specs, &pool);
        let sealed = broken.into_sealed();
        assert!(sealed.batch.is_none() && sealed.lost == 3);
        assert!(matches!(sealed.failures[..], [(0, Error::OutOfMemory { .. })]));
    }

    #[test]
    fn values_longer_or_shorter_than_planned_are_stored_apart() {
        let (pool, specs) = (Pool::new(8, u64::MAX), specs());
        let planned = |column| (column == 1).then(|| vec![2, 3, 4]);
        let mut filling = Filling::new(0, vec![0, 1, 2], &specs, &pool, planned).unwrap();
        let claim = Claim { batch: 0, row: 0, rows: 3 };
        for (mut row, lengths) in filling.rows(&claim).zip([&[2][..], &[5], &[1, 4]]) {
            for &length in lengths {
                let fill = b'a' + length as u8;
                match row.ragged_of(1, length).0 {
                    Room::Planned(room) => room.fill(fill),
                    Room::Free(room) => *room = vec![fill; length],
                }
            }
            row.done();
        }
        filling.seal(&specs, &pool);
        let batch = filling.into_sealed().batch.unwrap();
        let text = batch.column("text").unwrap();
        assert_eq!([text.row(0), text.row(1), text.row(2)], [&b"cc"[..], b"fffff", b"eeee"]);
    }

    #[test]
    fn failed_rows_are_left_out() {
        let sealed = fill(8, 2, 1, |sample| sample == 1 || sample == 2 || sample >= 4);
        check(sealed[0].batch.as_ref().unwrap(), &[0, 3]);
        assert_eq!((sealed[0].failures.len(), sealed[0].lost), (2, 2));
        assert!(sealed[1].batch.is_none());
    }
}
