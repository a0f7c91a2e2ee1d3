//! Mixes the finished rows of two samples: blends them, or copies boxes from one into the other. Rows contain tensor
//! elements, as [`Finish`](crate::Finish) wrote them.

mod scalar;

use crate::{Dtype, Error, Region, Result, Size, TensorLayout};

/// Layout of a row's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowForm {
    /// Width and height.
    pub size: Size,
    /// Elements per pixel.
    pub channels: usize,
    /// Bytes per element.
    pub bytes: usize,
    /// Whether the elements of a channel are stored together.
    pub planes: bool,
}

impl RowForm {
    /// The form of image rows with this tensor layout.
    pub fn new(size: Size, channels: usize, bytes: usize, layout: TensorLayout) -> Self {
        RowForm { size, channels, bytes, planes: layout == TensorLayout::ChannelsFirst }
    }

    fn length(&self) -> usize {
        self.size.area() as usize * self.channels * self.bytes
    }

    /// Number of planes, and bytes of a pixel in one plane.
    fn parts(&self) -> (usize, usize) {
        if self.planes { (self.channels, self.bytes) } else { (1, self.channels * self.bytes) }
    }
}

/// `a` becomes `own.0` of itself plus the rest of `b`; `b` becomes `own.1` of itself plus the rest of `a`. One pass.
pub fn blend_pair(dtype: Dtype, a: &mut [u8], b: &mut [u8], own: (f32, f32)) -> Result<()> {
    if a.len() != b.len() || !a.len().is_multiple_of(dtype.bytes()) {
        return Err(Error::Misuse(format!("rows of {} and {} bytes cannot be blended", a.len(), b.len())));
    }
    match dtype {
        Dtype::F32 => scalar::blend_f32(a, b, own),
        Dtype::BF16 => scalar::blend_bf16(a, b, own),
        Dtype::U8 => scalar::blend_u8(a, b, own),
        other @ Dtype::F16 => return Err(Error::Misuse(format!("rows of {other:?} cannot be blended"))),
    }
    Ok(())
}

/// Copies each row's box from the other row; the boxes may overlap.
pub fn exchange_boxes(form: &RowForm, a: &mut [u8], b: &mut [u8], boxes: (Region, Region)) -> Result<()> {
    check(form, a)?;
    check(form, b)?;
    let mut kept = Vec::new();
    let (planes, pixel) = form.parts();
    let stride = form.size.width as usize * pixel;
    let plane = form.length() / planes.max(1);
    for number in 0..planes {
        for y in 0..form.size.height {
            let start = number * plane + y as usize * stride;
            let part = |region: Region| {
                let inside = region.width > 0 && (region.y..region.bottom()).contains(&y);
                inside.then(|| start + region.x as usize * pixel..start + region.right() as usize * pixel)
            };
            let (into_a, into_b) = (part(boxes.0), part(boxes.1));
            kept.clear();
            if let Some(range) = &into_b {
                kept.extend_from_slice(&a[range.clone()]);
            }
            if let Some(range) = into_a {
                a[range.clone()].copy_from_slice(&b[range]);
            }
            if let Some(range) = into_b {
                b[range].copy_from_slice(&kept);
            }
        }
    }
    Ok(())
}

/// Copies `region` of `from` into `out`, with its corner at `to`.
pub fn copy_box(form: &RowForm, from: &[u8], region: Region, to: (u32, u32), out: &mut [u8]) -> Result<()> {
    check(form, from)?;
    check(form, out)?;
    if region.width == 0 || region.height == 0 {
        return Ok(());
    }
    region.check_inside(form.size)?;
    Region::new(to.0, to.1, region.width, region.height).check_inside(form.size)?;
    let (planes, pixel) = form.parts();
    let (stride, length) = (form.size.width as usize * pixel, region.width as usize * pixel);
    let plane = form.length() / planes.max(1);
    for number in 0..planes {
        for row in 0..region.height as usize {
            let at = |x: u32, y: u32| number * plane + (y as usize + row) * stride + x as usize * pixel;
            let (source, target) = (at(region.x, region.y), at(to.0, to.1));
            out[target..target + length].copy_from_slice(&from[source..source + length]);
        }
    }
    Ok(())
}

