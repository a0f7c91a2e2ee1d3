//! Crop box → resized rows, streaming: source rows arrive top to bottom in strips of any height, finished rows are
//! delivered in order, and nothing in between is larger than a few lines.
//!
//! A source row is used when it arrives: it is added to the lines (16-bit running sums, one per output row) that it
//! contributes to, so no source row is kept or copied. Four finished lines are blended horizontally together; see
//! [`convolve`] for the arithmetic. Mirroring left to right is free: the table of columns is built backwards.
//!
//! Pillow rounds and clamps to bytes between its passes, and so does this. Filters with negative lobes overshoot, and
//! clamping in another order moves pixels at hard edges by ten levels and more. For them, and only them, the passes are
//! run in the order of Pillow 13: see [`Filter::overshoots`] and `columns_first`. For the others the order moves a
//! rounding by one level, up as often as down. Where two roundings meet, the level moves by two: one or two values in a
//! million (noise, 256 to 224 pixels).

mod axis;
mod convolve;
mod copy;
mod exact;
mod filter;
mod wide;

pub(crate) use axis::Axis;
pub use copy::append_rgbx;
pub(crate) use copy::mirror_rgb;
pub use filter::Filter;
pub use wide::resample_wide;

use axis::Weights;
use convolve::{COLUMN_MULTIPLE, Columns, LINE_MULTIPLE, ROWS, Rows, Woven};
use exact::Exact;

use crate::{CpuLevel, Error, Geometry, ImageRef, PixelLayout, Region, Result, Size};

/// Receives each finished row: its number in the covered part of the window, and its pixels, four bytes each.
pub(crate) trait RowSink: FnMut(u32, &[u8]) {}
impl<F: FnMut(u32, &[u8])> RowSink for F {}

/// A resize; all buffers are kept for the next.
#[derive(Debug)]
pub(crate) struct Resizer {
    level: CpuLevel,
    method: Method,
    /// Source pixels that are read.
    needed: Region,
    /// Output pixels that are computed, in the resized image.
    covered: Region,
    flip: bool,
    layout: Option<PixelLayout>,
    /// Next source row that is needed, from the top of `needed`.
    next_row: u32,
    /// First output row that is not delivered yet.
    next_out: u32,
    /// Number of fraction bits in a pass's result.
    fraction: u32,
    /// Whether results can leave the range of bytes: sums have one more bit for that, and one less of fraction.
    overshoots: bool,
    vertical: Weights,
    horizontal: Weights,
    columns: Columns,
    /// Source columns and rows of nearest-neighbour output.
    nearest_columns: Vec<u32>,
    nearest_rows: Vec<u32>,
    lines: Vec<i16>,
    line_length: usize,
    line_count: usize,
    /// Running sums of rows whose columns were blended first; `line_count` of them.
    narrow: Vec<i16>,
    narrow_length: usize,
    woven: Vec<Woven>,
    /// Four rows of output, and one more for rows finished one by one.
    pixels: Vec<u8>,
    exact: Exact,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Method {
    Nothing,
    Copy,
    Nearest,
    /// Rows, rounded to bytes, then columns.
    Blend,
    /// Columns, rounded to bytes, then rows: Pillow's order.
    BlendColumnsFirst,
    /// With Pillow's own arithmetic.
    Exact,
}

impl Resizer {
    pub(crate) fn new(level: CpuLevel) -> Self {
        let empty = Region::new(0, 0, 0, 0);
        Resizer {
            level,
            method: Method::Nothing,
            needed: empty,
            covered: empty,
            flip: false,
            layout: None,
            next_row: 0,
            next_out: 0,
            fraction: 0,
            overshoots: false,
            vertical: Weights::default(),
            horizontal: Weights::default(),
            columns: Columns::default(),
            nearest_columns: Vec::new(),
            nearest_rows: Vec::new(),
            lines: Vec::new(),
            line_length: 0,
            line_count: 0,
            narrow: Vec::new(),
            narrow_length: 0,
            woven: Vec::new(),
            pixels: Vec::new(),
            exact: Exact::default(),
        }
    }

    /// Prepares for the rows of one image. The geometry has been checked.
    pub(crate) fn begin(&mut self, geometry: &Geometry, filter: Filter) {
        self.layout = None;
        self.next_row = 0;
        self.next_out = 0;
        self.flip = geometry.flip_horizontal;
        self.method = Method::Nothing;
        let (Some(covered), Some(needed)) = (geometry.covered(), geometry.needed(filter)) else {
            self.covered.height = 0;
            return;
        };
        self.covered = covered;
        self.needed = needed;
        let stride = (covered.width as usize).next_multiple_of(COLUMN_MULTIPLE) * 4;
        self.pixels.resize((ROWS + 1) * stride, 0);
        let horizontal = Axis::new(filter, geometry.crop.width, geometry.resized.width);
        let vertical = Axis::new(filter, geometry.crop.height, geometry.resized.height);
        self.method = if geometry.is_copy() {
            Method::Copy
        } else if filter == Filter::Nearest {
            self.begin_nearest(geometry, horizontal, vertical);
            Method::Nearest
        } else if filter == Filter::Lanczos {
            let order = columns_first(filter, geometry);
            self.exact.begin([horizontal, vertical], covered, needed.width, self.flip, order);
            Method::Exact
        } else {
            self.begin_blend(filter, horizontal, vertical);
            self.overshoots = filter.overshoots();
            if columns_first(filter, geometry) { Method::BlendColumnsFirst } else { Method::Blend }
        };
    }

