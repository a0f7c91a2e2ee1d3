//! All coefficients of a covered file, for encodings that keep them.

use super::frame::Frame;
use super::idct::Block;
use super::parse::{self, NotCovered};
use super::scan;
use super::source::{RowSpan, Source, SourceScratch, Walk};
use super::tables::TableCache;
use crate::CpuLevel;

/// A frame with its blocks in MCU order.
pub(crate) struct Coefficients {
    pub(crate) frame: Frame,
    pub(crate) orientation: u8,
    pub(crate) blocks: Vec<Block>,
}

/// Reads the coefficients of a regular, covered file of at most `pixel_limit` pixels.
pub(crate) fn read(bytes: &[u8], pixel_limit: u64) -> Result<Coefficients, NotCovered> {
    let header = parse::parse(bytes)?;
    let frame = Frame::new(&header)?;
    let data = &bytes[header.data_start..];
    if frame.size.area() > pixel_limit || !scan::has_end(data) {
        return Err(NotCovered);
    }
    let mut cache = TableCache::default();
    cache.prepare(&header)?;
    let tables = cache.scan(&header, &frame).ok_or(NotCovered)?;
    let mut scratch = SourceScratch::default();
    let interval = header.restart_interval as usize;
    let mut walk = Walk::new(CpuLevel::detect(), &frame, interval, &tables, data, &mut scratch)
        .map_err(|_| NotCovered)?;
    let per_row = frame.mcus_across * frame.blocks_per_mcu;
    let mut blocks = vec![[0; 64]; per_row * frame.mcus_down];
    let spans: Vec<RowSpan> = (0..frame.mcus_down)
        .map(|row| RowSpan { row, mcus: 0..frame.mcus_across, offset: row * per_row })
        .collect();
    walk.fill(&spans, &mut blocks).map_err(|_| NotCovered)?;
    Ok(Coefficients { frame, orientation: header.orientation, blocks })
}
