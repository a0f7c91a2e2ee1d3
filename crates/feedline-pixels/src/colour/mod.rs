//! Operations on single pixels: tables, blends with grey, hue. They run on finished rows while those are
//! in the cache. Arithmetic is Pillow's, which torchvision uses on PIL images: 8 bits in, single precision, truncated.

mod hue;
mod scalar;

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;

use crate::CpuLevel;
use crate::cpu::dispatch;
use crate::point::Point;

/// A table from byte to byte, for all channels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table(pub(crate) [u8; 256], Form);

impl Table {
    /// Creates the table of a function of the byte.
    pub fn of(function: impl Fn(u8) -> u8) -> Self {
        Table::new(std::array::from_fn(|x| function(x as u8)))
    }

    /// Creates a table with these entries.
    pub fn new(entries: [u8; 256]) -> Self {
        Table(entries, Form::of(&entries))
    }

    /// Applies this table, then `next`.
    pub fn then(&self, next: &Table) -> Table {
        Table::new(self.0.map(|x| next.0[x as usize]))
    }
}

/// Tables that are faster to compute than to look up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// `(x & keep) ^ flip`: posterise, invert.
    Bits { keep: u8, flip: u8 },
    /// `x ^ 255` from this value on: solarise.
    Solarise(u8),
    /// Any other table.
    Any,
}

impl Form {
    fn of(table: &[u8; 256]) -> Self {
        let flip = table[0];
        let keep = table[255] ^ flip;
        let is =
            |function: &dyn Fn(u8) -> u8| table.iter().zip(0..=255).all(|(entry, x)| *entry == function(x));
        if is(&|x| (x & keep) ^ flip) {
            return Form::Bits { keep, flip };
        }
        // Values below the threshold are unchanged, so the first changed one is the threshold.
        let first = (0..=255).find(|x: &u8| table[*x as usize] != *x).unwrap_or(0);
        if is(&|x| if x >= first { !x } else { x }) { Form::Solarise(first) } else { Form::Any }
    }
}

/// `from + factor · (to - from)` as Pillow blends: single precision, clamped, truncated.
#[inline(always)]
pub(crate) fn blend(from: i32, to: i32, factor: f32) -> u8 {
    truncated(from as f32 + factor * (to - from) as f32)
}

/// Converts a float to a byte: clamped, then truncated.
#[inline(always)]
#[expect(clippy::manual_clamp, reason = "`clamp` keeps a NaN")]
pub(crate) fn truncated(value: f32) -> u8 {
    let clamped = value.max(0.0).min(255.0);
    // SAFETY: `max` gives its other argument for NaN, so the value is a number from 0 to 255.
    unsafe { clamped.to_int_unchecked::<i32>() as u8 }
}

/// Pillow's grey of a colour: ITU-R 601-2 luma in 16 bits of fixed point, rounded.
#[inline(always)]
pub(crate) fn grey(red: u32, green: u32, blue: u32) -> u32 {
    (red * 19595 + green * 38470 + blue * 7471 + 0x8000) >> 16
}

/// One operation on the pixels of a row.
#[expect(
    clippy::large_enum_variant,
    reason = "a program has a few of them, and a box would cost a look per row"
)]
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum RowOp {
    /// Maps every byte through a table: brightness, gamma, invert, posterise, solarise.
    Table(Table),
    /// Blends with the pixel's grey: 0 is grey, 1 the unchanged pixel.
    Saturation(f32),
    /// Grey in all channels.
    Grey,
    /// Rotates the hue by this many 256ths of the colour circle, through 8-bit HSV.
    Hue(u8),
    /// Channel `i` of the result is channel `order[i]`.
    Permute([u8; 3]),
    /// One of the less common operations.
    Point(Point),
}

impl RowOp {
    /// Applies the operation to pixels of four bytes.
    pub(crate) fn apply(&self, level: CpuLevel, pixels: &mut [u8]) {
        match self {
            RowOp::Table(table) => look_up(level, pixels, table),
            RowOp::Saturation(factor) => dispatch!(level, saturation(pixels, *factor)),
            RowOp::Grey => dispatch!(level, greys(pixels)),
            RowOp::Hue(shift) => dispatch!(avx512: level, hue(pixels, *shift)),
            RowOp::Permute(order) => dispatch!(level, permute(pixels, *order)),
            RowOp::Point(point) => point.apply(level, pixels),
        }
    }
}

