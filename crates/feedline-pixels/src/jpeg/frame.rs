//! Geometry: the layout of a frame's components, blocks and MCUs, and the parts that a decode at some scale needs.

use super::idct::Quant;
use super::parse::{NotCovered, ParsedMarkers, Process};
use crate::{Region, Size};

/// How components become colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Colors {
    Grey,
    Ycc,
    Rgb,
}

/// One component of a covered frame.
#[derive(Clone, Copy)]
pub(crate) struct Component {
    /// Number of blocks in an MCU, across and down.
    pub(crate) h: usize,
    pub(crate) v: usize,
    /// Index of the component's first block within an MCU.
    pub(crate) first_block: usize,
    pub(crate) quant: Quant,
}

/// A frame that this decoder covers: 8 bits, one or three components, in one scan if it is sequential.
#[derive(Clone)]
pub(crate) struct Frame {
    pub(crate) size: Size,
    pub(crate) colors: Colors,
    pub(crate) components: Vec<Component>,
    pub(crate) max_h: usize,
    pub(crate) max_v: usize,
    pub(crate) mcus_across: usize,
    pub(crate) mcus_down: usize,
    pub(crate) blocks_per_mcu: usize,
}

impl Frame {
    /// The frame of the header of a sequential file, if it is covered.
    pub(crate) fn new(header: &ParsedMarkers) -> Result<Self, NotCovered> {
        if header.process != Process::Sequential || !header.single_scan {
            return Err(NotCovered);
        }
        Self::of_components(header)
    }

    /// The frame of the header of a progressive file, if it is covered.
    pub(crate) fn progressive(header: &ParsedMarkers) -> Result<Self, NotCovered> {
        if header.process != Process::Progressive {
            return Err(NotCovered);
        }
        Self::of_components(header)
    }

    fn of_components(header: &ParsedMarkers) -> Result<Self, NotCovered> {
        if header.precision != 8 || !matches!(header.count, 1 | 3) {
            return Err(NotCovered);
        }
        let mut sampling: Vec<(usize, usize, Quant)> = Vec::with_capacity(3);
        for spec in &header.components[..header.count] {
            let quant = header.quant[usize::from(spec.quant)].ok_or(NotCovered)?;
            sampling.push((usize::from(spec.h), usize::from(spec.v), quant.map(|q| q as i16)));
        }
        Self::from_sampling(header.size, colors(header), &sampling)
    }

    /// Creates a frame from its parts: size, colours, and sampling factors and quantisers of each component.
    pub(crate) fn from_sampling(
        size: Size,
        colors: Colors,
        sampling: &[(usize, usize, Quant)],
    ) -> Result<Self, NotCovered> {
        let mut components = Vec::with_capacity(sampling.len());
        let mut blocks_per_mcu = 0;
        for &(h, v, quant) in sampling {
            // A single component is not interleaved: its MCU is one block whatever its factors say.
            let (h, v) = if sampling.len() == 1 { (1, 1) } else { (h, v) };
            components.push(Component { h, v, first_block: blocks_per_mcu, quant });
            blocks_per_mcu += h * v;
        }
        let max_h = components.iter().map(|c| c.h).max().ok_or(NotCovered)?;
        let max_v = components.iter().map(|c| c.v).max().ok_or(NotCovered)?;
        let whole = components.iter().all(|c| max_h % c.h == 0 && max_v % c.v == 0);
        // libjpeg allows ten blocks in an MCU.
        if !whole || blocks_per_mcu > 10 || size.area() == 0 {
            return Err(NotCovered);
        }
        Ok(Frame {
            size,
            colors,
            components,
            max_h,
            max_v,
            mcus_across: (size.width as usize).div_ceil(8 * max_h),
            mcus_down: (size.height as usize).div_ceil(8 * max_v),
            blocks_per_mcu,
        })
    }

    /// Number of MCUs.
    pub(crate) fn mcus(&self) -> usize {
        self.mcus_across * self.mcus_down
    }
}

/// libjpeg's rules for what three components mean.
fn colors(header: &ParsedMarkers) -> Colors {
    if header.count == 1 {
        return Colors::Grey;
    }
    let ids = [0, 1, 2].map(|i| header.components[i].id);
    match header.adobe {
        _ if header.jfif => Colors::Ycc,
        Some(0) => Colors::Rgb,
        None if ids == *b"RGB" => Colors::Rgb,
        _ => Colors::Ycc,
    }
}

/// How one component is upsampled to full size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Upsampling {
    /// Already at full size.
    None,
    /// Triangle filter across.
    Double,
    /// Triangle filter down.
    Blend,
    /// Triangle filter in both directions.
    DoubleBlend,
    /// Each sample repeated this often across and down.
    Repeat(usize, usize),
}

/// A component's samples at some scale.
#[derive(Clone, Copy)]
pub(crate) struct Plane {
    /// Number of samples that an inverse DCT gives across and down: 8, 4, 2 or 1.
    pub(crate) block: usize,
    pub(crate) upsampling: Upsampling,
    /// Number of real samples; the rest of the last blocks is padding.
    pub(crate) width: usize,
    pub(crate) height: usize,
    /// Number of samples in one MCU, across and down.
    pub(crate) mcu_width: usize,
    pub(crate) mcu_height: usize,
}

