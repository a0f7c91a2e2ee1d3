//! The reference.

use std::sync::OnceLock;

use super::{GaussianNoise, SaltAndPepper};

/// SplitMix64's step and finaliser: number `counter` of the stream `seed`.
#[inline(always)]
pub(crate) fn bits(seed: u64, counter: u64) -> u64 {
    let mut x = seed.wrapping_add(counter.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// 24 bits as a number in [0, 1).
#[inline(always)]
pub(crate) fn unit(bits: u32) -> f32 {
    (bits >> 8) as f32 * (1.0 / (1 << 24) as f32)
}

const STEPS: usize = 1024;

/// Quantiles of the normal distribution at equal distances; tables give the same values on every machine.
fn quantiles() -> &'static [f32; STEPS + 1] {
    static TABLE: OnceLock<[f32; STEPS + 1]> = OnceLock::new();
    TABLE.get_or_init(|| std::array::from_fn(|i| quantile(i as f64 / STEPS as f64) as f32))
}

/// A normal value from 32 uniform bits: interpolated linearly between the table's quantiles, exact in the outermost
/// steps.
#[inline(always)]
pub(crate) fn normal(bits: u32) -> f32 {
    normal_by(quantiles(), bits)
}

/// The same, with the table passed in.
#[inline(always)]
fn normal_by(table: &[f32; STEPS + 1], bits: u32) -> f32 {
    let (step, rest) = ((bits >> 22) as usize, bits & ((1 << 22) - 1));
    if !(8..STEPS - 8).contains(&step) {
        return tail(bits);
    }
    let share = rest as f32 * (1.0 / (1 << 22) as f32);
    table[step] + (table[step + 1] - table[step]) * share
}

/// A separate function, so that the common path stays short.
#[cold]
fn tail(bits: u32) -> f32 {
    quantile((f64::from(bits) + 0.5) / (1u64 << 32) as f64) as f32
}

/// The inverse of the normal distribution (rational approximation, nine digits).
fn quantile(p: f64) -> f64 {
    const A: [f64; 6] = [
        -3.969683028665376e1,
        2.209460984245205e2,
        -2.759285104469687e2,
        1.38357751867269e2,
        -3.066479806614716e1,
        2.506628277459239,
    ];
    const B: [f64; 5] = [
        -5.447609879822406e1,
        1.615858368580409e2,
        -1.556989798598866e2,
        6.680131188771972e1,
        -1.328068155288572e1,
    ];
    const C: [f64; 6] = [
        -7.784894002430293e-3,
        -3.223964580411365e-1,
        -2.400758277161838,
        -2.549732539343734,
        4.374664141464968,
        2.938163982698783,
    ];
    const D: [f64; 4] = [7.784695709041462e-3, 3.224671290700398e-1, 2.445134137142996, 3.754408661907416];
    let horner = |coefficients: &[f64], x: f64| coefficients.iter().fold(0.0, |sum, c| sum * x + c);
    let tail = |p: f64| {
        let q = (-2.0 * p.ln()).sqrt();
        horner(&C, q) / (horner(&D, q) * q + 1.0)
    };
    let p = p.clamp(1e-12, 1.0 - 1e-12);
    if p < 0.02425 {
        return tail(p);
    }
    if p > 1.0 - 0.02425 {
        return -tail(1.0 - p);
    }
    let q = p - 0.5;
    let r = q * q;
    horner(&A, r) * q / (horner(&B, r) * r + 1.0)
}

/// Noise truncated to whole levels, then added, as torchvision does to bytes.
pub(super) fn add_gaussian(noise: &GaussianNoise, first: u64, row: &mut [u8]) {
    let table = quantiles();
    for (x, pixel) in row.chunks_exact_mut(4).enumerate() {
        let at = first + 2 * x as u64;
        let (a, b) = (bits(noise.seed, at), bits(noise.seed, at + 1));
        for (value, random) in pixel.iter_mut().zip([a as u32, (a >> 32) as u32, b as u32]) {
            let level = (noise.mean + normal_by(table, random) * noise.sigma) as i32;
            let sum = i32::from(*value) + level;
            *value = if noise.clip { sum.clamp(0, 255) as u8 } else { sum as u8 };
        }
    }
}

pub(super) fn salt_and_pepper(noise: &SaltAndPepper, first: u64, row: &mut [u8]) {
    for (x, pixel) in row.chunks_exact_mut(4).enumerate() {
        let random = bits(noise.seed, first + x as u64);
        if unit(random as u32) < noise.amount {
            let level = if unit((random >> 32) as u32) < noise.salt { 255 } else { 0 };
            pixel[..3].fill(level);
        }
    }
}
