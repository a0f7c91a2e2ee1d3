//! Pieces of a stored image with a checksum each, so that the part of it that a decode needs can be read and checked alone.
//!
//! `docs/formats/pack.md` (5.2) describes the table and where the pieces of each form end; in short:
//!
//! | bytes | what |
//! |---|---|
//! | 0–1 | `PT` |
//! | 2–3 | version, 1, and zero |
//! | 4–7 | number of pieces |
//! | 8–11 | number of rows of pixels in a piece of rows |
//! | 12– | for each piece, where it ends in the image, and its CRC-32C (32 bits each, little-endian) |

use std::ops::Range;

use crate::jpeg::Scale;
use crate::{Size, checksum, dct, yuv};

/// Layout of an image that has pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Red, green, blue, row by row.
    Rgb,
    /// See [`yuv`].
    Yuv420,
    /// See [`dct`].
    Dct,
    /// See [`dct::compact`].
    Compact,
}

const START: [u8; 4] = [b'P', b'T', 1, 0];
const HEADER: usize = 12;
const ENTRY: usize = 8;

/// Smaller images are read whole: a second read takes about as long as copying and checking these bytes.
const LEAST_IMAGE: usize = 32 << 10;

/// Pieces of pixel rows have about so many bytes: with 4 KiB, a table is 0.2 % of its image, and a crop of 240 rows reads
/// 3 % more than it needs.
const LEAST_PIECE: u32 = 4 << 10;

/// Coefficients of this many rows of pixels beside a box are needed too: interpolated chroma has at most a quarter of the
/// rows, and uses the next one.
const MARGIN: u32 = 8;

/// Largest number of runs of pieces that a decode needs.
pub const MOST_RUNS: usize = 4;

/// The table of an encoded image of `size`; empty if it should be read whole.
pub fn table(form: Form, size: Size, bytes: &[u8]) -> Vec<u8> {
    let found = if bytes.len() < LEAST_IMAGE { None } else { ends(form, size, bytes) };
    let Some((rows, ends)) =
        found.filter(|(_, ends)| ends.last().copied() == u32::try_from(bytes.len()).ok())
    else {
        return Vec::new();
    };
    let mut out = Vec::with_capacity(HEADER + ENTRY * ends.len());
    out.extend_from_slice(&START);
    out.extend_from_slice(&(ends.len() as u32).to_le_bytes());
    out.extend_from_slice(&rows.to_le_bytes());
    let mut start = 0;
    for end in ends {
        out.extend_from_slice(&end.to_le_bytes());
        out.extend_from_slice(&checksum::crc32c(&bytes[start..end as usize]).to_le_bytes());
        start = end as usize;
    }
    out
}

/// Rows of pixels in a piece, and the end of each piece.
fn ends(form: Form, size: Size, bytes: &[u8]) -> Option<(u32, Vec<u32>)> {
    let rows_of = |row_bytes: u32| LEAST_PIECE.div_ceil(row_bytes.max(1)).next_multiple_of(8);
    let planes = match form {
        Form::Rgb => {
            let rows = rows_of(size.width.checked_mul(3)?);
            vec![(rows, rows, size.width * 3, size.height)]
        }
        Form::Yuv420 => {
            let (rows, half) = (rows_of(size.width), yuv::chroma(size));
            let chroma = (rows, rows / 2, half.width, half.height);
            vec![(rows, rows, size.width, size.height), chroma, chroma]
        }
        Form::Dct => return dct::piece_ends(bytes),
        Form::Compact => return dct::compact::piece_ends(bytes),
    };
    let (mut ends, mut start) = (Vec::new(), 0u32);
    for &(_, step, row_bytes, height) in &planes {
        for last in (0..height).step_by(step as usize).map(|first| height.min(first + step)) {
            ends.push(start.checked_add(last.checked_mul(row_bytes)?)?);
        }
        start = *ends.last()?;
    }
    Some((planes[0].0, ends))
}

/// A parsed table.
#[derive(Clone, Copy, Debug)]
pub struct PieceTable<'a> {
    rows: u32,
    entries: &'a [[u8; ENTRY]],
}

