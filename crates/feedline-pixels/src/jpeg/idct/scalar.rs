//! The reference: plain integers, with libjpeg-turbo's SIMD overflow rules spelled out.

use super::{Block, Quant, Run};

const CONST_BITS: u32 = 13;
const PASS1_BITS: u32 = 2;

// Constants of the transform in 13-bit fixed point, named by their value.
const F_0_298: i32 = 2446;
const F_0_390: i32 = 3196;
const F_0_541: i32 = 4433;
const F_0_765: i32 = 6270;
const F_0_899: i32 = 7373;
const F_1_175: i32 = 9633;
const F_1_501: i32 = 12299;
const F_1_847: i32 = 15137;
const F_1_961: i32 = 16069;
const F_2_053: i32 = 16819;
const F_2_562: i32 = 20995;
const F_3_072: i32 = 25172;

// The same for the reduced sizes.
const F_0_211: i32 = 1730;
const F_0_509: i32 = 4176;
const F_0_601: i32 = 4926;
const F_0_720: i32 = 5906;
const F_0_850: i32 = 6967;
const F_1_061: i32 = 8697;
const F_1_272: i32 = 10426;
const F_1_451: i32 = 11893;
const F_2_172: i32 = 17799;
const F_3_624: i32 = 29692;

pub(super) fn full(run: &Run<'_>, quant: &Quant, out: &mut [u8], stride: usize) {
    for (i, block) in run.iter().enumerate() {
        let samples = block_full(block, quant);
        for (y, row) in samples.chunks_exact(8).enumerate() {
            out[y * stride + i * 8..][..8].copy_from_slice(row);
        }
    }
}

pub(super) fn half(run: &Run<'_>, quant: &Quant, out: &mut [u8], stride: usize) {
    for (i, block) in run.iter().enumerate() {
        let samples = block_half(block, quant);
        for (y, row) in samples.chunks_exact(4).enumerate() {
            out[y * stride + i * 4..][..4].copy_from_slice(row);
        }
    }
}

#[inline(always)]
pub(super) fn quarter(run: &Run<'_>, quant: &Quant, out: &mut [u8], stride: usize) {
    for (i, block) in run.iter().enumerate() {
        let samples = block_quarter(block, quant);
        out[i * 2..][..2].copy_from_slice(&samples[..2]);
        out[stride + i * 2..][..2].copy_from_slice(&samples[2..]);
    }
}

pub(super) fn eighth(run: &Run<'_>, quant: &Quant, out: &mut [u8], _stride: usize) {
    for (sample, block) in out.iter_mut().zip(run.iter()) {
        // libjpeg-turbo has no SIMD here: the product is a full integer, and its table of clamped samples repeats every
        // 1024 entries.
        let dc = i32::from(block[0]) * i32::from(quant[0]);
        let wrapped = (((dc + 4) >> 3) << 22) >> 22;
        *sample = (wrapped + 128).clamp(0, 255) as u8;
    }
}

#[inline(always)]
fn dequantise(block: &Block, quant: &Quant) -> Block {
    let mut values = [0; 64];
    for ((value, &coefficient), &step) in values.iter_mut().zip(block).zip(quant) {
        *value = coefficient.wrapping_mul(step);
    }
    values
}

fn saturate(value: i32) -> i16 {
    value.clamp(i32::from(i16::MIN), i32::from(i16::MAX)) as i16
}

fn sample(value: i16) -> u8 {
    (value.clamp(-128, 127) + 128) as u8
}

fn block_full(block: &Block, quant: &Quant) -> [u8; 64] {
    let values = dequantise(block, quant);
    let mut between = [0; 64];
    if block[8..].iter().all(|&coefficient| coefficient == 0) {
        for row in between.chunks_exact_mut(8) {
            for (to, &from) in row.iter_mut().zip(&values) {
                *to = from << PASS1_BITS;
            }
        }
    } else {
        for x in 0..8 {
            let column = std::array::from_fn(|y| values[y * 8 + x]);
            for (y, value) in eight(column, CONST_BITS - PASS1_BITS).into_iter().enumerate() {
                between[y * 8 + x] = value;
            }
        }
    }
    let mut samples = [0; 64];
    for (to, from) in samples.chunks_exact_mut(8).zip(between.chunks_exact(8)) {
        let row = std::array::from_fn(|x| from[x]);
        for (to, value) in to.iter_mut().zip(eight(row, CONST_BITS + PASS1_BITS + 3)) {
            *to = sample(value);
        }
    }
    samples
}

