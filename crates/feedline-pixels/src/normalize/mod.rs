//! The output stage: writes rows of pixels as rows of a tensor (values, type and layout). Flips are done before.
//!
//! **Values.** torchvision computes `(x / 255 - mean) / std` with three roundings; here it is `x · a + b` with
//! `a = 1 / (255 · std)` and `b = -mean / std` (from double precision) and one fused rounding. With ImageNet's numbers
//! the two differ by at most 4.8e-7 (two units in the last place of 2.0) over all 256 values and three channels, and
//! each is within 3.4e-7 of the exact value.
//! Half types are rounded to nearest even from that single-precision value, at every [`CpuLevel`] alike.

mod half;
mod scalar;

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "aarch64")]
mod neon;

use crate::cpu::dispatch;
use crate::{Channels, CpuLevel, Error, Region, Result, Size};

/// Order of a tensor's dimensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TensorLayout {
    /// Three planes: channel, row, column.
    ChannelsFirst,
    /// As images are stored: row, column, channel.
    ChannelsLast,
}

/// Type of a tensor's elements, in the machine's byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dtype {
    /// 32-bit float.
    F32,
    /// IEEE 16-bit float.
    F16,
    /// The upper half of a 32-bit float.
    BF16,
    /// Bytes, as decoded.
    U8,
}

impl Dtype {
    /// Bytes per element.
    pub const fn bytes(self) -> usize {
        match self {
            Dtype::F32 => 4,
            Dtype::F16 | Dtype::BF16 => 2,
            Dtype::U8 => 1,
        }
    }
}

/// Mean and standard deviation per channel, in the scale of the values they are applied to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Normalise {
    /// Subtracted.
    pub mean: [f32; 3],
    /// Divided by; not zero.
    pub std: [f32; 3],
}

impl Normalise {
    /// The numbers of nearly every ImageNet recipe.
    pub const IMAGENET: Normalise = Normalise { mean: [0.485, 0.456, 0.406], std: [0.229, 0.224, 0.225] };
}

/// How pixel values are written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Finish {
    /// Order of dimensions.
    pub layout: TensorLayout,
    /// Type of elements. `U8` takes neither `scale` nor `normalise`.
    pub dtype: Dtype,
    /// Divide by 255 first, as `ToTensor` does.
    pub scale: bool,
    /// Then subtract and divide.
    pub normalise: Option<Normalise>,
    /// Channels to write. Grey is the first channel of pixels that are already grey.
    pub channels: Channels,
}

impl Finish {
    /// Bytes as decoded.
    pub const fn bytes(layout: TensorLayout) -> Self {
        Finish { layout, dtype: Dtype::U8, scale: false, normalise: None, channels: Channels::Rgb }
    }

    /// `ToTensor` + `Normalize`: floats, channels first.
    pub const fn tensor(dtype: Dtype, normalise: Normalise) -> Self {
        Finish {
            layout: TensorLayout::ChannelsFirst,
            dtype,
            scale: true,
            normalise: Some(normalise),
            channels: Channels::Rgb,
        }
    }

    /// Whether results are interleaved red, green and blue bytes, as in images.
    pub fn is_packed_bytes(&self) -> bool {
        self.dtype == Dtype::U8 && self.layout == TensorLayout::ChannelsLast && self.channels == Channels::Rgb
    }

    /// Bytes of an output of this size.
    pub const fn output_bytes(&self, size: Size) -> usize {
        size.area() as usize * self.channels.count() * self.dtype.bytes()
    }

    /// Dimensions of an output of this size.
    pub const fn shape(&self, size: Size) -> [u64; 3] {
        let (height, width, channels) = (size.height as u64, size.width as u64, self.channels.count() as u64);
        match self.layout {
            TensorLayout::ChannelsFirst => [channels, height, width],
            TensorLayout::ChannelsLast => [height, width, channels],
        }
    }

    /// Returns an error if the values contradict each other.
    pub fn check(&self) -> Result<()> {
        if self.dtype == Dtype::U8 && (self.scale || self.normalise.is_some()) {
            return Err(Error::Misuse("uint8 output cannot be scaled or normalised".into()));
        }
        let Some(normalise) = self.normalise else { return Ok(()) };
        let usable =
            normalise.std.iter().all(|std| std.is_normal()) && normalise.mean.iter().all(|m| m.is_finite());
        if usable {
            return Ok(());
        }
        Err(Error::Misuse(format!(
            "cannot normalise by mean {:?} and std {:?}",
            normalise.mean, normalise.std
        )))
    }

