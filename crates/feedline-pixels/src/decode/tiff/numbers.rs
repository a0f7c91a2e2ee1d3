//! Samples as numbers, without loss: palette indices, greys of any depth, floats, any number of bands.

use super::super::Stored;
use super::CODEC;
use super::colour::{half, palette, small, twelve};
use super::directory::Directory;
use super::layout::{Layout, Meaning, Number as Kind};
use crate::{Number, Result, room};

/// Meaning of the numbers; `None` if they are colours that only make sense together (CMYK, YCbCr, Lab).
pub(super) fn stored(directory: &Directory<'_>, layout: &Layout) -> Result<Option<Stored>> {
    let number = match (layout.bits, layout.number) {
        (64, Kind::Signed | Kind::Unsigned) => return Err(CODEC.unsupported("whole numbers of 64 bits")),
        (16 | 32 | 64, Kind::Float) => Number::F32,
        (12 | 16, Kind::Unsigned) => Number::U16,
        (8 | 16 | 32, Kind::Signed) | (32, Kind::Unsigned) => Number::I32,
        _ => Number::U8,
    };
    let plain = Stored::plain(layout.samples, number);
    Ok(match layout.meaning {
        Meaning::Palette if layout.samples == 1 && layout.bits <= 8 => {
            let colours = palette(directory)?;
            Some(Stored::indexed(colours.iter().map(|[r, g, b]| [*r, *g, *b, 255]).collect()))
        }
        Meaning::WhiteIsZero | Meaning::BlackIsZero => {
            Some(Stored { black_and_white: layout.bits == 1 && layout.samples == 1, ..plain })
        }
        // Four samples are colours and opacity, which may have to be divided by it; `colour` does that.
        Meaning::Rgb if layout.samples > 4 || (layout.bits > 8 && layout.samples >= 3) => Some(plain),
        _ => None,
    })
}

/// Adds `rows` rows of samples to `out`.
pub(super) fn append(
    layout: &Layout,
    stored: &Stored,
    rows: usize,
    band: &[u8],
    out: &mut Vec<u8>,
) -> Result<()> {
    let count = layout.size.width as usize * layout.samples;
    room::reserve(out, count * rows * stored.number.bytes())?;
    let stride = (count * layout.bits).div_ceil(8);
    for row in band.chunks_exact(stride).take(rows) {
        append_row(layout, stored, row, count, out)?;
    }
    Ok(())
}

fn append_row(layout: &Layout, stored: &Stored, row: &[u8], count: usize, out: &mut Vec<u8>) -> Result<()> {
    // As in Pillow, deeper numbers are not inverted.
    let flip = if layout.meaning == Meaning::WhiteIsZero && layout.bits <= 8 { 255 } else { 0 };
    let indices = stored.palette.is_some() || stored.black_and_white;
    let bits = layout.bits;
    match (bits, layout.number) {
        (1 | 2 | 4, _) => {
            let top = (1u16 << bits) as u8 - 1;
            let spread = if indices { 1 } else { 255 / top };
            out.extend((0..count).map(|at| (small(row, at, bits) ^ (flip & top)) * spread));
        }
        (8, Kind::Signed) => out.extend(row.iter().flat_map(|v| i32::from(*v as i8).to_ne_bytes())),
        (8, _) => out.extend(row.iter().map(|value| value ^ flip)),
        (12, _) => out.extend((0..count).flat_map(|at| twelve(row, at).to_ne_bytes())),
        (16, Kind::Signed) => {
            let (values, _) = row.as_chunks::<2>();
            out.extend(values.iter().flat_map(|v| i32::from(i16::from_ne_bytes(*v)).to_ne_bytes()));
        }
        (16, Kind::Float) => {
            out.extend(
                row.as_chunks::<2>().0.iter().flat_map(|v| half(u16::from_ne_bytes(*v)).to_ne_bytes()),
            );
        }
        (64, _) => {
            out.extend(
                row.as_chunks::<8>().0.iter().flat_map(|v| (f64::from_ne_bytes(*v) as f32).to_ne_bytes()),
            );
        }
        (32, Kind::Unsigned) => {
            let high = |four: &&[u8; 4]| u32::from_ne_bytes(**four) > i32::MAX as u32;
            if let Some(four) = row.as_chunks::<4>().0.iter().find(high) {
                let value = u32::from_ne_bytes(*four);
                return Err(CODEC.unsupported(format!("the number {value}, which takes all of 32 bits")));
            }
            out.extend_from_slice(row);
        }
        _ => out.extend_from_slice(row),
    }
    Ok(())
}
