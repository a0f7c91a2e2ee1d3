//! Memory for bytes on their way: cells of one size, cut from slabs, used again and again, the last one first, which the
//! caches still have.
//!
//! Memory fresh from the system costs a page fault for every 4 KiB. Buffers of many lengths do not fit each other's places and
//! go back to the system; cells always fit. Huge pages are not asked for: on the virtual machine where
//! this was measured, clearing them took 42 % of the CPU time of a block shuffle, more than the faults they save.

#![expect(unsafe_code, reason = "cutting one mapping into cells that different threads fill")]

use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes of a cell: about what a socket gives at a time.
pub(crate) const CELL: usize = 256 << 10;

/// Bytes of a slab.
const SLAB: usize = 8 << 20;

/// More than this is not kept while no cell is in use.
const MOST_SPARE: usize = 128 << 20;

/// Cells that are lent, and come home when they are dropped.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cells {
    free: Arc<Mutex<Free>>,
}

#[derive(Debug, Default)]
struct Free {
    places: Vec<Place>,
    lent: usize,
}

/// A mapping that is only reached through its places.
#[derive(Debug)]
struct Slab {
    #[expect(dead_code, reason = "held for what dropping it does")]
    map: memmap2::MmapMut,
}

/// The memory of one cell. Each stretch of a slab is one place's: whoever has the place has the bytes to itself.
#[derive(Debug)]
struct Place {
    start: NonNull<u8>,
    #[expect(dead_code, reason = "keeps the memory")]
    slab: Arc<Slab>,
}

// SAFETY: plain memory without thread affinity, which belongs to the place alone.
unsafe impl Send for Place {}
// SAFETY: a shared place only gives shared slices.
unsafe impl Sync for Place {}

/// A cell's worth of bytes, zero or left over from somebody else.
#[derive(Debug)]
pub(crate) struct Cell {
    /// `None` only while it is dropped.
    place: Option<Place>,
    home: Arc<Mutex<Free>>,
}

impl Slab {
    /// The places of a new slab; none if the system has no memory.
    fn places() -> Vec<Place> {
        let Ok(mut map) = memmap2::MmapMut::map_anon(SLAB) else { return Vec::new() };
        let start = map.as_mut_ptr();
        let slab = Arc::new(Slab { map });
        let place = |number: usize| {
            let start = NonNull::new(start.wrapping_add(number * CELL))?;
            Some(Place { start, slab: slab.clone() })
        };
        (0..SLAB / CELL).filter_map(place).collect()
    }
}

impl Free {
    /// Lets go of what is too much when nobody has anything.
    fn shrink(&mut self) {
        if self.lent == 0 && self.places.len() > MOST_SPARE / CELL {
            // Whole slabs go: the last place of each takes it along.
            self.places.sort_unstable_by_key(|place| place.start);
            self.places.truncate(MOST_SPARE / CELL);
            self.places.shrink_to_fit();
        }
    }
}

fn lock(free: &Mutex<Free>) -> MutexGuard<'_, Free> {
    free.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Cells {
    /// So many cells; fewer if the system has no memory. Never more slabs than the cells in use ever needed.
    pub(crate) fn take(&self, count: usize) -> Vec<Cell> {
        let mut free = lock(&self.free);
        while free.places.len() < count {
            let more = Slab::places();
            if more.is_empty() {
                break;
            }
            free.places.extend(more);
        }
        let kept = free.places.len().saturating_sub(count);
        let cells: Vec<Cell> = free
            .places
            .drain(kept..)
            .map(|place| Cell { place: Some(place), home: self.free.clone() })
            .collect();
        free.lent += cells.len();
        cells
    }
}

impl Deref for Cell {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let place = self.place.as_ref().expect("a cell has a place until it is dropped");
        // SAFETY: CELL bytes of a mapping that the place keeps, zeroed by the system, and no other place's; writing to
        // them takes `&mut` of this cell.
        unsafe { std::slice::from_raw_parts(place.start.as_ptr(), CELL) }
    }
}

impl DerefMut for Cell {
    fn deref_mut(&mut self) -> &mut [u8] {
        let place = self.place.as_ref().expect("a cell has a place until it is dropped");
        // SAFETY: as above, and this cell is borrowed for writing.
        unsafe { std::slice::from_raw_parts_mut(place.start.as_ptr(), CELL) }
    }
}

impl AsRef<[u8]> for Cell {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Drop for Cell {
    fn drop(&mut self) {
        let mut free = lock(&self.home);
        free.lent -= 1;
        free.places.extend(self.place.take());
        free.shrink();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn cells_never_overlap_and_all_are_returned(
            steps in prop::collection::vec((1usize..70, 0usize..100), 1..30),
        ) {
            let (cells, mut held, mut most) = (Cells::default(), Vec::new(), 0);
            for (count, keep) in steps {
                held.extend(cells.take(count));
                most = most.max(held.len());
                for (number, cell) in held.iter_mut().enumerate() {
                    cell[..8].copy_from_slice(&number.to_le_bytes());
                    cell[CELL - 8..].copy_from_slice(&number.to_le_bytes());
                }
                for (number, cell) in held.iter().enumerate() {
                    prop_assert_eq!(&cell[..8], &number.to_le_bytes());
                    prop_assert_eq!(&cell[CELL - 8..], &number.to_le_bytes());
                }
                held.truncate(keep);
                let free = lock(&cells.free);
                prop_assert_eq!(free.lent, held.len());
                prop_assert!(free.places.len() + held.len() <= most.next_multiple_of(SLAB / CELL));
            }
        }
    }

    #[test]
    fn unused_memory_is_kept_within_a_limit() {
        let cells = Cells::default();
        let mut held = cells.take(3 * MOST_SPARE / CELL);
        let last = held.pop();
        drop(held);
        assert_eq!(lock(&cells.free).places.len(), 3 * MOST_SPARE / CELL - 1, "one is in use: all are kept");
        drop(last);
        assert_eq!(lock(&cells.free).places.len(), MOST_SPARE / CELL);
    }

    #[test]
    fn a_cell_is_reused_and_outlives_the_pool() {
        let cells = Cells::default();
        let first = cells.take(1);
        let place = first[0].as_ptr();
        drop(first);
        let again = cells.take(1);
        assert_eq!(again[0].as_ptr(), place);
        drop(cells);
        assert_eq!(again[0].len(), CELL);
    }
}