    fn begin_nearest(&mut self, geometry: &Geometry, horizontal: Axis, vertical: Axis) {
        let select = |positions: &mut Vec<u32>, axis: Axis, first: u32, count: u32, origin: u32| {
            axis.nearest(first, first + count, positions);
            for position in positions {
                *position -= origin;
            }
        };
        let (covered, needed, crop) = (self.covered, self.needed, geometry.crop);
        select(&mut self.nearest_columns, horizontal, covered.x, covered.width, needed.x - crop.x);
        select(&mut self.nearest_rows, vertical, covered.y, covered.height, needed.y - crop.y);
        if self.flip {
            self.nearest_columns.reverse();
        }
    }

    fn begin_blend(&mut self, filter: Filter, horizontal: Axis, vertical: Axis) {
        let covered = self.covered;
        let bits = filter.bits();
        // 8 bits are left of a centred byte; a weight of less than 15 bits leaves fewer.
        self.fraction = 8 - (15 - bits);
        self.vertical.build(vertical, covered.y, covered.bottom(), false, bits);
        self.horizontal.build(horizontal, covered.x, covered.right(), self.flip, bits);
        let Weights { starts, values, taps, .. } = &self.horizontal;
        self.columns.set(starts, values, *taps, self.fraction);
        self.line_count = open_lines(&self.vertical);
        // Columns past the last are read with weight 0 by output columns that have fewer taps than others.
        self.woven.resize(self.columns.reach().max(self.needed.width as usize), Woven::default());
    }

    /// Whether rows are only copied, three bytes per pixel, by [`take_untouched`](Self::take_untouched).
    pub(crate) fn is_copy(&self) -> bool {
        self.method == Method::Copy
    }

    /// Like [`push`](Self::push) for rows that are only copied: returns the needed rows unchanged, not even mirrored,
    /// and the number of the first.
    pub(crate) fn take_untouched<'a>(
        &mut self,
        origin: (u32, u32),
        image: ImageRef<'a>,
    ) -> Result<Option<(u32, ImageRef<'a>)>> {
        let Some(strip) = self.wanted(origin, image)? else { return Ok(None) };
        let first = self.next_out;
        self.next_out += strip.size.height;
        self.next_row += strip.size.height;
        Ok(Some((first, strip)))
    }

    /// Takes rows of source pixels; `origin` is the position of their upper left corner in the image. They must reach
    /// from the left to the right edge of the needed region and follow the rows before without a gap; rows and columns
    /// that are not needed are skipped.
    pub(crate) fn push(
        &mut self,
        origin: (u32, u32),
        image: ImageRef<'_>,
        sink: &mut impl RowSink,
    ) -> Result<()> {
        let Some(strip) = self.wanted(origin, image)? else { return Ok(()) };
        match self.method {
            Method::Blend => self.blend(strip, self.next_row, sink),
            Method::BlendColumnsFirst => self.blend_columns_first(strip, sink),
            Method::Nearest => self.pick(strip, sink),
            Method::Exact => self.resample_exactly(strip, sink),
            Method::Copy | Method::Nothing => self.copy(strip, sink),
        }
        self.next_row += strip.size.height;
        Ok(())
    }