impl RowOp {
    /// Whether [`apply_packed`](Self::apply_packed) supports the operation.
    pub(crate) fn takes_packed(&self) -> bool {
        matches!(self, RowOp::Table(_) | RowOp::Grey | RowOp::Saturation(_))
    }

    /// Applies the operation to pixels of three bytes and writes them to `out`.
    pub(crate) fn apply_packed(&self, level: CpuLevel, source: &[u8], out: &mut [u8]) {
        assert_eq!(source.len(), out.len());
        match self {
            RowOp::Grey => dispatch!(level, greys_packed(source, out)),
            RowOp::Saturation(factor) => dispatch!(level, saturation_packed(source, *factor, out)),
            RowOp::Table(Table(_, Form::Bits { keep, flip })) => {
                dispatch!(level, bits_into(source, *keep, *flip, out));
            }
            other => {
                out.copy_from_slice(source);
                other.apply(level, out);
            }
        }
    }
}

/// Maps every byte through a table, in the fastest way for this table.
fn look_up(level: CpuLevel, bytes: &mut [u8], table: &Table) {
    match table.1 {
        Form::Bits { keep: 255, flip: 0 } => {}
        Form::Bits { keep, flip } => dispatch!(level, bits(bytes, keep, flip)),
        Form::Solarise(from) => dispatch!(level, solarise(bytes, from)),
        Form::Any => dispatch!(avx512: level, table(bytes, &table.0)),
    }
}

/// Maps the first three bytes of every four, each through its own table.
pub(crate) fn look_up_channels(level: CpuLevel, pixels: &mut [u8], tables: &[Table; 3]) {
    dispatch!(avx512: level, tables(pixels, tables));
}

/// Minimum and maximum of each of the first three channels of pixels of four bytes.
pub(crate) fn extremes(level: CpuLevel, pixels: &[u8], found: &mut [[u8; 2]; 3]) {
    let [least, most] = dispatch!(level, extremes(pixels));
    for (channel, [low, high]) in found.iter_mut().enumerate() {
        for at in (channel..32).step_by(4) {
            *low = least[at].min(*low);
            *high = most[at].max(*high);
        }
    }
}

