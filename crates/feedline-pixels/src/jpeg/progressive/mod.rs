//! Progressive files: all scans are entropy-decoded into stored coefficients, and then only the requested regions are
//! transformed.
//!
//! A scan refines what earlier scans gave, so a block cannot be skipped; but no scan is read further than the last MCU
//! row that a region needs, and at 1/8 only those of the DC coefficients are read.
//!
//! Any doubt is [`Irregular`], and libjpeg-turbo decodes the file. That includes files whose scans do not give all bits
//! of all coefficients: libjpeg smooths their blocks.

mod bits;
mod decode;
mod progression;
mod store;

pub(crate) use store::Store;

use super::frame::{Frame, Scaled};
use super::huffman::{AcTable, DcTable, Irregular, RefineTable, is_tree};
use super::parse::{HuffmanSpec, ParsedMarkers, Scan};
use super::scan::{PADDING, marker_from, unstuff};
use crate::{CpuLevel, Region};
use decode::{Band, State};
use progression::Progression;
use store::{Grid, grids};

/// What to decode of a file.
struct Wanted<'a> {
    level: CpuLevel,
    frame: &'a Frame,
    /// Where the blocks of each component are.
    grids: Vec<Grid>,
    /// Number of MCU rows that the regions need, from the top on.
    mcu_rows: usize,
    /// Whether AC coefficients of a component are needed.
    ac: Vec<bool>,
}

/// Decodes all scans of `bytes` as far as `regions` need them into `store`.
pub(crate) fn read(
    level: CpuLevel,
    bytes: &[u8],
    header: &mut ParsedMarkers,
    frame: &Frame,
    scaled: &Scaled,
    regions: &[Region],
    store: &mut Store,
) -> Result<(), Irregular> {
    let mcu_rows = regions.iter().map(|&region| scaled.window(frame, region).rows.1).max().unwrap_or(0);
    let grids = grids(frame, mcu_rows);
    // One code has at least one bit, so a file of so many blocks has so many bits: no memory for fewer.
    let blocks = grids.last().map_or(0, |grid| grid.first + grid.width * grid.rows);
    if blocks / 8 > bytes.len() {
        return Err(Irregular);
    }
    store.start(grids.clone(), blocks)?;
    let ac = scaled.planes.iter().map(|plane| plane.block > 1).collect();
    let wanted = Wanted { level, frame, grids, mcu_rows, ac };
    let mut progression = Progression::new(frame.components.len());
    let mut at = header.scan_start;
    while let Some(scan) = header.next_scan(bytes, at).map_err(|_| Irregular)? {
        progression.add(&scan)?;
        let data = &bytes[scan.data_start..];
        let read = wanted.scan(header, &scan, data, store)?;
        at = scan.data_start + read + marker_from(&data[read..]).ok_or(Irregular)?;
    }
    if progression.is_complete() { Ok(()) } else { Err(Irregular) }
}

impl Wanted<'_> {
    /// Decodes one scan, whose data start at `data`. Returns how many bytes of them were read.
    fn scan(
        &self,
        header: &ParsedMarkers,
        scan: &Scan,
        data: &[u8],
        store: &mut Store,
    ) -> Result<usize, Irregular> {
        let first = scan.components[0];
        if scan.band.0 == 0 {
            return self.dc_scan(header, scan, data, store);
        }
        let spec = header.ac[first.ac].as_ref().ok_or(Irregular)?;
        if !self.ac[first.component] {
            // libjpeg refuses a bad table before it reads the scan.
            return if is_tree(spec) { Ok(0) } else { Err(Irregular) };
        }
        let band = Band::new(scan);
        if scan.high == 0 {
            let table = AcTable::<true>::new(spec).map_err(|_| Irregular)?;
            self.ac_scan(header, first.component, data, store, |level, state, places, blocks| {
                decode::ac_first(level, state, &table, &band, places, blocks)
            })
        } else {
            let table = RefineTable::new(spec).map_err(|_| Irregular)?;
            self.ac_scan(header, first.component, data, store, |level, state, places, blocks| {
                decode::ac_refine(level, state, &table, &band, places, blocks)
            })
        }
    }

    /// A scan of AC coefficients has one component, block by block, without the padding of MCUs.
    fn ac_scan(
        &self,
        header: &ParsedMarkers,
        component: usize,
        data: &[u8],
        store: &mut Store,
        mut decode: impl FnMut(
            CpuLevel,
            &mut State<'_>,
            &mut [store::Place],
            &mut Vec<super::idct::Block>,
        ) -> Result<(), Irregular>,
    ) -> Result<usize, Irregular> {
        let grid = self.grids[component];
        let (across, down) = (grid.real_width, grid.real_height.min(grid.rows));
        let Store { places, blocks, bytes, .. } = store;
        let interval = header.restart_interval as usize;
        walk(data, interval, (across, down), bytes, |state, row, columns| {
            blocks.try_reserve(columns.len()).map_err(|_| Irregular)?;
            let first = grid.first + row * grid.width;
            decode(self.level, state, &mut places[first + columns.start..first + columns.end], blocks)
        })
    }

    fn dc_scan(
        &self,
        header: &ParsedMarkers,
        scan: &Scan,
        data: &[u8],
        store: &mut Store,
    ) -> Result<usize, Irregular> {
        let tables = dc_tables(header, scan)?;
        let single = scan.components.len() == 1;
        let (mut across, mut down) = (self.frame.mcus_across, self.mcu_rows);
        if single {
            let grid = self.grids[scan.components[0].component];
            (across, down) = (grid.real_width, grid.real_height.min(grid.rows));
        }
        let Store { places, bytes, .. } = store;
        let mut slots = Vec::with_capacity(10);
        let interval = header.restart_interval as usize;
        walk(data, interval, (across, down), bytes, |state, row, columns| {
            slots.clear();
            for (i, used) in scan.components.iter().enumerate() {
                let (component, grid) = (&self.frame.components[used.component], self.grids[used.component]);
                let (h, v) = if single { (1, 1) } else { (component.h, component.v) };
                slots.extend((0..h * v).map(|n| decode::DcSlot {
                    predictor: i,
                    table: tables.get(i),
                    first: grid.first + (row * v + n / h) * grid.width + n % h,
                    step: h,
                }));
            }
            if scan.high == 0 {
                decode::dc_first(self.level, state, &slots, scan.low, columns, places)
            } else {
                decode::dc_refine(state, &slots, scan.low, columns, places)
            }
        })
    }
}

