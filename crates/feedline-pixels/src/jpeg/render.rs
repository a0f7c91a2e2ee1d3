//! Converts coefficients to the pixels of one region: inverse DCT, upsampling and colour of its blocks, strip by strip.
//!
//! A renderer keeps the samples of the current rows, and of the few above them that the triangle filter still needs.
//! Rows are delivered as soon as everything they depend on is decoded, top to bottom, each exactly once.

use super::color;
use super::frame::{Colors, Frame, Plane, Scaled, Span, Upsampling, Window};
use super::idct::{self, Block, Run};
use super::source::RowSpan;
use super::upsample;
use crate::{CpuLevel, ImageMut, ImageRef, PixelLayout, Region, Size};

/// Padding to the left of a row, for the sample that is repeated beyond the image's edge.
const LEFT: usize = 16;
/// Padding to the right of a row, for kernels that work on whole groups.
const RIGHT: usize = 64;

/// Receives finished rows.
pub(crate) trait Target {
    /// Memory for rows `y..y + rows` of the region: bytes and stride.
    fn rows(&mut self, y: u32, rows: u32) -> (&mut [u8], usize);

    /// Notes that these rows are written.
    fn done(&mut self, y: u32, rows: u32);

    /// Layout of the pixels.
    fn layout(&self) -> PixelLayout;
}

/// Writes into an image of the region's size.
pub(crate) struct ImageTarget<'a, 'b> {
    pub(crate) image: &'a mut ImageMut<'b>,
}

impl Target for ImageTarget<'_, '_> {
    fn rows(&mut self, y: u32, _rows: u32) -> (&mut [u8], usize) {
        (&mut self.image.bytes[y as usize * self.image.stride..], self.image.stride)
    }

    fn done(&mut self, _y: u32, _rows: u32) {}

    fn layout(&self) -> PixelLayout {
        self.image.layout
    }
}

/// Passes strips to a closure.
pub(crate) struct SinkTarget<'a> {
    pub(crate) width: u32,
    pub(crate) layout: PixelLayout,
    pub(crate) buffer: &'a mut Vec<u8>,
    pub(crate) sink: &'a mut dyn FnMut(u32, ImageRef<'_>),
}

impl SinkTarget<'_> {
    fn stride(&self) -> usize {
        self.width as usize * self.layout.bytes()
    }
}

impl Target for SinkTarget<'_> {
    fn rows(&mut self, _y: u32, rows: u32) -> (&mut [u8], usize) {
        let stride = self.stride();
        let needed = rows as usize * stride;
        if self.buffer.len() < needed {
            self.buffer.resize(needed, 0);
        }
        (&mut self.buffer[..needed], stride)
    }

    fn done(&mut self, y: u32, rows: u32) {
        let stride = self.stride();
        let bytes = &self.buffer[..rows as usize * stride];
        let image = ImageRef { bytes, size: Size::new(self.width, rows), stride, layout: self.layout };
        (self.sink)(y, image);
    }

    fn layout(&self) -> PixelLayout {
        self.layout
    }
}

/// Samples of one component: rows from `base` on, columns from `left` on, of those that the region needs.
#[derive(Default)]
struct Samples {
    bytes: Vec<u8>,
    stride: usize,
    left: usize,
    base: usize,
    /// End of the decoded rows.
    end: usize,
    /// One upsampled row.
    wide: Vec<u8>,
}

impl Samples {
    /// Bytes of `row`, starting at sample column `column`.
    fn at(&self, row: usize, column: isize) -> &[u8] {
        let column = LEFT.wrapping_add_signed(column - self.left as isize);
        &self.bytes[(row - self.base) * self.stride + column..]
    }
}

/// Converts coefficients to the pixels of one region. Reused from image to image for its memory.
#[derive(Default)]
pub(crate) struct Renderer {
    samples: [Samples; 3],
    /// The region, in pixels of the scaled image.
    x: (usize, usize),
    y: (usize, usize),
    next: usize,
    window: Option<Window>,
}

