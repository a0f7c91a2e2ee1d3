//! From source pixels to a finished row of the batch: resize, flip, normalise and lay out in one pass, a few rows at a
//! time, so that decoded pixels are still in the cache when they become tensor elements.

use crate::colour::RowOp;
use crate::normalize::{Finish, Writer};
use crate::resize::{Filter, Resizer, mirror_rgb};
use crate::{CpuLevel, Error, Geometry, ImageRef, PixelLayout, Result, Size};

/// Renders one image after another; owns all scratch memory, so keep one per thread.
///
/// ```
/// use feedline_pixels::*;
///
/// let size = Size::new(8, 6);
/// let pixels = vec![100u8; 8 * 6 * 3];
/// let image = ImageRef::new(&pixels, size, 8 * 3, PixelLayout::Rgb)?;
/// let geometry = Geometry::crop_resize(size, Region::new(1, 1, 6, 4), Size::new(3, 2));
/// let finish = Finish::bytes(TensorLayout::ChannelsFirst);
/// let mut out = vec![0u8; finish.output_bytes(geometry.output())];
/// Renderer::new().render_image(image, (0, 0), &geometry, Filter::Bilinear, &finish, &mut out)?;
/// assert!(out.iter().all(|value| *value == 100));
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug)]
pub struct Renderer {
    level: CpuLevel,
    resizer: Resizer,
    /// One output row with its fill, for windows that extend beyond the image.
    padded: Vec<u8>,
    /// One output row while operations change it.
    line: Vec<u8>,
}

impl Default for Renderer {
    fn default() -> Self {
        Self::new()
    }
}

impl Renderer {
    /// Creates a renderer with the best kernels of this machine.
    pub fn new() -> Self {
        Self::with_level(CpuLevel::detect())
    }

    /// Creates a renderer with the kernels of this level, or the reference if this machine cannot run them.
    pub fn with_level(level: CpuLevel) -> Self {
        let level = if CpuLevel::available().contains(&level) { level } else { CpuLevel::Scalar };
        Renderer { level, resizer: Resizer::new(level), padded: Vec::new(), line: Vec::new() }
    }

    /// Renders from decoded pixels. `origin` is the position of their upper left corner in the image; they must
    /// cover [`Geometry::needed`].
    pub fn render_image(
        &mut self,
        pixels: ImageRef<'_>,
        origin: (u32, u32),
        geometry: &Geometry,
        filter: Filter,
        finish: &Finish,
        out: &mut [u8],
    ) -> Result<()> {
        let mut rendering = self.begin(geometry, filter, finish, out)?;
        rendering.push(origin, pixels)?;
        rendering.finish()
    }

    /// Starts a rendering that gets its rows from a decoder, strip by strip. `out` must be exactly
    /// [`Finish::output_bytes`] long.
    pub fn begin<'a>(
        &'a mut self,
        geometry: &Geometry,
        filter: Filter,
        finish: &Finish,
        out: &'a mut [u8],
    ) -> Result<Rendering<'a>> {
        self.begin_with(geometry, filter, &[], finish, out)
    }

    /// Like [`begin`](Self::begin); applies `rows` to every finished row before it becomes tensor elements.
    pub fn begin_with<'a>(
        &'a mut self,
        geometry: &Geometry,
        filter: Filter,
        rows: &'a [RowOp],
        finish: &Finish,
        out: &'a mut [u8],
    ) -> Result<Rendering<'a>> {
        geometry.check()?;
        finish.check()?;
        let output = geometry.output();
        check_output(out.len(), output, finish.output_bytes(output), finish.dtype)?;
        let writer = Writer::new(self.level, finish, output);
        Ok(self.begin_into(geometry, filter, rows, Sink::Tensor(writer), out))
    }

    /// Like [`begin`](Self::begin); rows stay pixels of four bytes, and `out` has exactly the output's size.
    pub fn begin_pixels<'a>(
        &'a mut self,
        geometry: &Geometry,
        filter: Filter,
        rows: &'a [RowOp],
        out: &'a mut [u8],
    ) -> Result<Rendering<'a>> {
        geometry.check()?;
        let output = geometry.output();
        check_output(out.len(), output, output.area() as usize * 4, "pixels")?;
        Ok(self.begin_into(geometry, filter, rows, Sink::Pixels, out))
    }

    fn begin_into<'a>(
        &'a mut self,
        geometry: &Geometry,
        filter: Filter,
        rows: &'a [RowOp],
        sink: Sink,
        out: &'a mut [u8],
    ) -> Rendering<'a> {
        self.resizer.begin(geometry, filter);
        let placement = Placement::new(geometry);
        let mut rendering = Rendering {
            resizer: &mut self.resizer,
            padded: &mut self.padded,
            placement,
            flip: geometry.flip_horizontal,
            target: Target { level: self.level, sink, rows, line: &mut self.line, out },
        };
        rendering.write_fill(geometry.fill);
        rendering
    }
}

