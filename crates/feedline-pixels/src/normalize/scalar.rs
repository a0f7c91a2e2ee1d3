//! The reference: one element at a time.

use super::half::{to_bf16, to_f16};
use super::{Affine, Dtype};

pub(super) fn write_planes(pixels: &[u8], dtype: Dtype, affine: &Affine, planes: [&mut [u8]; 3]) {
    for (channel, plane) in planes.into_iter().enumerate() {
        let step = dtype.bytes();
        for (pixel, element) in pixels.chunks_exact(4).zip(plane.chunks_exact_mut(step)) {
            write_element(pixel[channel], dtype, affine, channel, element);
        }
    }
}

pub(super) fn write_packed(pixels: &[u8], dtype: Dtype, affine: &Affine, row: &mut [u8]) {
    let step = dtype.bytes();
    for (pixel, elements) in pixels.chunks_exact(4).zip(row.chunks_exact_mut(3 * step)) {
        for (channel, element) in elements.chunks_exact_mut(step).enumerate() {
            write_element(pixel[channel], dtype, affine, channel, element);
        }
    }
}

/// Writes only the first channel.
#[inline(always)]
pub(super) fn write_grey(pixels: &[u8], dtype: Dtype, affine: &Affine, row: &mut [u8]) {
    for (pixel, element) in pixels.chunks_exact(4).zip(row.chunks_exact_mut(dtype.bytes())) {
        write_element(pixel[0], dtype, affine, 0, element);
    }
}

/// Inlined into the remainder loops of the vector kernels, where `mul_add` is one instruction rather than a call.
#[inline(always)]
pub(super) fn write_element(byte: u8, dtype: Dtype, affine: &Affine, channel: usize, element: &mut [u8]) {
    let value = || f32::from(byte).mul_add(affine.multiply[channel], affine.add[channel]);
    match dtype {
        Dtype::F32 => element.copy_from_slice(&value().to_ne_bytes()),
        Dtype::F16 => element.copy_from_slice(&to_f16(value()).to_ne_bytes()),
        Dtype::BF16 => element.copy_from_slice(&to_bf16(value()).to_ne_bytes()),
        Dtype::U8 => element[0] = byte,
    }
}
