//! Upsamples chroma to full size, bit for bit like libjpeg-turbo's "fancy" upsampling (triangle filter).
//!
//! The filter weighs the nearer sample 3/4 and the further 1/4 in each direction. Rounding alternates (+1 and +2, or +8
//! and +7) so that it does not drift. The image's edge is not a special case: a sample repeated beyond the edge gives
//! libjpeg's edge formulas, so callers put the repeated sample there.
//!
//! Kernels work on whole groups of [`GROUP`] samples and may write past the requested ones, up to the end of the group;
//! every slice must be long enough for that.

#[cfg(target_arch = "x86_64")]
mod avx2;
mod scalar;

use crate::CpuLevel;

/// Number of samples that a kernel handles at once.
pub(crate) const GROUP: usize = 16;

/// `count` rounded up to whole groups.
pub(crate) const fn padded(count: usize) -> usize {
    count.next_multiple_of(GROUP)
}

/// Doubles a row: `count` samples from `input[1]` on (with a neighbour on either side) become `2 * count`.
pub(crate) fn double(level: CpuLevel, input: &[u8], count: usize, out: &mut [u8]) {
    assert!(input.len() >= padded(count) + 2 && out.len() >= 2 * padded(count), "room for upsampling");
    match level {
        #[cfg(target_arch = "x86_64")]
        CpuLevel::Avx2 | CpuLevel::Avx512 => {
            // SAFETY: the level says that this CPU has AVX2, and the lengths were just checked.
            unsafe { avx2::double(input, padded(count), out) }
        }
        _ => scalar::double(input, count, out),
    }
}

/// One of the two rows that `near` becomes when height doubles; `far` is the row on the other side. The upper of the
/// two rounds with 1, the lower with 2.
pub(crate) fn blend(level: CpuLevel, near: &[u8], far: &[u8], count: usize, bias: u8, out: &mut [u8]) {
    assert!(
        near.len() >= padded(count) && far.len() >= padded(count) && out.len() >= padded(count),
        "room for upsampling"
    );
    match level {
        #[cfg(target_arch = "x86_64")]
        CpuLevel::Avx2 | CpuLevel::Avx512 => {
            // SAFETY: the level says that this CPU has AVX2, and the lengths were just checked.
            unsafe { avx2::blend(near, far, padded(count), bias, out) }
        }
        _ => scalar::blend(near, far, count, bias, out),
    }
}

/// Both at once: `count` samples from `near[1]` on, doubled in width, in one of the two rows that `near` becomes.
pub(crate) fn double_blend(level: CpuLevel, near: &[u8], far: &[u8], count: usize, out: &mut [u8]) {
    assert!(
        near.len() >= padded(count) + 2 && far.len() >= padded(count) + 2 && out.len() >= 2 * padded(count),
        "room for upsampling"
    );
    match level {
        #[cfg(target_arch = "x86_64")]
        CpuLevel::Avx2 | CpuLevel::Avx512 => {
            // SAFETY: the level says that this CPU has AVX2, and the lengths were just checked.
            unsafe { avx2::double_blend(near, far, padded(count), out) }
        }
        _ => scalar::double_blend(near, far, count, out),
    }
}

/// Repeats each of `count` samples `factor` times.
pub(crate) fn repeat(input: &[u8], count: usize, factor: usize, out: &mut [u8]) {
    for (group, &sample) in out.chunks_exact_mut(factor).zip(&input[..count]) {
        group.fill(sample);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_level_equals_scalar(rows in prop::collection::vec(any::<[u8; 2]>(), 1..100)) {
            let count = rows.len();
            let mut near: Vec<u8> = rows.iter().map(|r| r[0]).collect();
            let mut far: Vec<u8> = rows.iter().map(|r| r[1]).collect();
            near.resize(padded(count) + 2, 7);
            far.resize(padded(count) + 2, 9);
            let outcome = |level| {
                let mut out = [(); 4].map(|()| vec![0; 2 * padded(count)]);
                double(level, &near, count, &mut out[0]);
                double_blend(level, &near, &far, count, &mut out[1]);
                blend(level, &near, &far, count, 1, &mut out[2]);
                blend(level, &near, &far, count, 2, &mut out[3]);
                out.map(|row| row[..count].to_vec())
            };
            let expected = outcome(CpuLevel::Scalar);
            for level in CpuLevel::available() {
                prop_assert_eq!(&outcome(level), &expected);
            }
        }
    }
}