    /// Overwrites a box of a finished output of this size with `value(channel)`, called channel by channel, row by row,
    /// in any layout.
    pub fn overwrite(
        &self,
        out: &mut [u8],
        size: Size,
        region: Region,
        mut value: impl FnMut(usize) -> f32,
    ) -> Result<()> {
        region.check_inside(size)?;
        if out.len() != self.output_bytes(size) {
            return Err(Error::Misuse(format!("{} bytes are not an output of this form", out.len())));
        }
        let (count, bytes) = (self.channels.count(), self.dtype.bytes());
        let (width, height) = (size.width as usize, size.height as usize);
        // Distance between two elements of a channel, in elements.
        let (plane, step) = match self.layout {
            TensorLayout::ChannelsFirst => (width * height, 1),
            TensorLayout::ChannelsLast => (1, count),
        };
        for channel in 0..count {
            for y in region.y as usize..region.bottom() as usize {
                let first = channel * plane + (y * width + region.x as usize) * step;
                let row = &mut out[first * bytes..];
                let elements = row.chunks_mut(step * bytes).take(region.width as usize);
                match self.dtype {
                    Dtype::F32 => elements
                        .for_each(|element| element[..4].copy_from_slice(&value(channel).to_ne_bytes())),
                    Dtype::F16 => elements.for_each(|element| {
                        element[..2].copy_from_slice(&half::to_f16(value(channel)).to_ne_bytes());
                    }),
                    Dtype::BF16 => elements.for_each(|element| {
                        element[..2].copy_from_slice(&half::to_bf16(value(channel)).to_ne_bytes());
                    }),
                    Dtype::U8 => {
                        elements.for_each(|element| element[0] = value(channel).clamp(0.0, 255.0) as u8);
                    }
                }
            }
        }
        Ok(())
    }

    fn affine(&self) -> Affine {
        let unit = if self.scale { 1.0 / 255.0 } else { 1.0 };
        let Some(Normalise { mean, std }) = self.normalise else {
            return Affine { multiply: [unit as f32; 3], add: [0.0; 3] };
        };
        Affine {
            multiply: std.map(|std| (unit / f64::from(std)) as f32),
            add: std::array::from_fn(|c| (-f64::from(mean[c]) / f64::from(std[c])) as f32),
        }
    }
}

/// `x · multiply + add`, rounded once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Affine {
    pub(crate) multiply: [f32; 3],
    pub(crate) add: [f32; 3],
}

/// Writes rows into one output of the batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Writer {
    level: CpuLevel,
    layout: TensorLayout,
    dtype: Dtype,
    affine: Affine,
    size: Size,
    channels: Channels,
}

impl Writer {
    pub(crate) fn new(level: CpuLevel, finish: &Finish, size: Size) -> Self {
        let Finish { layout, dtype, channels, .. } = *finish;
        Writer { level, layout, dtype, affine: finish.affine(), size, channels }
    }

    /// Whether rows are interleaved red, green and blue bytes.
    pub(crate) fn is_packed_bytes(&self) -> bool {
        self.dtype == Dtype::U8 && self.layout == TensorLayout::ChannelsLast && self.channels == Channels::Rgb
    }

    /// Writes row `y`: `pixels` are its pixels, four bytes each, and `out` is the whole output.
    #[inline]
    pub(crate) fn write(&self, y: u32, pixels: &[u8], out: &mut [u8]) {
        let width = self.size.width as usize;
        let row = width * self.dtype.bytes();
        assert_eq!(pixels.len(), width * 4);
        if self.channels == Channels::Grey {
            // A single plane is the same in both layouts.
            let out = &mut out[y as usize * row..][..row];
            return dispatch!(self.level, write_grey(pixels, self.dtype, &self.affine, out));
        }
        match self.layout {
            TensorLayout::ChannelsFirst => {
                let plane = row * self.size.height as usize;
                let mut rest = out;
                let planes = [(); 3].map(|()| {
                    let (first, others) = std::mem::take(&mut rest).split_at_mut(plane);
                    rest = others;
                    &mut first[y as usize * row..][..row]
                });
                self.write_planes(pixels, planes);
            }
            TensorLayout::ChannelsLast => {
                self.write_packed(pixels, &mut out[y as usize * row * 3..][..row * 3]);
            }
        }
    }

    fn write_planes(&self, pixels: &[u8], planes: [&mut [u8]; 3]) {
        match self.level {
            CpuLevel::Scalar => scalar::write_planes(pixels, self.dtype, &self.affine, planes),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: `Avx2` (which includes FMA and F16C) is only ever passed down after detection.
            CpuLevel::Avx2 | CpuLevel::Avx512 => unsafe {
                avx2::write_planes(pixels, self.dtype, &self.affine, planes);
            },
            #[cfg(target_arch = "aarch64")]
            // SAFETY: every aarch64 CPU has NEON.
            CpuLevel::Neon => unsafe { neon::write_planes(pixels, self.dtype, &self.affine, planes) },
        }
    }

