//! The three kernels of a resize: blend rows, weave four of them, blend columns.
//!
//! ```text
//! source rows (u8)          lines (i16)               woven (16 × i16 per column)         output rows (u8)
//! r g b x r g b x ... ─┐
//! r g b x r g b x ...  ├ blend_rows ─▶ R G B X ... ─┐
//! r g b x r g b x ... ─┘               R G B X ...  ├ weave ─▶ RGBX RGBX RGBX RGBX ... ─ blend_columns ─▶ 4 × rgbx...
//!                                      R G B X ...  │          row0 row1 row2 row3
//!                                      R G B X ... ─┘
//! ```
//!
//! Blending rows is elementwise and needs no shuffles. Blending columns within one row would need a shuffle and a
//! horizontal sum per pixel; woven, four rows are side by side in one vector and columns are blended elementwise as
//! well. Vertical comes first for that reason, and because rows are then finished in the order of the decoder.
//!
//! **Arithmetic**, the same at every [`CpuLevel`]: a pixel byte `v` is the 16-bit number `(v - 128) · 256`; a product
//! with a weight is `(value · weight + 2^14) >> 15`; sums saturate at 16 bits. A weight of one is `2^15`, or `2^14`
//! for filters that overshoot, which halves the numbers to make room. Each product is off by at most 1/512 level
//! (1/256 for the latter), so 4 taps by 1/128 level. Both passes round to bytes, half up, as both of Pillow's do:
//! rounding once would be nearer to the exact value and, at ratios with many halves, a third of a level darker than
//! Pillow.

mod scalar;

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "aarch64")]
mod neon;

use crate::CpuLevel;

/// Number of output rows that are blended side by side.
pub(crate) const ROWS: usize = 4;

/// Lengths of lines and of column tables are multiples of this, so that kernels need no remainders.
pub(crate) const LINE_MULTIPLE: usize = 64;

/// Number of output columns that [`blend_columns`] finishes at once.
pub(crate) const COLUMN_MULTIPLE: usize = 4;

/// One column of [`ROWS`] rows: four numbers (red, green, blue, unused) of each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, align(32))]
pub(crate) struct Woven(pub(crate) [i16; 16]);

/// Source rows `stride` bytes apart; the kernel reads `width` bytes of each.
#[derive(Clone, Copy)]
pub(crate) struct Rows<'a> {
    /// Bytes from the first row to the end of the buffer. Bytes after a row's `width` may be read, but are never
    /// used.
    pub(crate) bytes: &'a [u8],
    pub(crate) stride: usize,
    pub(crate) width: usize,
}

/// `line = Σ rows[i] · weights[i]`, or `line += …` if the line was begun by an earlier call. Elements of `line` from
/// `rows.width` on are left undefined. Rows may be split over any number of calls without changing the result.
pub(crate) fn blend_rows(level: CpuLevel, rows: Rows<'_>, weights: &[i16], begin: bool, line: &mut [i16]) {
    let last = weights.len().saturating_sub(1) * rows.stride;
    assert!(rows.width > 0 && rows.bytes.len() >= last + rows.width, "rows reach past their buffer");
    assert!(line.len() >= rows.width.next_multiple_of(LINE_MULTIPLE), "line is not padded");
    match level {
        CpuLevel::Scalar => scalar::blend_rows(rows, weights, begin, line),
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `Avx2` is only ever passed down after detection (`Renderer::with_level`); lengths are checked above.
        CpuLevel::Avx2 | CpuLevel::Avx512 => unsafe { avx2::blend_rows(rows, weights, begin, line) },
        #[cfg(target_arch = "aarch64")]
        // SAFETY: every aarch64 CPU has NEON; lengths are checked above.
        CpuLevel::Neon => unsafe { neon::blend_rows(rows, weights, begin, line) },
    }
}