/// The tables of a scan of DC coefficients, by its components; none if it refines.
fn dc_tables(header: &ParsedMarkers, scan: &Scan) -> Result<Vec<DcTable>, Irregular> {
    if scan.high != 0 {
        return Ok(Vec::new());
    }
    let table =
        |spec: &Option<HuffmanSpec>| DcTable::new(spec.as_ref().ok_or(Irregular)?).map_err(|_| Irregular);
    scan.components.iter().map(|used| table(&header.dc[used.dc])).collect()
}

/// Walks through the first rows of a scan of `(across, down)` MCUs: `decode` gets the columns of a row that belong to
/// one restart interval. Returns how many bytes were read: up to a marker. `room` is scratch memory.
fn walk(
    data: &[u8],
    interval: usize,
    (across, down): (usize, usize),
    room: &mut Vec<u8>,
    mut decode: impl FnMut(&mut State<'_>, usize, std::ops::Range<usize>) -> Result<(), Irregular>,
) -> Result<usize, Irregular> {
    let (mut read, mut number) = (0, 0);
    let (mut row, mut column) = (0, 0);
    while row < down {
        room.clear();
        room.try_reserve(data.len() - read + PADDING).map_err(|_| Irregular)?;
        read += unstuff(&data[read..], room, |_| {});
        let mut state = State::new(room)?;
        let mut left = if interval == 0 { usize::MAX } else { interval };
        while row < down && left > 0 {
            let count = left.min(across - column);
            decode(&mut state, row, column..column + count)?;
            left -= count;
            column += count;
            if column == across {
                (row, column) = (row + 1, 0);
            }
        }
        state.check(room.len() - PADDING)?;
        if row < down {
            // The next interval starts with its marker.
            if data.get(read..read + 2) != Some(&[0xFF, 0xD0 + number]) {
                return Err(Irregular);
            }
            (read, number) = (read + 2, (number + 1) % 8);
        }
    }
    Ok(read)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Size;
    use crate::jpeg::parse::parse;
    use crate::turbo::{Encoding, encode};

    /// Decodes the lower right corner; returns the store.
    fn corner(bytes: &[u8]) -> (Result<(), Irregular>, Store) {
        let mut header = parse(bytes).unwrap();
        let frame = Frame::progressive(&header).unwrap();
        let scaled = Scaled::new(&frame, 8);
        let region = Region::new(frame.size.width - 1, frame.size.height - 1, 1, 1);
        let mut store = Store::default();
        let done = read(CpuLevel::Scalar, bytes, &mut header, &frame, &scaled, &[region], &mut store);
        (done, store)
    }

    #[test]
    fn memory_is_in_proportion_to_the_file() {
        let base = Encoding::baseline(Size::new(640, 320), 3, 50, (2, 2));
        let mut flat = encode(&vec![200; 640 * 320 * 3], &Encoding { progressive: true, ..base }).unwrap();
        let (done, store) = corner(&flat);
        assert!(done.is_ok());
        assert_eq!((store.places.len(), store.blocks.len()), (40 * 20 * 6, 1), "no block of its own");
        // The size of another image: it has more blocks than the file has bits.
        let frame = flat.windows(2).position(|pair| pair == [0xFF, 0xC2]).unwrap();
        flat[frame + 5..frame + 9].copy_from_slice(&[0x30, 0, 0x30, 0]);
        let (done, store) = corner(&flat);
        assert!(done.is_err());
        assert_eq!(store.places.capacity(), 0);
    }
}