    fn write_packed(&self, pixels: &[u8], row: &mut [u8]) {
        match self.level {
            CpuLevel::Scalar => scalar::write_packed(pixels, self.dtype, &self.affine, row),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: as in `write_planes`.
            CpuLevel::Avx2 | CpuLevel::Avx512 => unsafe {
                avx2::write_packed(pixels, self.dtype, &self.affine, row);
            },
            #[cfg(target_arch = "aarch64")]
            CpuLevel::Neon => scalar::write_packed(pixels, self.dtype, &self.affine, row),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every byte value in every channel, through every type and layout.
    fn ramp() -> Vec<u8> {
        (0..256u32 + 5).flat_map(|x| [x as u8, (x * 7 + 3) as u8, 255 - x as u8, x as u8]).collect()
    }

    fn written(level: CpuLevel, finish: &Finish) -> Vec<u8> {
        let pixels = ramp();
        let size = Size::new(pixels.len() as u32 / 4, 2);
        let mut out = vec![0xAA; finish.output_bytes(size)];
        let writer = Writer::new(level, finish, size);
        writer.write(0, &pixels, &mut out);
        writer.write(1, &pixels, &mut out);
        out
    }

    #[test]
    fn cpu_levels_agree_bit_for_bit() {
        let odd = Normalise { mean: [0.1, -3.0, 1e-9], std: [1e-7, 2.5e4, -0.3] };
        for layout in [TensorLayout::ChannelsFirst, TensorLayout::ChannelsLast] {
            for dtype in [Dtype::F32, Dtype::F16, Dtype::BF16, Dtype::U8] {
                for normalise in [None, Some(Normalise::IMAGENET), Some(odd)] {
                    let float = dtype != Dtype::U8;
                    for channels in [Channels::Rgb, Channels::Grey] {
                        let normalise = normalise.filter(|_| float);
                        let finish = Finish { layout, dtype, scale: float, normalise, channels };
                        let expected = written(CpuLevel::Scalar, &finish);
                        for level in CpuLevel::available() {
                            assert!(written(level, &finish) == expected, "{level:?} {finish:?}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn values_equal_torchvision_within_two_units() {
        let finish = Finish::tensor(Dtype::F32, Normalise::IMAGENET);
        let out = written(CpuLevel::detect(), &finish);
        let values: Vec<f32> =
            out.chunks_exact(4).map(|b| f32::from_ne_bytes(b.try_into().unwrap())).collect();
        let pixels = ramp();
        let width = pixels.len() / 4;
        let mut worst = 0.0f32;
        for (x, pixel) in pixels.chunks_exact(4).enumerate() {
            for channel in 0..3 {
                let Normalise { mean, std } = Normalise::IMAGENET;
                let expected = (f32::from(pixel[channel]) / 255.0 - mean[channel]) / std[channel];
                worst = worst.max((values[channel * 2 * width + x] - expected).abs());
            }
        }
        assert!(worst <= 4.8e-7, "{worst:e}");
    }

    #[test]
    fn boxes_are_overwritten_in_both_layouts() {
        let (size, region) = (Size::new(5, 4), Region::new(1, 2, 3, 2));
        let made = |layout| {
            let finish = Finish { layout, ..Finish::tensor(Dtype::F32, Normalise::IMAGENET) };
            let mut out = vec![0; finish.output_bytes(size)];
            let mut next = 0.0;
            let count = |_| {
                next += 1.0;
                next
            };
            finish.overwrite(&mut out, size, region, count).unwrap();
            out.chunks_exact(4).map(|b| f32::from_ne_bytes(b.try_into().unwrap())).collect::<Vec<_>>()
        };
        let (first, last) = (made(TensorLayout::ChannelsFirst), made(TensorLayout::ChannelsLast));
        for channel in 0..3 {
            for pixel in 0..20 {
                assert_eq!(first[channel * 20 + pixel], last[pixel * 3 + channel]);
            }
        }
        assert_eq!((first[0], first[11], first.iter().copied().fold(0.0, f32::max)), (0.0, 1.0, 18.0));
    }

    #[test]
    fn nonsense_is_refused() {
        let zero = Normalise { mean: [0.0; 3], std: [1.0, 0.0, 1.0] };
        assert!(Finish::tensor(Dtype::F32, zero).check().is_err());
        assert!(Finish::tensor(Dtype::U8, Normalise::IMAGENET).check().is_err());
        assert!(Finish::bytes(TensorLayout::ChannelsLast).check().is_ok());
    }
}
