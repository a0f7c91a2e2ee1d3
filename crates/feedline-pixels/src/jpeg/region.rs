//! The pipeline: passes groups of MCU rows from a source of coefficients to the renderers of the requested regions.

use super::frame::{Frame, Scaled, Window};
use super::huffman::Irregular;
use super::idct::Block;
use super::render::{Renderer, Target};
use super::source::{RowSpan, Source};
use crate::{CpuLevel, Region};

/// Largest number of blocks in a group: with their samples and pixels they fit in a second-level cache of 512 KiB.
const GROUP_BLOCKS: usize = 1024;

/// Largest number of MCU rows in a group. Several, because a source decodes rows side by side; not many, because rows
/// wait for the slowest.
const GROUP_ROWS: usize = 12;

/// Buffers of the pipeline, kept between images.
#[derive(Default)]
pub(crate) struct Pipeline {
    blocks: Vec<Block>,
    spans: Vec<RowSpan>,
    renderers: Vec<Renderer>,
}

/// What to decode: regions of one frame at one scale.
pub(crate) struct Wanted<'a> {
    pub(crate) level: CpuLevel,
    pub(crate) frame: &'a Frame,
    pub(crate) scaled: &'a Scaled,
    pub(crate) regions: &'a [Region],
}

impl Wanted<'_> {
    /// The MCU row where the lowest region ends.
    pub(crate) fn last_row(&self) -> usize {
        let ends = self.regions.iter().map(|&region| self.scaled.window(self.frame, region).rows.1);
        ends.max().unwrap_or(0)
    }
}

impl Pipeline {
    /// Decodes `wanted`; rows of region `i` go to `targets[i]`.
    ///
    /// If the data turn out irregular, rows that were delivered are still right: they depended only on data before.
    /// [`Pipeline::delivered`] returns how many.
    pub(crate) fn run(
        &mut self,
        wanted: &Wanted<'_>,
        source: &mut dyn Source,
        targets: &mut [&mut dyn Target],
    ) -> Result<(), Irregular> {
        let Wanted { level, frame, scaled, regions } = *wanted;
        let windows: Vec<Window> = regions.iter().map(|&region| scaled.window(frame, region)).collect();
        self.reset(regions);
        for ((renderer, window), &region) in self.renderers.iter_mut().zip(&windows).zip(regions) {
            renderer.start(scaled, window, region, GROUP_ROWS);
        }
        let rows = (windows.iter().map(|w| w.rows.0).min(), windows.iter().map(|w| w.rows.1).max());
        let (Some(first), Some(end)) = rows else { return Ok(()) };
        let mut row = first;
        while row < end {
            row = self.plan(row, end, frame, &windows, source.alignment());
            let length = self.spans.last().map_or(0, |s| s.offset + s.mcus.len() * frame.blocks_per_mcu);
            if self.blocks.len() < length {
                self.blocks.resize(length, [0; 64]);
            }
            let blocks = &mut self.blocks[..length];
            source.fill(&self.spans, blocks)?;
            for (renderer, target) in self.renderers.iter_mut().zip(&mut *targets) {
                renderer.push(level, frame, scaled, &self.spans, blocks, *target);
            }
        }
        Ok(())
    }

    /// Resets for a new image: nothing of these regions is delivered yet.
    pub(crate) fn reset(&mut self, regions: &[Region]) {
        self.renderers.resize_with(regions.len().max(self.renderers.len()), Renderer::default);
        for (renderer, region) in self.renderers.iter_mut().zip(regions) {
            renderer.reset(region.y as usize);
        }
    }

    /// Number of delivered rows of region `i`, which starts at row `top`.
    pub(crate) fn delivered(&self, i: usize, top: u32) -> u32 {
        self.renderers.get(i).map_or(0, |renderer| (renderer.next_row() as u32).saturating_sub(top))
    }

    /// Fills `spans` with a group starting at MCU row `row`; returns the row after it.
    fn plan(
        &mut self,
        mut row: usize,
        end: usize,
        frame: &Frame,
        windows: &[Window],
        alignment: usize,
    ) -> usize {
        self.spans.clear();
        let mut blocks = 0;
        while row < end && self.spans.len() < GROUP_ROWS {
            let here = windows.iter().filter(|w| (w.rows.0..w.rows.1).contains(&row));
            let hull = here.map(|w| w.mcus).reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
            if let Some((first, last)) = hull {
                let first = first / alignment * alignment;
                let length = (last - first) * frame.blocks_per_mcu;
                if blocks > 0 && blocks + length > GROUP_BLOCKS {
                    break;
                }
                self.spans.push(RowSpan { row, mcus: first..last, offset: blocks });
                blocks += length;
            }
            row += 1;
        }
        row
    }
}
