//! The coefficients of a progressive file while its scans come in.
//!
//! Most chroma blocks and many others have only a DC coefficient. So a block has memory of its own from its first other
//! coefficient on: that keeps memory in proportion to the file's bytes, and the working set small.

use super::super::frame::Frame;
use super::super::huffman::Irregular;
use super::super::idct::Block;
use super::super::source::{RowSpan, Source};

/// Memory that a store keeps between images, in blocks: 64 MiB.
const KEPT_BLOCKS: usize = (64 << 20) / size_of::<Block>();

/// What is known of one block.
#[derive(Clone, Copy, Default)]
pub(super) struct Place {
    /// Which coefficients are not zero, in zig-zag order from the highest bit down. The bit of DC means nothing.
    pub(super) present: u64,
    /// Its coefficients; slot 0 stands for none but DC and is always zero.
    pub(super) slot: u32,
    pub(super) dc: i16,
}

/// The blocks of one component: row by row, `width` to a row.
#[derive(Clone, Copy)]
pub(super) struct Grid {
    /// Index of the first.
    pub(super) first: usize,
    /// Blocks across and down, including those that only fill up MCUs.
    pub(super) width: usize,
    pub(super) rows: usize,
    /// The same without those, and for the whole image.
    pub(super) real_width: usize,
    pub(super) real_height: usize,
    h: usize,
    v: usize,
}

/// The grids of a frame's components, one after the other, for the first `mcu_rows` MCU rows.
pub(super) fn grids(frame: &Frame, mcu_rows: usize) -> Vec<Grid> {
    let mut first = 0;
    let blocks = |pixels: u32, factor: usize, most: usize| (pixels as usize * factor).div_ceil(8 * most);
    let grid = |component: &super::super::frame::Component| {
        let (h, v) = (component.h, component.v);
        let grid = Grid {
            first,
            width: frame.mcus_across * h,
            rows: mcu_rows * v,
            real_width: blocks(frame.size.width, h, frame.max_h),
            real_height: blocks(frame.size.height, v, frame.max_v),
            h,
            v,
        };
        first += grid.width * grid.rows;
        grid
    };
    frame.components.iter().map(grid).collect()
}

/// All coefficients. Reused from image to image for its memory.
#[derive(Default)]
pub(crate) struct Store {
    pub(super) places: Vec<Place>,
    pub(super) blocks: Vec<Block>,
    grids: Vec<Grid>,
    /// Entropy-coded bytes without stuffing.
    pub(super) bytes: Vec<u8>,
}

impl Store {
    /// Prepares for an image of so many blocks.
    pub(super) fn start(&mut self, grids: Vec<Grid>, count: usize) -> Result<(), Irregular> {
        self.grids = grids;
        self.places.clear();
        self.blocks.clear();
        if self.blocks.capacity() > KEPT_BLOCKS {
            (self.places, self.blocks) = (Vec::new(), Vec::new());
        }
        self.places.try_reserve_exact(count).map_err(|_| Irregular)?;
        self.places.resize(count, Place::default());
        self.blocks.try_reserve(1).map_err(|_| Irregular)?;
        self.blocks.push([0; 64]);
        Ok(())
    }
}

/// The coefficients of `place`, which get memory if they have none yet. The caller has reserved it.
#[inline(always)]
pub(super) fn block_of<'a>(
    place: &mut Place,
    blocks: &'a mut Vec<Block>,
) -> Result<&'a mut Block, Irregular> {
    if place.slot == 0 {
        place.slot = u32::try_from(blocks.len()).map_err(|_| Irregular)?;
        blocks.push([0; 64]);
    }
    blocks.get_mut(place.slot as usize).ok_or(Irregular)
}

impl Source for Store {
    fn alignment(&self) -> usize {
        1
    }

    fn fill(&mut self, spans: &[RowSpan], blocks: &mut [Block]) -> Result<(), Irregular> {
        let per_mcu: usize = self.grids.iter().map(|grid| grid.h * grid.v).sum();
        for span in spans {
            let mut to = span.offset;
            for grid in &self.grids {
                for n in 0..grid.h * grid.v {
                    let row = grid.first + (span.row * grid.v + n / grid.h) * grid.width + n % grid.h;
                    let places = self.places[row..].iter().step_by(grid.h).skip(span.mcus.start);
                    let out = blocks[to..].iter_mut().step_by(per_mcu);
                    for (place, out) in places.zip(out).take(span.mcus.len()) {
                        *out = self.blocks[place.slot as usize];
                        out[0] = place.dc;
                    }
                    to += 1;
                }
            }
        }
        Ok(())
    }
}
