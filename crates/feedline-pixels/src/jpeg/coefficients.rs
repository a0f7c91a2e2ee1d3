//! All coefficients of a covered file, for encodings that keep them.

use std::cell::RefCell;

use super::frame::Frame;
use super::idct::Block;
use super::parse::{self, HuffmanSpec, NotCovered, ParsedMarkers};
use super::scan;
use super::source::{ScanEnd, SourceScratch, Walk};
use super::tables::TableCache;
use crate::{CpuLevel, fit};

/// A frame with its blocks in MCU order.
pub(crate) struct Coefficients {
    pub(crate) frame: Frame,
    pub(crate) orientation: u8,
    pub(crate) blocks: Vec<Block>,
    /// Offset of the entropy-coded data in the file.
    pub(crate) data_start: usize,
    /// The end of those data, if encoding the blocks again with the file's tables gives exactly them.
    pub(crate) determined: Option<ScanEnd>,
}

/// Kept between images: most files of a data set have the same tables, and fresh memory for the blocks takes longer than
/// writing to it.
#[derive(Default)]
struct Scratch {
    tables: TableCache,
    source: SourceScratch,
    blocks: Vec<Block>,
}

/// No more blocks are kept than this: 16 MiB.
const KEPT: usize = 1 << 17;

impl Drop for Coefficients {
    fn drop(&mut self) {
        let blocks = std::mem::take(&mut self.blocks);
        if blocks.capacity() <= KEPT {
            // The thread may be ending.
            let _ = SCRATCH.try_with(|scratch| scratch.borrow_mut().blocks = blocks);
        }
    }
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

/// Reads the coefficients of a regular, covered file of at most `pixel_limit` pixels.
pub(crate) fn read(bytes: &[u8], pixel_limit: u64) -> Result<Coefficients, NotCovered> {
    let header = parse::parse(bytes)?;
    let frame = Frame::new(&header)?;
    let data = &bytes[header.data_start..];
    if frame.size.area() > pixel_limit || !scan::has_end(data) {
        return Err(NotCovered);
    }
    let count = frame.mcus_across * frame.blocks_per_mcu * frame.mcus_down;
    let mut blocks = SCRATCH.with_borrow_mut(|scratch| std::mem::take(&mut scratch.blocks));
    // What they contain is overwritten.
    fit(&mut blocks, count, [0; 64]).map_err(|_| NotCovered)?;
    let end = SCRATCH.with_borrow_mut(|scratch| {
        let Scratch { tables, source, .. } = scratch;
        tables.prepare(&header)?;
        let tables = tables.scan(&header, &frame).ok_or(NotCovered)?;
        let interval = header.restart_interval as usize;
        let walk = Walk::new(CpuLevel::detect(), &frame, interval, &tables, data, source);
        walk.and_then(|walk| walk.fill_all(&mut blocks)).map_err(|_| NotCovered)
    })?;
    let determined = end.filter(|_| has_plain_tables(&header));
    let (orientation, data_start) = (header.orientation, header.data_start);
    Ok(Coefficients { frame, orientation, blocks, data_start, determined })
}

/// Whether no two codes of a table mean the same.
fn has_plain_tables(header: &ParsedMarkers) -> bool {
    let used = &header.components[..header.count];
    used.iter().all(|component| {
        let dc = header.dc[usize::from(component.dc)].as_ref();
        let ac = header.ac[usize::from(component.ac)].as_ref();
        dc.is_some_and(|spec| is_plain(spec, |_| true)) && ac.is_some_and(|spec| is_plain(spec, is_plain_ac))
    })
}

/// Whether each symbol occurs once, and all are `allowed`.
fn is_plain(spec: &HuffmanSpec, allowed: impl Fn(u8) -> bool) -> bool {
    let count: usize = spec.counts.iter().map(|&count| usize::from(count)).sum();
    let mut seen = [false; 256];
    let symbols = spec.symbols.get(..count);
    symbols.is_some_and(|symbols| {
        symbols
            .iter()
            .all(|&symbol| allowed(symbol) && !std::mem::replace(&mut seen[usize::from(symbol)], true))
    })
}

/// Symbols without magnitude other than these two end a block, too.
fn is_plain_ac(symbol: u8) -> bool {
    symbol & 15 != 0 || symbol == 0x00 || symbol == 0xF0
}