impl<'a> PieceTable<'a> {
    /// The table of an image of `length` bytes; `None` if its version is not known or it does not fit the image. The image
    /// is then read whole.
    pub fn parse(bytes: &'a [u8], length: u64) -> Option<Self> {
        let (header, entries) = bytes.split_at_checked(HEADER)?;
        let (entries, []) = entries.as_chunks::<ENTRY>() else { return None };
        let number = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().expect("four bytes"));
        let (count, rows) = (number(4), number(8));
        let table = PieceTable { rows, entries };
        let ascends = (1..entries.len()).all(|n| table.end(n - 1) <= table.end(n));
        let whole = entries.len() == count as usize
            && entries.len().checked_sub(1).is_some_and(|last| table.end(last) == length);
        (header[..4] == START && rows > 0 && ascends && whole).then_some(table)
    }

    /// Number of pieces, at least 1.
    pub fn count(&self) -> usize {
        self.entries.len()
    }

    fn end(&self, number: usize) -> u64 {
        end_of(self.entries[number])
    }

    /// The bytes of piece `number`.
    pub fn piece(&self, number: usize) -> Range<u64> {
        let start = number.checked_sub(1).map_or(0, |before| self.end(before));
        start..self.end(number)
    }

    /// The stored checksum of piece `number`.
    pub fn checksum(&self, number: usize) -> u32 {
        let [.., a, b, c, d] = self.entries[number];
        u32::from_le_bytes([a, b, c, d])
    }

    /// The pieces that contain these bytes.
    fn containing(&self, bytes: Range<u64>) -> Range<usize> {
        let first = self.entries.partition_point(|entry| end_of(*entry) <= bytes.start);
        let last = self.entries.partition_point(|entry| end_of(*entry) < bytes.end);
        first..(last + 1).min(self.entries.len())
    }

    /// The pieces that a decode of `rows` needs, in runs, sorted; `rows` are those of the image of `size` at `scale`. `None`
    /// if the table is not one of this form.
    pub fn needed(
        &self,
        form: Form,
        size: Size,
        rows: Range<u32>,
        scale: Scale,
    ) -> Option<[Range<usize>; MOST_RUNS]> {
        match form {
            Form::Rgb => {
                let row = 3 * u64::from(size.width);
                let bytes = row * u64::from(rows.start)..row * u64::from(rows.end);
                Some([self.containing(bytes), 0..0, 0..0, 0..0])
            }
            Form::Yuv420 => {
                let [luma, blue, red] = yuv::bytes_of_rows(size, rows);
                Some([self.containing(luma), self.containing(blue), self.containing(red), 0..0])
            }
            Form::Dct => {
                let (mcus, odd) = (self.count().checked_sub(2)? / 2, self.count() % 2 == 1);
                let needed = self.mcu_rows(size, rows, scale, mcus).filter(|_| !odd)?;
                let shifted = |by: usize| needed.start + by..needed.end + by;
                Some(match scale {
                    Scale::Eighth => [0..1, 0..0, 0..0, 0..0],
                    Scale::Half | Scale::Quarter => [0..1, shifted(1), 0..0, 0..0],
                    Scale::Full => [0..1, shifted(1), mcus + 1..mcus + 2, shifted(mcus + 2)],
                })
            }
            Form::Compact => {
                let needed = self.mcu_rows(size, rows, scale, self.count().checked_sub(2)?)?;
                let lines = if scale == Scale::Eighth { 0..0 } else { needed.start + 1..needed.end + 1 };
                Some([0..1, lines, 0..0, 0..0])
            }
        }
    }

    /// The MCU rows that are needed, out of `count`.
    fn mcu_rows(&self, size: Size, rows: Range<u32>, scale: Scale, count: usize) -> Option<Range<usize>> {
        if size.height.div_ceil(self.rows) as usize != count {
            return None;
        }
        let factor = scale.factor() as u32;
        let first =
            rows.start.saturating_mul(factor).saturating_sub(MARGIN).min(size.height.saturating_sub(1));
        let last = rows.end.saturating_mul(factor).saturating_add(MARGIN).min(size.height);
        Some((first / self.rows) as usize..last.div_ceil(self.rows) as usize)
    }
}