    /// The part of a strip that is still needed.
    fn wanted<'a>(&mut self, origin: (u32, u32), image: ImageRef<'a>) -> Result<Option<ImageRef<'a>>> {
        if self.method == Method::Nothing || self.is_finished() {
            return Ok(None);
        }
        let wanted = self.needed.y + self.next_row;
        let bottom = (origin.1 + image.size.height).min(self.needed.bottom());
        if bottom <= wanted {
            return Ok(None);
        }
        self.check_strip(origin, image, wanted)?;
        let x = self.needed.x - origin.0;
        image.crop(Region::new(x, wanted - origin.1, self.needed.width, bottom - wanted)).map(Some)
    }

    /// Whether every row is delivered.
    pub(crate) fn is_finished(&self) -> bool {
        self.next_out == self.covered.height
    }

    fn check_strip(&mut self, origin: (u32, u32), image: ImageRef<'_>, wanted: u32) -> Result<()> {
        if origin.1 > wanted {
            return Err(Error::Misuse(format!(
                "rows from {} on arrived where row {wanted} was due",
                origin.1
            )));
        }
        if origin.0 > self.needed.x || origin.0 + image.size.width < self.needed.right() {
            return Err(Error::Misuse(format!(
                "columns {}..{} arrived where {}..{} are needed",
                origin.0,
                origin.0 + image.size.width,
                self.needed.x,
                self.needed.right()
            )));
        }
        match self.layout {
            None => {
                image.layout.check_colour()?;
                self.begin_layout(image.layout);
            }
            Some(layout) if layout == image.layout => {}
            Some(_) => return Err(Error::Misuse("pixel layout changed between strips".into())),
        }
        Ok(())
    }

    fn begin_layout(&mut self, layout: PixelLayout) {
        self.layout = Some(layout);
        let padded = |elements: usize| elements.next_multiple_of(LINE_MULTIPLE) + LINE_MULTIPLE;
        self.line_length = padded(self.needed.width as usize * layout.bytes());
        if self.method == Method::Blend {
            self.lines.resize(self.line_count * self.line_length, 0);
        } else if self.method == Method::BlendColumnsFirst {
            self.lines.resize(ROWS * self.line_length, 0);
            self.narrow_length = padded(self.covered.width as usize * 4);
            self.narrow.resize(self.line_count * self.narrow_length, 0);
        }
    }

    /// Adds a strip that begins at source row `above` to the lines that it contributes to.
    fn blend(&mut self, strip: ImageRef<'_>, above: u32, sink: &mut impl RowSink) {
        let below = above + strip.size.height;
        for out in self.next_out..self.covered.height {
            let (start, end) = (self.vertical.starts[out as usize], self.vertical.end(out as usize));
            if start >= below {
                break;
            }
            let at = out as usize % self.line_count * self.line_length;
            let line = &mut self.lines[at..at + self.line_length];
            add_rows(self.level, &self.vertical, out, strip, above, line);
            let group_ends = (out + 1).is_multiple_of(ROWS as u32) || out + 1 == self.covered.height;
            if end <= below && group_ends {
                self.emit(out, sink);
            }
        }
    }

    /// Finishes the group of rows that ends with `last`.
    fn emit(&mut self, last: u32, sink: &mut impl RowSink) {
        let first = last / ROWS as u32 * ROWS as u32;
        let slot = first as usize % self.line_count;
        if self.overshoots {
            self.blend_lines::<true>(slot);
        } else {
            self.blend_lines::<false>(slot);
        }
        let stride = self.columns.count() * 4;
        for (out, pixels) in (first..=last).zip(self.pixels.chunks_exact(stride)) {
            sink(out, &pixels[..self.covered.width as usize * 4]);
        }
        self.next_out = last + 1;
    }

    /// Rounds four lines to bytes and blends their columns into four rows of `pixels`. `HALVED` lines belong to a
    /// filter that overshoots.
    fn blend_lines<const HALVED: bool>(&mut self, first: usize) {
        let at = first * self.line_length;
        let lines = std::array::from_fn(|row| &self.lines[at + row * self.line_length..][..self.line_length]);
        let woven = &mut self.woven[..self.needed.width as usize];
        match self.layout {
            Some(PixelLayout::Rgb) => convolve::weave::<3, HALVED>(self.level, lines, woven),
            _ => convolve::weave::<4, HALVED>(self.level, lines, woven),
        }
        let stride = self.columns.count() * 4;
        convolve::blend_columns(self.level, &self.columns, &self.woven, &mut self.pixels, stride);
    }

    /// Source rows become lines unchanged (weight one), four lines become four narrow rows of bytes, and those are
    /// added to the running sums.
    fn blend_columns_first(&mut self, strip: ImageRef<'_>, sink: &mut impl RowSink) {
        for y in 0..strip.size.height {
            let row = self.next_row + y;
            let slot = row as usize % ROWS;
            let line = &mut self.lines[slot * self.line_length..][..self.line_length];
            let rows = Rows {
                bytes: &strip.bytes[y as usize * strip.stride..],
                stride: strip.stride,
                width: strip.size.width as usize * strip.layout.bytes(),
            };
            convolve::blend_rows(self.level, rows, &[i16::MAX], true, line);
            if slot + 1 == ROWS || row + 1 == self.needed.height {
                self.blend_lines::<false>(0);
                self.add_narrow(row - slot as u32, slot as u32 + 1, sink);
            }
        }
    }

    /// Adds the narrow rows in `pixels`, which represent source rows from `above` on, to the sums they contribute to.
    fn add_narrow(&mut self, above: u32, count: u32, sink: &mut impl RowSink) {
        let width = self.covered.width as usize * 4;
        let stride = self.columns.count() * 4;
        let (narrow, row) = self.pixels.split_at_mut(ROWS * stride);
        let size = Size::new(self.covered.width, count);
        let strip = ImageRef { bytes: narrow, size, stride, layout: PixelLayout::Rgbx };
        for out in self.next_out..self.covered.height {
            if self.vertical.starts[out as usize] >= above + count {
                break;
            }
            let at = out as usize % self.line_count * self.narrow_length;
            let sums = &mut self.narrow[at..at + self.narrow_length];
            add_rows(self.level, &self.vertical, out, strip, above, sums);
            if self.vertical.end(out as usize) <= above + count {
                convolve::round_line(self.level, &sums[..width], self.fraction, &mut row[..width]);
                sink(out, &row[..width]);
                self.next_out = out + 1;
            }
        }
    }

    fn resample_exactly(&mut self, strip: ImageRef<'_>, sink: &mut impl RowSink) {
        let width = strip.size.width as usize * 4;
        self.pixels.resize(self.pixels.len().max(width), 0);
        for y in 0..strip.size.height {
            let source = strip.row(y);
            let row = if strip.layout == PixelLayout::Rgb {
                copy::copy_pixels(self.level, source, strip.layout, false, &mut self.pixels[..width]);
                &self.pixels[..width]
            } else {
                source
            };
            self.next_out = self.exact.push(self.level, self.next_row + y, row, self.next_out, sink);
        }
    }

    fn pick(&mut self, strip: ImageRef<'_>, sink: &mut impl RowSink) {
        let above = self.next_row;
        while self.next_out < self.covered.height {
            let row = self.nearest_rows[self.next_out as usize];
            if row >= above + strip.size.height {
                break;
            }
            let source = strip.row(row - above);
            let bytes = strip.layout.bytes();
            for (pixel, column) in self.pixels.chunks_exact_mut(4).zip(&self.nearest_columns) {
                let at = *column as usize * bytes;
                // Four bytes in one move if there are four; the last pixel of three bytes may end the row.
                match source.get(at..at + 4) {
                    Some(four) => pixel.copy_from_slice(four),
                    None => pixel[..3].copy_from_slice(&source[at..at + 3]),
                }
            }
            sink(self.next_out, &self.pixels[..self.covered.width as usize * 4]);
            self.next_out += 1;
        }
    }

    fn copy(&mut self, strip: ImageRef<'_>, sink: &mut impl RowSink) {
        let width = self.covered.width as usize;
        for y in 0..strip.size.height {
            let source = strip.row(y);
            if strip.layout != PixelLayout::Rgb && !self.flip {
                sink(self.next_out, source);
            } else {
                let pixels = &mut self.pixels[..width * 4];
                copy::copy_pixels(self.level, source, strip.layout, self.flip, pixels);
                sink(self.next_out, &self.pixels[..width * 4]);
            }
            self.next_out += 1;
        }
    }
}

