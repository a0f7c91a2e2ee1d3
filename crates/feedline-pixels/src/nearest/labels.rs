//! Writes class indices of one, two or four bytes per pixel as elements of a batch's row, in one pass.

use super::Nearest;
use crate::{Error, Geometry, ImageRef, Result, Size};

/// Number type of the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LabelType {
    /// One byte.
    U8,
    /// Four bytes, signed.
    I32,
    /// Eight bytes, signed.
    I64,
}

impl LabelType {
    /// Bytes per number.
    pub const fn bytes(self) -> usize {
        match self {
            LabelType::U8 => 1,
            LabelType::I32 => 4,
            LabelType::I64 => 8,
        }
    }
}

impl Nearest {
    /// Crops, resizes, windows and mirrors `from` into `out`, which has a number of type `kind` for every pixel.
    pub fn resample_labels(
        &mut self,
        geometry: &Geometry,
        from: ImageRef<'_>,
        fill: i64,
        kind: LabelType,
        out: &mut [u8],
    ) -> Result<()> {
        self.find_places(geometry, from)?;
        check_room(geometry.output(), kind, out)?;
        let inside = self.inside_columns();
        let short = |v: [u8; 2]| u16::from_ne_bytes(v);
        let long = |v: [u8; 4]| i32::from_ne_bytes(v);
        let fill_32 = fill as i32;
        match (from.layout.bytes(), kind) {
            (1, LabelType::U8) => self.rows::<1, 1>(from, fill as u8, inside, |v| v[0].to_le_bytes(), out),
            (1, LabelType::I32) => {
                self.rows::<1, 4>(from, fill_32, inside, |v| i32::from(v[0]).to_le_bytes(), out);
            }
            (1, LabelType::I64) => {
                self.rows::<1, 8>(from, fill, inside, |v| i64::from(v[0]).to_le_bytes(), out);
            }
            (2, LabelType::I32) => {
                self.rows::<2, 4>(from, fill_32, inside, |v| i32::from(short(v)).to_le_bytes(), out);
            }
            (2, LabelType::I64) => {
                self.rows::<2, 8>(from, fill, inside, |v| i64::from(short(v)).to_le_bytes(), out);
            }
            (4, LabelType::I32) => {
                self.rows::<4, 4>(from, fill_32, inside, |v| long(v).to_le_bytes(), out);
            }
            (4, LabelType::I64) => {
                self.rows::<4, 8>(from, fill, inside, |v| i64::from(long(v)).to_le_bytes(), out);
            }
            (bytes, _) => return Err(narrow(bytes, kind)),
        }
        Ok(())
    }

    /// The columns of the result that show the source; they are contiguous.
    fn inside_columns(&self) -> std::ops::Range<usize> {
        let first = self.columns.iter().position(Option::is_some).unwrap_or(0);
        let last = self.columns.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
        first..last
    }

    fn rows<const FROM: usize, const TO: usize>(
        &mut self,
        from: ImageRef<'_>,
        fill: impl Bytes<TO>,
        inside: std::ops::Range<usize>,
        convert: impl Fn([u8; FROM]) -> [u8; TO] + Copy,
        out: &mut [u8],
    ) {
        let (width, fill) = (self.columns.len(), fill.bytes());
        let positions = &mut self.positions;
        positions.clear();
        positions.extend(self.columns[inside.clone()].iter().flatten());
        let straight = positions.windows(2).all(|pair| pair[1] == pair[0] + 1);
        let out = out.as_chunks_mut::<TO>().0;
        let mut made: Option<u32> = None;
        for (at, row) in self.rows.iter().enumerate() {
            let (before, rest) = out.split_at_mut(at * width);
            let line = &mut rest[..width];
            let Some(row) = *row else {
                line.fill(fill);
                continue;
            };
            if made == Some(row) {
                // When enlarging: the row above has the same source row.
                line.copy_from_slice(&before[(at - 1) * width..]);
                continue;
            }
            made = Some(row);
            line[..inside.start].fill(fill);
            line[inside.end..].fill(fill);
            let (line, source) = (&mut line[inside.clone()], from.row(row).as_chunks::<FROM>().0);
            match (straight, positions.first()) {
                (true, Some(first)) => widen(&source[*first as usize..], line, convert),
                _ => gather(source, positions, line, convert),
            }
        }
    }
}