/// The sum of the greys of pixels of four bytes.
pub(crate) fn grey_sum(level: CpuLevel, pixels: &[u8]) -> u64 {
    dispatch!(level, grey_sum(pixels))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(pixels: usize) -> Vec<u8> {
        (0..pixels as u32 * 4).map(|i| (i.wrapping_mul(2654435761) >> 21) as u8).collect()
    }

    #[test]
    fn cpu_levels_agree_bit_for_bit() {
        let ops = [
            RowOp::Table(Table::of(|x| x.wrapping_mul(7) ^ 0x5A)),
            RowOp::Table(Table::of(|x| x & 0xE0)),
            RowOp::Table(Table::of(|x| !x)),
            RowOp::Table(Table::of(|x| if x >= 100 { !x } else { x })),
            RowOp::Saturation(1.7),
            RowOp::Saturation(0.3),
            RowOp::Grey,
            RowOp::Hue(40),
            RowOp::Permute([2, 0, 1]),
        ];
        for op in &ops {
            for width in [0, 1, 3, 7, 8, 9, 31, 33, 200] {
                let mut expected = noise(width);
                op.apply(CpuLevel::Scalar, &mut expected);
                for level in CpuLevel::available() {
                    let mut found = noise(width);
                    op.apply(level, &mut found);
                    let same =
                        found.chunks_exact(4).zip(expected.chunks_exact(4)).all(|(a, b)| a[..3] == b[..3]);
                    assert!(same, "{op:?} {level:?} {width}");
                }
            }
        }
    }

    #[test]
    fn packed_pixels_give_the_same_result() {
        let ops = [
            RowOp::Table(Table::of(|x| x.wrapping_mul(7) ^ 0x5A)),
            RowOp::Table(Table::of(|x| (x & 0xE0) ^ 0x11)),
            RowOp::Table(Table::of(|x| if x >= 100 { !x } else { x })),
            RowOp::Grey,
            RowOp::Saturation(1.7),
            RowOp::Saturation(0.3),
        ];
        for op in &ops {
            assert!(op.takes_packed());
            for width in [0, 1, 2, 5, 8, 9, 11, 31, 200] {
                let mut expected = noise(width);
                let packed: Vec<u8> = expected.chunks_exact(4).flat_map(|p| [p[0], p[1], p[2]]).collect();
                op.apply(CpuLevel::Scalar, &mut expected);
                let expected: Vec<u8> = expected.chunks_exact(4).flat_map(|p| [p[0], p[1], p[2]]).collect();
                for level in CpuLevel::available() {
                    let mut found = vec![0; packed.len()];
                    op.apply_packed(level, &packed, &mut found);
                    assert!(found == expected, "{op:?} {level:?} {width}");
                }
            }
        }
    }

    #[test]
    fn every_form_equals_its_table() {
        let form = |function: fn(u8) -> u8| Form::of(&Table::of(function).0);
        assert_eq!(form(|x| x), Form::Bits { keep: 255, flip: 0 });
        assert_eq!(form(|x| !x), Form::Bits { keep: 255, flip: 255 });
        assert_eq!(form(|x| x & 0xF0), Form::Bits { keep: 0xF0, flip: 0 });
        assert_eq!(form(|_| 7), Form::Bits { keep: 0, flip: 7 });
        assert_eq!(form(|x| if x >= 128 { !x } else { x }), Form::Solarise(128));
        assert_eq!(form(|x| if x == 255 { 0 } else { x }), Form::Solarise(255));
        assert_eq!(form(|x| x / 2), Form::Any);
    }

    #[test]
    fn channels_have_their_own_tables() {
        let tables = [Table::of(|x| x / 2), Table::of(|x| !x), Table::of(|x| x.wrapping_mul(5))];
        let mut expected = noise(77);
        for pixel in expected.chunks_exact_mut(4) {
            for channel in 0..3 {
                pixel[channel] = tables[channel].0[pixel[channel] as usize];
            }
        }
        for level in CpuLevel::available() {
            let mut found = noise(77);
            look_up_channels(level, &mut found, &tables);
            assert!(found == expected, "{level:?}");
            assert_eq!(grey_sum(level, &found), grey_sum(CpuLevel::Scalar, &found), "{level:?}");
        }
    }

    /// Two rotations of every possible colour: where Pillow uses double precision, the vector kernels compute
    /// differently.
    #[test]
    fn every_colour_is_rotated_equally() {
        let mut expected = vec![0; 256 * 256 * 4];
        for red in 0..=255u8 {
            for (at, pixel) in expected.chunks_exact_mut(4).enumerate() {
                pixel.copy_from_slice(&[red, (at >> 8) as u8, at as u8, 255]);
            }
            let before = expected.clone();
            for shift in [0, red.wrapping_mul(37) | 1] {
                expected.copy_from_slice(&before);
                RowOp::Hue(shift).apply(CpuLevel::Scalar, &mut expected);
                for level in CpuLevel::available() {
                    let mut found = before.clone();
                    RowOp::Hue(shift).apply(level, &mut found);
                    assert!(found == expected, "{level:?} {red} {shift}");
                }
            }
        }
    }

    #[test]
    fn tables_can_be_composed() {
        let (first, second) = (Table::of(|x| x / 2), Table::of(|x| 255 - x));
        assert_eq!(first.then(&second).0[100], 205);
    }

    #[test]
    fn without_saturation_everything_is_grey() {
        let (mut grey, mut unsaturated) = (noise(50), noise(50));
        RowOp::Grey.apply(CpuLevel::Scalar, &mut grey);
        RowOp::Saturation(0.0).apply(CpuLevel::Scalar, &mut unsaturated);
        assert_eq!(grey, unsaturated);
    }
}