/// Pillow's order of passes, which matters only if a filter overshoots: columns first, unless the height shrinks by
/// more than twice as many pixels as the width (since Pillow 13, found by experiment; before, always columns first).
fn columns_first(filter: Filter, geometry: &Geometry) -> bool {
    let shrinks = |from: u32, to: u32| i64::from(from) - i64::from(to);
    let height = shrinks(geometry.crop.height, geometry.resized.height);
    let width = shrinks(geometry.crop.width, geometry.resized.width);
    filter.overshoots() && !(height > 0 && height > 2 * width)
}

/// Adds those rows of a strip, which begins at source row `above`, that output row `out` needs.
fn add_rows(
    level: CpuLevel,
    vertical: &Weights,
    out: u32,
    strip: ImageRef<'_>,
    above: u32,
    line: &mut [i16],
) {
    let (start, end) = (vertical.starts[out as usize], vertical.end(out as usize));
    let (first, last) = (start.max(above), end.min(above + strip.size.height));
    if first >= last {
        return;
    }
    let rows = Rows {
        bytes: &strip.bytes[(first - above) as usize * strip.stride..],
        stride: strip.stride,
        width: strip.size.width as usize * strip.layout.bytes(),
    };
    let weights = &vertical.of(out as usize)[(first - start) as usize..(last - start) as usize];
    convolve::blend_rows(level, rows, weights, first == start, line);
}

/// Largest number of unfinished lines: the longest run of output rows that share a source row, plus the
/// rest of the groups of [`ROWS`] at both of its ends.
fn open_lines(vertical: &Weights) -> usize {
    let mut longest = 0;
    let mut last = 0;
    let count = vertical.starts.len();
    for first in 0..count {
        while last < count && vertical.starts[last] < vertical.end(first) {
            last += 1;
        }
        longest = longest.max(last - first);
    }
    (longest + 2 * ROWS - 1) / ROWS * ROWS
}