impl Renderer {
    /// Prepares for a region whose coefficients will come in groups of at most `group` MCU rows.
    pub(crate) fn start(&mut self, scaled: &Scaled, window: &Window, region: Region, group: usize) {
        self.x = (region.x as usize, region.right() as usize);
        self.y = (region.y as usize, region.bottom() as usize);
        self.next = self.y.0;
        for ((samples, plane), span) in self.samples.iter_mut().zip(&scaled.planes).zip(&window.spans) {
            samples.left = span.mcus.0 * plane.mcu_width;
            samples.stride = LEFT + (span.mcus.1 - span.mcus.0) * plane.mcu_width + RIGHT;
            samples.base = span.rows.0 / plane.block * plane.block;
            samples.end = samples.base;
            // A group, what the one before left over (less than an MCU and the filter's margin), and padding at the
            // end.
            let rows = (group + 1) * plane.mcu_height + 2;
            let needed = rows * samples.stride + RIGHT;
            if samples.bytes.len() < needed {
                samples.bytes.resize(needed, 0);
            }
            let wide = 2 * upsample::padded(self.x.1 - self.x.0 + 8) + RIGHT;
            if samples.wide.len() < wide {
                samples.wide.resize(wide, 0);
            }
        }
        self.window = Some(window.clone());
    }

    /// Restarts at row `top` of the scaled image.
    pub(crate) fn reset(&mut self, top: usize) {
        self.next = top;
    }

    /// The first row (of the scaled image) that is not delivered yet.
    pub(crate) fn next_row(&self) -> usize {
        self.next
    }

    /// Takes the coefficients of the next MCU rows and delivers the rows that they complete.
    pub(crate) fn push(
        &mut self,
        level: CpuLevel,
        frame: &Frame,
        scaled: &Scaled,
        spans: &[RowSpan],
        blocks: &[Block],
        target: &mut dyn Target,
    ) {
        let Some(window) = self.window.take() else { return };
        for row in spans.iter().filter(|span| (window.rows.0..window.rows.1).contains(&span.row)) {
            self.transform(level, frame, scaled, &window, row, blocks);
        }
        self.emit(level, frame, scaled, target);
        self.window = Some(window);
    }

    /// Inverse DCT of one MCU row.
    fn transform(
        &mut self,
        level: CpuLevel,
        frame: &Frame,
        scaled: &Scaled,
        window: &Window,
        row: &RowSpan,
        blocks: &[Block],
    ) {
        let parts = frame.components.iter().zip(&scaled.planes).zip(&window.spans);
        for (samples, ((component, plane), span)) in self.samples.iter_mut().zip(parts) {
            for down in 0..component.v {
                let top = row.row * plane.mcu_height + down * plane.block;
                if top + plane.block <= span.rows.0 || top >= span.rows.1 {
                    continue;
                }
                let first = row.offset
                    + (span.mcus.0 - row.mcus.start) * frame.blocks_per_mcu
                    + component.first_block
                    + down * component.h;
                let run = Run {
                    blocks: &blocks[first..],
                    per_mcu: frame.blocks_per_mcu,
                    across: component.h,
                    count: (span.mcus.1 - span.mcus.0) * component.h,
                };
                let stride = samples.stride;
                let start = (top - samples.base) * stride + LEFT;
                let out = &mut samples.bytes[start..];
                idct::transform(level, plane.block, &run, &component.quant, out, stride);
                repeat_edges(plane, span, samples.left, &mut samples.bytes[start - 1..], stride);
                samples.end = top + plane.block;
            }
        }
    }

