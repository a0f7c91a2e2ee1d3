//! Eight pixels at a time; the interleaving is in the store instruction. Factors are split as in the AVX2 kernel.

use std::arch::aarch64::*;

use crate::PixelLayout;

const STEP: usize = 8;

#[target_feature(enable = "neon")]
pub(super) fn ycc(rows: [&[u8]; 3], layout: PixelLayout, out: &mut [u8]) {
    let size = layout.bytes();
    let count = out.len() / size;
    let whole = count / STEP * STEP;
    for i in (0..whole).step_by(STEP) {
        let pixels = convert(rows.map(|row| load(&row[i..i + STEP])));
        store(pixels, layout, &mut out[i * size..(i + STEP) * size]);
    }
    if whole < count {
        let rest = rows.map(|row| {
            let mut padded = [0; STEP];
            padded[..count - whole].copy_from_slice(&row[whole..count]);
            load(&padded)
        });
        let mut bytes = [0; STEP * 4];
        store(convert(rest), layout, &mut bytes[..STEP * size]);
        let tail = &mut out[whole * size..];
        let length = tail.len();
        tail.copy_from_slice(&bytes[..length]);
    }
}

#[target_feature(enable = "neon")]
fn load(samples: &[u8]) -> uint8x8_t {
    let samples = &samples[..STEP];
    // SAFETY: eight readable bytes.
    unsafe { vld1_u8(samples.as_ptr()) }
}

#[target_feature(enable = "neon")]
fn store([red, green, blue]: [uint8x8_t; 3], layout: PixelLayout, out: &mut [u8]) {
    let out = &mut out[..STEP * layout.bytes()];
    // SAFETY: 24 or 32 writable bytes, as many as the layout's eight pixels take.
    unsafe {
        match layout {
            PixelLayout::Rgb => vst3_u8(out.as_mut_ptr(), uint8x8x3_t(red, green, blue)),
            _ => vst4_u8(out.as_mut_ptr(), uint8x8x4_t(red, green, blue, vdup_n_u8(255))),
        }
    }
}

#[target_feature(enable = "neon")]
fn centred(v: uint8x8_t) -> int16x8_t {
    vsubq_s16(vreinterpretq_s16_u16(vmovl_u8(v)), vdupq_n_s16(128))
}

/// `(a * x + b * y) / 65536`, rounded.
#[target_feature(enable = "neon")]
fn scaled(a: int16x8_t, x: i16, b: int16x8_t, y: i16) -> int16x8_t {
    let low = vmlal_n_s16(vmull_n_s16(vget_low_s16(a), x), vget_low_s16(b), y);
    let high = vmlal_n_s16(vmull_n_s16(vget_high_s16(a), x), vget_high_s16(b), y);
    vcombine_s16(vrshrn_n_s32::<16>(low), vrshrn_n_s32::<16>(high))
}

#[target_feature(enable = "neon")]
fn convert([y, cb, cr]: [uint8x8_t; 3]) -> [uint8x8_t; 3] {
    let luma = vreinterpretq_s16_u16(vmovl_u8(y));
    let (cb, cr) = (centred(cb), centred(cr));
    let red = vaddq_s16(luma, vaddq_s16(cr, scaled(cr, 26345, cr, 0)));
    let green = vaddq_s16(luma, vsubq_s16(scaled(cb, -22554, cr, 18734), cr));
    let blue = vaddq_s16(luma, vaddq_s16(vaddq_s16(cb, cb), scaled(cb, -14942, cb, 0)));
    [vqmovun_s16(red), vqmovun_s16(green), vqmovun_s16(blue)]
}