impl Plane {
    /// The existing sample rows that output rows `from..to` need.
    pub(crate) fn rows(&self, from: usize, to: usize) -> (usize, usize) {
        let (low, high) = match self.upsampling {
            Upsampling::None | Upsampling::Double => (from, to),
            Upsampling::Blend | Upsampling::DoubleBlend => {
                ((from / 2 + from % 2).saturating_sub(1), (to - 1) / 2 + 1 + (to - 1) % 2)
            }
            Upsampling::Repeat(_, down) => (from / down, (to - 1) / down + 1),
        };
        (low, high.min(self.height))
    }

    /// The existing sample columns that output columns `from..to` need.
    fn columns(&self, from: usize, to: usize) -> (usize, usize) {
        let (low, high) = match self.upsampling {
            Upsampling::None | Upsampling::Blend => (from, to),
            Upsampling::Double | Upsampling::DoubleBlend => ((from / 2).saturating_sub(1), (to - 1) / 2 + 2),
            Upsampling::Repeat(across, _) => (from / across, (to - 1) / across + 1),
        };
        (low, high.min(self.width))
    }

    /// Number of output rows that are complete when sample rows up to `rows` are decoded.
    pub(crate) fn complete(&self, rows: usize) -> usize {
        match self.upsampling {
            _ if rows >= self.height => usize::MAX,
            Upsampling::None | Upsampling::Double => rows,
            Upsampling::Blend | Upsampling::DoubleBlend => (2 * rows).saturating_sub(1),
            Upsampling::Repeat(_, down) => rows * down,
        }
    }
}

/// A frame at a scale of `scale`/8.
#[derive(Clone)]
pub(crate) struct Scaled {
    pub(crate) size: Size,
    pub(crate) planes: Vec<Plane>,
}

impl Scaled {
    /// `scale` is 8, 4, 2 or 1. As in libjpeg, chroma uses a larger inverse DCT instead of upsampling if possible, and
    /// the triangle filter is off when blocks shrink to one sample.
    pub(crate) fn new(frame: &Frame, scale: usize) -> Self {
        let scaled = |n: u32| (n as usize * scale).div_ceil(8);
        let size = Size::new(scaled(frame.size.width) as u32, scaled(frame.size.height) as u32);
        let planes = frame.components.iter().map(|c| plane(frame, c, scale)).collect();
        Scaled { size, planes }
    }

    /// The part of the frame that a region needs.
    pub(crate) fn window(&self, frame: &Frame, region: Region) -> Window {
        let (x, y) = (region.x as usize, region.y as usize);
        let (right, bottom) = (region.right() as usize, region.bottom() as usize);
        let mut window = Window { rows: (usize::MAX, 0), mcus: (usize::MAX, 0), spans: Vec::new() };
        for plane in &self.planes {
            let columns = plane.columns(x, right);
            let rows = plane.rows(y, bottom);
            let mcus = (columns.0 / plane.mcu_width, (columns.1 - 1) / plane.mcu_width + 1);
            let mcu_rows = (rows.0 / plane.mcu_height, (rows.1 - 1) / plane.mcu_height + 1);
            window.mcus = (window.mcus.0.min(mcus.0), window.mcus.1.max(mcus.1));
            window.rows = (window.rows.0.min(mcu_rows.0), window.rows.1.max(mcu_rows.1));
            window.spans.push(Span { rows, columns, mcus });
        }
        debug_assert!(window.mcus.1 <= frame.mcus_across && window.rows.1 <= frame.mcus_down);
        window
    }
}

fn plane(frame: &Frame, component: &Component, scale: usize) -> Plane {
    let mut block = scale;
    while block < 8
        && (frame.max_h * scale).is_multiple_of(component.h * block * 2)
        && (frame.max_v * scale).is_multiple_of(component.v * block * 2)
    {
        block *= 2;
    }
    let samples =
        |pixels: u32, factor: usize, max: usize| (pixels as usize * factor * block).div_ceil(max * 8);
    let width = samples(frame.size.width, component.h, frame.max_h);
    let across = frame.max_h * scale / (component.h * block);
    let down = frame.max_v * scale / (component.v * block);
    let fancy = scale > 1;
    let upsampling = match (across, down) {
        (1, 1) => Upsampling::None,
        (2, 1) if fancy && width > 2 => Upsampling::Double,
        (1, 2) if fancy => Upsampling::Blend,
        (2, 2) if fancy && width > 2 => Upsampling::DoubleBlend,
        _ => Upsampling::Repeat(across, down),
    };
    Plane {
        block,
        upsampling,
        width,
        height: samples(frame.size.height, component.v, frame.max_v),
        mcu_width: component.h * block,
        mcu_height: component.v * block,
    }
}

/// The part of one component that a region needs: rows and columns of samples, and the MCUs that contain the columns.
#[derive(Clone, Copy)]
pub(crate) struct Span {
    pub(crate) rows: (usize, usize),
    pub(crate) columns: (usize, usize),
    pub(crate) mcus: (usize, usize),
}

/// The part of a frame that a region needs.
#[derive(Clone)]
pub(crate) struct Window {
    /// MCU rows.
    pub(crate) rows: (usize, usize),
    /// MCU columns.
    pub(crate) mcus: (usize, usize),
    /// Per component.
    pub(crate) spans: Vec<Span>,
}