/// Puts columns of four lines side by side: `woven[x]` gets the four numbers from `CHANNELS · x` of each line, rounded
/// to whole levels from 0 to 255 as Pillow rounds between its passes. `HALVED` lines have 7 bits of fraction; `woven`
/// has 8. With three channels the fourth number is the next column's first, which is not used.
pub(crate) fn weave<const CHANNELS: usize, const HALVED: bool>(
    level: CpuLevel,
    lines: [&[i16]; ROWS],
    woven: &mut [Woven],
) {
    let needed = (woven.len() * CHANNELS).next_multiple_of(LINE_MULTIPLE);
    assert!(lines.iter().all(|line| line.len() >= needed + LINE_MULTIPLE), "lines are not padded");
    match level {
        CpuLevel::Scalar => scalar::weave::<CHANNELS, HALVED>(lines, woven),
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as in `blend_rows`.
        CpuLevel::Avx2 | CpuLevel::Avx512 => unsafe { avx2::weave::<CHANNELS, HALVED>(lines, woven) },
        #[cfg(target_arch = "aarch64")]
        // SAFETY: as in `blend_rows`.
        CpuLevel::Neon => unsafe { neon::weave::<CHANNELS, HALVED>(lines, woven) },
    }
}

/// Table for [`blend_columns`]: `taps` weights for each output column, the first at woven column `starts[x]`. Kept for
/// all rows of an image, so that its lengths are checked once and not with every group of rows.
#[derive(Debug, Default)]
pub(crate) struct Columns {
    starts: Vec<u32>,
    /// Each weight twice, so that one 32-bit load broadcasts it over a vector.
    weights: Vec<[i16; 2]>,
    taps: usize,
    /// Fraction bits of the result: 8, or 7 for filters that overshoot.
    fraction: u32,
    /// Number of woven columns that are read.
    reach: usize,
}

impl Columns {
    /// Replaces the table. `weights` are `taps` per start; columns are added to fill a multiple of
    /// [`COLUMN_MULTIPLE`].
    pub(crate) fn set(&mut self, starts: &[u32], weights: &[i16], taps: usize, fraction: u32) {
        assert_eq!(weights.len(), starts.len() * taps);
        let count = starts.len().next_multiple_of(COLUMN_MULTIPLE);
        self.starts.clear();
        self.starts.extend_from_slice(starts);
        self.starts.resize(count, 0);
        self.weights.clear();
        self.weights.extend(weights.iter().map(|weight| [*weight; 2]));
        self.weights.resize(count * taps, [0; 2]);
        self.taps = taps;
        self.fraction = fraction;
        self.reach = starts.iter().max().map_or(0, |start| *start as usize) + taps;
    }

    /// Number of output columns, including the added ones.
    pub(crate) fn count(&self) -> usize {
        self.starts.len()
    }

    /// Number of woven columns that are read, including those with weight zero.
    pub(crate) fn reach(&self) -> usize {
        self.reach
    }
}

/// Blends columns and rounds to bytes: row `r` of four begins at `pixels[r * stride]`, four bytes per pixel. The
/// fourth byte of each pixel is undefined.
pub(crate) fn blend_columns(
    level: CpuLevel,
    columns: &Columns,
    woven: &[Woven],
    pixels: &mut [u8],
    stride: usize,
) {
    let row = columns.count() * 4;
    assert!(stride >= row && pixels.len() >= (ROWS - 1) * stride + row, "pixel rows are too short");
    assert!(columns.reach <= woven.len(), "weights reach past the last column");
    match level {
        CpuLevel::Scalar => scalar::blend_columns(columns, woven, pixels, stride),
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as in `blend_rows`.
        CpuLevel::Avx2 | CpuLevel::Avx512 => unsafe { avx2::blend_columns(columns, woven, pixels, stride) },
        #[cfg(target_arch = "aarch64")]
        // SAFETY: as in `blend_rows`.
        CpuLevel::Neon => unsafe { neon::blend_columns(columns, woven, pixels, stride) },
    }
}

/// Rounds a line to bytes.
pub(crate) fn round_line(level: CpuLevel, line: &[i16], fraction: u32, bytes: &mut [u8]) {
    assert_eq!(line.len(), bytes.len());
    match level {
        CpuLevel::Scalar => scalar::round_line(line, fraction, bytes),
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as in `blend_rows`.
        CpuLevel::Avx2 | CpuLevel::Avx512 => unsafe { avx2::round_line(line, fraction, bytes) },
        #[cfg(target_arch = "aarch64")]
        CpuLevel::Neon => scalar::round_line(line, fraction, bytes),
    }
}