/// Copies the pixels of `from` that `chosen` (one byte per pixel) marks.
pub fn copy_marked(form: &RowForm, from: &[u8], chosen: &[u8], out: &mut [u8]) -> Result<()> {
    check(form, from)?;
    check(form, out)?;
    if chosen.len() as u64 != form.size.area() {
        return Err(Error::Misuse("marks do not have the size of the image".to_owned()));
    }
    let (planes, pixel) = form.parts();
    let plane = form.length() / planes.max(1);
    for number in 0..planes {
        for (at, _) in chosen.iter().enumerate().filter(|(_, mark)| **mark != 0) {
            let place = number * plane + at * pixel;
            out[place..place + pixel].copy_from_slice(&from[place..place + pixel]);
        }
    }
    Ok(())
}

fn check(form: &RowForm, row: &[u8]) -> Result<()> {
    if row.len() == form.length() {
        return Ok(());
    }
    Err(Error::Misuse(format!("a row of {} bytes where {} were expected", row.len(), form.length())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn floats(values: &[f32]) -> Vec<u8> {
        values.iter().flat_map(|value| value.to_le_bytes()).collect()
    }

    #[test]
    fn both_rows_have_their_weight() {
        let (mut a, mut b) = (floats(&[1.0, -2.0, 0.0]), floats(&[3.0, 6.0, 8.0]));
        blend_pair(Dtype::F32, &mut a, &mut b, (0.75, 0.5)).unwrap();
        assert_eq!((a, b), (floats(&[1.5, 0.0, 2.0]), floats(&[2.0, 2.0, 4.0])));
        let (mut a, mut b) = (vec![0, 255, 10], vec![255, 0, 11]);
        blend_pair(Dtype::U8, &mut a, &mut b, (0.25, 1.0)).unwrap();
        assert_eq!((a, b), (vec![191, 64, 11], vec![255, 0, 11]));
        let half = |value: f32| ((value.to_bits() >> 16) as u16).to_le_bytes().to_vec();
        let (mut a, mut b) = (half(1.0), half(3.0));
        blend_pair(Dtype::BF16, &mut a, &mut b, (0.5, 0.5)).unwrap();
        assert_eq!((a, b), (half(2.0), half(2.0)));
        assert!(blend_pair(Dtype::F16, &mut [0, 0], &mut [0, 0], (0.5, 0.5)).is_err());
    }

    #[test]
    fn boxes_are_exchanged_in_both_layouts() {
        let size = Size::new(3, 2);
        for layout in [TensorLayout::ChannelsFirst, TensorLayout::ChannelsLast] {
            let form = RowForm::new(size, 2, 1, layout);
            let at = |channel: usize, x: usize, y: usize| {
                if form.planes { channel * 6 + y * 3 + x } else { (y * 3 + x) * 2 + channel }
            };
            let (mut a, mut b): (Vec<u8>, Vec<u8>) = ((0..12).collect(), (100..112).collect());
            let (first, second) = (a.clone(), b.clone());
            let boxes = (Region::new(0, 0, 2, 1), Region::new(1, 0, 2, 2));
            exchange_boxes(&form, &mut a, &mut b, boxes).unwrap();
            for (channel, x, y) in (0..12).map(|i| (i % 2, i / 2 % 3, i / 6)) {
                let place = at(channel, x, y);
                assert_eq!(a[place], if x < 2 && y == 0 { second[place] } else { first[place] });
                assert_eq!(b[place], if x > 0 { first[place] } else { second[place] });
            }
            let mut out = vec![0; 12];
            copy_box(&form, &first, Region::new(1, 0, 2, 1), (0, 1), &mut out).unwrap();
            assert_eq!(out[at(1, 0, 1)], first[at(1, 1, 0)]);
            assert!(copy_box(&form, &first, Region::new(2, 0, 2, 1), (0, 1), &mut out).is_err());
        }
    }
}