fn check_output(length: usize, output: Size, wanted: usize, kind: impl std::fmt::Debug) -> Result<()> {
    if output.area() <= (isize::MAX as u64) / 12 && length == wanted {
        return Ok(());
    }
    Err(Error::Misuse(format!(
        "output of {length} bytes does not fit {}x{} pixels as {kind:?}",
        output.width, output.height
    )))
}

/// Form of the finished rows.
#[derive(Debug)]
enum Sink {
    Tensor(Writer),
    Pixels,
}

/// Destination of finished rows, and the operations on them.
#[derive(Debug)]
struct Target<'a> {
    level: CpuLevel,
    sink: Sink,
    rows: &'a [RowOp],
    line: &'a mut Vec<u8>,
    out: &'a mut [u8],
}

impl Target<'_> {
    #[inline]
    fn write(&mut self, y: u32, pixels: &[u8]) {
        let pixels = if self.rows.is_empty() {
            pixels
        } else {
            self.line.clear();
            self.line.extend_from_slice(pixels);
            for op in self.rows {
                op.apply(self.level, self.line);
            }
            &self.line[..]
        };
        match &self.sink {
            Sink::Tensor(writer) => writer.write(y, pixels, self.out),
            Sink::Pixels => self.out[y as usize * pixels.len()..][..pixels.len()].copy_from_slice(pixels),
        }
    }
}

/// Number of bytes that operations change one after the other while they are in the cache: whole pixels of three bytes.
const PIECE: usize = 3 << 12;

impl Target<'_> {
    /// Writes red, green, blue bytes at byte `at` of the output.
    fn write_packed(&mut self, source: &[u8], at: usize) {
        let out = &mut self.out[at..at + source.len()];
        let Some((first, rest)) = self.rows.split_first() else { return out.copy_from_slice(source) };
        for (source, out) in source.chunks(PIECE).zip(out.chunks_mut(PIECE)) {
            first.apply_packed(self.level, source, out);
            for op in rest {
                op.apply(self.level, out);
            }
        }
    }

    /// The same for a mirrored row.
    fn write_mirrored(&mut self, source: &[u8], at: usize) {
        if self.rows.is_empty() {
            return mirror_rgb(self.level, source, &mut self.out[at..at + source.len()]);
        }
        let mut mirrored = std::mem::take(self.line);
        mirrored.resize(source.len(), 0);
        mirror_rgb(self.level, source, &mut mirrored);
        self.write_packed(&mirrored, at);
        *self.line = mirrored;
    }
}

/// A rendering in progress: push strips from top to bottom, then finish.
#[derive(Debug)]
#[must_use = "an output is complete only after `finish`"]
pub struct Rendering<'a> {
    resizer: &'a mut Resizer,
    padded: &'a mut Vec<u8>,
    placement: Placement,
    flip: bool,
    target: Target<'a>,
}