fn end_of(entry: [u8; ENTRY]) -> u64 {
    let [a, b, c, d, ..] = entry;
    u64::from(u32::from_le_bytes([a, b, c, d]))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::turbo::{Encoding, encode};
    use crate::{CpuLevel, ImageRef, PixelLayout, Region};

    fn noise(size: Size, seed: u64) -> Vec<u8> {
        let mut state = seed | 1;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 57) as u8
        };
        let at = |i: u64| (i % u64::from(size.width) / 5 + i / u64::from(size.width)) as u8;
        (0..size.area()).flat_map(|i| [at(i), 255 - at(i), 90].map(|v| v.wrapping_add(next()))).collect()
    }

    fn stored(form: Form, size: Size, seed: u64, sampling: (u8, u8)) -> Vec<u8> {
        let pixels = noise(size, seed);
        let file = || encode(&pixels, &Encoding::baseline(size, 3, 92, sampling)).unwrap();
        match form {
            Form::Rgb => pixels,
            Form::Yuv420 => {
                let row = size.width as usize * 3;
                yuv::encode(ImageRef::new(&pixels, size, row, PixelLayout::Rgb).unwrap())
            }
            Form::Dct => dct::encode(&file(), 1 << 30).unwrap(),
            Form::Compact => dct::compact::encode(&file(), 1 << 30).unwrap(),
        }
    }

    fn decode(
        level: CpuLevel,
        form: Form,
        bytes: &[u8],
        (size, region): (Size, Region),
        scale: Scale,
    ) -> Vec<u8> {
        let mut out = Vec::new();
        let mut take = |_: u32, strip: ImageRef<'_>| {
            (0..strip.size.height).for_each(|y| out.extend_from_slice(strip.row(y)));
        };
        match form {
            Form::Rgb => {
                let whole = ImageRef::new(bytes, size, size.width as usize * 3, PixelLayout::Rgb).unwrap();
                take(0, whole.crop(region).unwrap());
            }
            Form::Yuv420 => yuv::Decoder::with_level(level)
                .decode_region(bytes, size, region, PixelLayout::Rgb, &mut take)
                .unwrap(),
            Form::Dct | Form::Compact => dct::Decoder::with_level(level)
                .decode_region(bytes, region, scale, PixelLayout::Rgb, &mut take)
                .unwrap(),
        }
        out
    }

    const FORMS: [Form; 4] = [Form::Rgb, Form::Yuv420, Form::Dct, Form::Compact];
    const SCALES: [Scale; 4] = [Scale::Full, Scale::Half, Scale::Quarter, Scale::Eighth];

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(96))]

        /// A decode does not look at pieces that it does not need.
        #[test]
        fn needed_pieces_are_enough(
            form in prop::sample::select(&FORMS[..]), scale in prop::sample::select(&SCALES[..]),
            sampling in prop::sample::select(&[(1, 1), (2, 1), (2, 2), (1, 2), (4, 1), (1, 4)][..]),
            width in 200u32..330, height in 200u32..330, seed: u64,
            (x, y, right, bottom) in (0.0..1.0, 0.0..1.0, 0.0..1.0, 0.0..1.0),
        ) {
            let size = Size::new(width, height);
            let bytes = stored(form, size, seed, sampling);
            let scale = if matches!(form, Form::Dct | Form::Compact) { scale } else { Scale::Full };
            let scaled = scale.apply(size);
            let span = |from: f64, to: f64, side: u32| {
                let first = (from * f64::from(side)) as u32;
                (first, 1 + (to * f64::from(side - first)) as u32)
            };
            let ((x, w), (y, h)) = (span(x, right, scaled.width), span(y, bottom, scaled.height));
            let region = Region::new(x, y, w.min(scaled.width - x), h.min(scaled.height - y));
            let table = table(form, size, &bytes);
            let parsed = PieceTable::parse(&table, bytes.len() as u64).unwrap();
            let mut sparse = vec![0xA5; bytes.len()];
            let runs = parsed.needed(form, size, region.y..region.bottom(), scale).unwrap();
            let mut last = 0;
            for number in runs.into_iter().flatten() {
                prop_assert!(number == 0 || number > last, "sorted, each once");
                last = number;
                let piece = parsed.piece(number).start as usize..parsed.piece(number).end as usize;
                prop_assert_eq!(checksum::crc32c(&bytes[piece.clone()]), parsed.checksum(number));
                sparse[piece.clone()].copy_from_slice(&bytes[piece]);
            }
            for level in CpuLevel::available() {
                let part = decode(level, form, &sparse, (size, region), scale);
                prop_assert_eq!(part, decode(level, form, &bytes, (size, region), scale));
            }
        }

        #[test]
        fn damaged_tables_never_panic(
            form in prop::sample::select(&FORMS[..]), other in prop::sample::select(&FORMS[..]),
            at in any::<prop::sample::Index>(), flip: u8, cut in any::<prop::sample::Index>(),
        ) {
            let size = Size::new(160, 210);
            let bytes = stored(form, size, 7, (2, 2));
            let mut table = table(form, size, &bytes);
            let place = at.index(table.len());
            table[place] ^= flip;
            for table in [&table[..], &table[..cut.index(table.len())]] {
                let Some(parsed) = PieceTable::parse(table, bytes.len() as u64) else { continue };
                prop_assert_eq!(parsed.piece(parsed.count() - 1).end, bytes.len() as u64);
                for rows in [0..1, 30..90, 209..210] {
                    let Some(runs) = parsed.needed(other, size, rows, Scale::Full) else { continue };
                    prop_assert!(runs.into_iter().flatten().all(|number| number < parsed.count()));
                }
            }
        }
    }

    #[test]
    fn a_crop_of_half_the_rows_needs_about_half_the_bytes() {
        let size = Size::new(500, 375);
        for (form, most) in
            [(Form::Rgb, 0.52), (Form::Yuv420, 0.57), (Form::Dct, 0.62), (Form::Compact, 0.62)]
        {
            let bytes = stored(form, size, 3, (2, 2));
            let table = table(form, size, &bytes);
            assert!(table.len() * 200 < bytes.len(), "{form:?}: {} for {}", table.len(), bytes.len());
            let parsed = PieceTable::parse(&table, bytes.len() as u64).unwrap();
            let runs = parsed.needed(form, size, 90..277, Scale::Full).unwrap();
            let read: u64 =
                runs.into_iter().flatten().map(|n| parsed.piece(n).end - parsed.piece(n).start).sum();
            let share = read as f64 / bytes.len() as f64;
            assert!(share < most && share > 0.49, "{form:?}: {share}");
        }
    }

    #[test]
    fn small_images_have_no_table() {
        let size = Size::new(100, 100);
        assert!(table(Form::Rgb, size, &noise(size, 1)).is_empty());
        // Bytes that are not what they should be have none either.
        assert!(table(Form::Rgb, Size::new(300, 300), &noise(Size::new(300, 299), 1)).is_empty());
        assert!(table(Form::Dct, Size::new(300, 300), &noise(Size::new(300, 300), 1)).is_empty());
    }
}