/// One 8-point pass over `v`, descaled by `shift` and saturated.
fn eight(v: [i16; 8], shift: u32) -> [i16; 8] {
    let wide = v.map(i32::from);
    let even = |i: i16| i32::from(i) << CONST_BITS;
    let (sum, difference) = (even(v[0].wrapping_add(v[4])), even(v[0].wrapping_sub(v[4])));
    let tmp3 = wide[2] * (F_0_541 + F_0_765) + wide[6] * F_0_541;
    let tmp2 = wide[2] * F_0_541 + wide[6] * (F_0_541 - F_1_847);
    let (t10, t13) = (sum + tmp3, sum - tmp3);
    let (t11, t12) = (difference + tmp2, difference - tmp2);

    let z3 = i32::from(v[7].wrapping_add(v[3]));
    let z4 = i32::from(v[5].wrapping_add(v[1]));
    let y3 = z3 * (F_1_175 - F_1_961) + z4 * F_1_175;
    let y4 = z3 * F_1_175 + z4 * (F_1_175 - F_0_390);
    let o0 = wide[7] * (F_0_298 - F_0_899) - wide[1] * F_0_899 + y3;
    let o1 = wide[5] * (F_2_053 - F_2_562) - wide[3] * F_2_562 + y4;
    let o2 = wide[3] * (F_3_072 - F_2_562) - wide[5] * F_2_562 + y3;
    let o3 = wide[1] * (F_1_501 - F_0_899) - wide[7] * F_0_899 + y4;

    let descale = |x: i32| saturate((x + (1 << (shift - 1))) >> shift);
    [
        descale(t10 + o3),
        descale(t11 + o2),
        descale(t12 + o1),
        descale(t13 + o0),
        descale(t13 - o0),
        descale(t12 - o1),
        descale(t11 - o2),
        descale(t10 - o3),
    ]
}

fn block_half(block: &Block, quant: &Quant) -> [u8; 16] {
    let values = dequantise(block, quant);
    let mut between = [[0; 8]; 4];
    let flat = [1, 2, 3, 5, 6, 7].iter().all(|&y| block[y * 8..][..8].iter().all(|&c| c == 0));
    for x in 0..8 {
        let column: [i16; 8] = std::array::from_fn(|y| values[y * 8 + x]);
        let four =
            if flat { [column[0] << PASS1_BITS; 4] } else { four(column, CONST_BITS - PASS1_BITS + 1) };
        for (row, value) in between.iter_mut().zip(four) {
            row[x] = value;
        }
    }
    let mut samples = [0; 16];
    for (to, row) in samples.chunks_exact_mut(4).zip(between) {
        for (to, value) in to.iter_mut().zip(four(row, CONST_BITS + PASS1_BITS + 3 + 1)) {
            *to = sample(value);
        }
    }
    samples
}

/// One pass of 8 coefficients to 4 values; the fifth coefficient does not contribute.
fn four(v: [i16; 8], shift: u32) -> [i16; 4] {
    let wide = v.map(i32::from);
    let tmp0 = wide[0] << (CONST_BITS + 1);
    let tmp2 = wide[2] * F_1_847 - wide[6] * F_0_765;
    let (t10, t12) = (tmp0.wrapping_add(tmp2), tmp0.wrapping_sub(tmp2));
    let o0 = wide[1] * F_1_061 - wide[3] * F_2_172 + wide[5] * F_1_451 - wide[7] * F_0_211;
    let o2 = wide[1] * F_2_562 + wide[3] * F_0_899 - wide[5] * F_0_601 - wide[7] * F_0_509;
    let descale = |x: i32| saturate(x.wrapping_add(1 << (shift - 1)) >> shift);
    [
        descale(t10.wrapping_add(o2)),
        descale(t12.wrapping_add(o0)),
        descale(t12.wrapping_sub(o0)),
        descale(t10.wrapping_sub(o2)),
    ]
}

#[inline(always)]
fn block_quarter(block: &Block, quant: &Quant) -> [u8; 4] {
    let values = dequantise(block, quant);
    // Columns 0, 1, 3, 5 and 7, two rows; column 0 stays wide between the passes, the others saturate.
    let mut upper = [0i32; 8];
    let mut lower = [0i32; 8];
    for x in [0, 1, 3, 5, 7] {
        let at = |y: usize| i32::from(values[y * 8 + x]);
        let even = at(0) << (CONST_BITS + 2);
        let odd = odd_quarter(at(1), at(3), at(5), at(7));
        let shift = CONST_BITS - PASS1_BITS + 2;
        let descale = |v: i32| v.wrapping_add(1 << (shift - 1)) >> shift;
        upper[x] = descale(even.wrapping_add(odd));
        lower[x] = descale(even.wrapping_sub(odd));
    }
    let mut samples = [0; 4];
    for (to, row) in samples.chunks_exact_mut(2).zip([upper, lower]) {
        let at = |x: usize| i32::from(saturate(row[x]));
        let even = row[0].wrapping_shl(CONST_BITS + 2);
        let odd = odd_quarter(at(1), at(3), at(5), at(7));
        let shift = CONST_BITS + PASS1_BITS + 3 + 2;
        let descale = |v: i32| sample(saturate(v.wrapping_add(1 << (shift - 1)) >> shift));
        to[0] = descale(even.wrapping_add(odd));
        to[1] = descale(even.wrapping_sub(odd));
    }
    samples
}

#[inline(always)]
fn odd_quarter(one: i32, three: i32, five: i32, seven: i32) -> i32 {
    (one * F_3_624 - three * F_1_272).wrapping_add(five * F_0_850 - seven * F_0_720)
}
