//! One block at a time, eight columns in 16-bit lanes. Every 64-bit Arm has NEON, so nothing here needs detection.

use std::arch::aarch64::*;

use super::{Block, Quant, Run};

type Rows = [int16x8_t; 8];
type Wide = [int32x4_t; 2];

/// Transforms `run` into 8 rows of samples; the caller has checked the length.
#[target_feature(enable = "neon")]
pub(super) fn full(run: &Run<'_>, quant: &Quant, out: &mut [u8], stride: usize) {
    let table = load(quant);
    for (i, block) in run.iter().enumerate() {
        let samples = transform(block, &table);
        for (y, row) in samples.into_iter().enumerate() {
            let to = &mut out[y * stride + i * 8..][..8];
            // SAFETY: eight writable bytes.
            unsafe { vst1_u8(to.as_mut_ptr(), row) };
        }
    }
}

#[target_feature(enable = "neon")]
fn load(values: &[i16; 64]) -> Rows {
    std::array::from_fn(|y| {
        let row = &values[y * 8..y * 8 + 8];
        // SAFETY: eight readable 16-bit values.
        unsafe { vld1q_s16(row.as_ptr()) }
    })
}

#[target_feature(enable = "neon")]
fn transform(block: &Block, table: &Rows) -> [uint8x8_t; 8] {
    let raw = load(block);
    let below = raw[1..].iter().fold(vdupq_n_s16(0), |seen, &row| vorrq_s16(seen, row));
    let between = if vmaxvq_u16(vreinterpretq_u16_s16(below)) == 0 {
        [vshlq_n_s16::<2>(vmulq_s16(raw[0], table[0])); 8]
    } else {
        pass::<11>(std::array::from_fn(|y| vmulq_s16(raw[y], table[y])))
    };
    let rows = transpose(pass::<18>(transpose(between)));
    let center = vdup_n_u8(128);
    rows.map(|row| veor_u8(vreinterpret_u8_s8(vqmovn_s16(row)), center))
}

/// `a * x + b * y` in 32 bits.
#[target_feature(enable = "neon")]
fn products(a: int16x8_t, x: i16, b: int16x8_t, y: i16) -> Wide {
    [
        vmlal_n_s16(vmull_n_s16(vget_low_s16(a), x), vget_low_s16(b), y),
        vmlal_n_s16(vmull_n_s16(vget_high_s16(a), x), vget_high_s16(b), y),
    ]
}

#[target_feature(enable = "neon")]
fn widen(v: int16x8_t) -> Wide {
    [vshll_n_s16::<13>(vget_low_s16(v)), vshll_n_s16::<13>(vget_high_s16(v))]
}

#[target_feature(enable = "neon")]
fn add(a: Wide, b: Wide) -> Wide {
    [vaddq_s32(a[0], b[0]), vaddq_s32(a[1], b[1])]
}

#[target_feature(enable = "neon")]
fn sub(a: Wide, b: Wide) -> Wide {
    [vsubq_s32(a[0], b[0]), vsubq_s32(a[1], b[1])]
}

#[target_feature(enable = "neon")]
fn descale<const SHIFT: i32>(v: Wide) -> int16x8_t {
    vcombine_s16(vqmovn_s32(vrshrq_n_s32::<SHIFT>(v[0])), vqmovn_s32(vrshrq_n_s32::<SHIFT>(v[1])))
}

/// One 8-point pass down the columns; the scalar kernel's `eight`.
#[target_feature(enable = "neon")]
fn pass<const SHIFT: i32>(v: Rows) -> Rows {
    let sum = widen(vaddq_s16(v[0], v[4]));
    let difference = widen(vsubq_s16(v[0], v[4]));
    let tmp3 = products(v[2], 4433 + 6270, v[6], 4433);
    let tmp2 = products(v[2], 4433, v[6], 4433 - 15137);
    let (t10, t13) = (add(sum, tmp3), sub(sum, tmp3));
    let (t11, t12) = (add(difference, tmp2), sub(difference, tmp2));

    let (z3, z4) = (vaddq_s16(v[7], v[3]), vaddq_s16(v[5], v[1]));
    let y3 = products(z3, 9633 - 16069, z4, 9633);
    let y4 = products(z3, 9633, z4, 9633 - 3196);
    let o0 = add(products(v[7], 2446 - 7373, v[1], -7373), y3);
    let o1 = add(products(v[5], 16819 - 20995, v[3], -20995), y4);
    let o2 = add(products(v[5], -20995, v[3], 25172 - 20995), y3);
    let o3 = add(products(v[7], -7373, v[1], 12299 - 7373), y4);
    [
        descale::<SHIFT>(add(t10, o3)),
        descale::<SHIFT>(add(t11, o2)),
        descale::<SHIFT>(add(t12, o1)),
        descale::<SHIFT>(add(t13, o0)),
        descale::<SHIFT>(sub(t13, o0)),
        descale::<SHIFT>(sub(t12, o1)),
        descale::<SHIFT>(sub(t11, o2)),
        descale::<SHIFT>(sub(t10, o3)),
    ]
}

#[target_feature(enable = "neon")]
fn zip_pairs(a: int16x8_t, b: int16x8_t) -> [int32x4_t; 2] {
    [vreinterpretq_s32_s16(vzip1q_s16(a, b)), vreinterpretq_s32_s16(vzip2q_s16(a, b))]
}

#[target_feature(enable = "neon")]
fn transpose(v: Rows) -> Rows {
    let (a, b) = (zip_pairs(v[0], v[1]), zip_pairs(v[2], v[3]));
    let (c, d) = (zip_pairs(v[4], v[5]), zip_pairs(v[6], v[7]));
    let fours = |x: int32x4_t, y: int32x4_t| {
        [vreinterpretq_s64_s32(vzip1q_s32(x, y)), vreinterpretq_s64_s32(vzip2q_s32(x, y))]
    };
    // Columns 0 and 1, 2 and 3, 4 and 5, 6 and 7: the upper four rows, then the lower four.
    let upper = [fours(a[0], b[0]), fours(a[1], b[1])];
    let lower = [fours(c[0], d[0]), fours(c[1], d[1])];
    std::array::from_fn(|column| {
        let (x, y) = (upper[column / 4][column / 2 % 2], lower[column / 4][column / 2 % 2]);
        let joined = if column % 2 == 0 { vzip1q_s64(x, y) } else { vzip2q_s64(x, y) };
        vreinterpretq_s16_s64(joined)
    })
}