impl Rendering<'_> {
    /// Takes the next rows. `origin` is the position of their upper left corner in the image. Rows and columns outside
    /// [`Geometry::needed`] are ignored; inside, rows must follow each other without a gap. Results do not depend
    /// on how rows are split into strips.
    pub fn push(&mut self, origin: (u32, u32), strip: ImageRef<'_>) -> Result<()> {
        if self.stays_packed(strip) {
            return self.push_packed(origin, strip);
        }
        let Rendering { resizer, padded, placement, target, .. } = self;
        resizer.push(origin, strip, &mut |row, pixels: &[u8]| {
            let y = placement.row(row);
            if placement.is_padded {
                let at = placement.left * 4;
                padded[at..at + pixels.len()].copy_from_slice(pixels);
                target.write(y, padded);
            } else {
                target.write(y, pixels);
            }
        })
    }

    /// Whether input and output have three bytes per pixel, and no step between needs four.
    fn stays_packed(&self, strip: ImageRef<'_>) -> bool {
        let bytewise = |op: &RowOp| matches!(op, RowOp::Table(_));
        let rows_do = match self.target.rows {
            [] => true,
            [first, rest @ ..] => first.takes_packed() && rest.iter().all(bytewise),
        };
        rows_do
            && strip.layout == PixelLayout::Rgb
            && self.resizer.is_copy()
            && !self.placement.is_padded
            && matches!(&self.target.sink, Sink::Tensor(writer) if writer.is_packed_bytes())
    }

    fn push_packed(&mut self, origin: (u32, u32), strip: ImageRef<'_>) -> Result<()> {
        let Rendering { resizer, placement, target, flip, .. } = self;
        let Some((first, strip)) = resizer.take_untouched(origin, strip)? else { return Ok(()) };
        let (row, count) = (strip.size.width as usize * strip.layout.bytes(), strip.size.height);
        if !*flip && !placement.flip_vertical && strip.stride == row {
            // Rows are contiguous in source and output, so they can be treated as one long row.
            let at = placement.row(first) as usize * row;
            target.write_packed(&strip.bytes[..row * count as usize], at);
            return Ok(());
        }
        for y in 0..count {
            let at = placement.row(first + y) as usize * row;
            if *flip {
                target.write_mirrored(strip.row(y), at);
            } else {
                target.write_packed(strip.row(y), at);
            }
        }
        Ok(())
    }

    /// Whether every output row is written, so that no further source rows are needed.
    pub fn is_complete(&self) -> bool {
        self.resizer.is_finished()
    }

    /// Ends the rendering; returns an error if rows are missing.
    pub fn finish(self) -> Result<()> {
        if self.is_complete() {
            return Ok(());
        }
        Err(Error::Misuse("the source rows ended before the output was complete".into()))
    }

    /// Writes the rows that are completely outside the image, and prepares the margins of the others.
    fn write_fill(&mut self, fill: [u8; 3]) {
        if !self.placement.is_padded {
            return;
        }
        let [red, green, blue] = fill;
        self.padded.clear();
        for _ in 0..self.placement.width {
            self.padded.extend_from_slice(&[red, green, blue, 255]);
        }
        for y in 0..self.placement.height {
            if !self.placement.covers(y) {
                self.target.write(y, self.padded);
            }
        }
    }
}

/// Position of the resized image in the output, flips included.
#[derive(Clone, Copy, Debug)]
struct Placement {
    width: usize,
    height: u32,
    /// First output column that the image covers.
    left: usize,
    /// First output row that the image covers, and the number of rows.
    top: u32,
    rows: u32,
    flip_vertical: bool,
    is_padded: bool,
}

impl Placement {
    fn new(geometry: &Geometry) -> Self {
        let window = geometry.window;
        let covered = geometry.covered();
        let (columns, rows) = covered.map_or((0, 0), |covered| (covered.width, covered.height));
        let before = |start: i32, length: u32, covered: u32, flip: bool| {
            let before = if covered == 0 { 0 } else { start.min(0).unsigned_abs() };
            if flip { length - covered - before } else { before }
        };
        Placement {
            width: window.width as usize,
            height: window.height,
            left: before(window.x, window.width, columns, geometry.flip_horizontal) as usize,
            top: before(window.y, window.height, rows, geometry.flip_vertical),
            rows,
            flip_vertical: geometry.flip_vertical,
            is_padded: columns < window.width || rows < window.height,
        }
    }

    /// The output row for a row of the covered part.
    fn row(&self, row: u32) -> u32 {
        if self.flip_vertical { self.top + self.rows - 1 - row } else { self.top + row }
    }

    fn covers(&self, y: u32) -> bool {
        (self.top..self.top + self.rows).contains(&y)
    }
}