fn widen<const FROM: usize, const TO: usize>(
    source: &[[u8; FROM]],
    line: &mut [[u8; TO]],
    convert: impl Fn([u8; FROM]) -> [u8; TO],
) {
    for (to, from) in line.iter_mut().zip(source) {
        *to = convert(*from);
    }
}

fn gather<const FROM: usize, const TO: usize>(
    source: &[[u8; FROM]],
    positions: &[u32],
    line: &mut [[u8; TO]],
    convert: impl Fn([u8; FROM]) -> [u8; TO],
) {
    for (to, position) in line.iter_mut().zip(positions) {
        *to = convert(source[*position as usize]);
    }
}

/// Converts dense numbers of one, two or four bytes to numbers of type `kind`.
pub fn widen_labels(from: ImageRef<'_>, kind: LabelType, out: &mut [u8]) -> Result<()> {
    let whole = Geometry::identity(from.size);
    Nearest::default().resample_labels(&whole, from, 0, kind, out)
}

/// Bytes of a number in the result.
trait Bytes<const N: usize> {
    fn bytes(self) -> [u8; N];
}

impl Bytes<1> for u8 {
    fn bytes(self) -> [u8; 1] {
        [self]
    }
}

impl Bytes<4> for i32 {
    fn bytes(self) -> [u8; 4] {
        self.to_le_bytes()
    }
}

impl Bytes<8> for i64 {
    fn bytes(self) -> [u8; 8] {
        self.to_le_bytes()
    }
}

fn check_room(size: Size, kind: LabelType, out: &[u8]) -> Result<()> {
    if out.len() as u64 == size.area() * kind.bytes() as u64 {
        return Ok(());
    }
    Err(Error::Misuse(format!("{} bytes for a mask of {}x{}", out.len(), size.width, size.height)))
}

fn narrow(bytes: usize, kind: LabelType) -> Error {
    Error::Misuse(format!("numbers of {} bits do not fit in {kind:?}; use a wider dtype", bytes * 8))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PixelLayout, Region, Window};

    #[test]
    fn values_equal_plain_resampling() {
        let image = Size::new(23, 17);
        let mut geometry = Geometry::crop_resize(image, Region::new(3, 2, 17, 13), Size::new(31, 29));
        let windows = [Window::whole(geometry.resized), Window::new(-4, 2, 40, 12), Window::new(50, 0, 3, 3)];
        for (layout, flips) in
            [(PixelLayout::Index8, false), (PixelLayout::Grey16, true), (PixelLayout::GreyF32, true)]
        {
            let bytes: Vec<u8> = match layout.bytes() {
                1 => (0..image.area()).map(|i| (i % 251) as u8).collect(),
                2 => (0..image.area()).flat_map(|i| (i as u16 * 7).to_ne_bytes()).collect(),
                _ => (0..image.area()).flat_map(|i| (i as i32 * 70_000).to_ne_bytes()).collect(),
            };
            let from = ImageRef::new(&bytes, image, image.width as usize * layout.bytes(), layout).unwrap();
            for window in windows {
                geometry.window = window;
                (geometry.flip_horizontal, geometry.flip_vertical) = (flips, flips);
                let (mut nearest, mut plain) = (Nearest::default(), Vec::new());
                let fill = 9i32.to_ne_bytes();
                nearest.resample(&geometry, from, &fill[..layout.bytes()], &mut plain).unwrap();
                let mut out = vec![1; geometry.output().area() as usize * 8];
                nearest.resample_labels(&geometry, from, 9, LabelType::I64, &mut out).unwrap();
                let wide = plain.chunks_exact(layout.bytes()).map(|pixel| match *pixel {
                    [a] => i64::from(a),
                    [a, b] => i64::from(u16::from_ne_bytes([a, b])),
                    [a, b, c, d] => i64::from(i32::from_ne_bytes([a, b, c, d])),
                    _ => unreachable!(),
                });
                let expected: Vec<u8> = wide.flat_map(i64::to_le_bytes).collect();
                assert!(out == expected, "{layout:?} {window:?}");
            }
        }
    }

    #[test]
    fn numbers_that_do_not_fit_are_refused() {
        let bytes = [0; 2];
        let from = ImageRef::new(&bytes, Size::new(1, 1), 2, PixelLayout::Grey16).unwrap();
        assert!(widen_labels(from, LabelType::U8, &mut [0]).is_err());
    }
}