    /// Delivers all complete rows, then drops the samples that no later row needs.
    fn emit(&mut self, level: CpuLevel, frame: &Frame, scaled: &Scaled, target: &mut dyn Target) {
        let planes = &scaled.planes;
        let complete = self.samples.iter().zip(planes).map(|(samples, plane)| plane.complete(samples.end));
        let end = complete.min().unwrap_or(0).min(self.y.1);
        if end > self.next {
            let (y, rows) = ((self.next - self.y.0) as u32, (end - self.next) as u32);
            let layout = target.layout();
            let (bytes, stride) = target.rows(y, rows);
            let length = (self.x.1 - self.x.0) * layout.bytes();
            for (i, row) in (self.next..end).enumerate() {
                self.pixels(level, frame, planes, row, layout, &mut bytes[i * stride..][..length]);
            }
            target.done(y, rows);
            self.next = end;
        }
        if self.next < self.y.1 {
            for (samples, plane) in self.samples.iter_mut().zip(planes) {
                let keep = plane.rows(self.next, self.next + 1).0.clamp(samples.base, samples.end);
                let from = (keep - samples.base) * samples.stride;
                let to = (samples.end - samples.base) * samples.stride;
                samples.bytes.copy_within(from..to, 0);
                samples.base = keep;
            }
        }
    }

    /// Computes one row of pixels.
    fn pixels(
        &mut self,
        level: CpuLevel,
        frame: &Frame,
        planes: &[Plane],
        y: usize,
        layout: PixelLayout,
        out: &mut [u8],
    ) {
        for (samples, plane) in self.samples.iter_mut().zip(planes) {
            upsample_row(level, samples, plane, y, self.x);
        }
        let x = self.x;
        let row = |i: usize| {
            let (samples, plane) = (&self.samples[i], &planes[i]);
            match plane.upsampling {
                Upsampling::None => samples.at(y, x.0 as isize),
                Upsampling::Blend => &samples.wide[..],
                Upsampling::Double | Upsampling::DoubleBlend => &samples.wide[x.0 % 2..],
                Upsampling::Repeat(across, _) => &samples.wide[x.0 % across..],
            }
        };
        match frame.colors {
            Colors::Grey => color::grey(row(0), layout, out),
            Colors::Ycc => color::ycc(level, [row(0), row(1), row(2)], layout, out),
            Colors::Rgb => color::rgb([row(0), row(1), row(2)], layout, out),
        }
    }
}

/// Repeats the outermost samples beyond the image's left and right edge. `bytes` starts one before the first sample.
fn repeat_edges(plane: &Plane, span: &Span, left: usize, bytes: &mut [u8], stride: usize) {
    if !matches!(plane.upsampling, Upsampling::Double | Upsampling::DoubleBlend) {
        return;
    }
    for row in bytes.chunks_mut(stride).take(plane.block) {
        if left == 0 {
            row[0] = row[1];
        }
        if span.columns.1 == plane.width {
            let last = plane.width - left;
            row[last + 1] = row[last];
        }
    }
}

/// Upsamples the samples for output row `y`, columns `x`, to full width in `samples.wide`.
fn upsample_row(level: CpuLevel, samples: &mut Samples, plane: &Plane, y: usize, x: (usize, usize)) {
    let mut wide = std::mem::take(&mut samples.wide);
    let near = y / 2;
    let far = || if y.is_multiple_of(2) { near.saturating_sub(1) } else { (near + 1).min(plane.height - 1) };
    match plane.upsampling {
        Upsampling::None => {}
        Upsampling::Double => {
            let first = x.0 / 2;
            let count = x.1.div_ceil(2) - first;
            upsample::double(level, samples.at(y, first as isize - 1), count, &mut wide);
        }
        Upsampling::DoubleBlend => {
            let first = x.0 / 2;
            let count = x.1.div_ceil(2) - first;
            let (near, far) = (samples.at(near, first as isize - 1), samples.at(far(), first as isize - 1));
            upsample::double_blend(level, near, far, count, &mut wide);
        }
        Upsampling::Blend => {
            let (near, far) = (samples.at(near, x.0 as isize), samples.at(far(), x.0 as isize));
            let bias = if y.is_multiple_of(2) { 1 } else { 2 };
            upsample::blend(level, near, far, x.1 - x.0, bias, &mut wide);
        }
        Upsampling::Repeat(across, down) => {
            let first = x.0 / across;
            let count = x.1.div_ceil(across) - first;
            upsample::repeat(samples.at(y / down, first as isize), count, across, &mut wide);
        }
    }
    samples.wide = wide;
}
