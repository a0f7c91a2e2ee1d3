//! 128-bit kernel for 64-bit Arm: floats in planes. Half types and packed rows use the reference, which the compiler
//! vectorises well enough there; stable Rust has no half-precision conversion intrinsic.

use std::arch::aarch64::*;

use super::scalar::{self, write_element};
use super::{Affine, Dtype};

/// Number of pixels per step.
const STEP: usize = 8;

/// # Safety
///
/// Needs NEON; planes have one element per pixel.
#[target_feature(enable = "neon")]
pub(super) unsafe fn write_planes(pixels: &[u8], dtype: Dtype, affine: &Affine, planes: [&mut [u8]; 3]) {
    if dtype != Dtype::F32 {
        return scalar::write_planes(pixels, dtype, affine, planes);
    }
    let count = pixels.len() / 4;
    assert!(planes.iter().all(|plane| plane.len() == count * 4));
    let whole = count / STEP * STEP;
    for x in (0..whole).step_by(STEP) {
        // SAFETY: eight pixels are readable at `x`, and eight elements writable in each plane.
        unsafe {
            let channels = vld4_u8(pixels.as_ptr().add(4 * x));
            store(channels.0, affine, 0, planes[0].as_mut_ptr().add(4 * x));
            store(channels.1, affine, 1, planes[1].as_mut_ptr().add(4 * x));
            store(channels.2, affine, 2, planes[2].as_mut_ptr().add(4 * x));
        }
    }
    for (channel, plane) in planes.into_iter().enumerate() {
        for x in whole..count {
            write_element(pixels[4 * x + channel], dtype, affine, channel, &mut plane[4 * x..][..4]);
        }
    }
}

/// # Safety
///
/// Needs NEON and 32 writable bytes.
#[target_feature(enable = "neon")]
#[inline]
unsafe fn store(bytes: uint8x8_t, affine: &Affine, channel: usize, out: *mut u8) {
    let wide = vmovl_u8(bytes);
    let halves = [vmovl_u16(vget_low_u16(wide)), vmovl_high_u16(wide)];
    for (index, half) in halves.into_iter().enumerate() {
        let add = vdupq_n_f32(affine.add[channel]);
        let value = vfmaq_n_f32(add, vcvtq_f32_u32(half), affine.multiply[channel]);
        // SAFETY: the caller guarantees 32 bytes.
        unsafe { vst1q_u8(out.add(16 * index), vreinterpretq_u8_f32(value)) };
    }
}
