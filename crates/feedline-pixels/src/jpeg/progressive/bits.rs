//! Finding and spreading bits, with `pdep` where it is fast.

/// The two operations that a refinement needs.
pub(super) trait Spread {
    /// The `n`-th bit of `mask` that is set, counted from the lowest; `n` is less than their number.
    fn select(mask: u64, n: u32) -> u64;

    /// The low bits of `bits`, moved to where `mask` has bits, lowest to lowest.
    fn deposit(bits: u64, mask: u64) -> u64;
}

/// For every CPU.
pub(super) struct Portable;

impl Spread for Portable {
    #[inline(always)]
    fn select(mut mask: u64, n: u32) -> u64 {
        for _ in 0..n {
            mask &= mask.wrapping_sub(1);
        }
        mask & mask.wrapping_neg()
    }

    #[inline(always)]
    fn deposit(mut bits: u64, mut mask: u64) -> u64 {
        let mut spread = 0;
        // Only as far as there are bits left: half of them are zero, and most masks are short.
        while bits != 0 && mask != 0 {
            let lowest = mask & mask.wrapping_neg();
            spread |= lowest & (bits & 1).wrapping_neg();
            mask ^= lowest;
            bits >>= 1;
        }
        spread
    }
}

/// For x86-64 CPUs with a fast `pdep`; only used inside functions that enable BMI2.
#[cfg(target_arch = "x86_64")]
pub(super) struct Pdep;

#[cfg(target_arch = "x86_64")]
impl Spread for Pdep {
    #[inline(always)]
    fn select(mask: u64, n: u32) -> u64 {
        Self::deposit(1 << n, mask)
    }

    #[inline(always)]
    fn deposit(bits: u64, mask: u64) -> u64 {
        // SAFETY: this type is only used where the CPU is known to have BMI2.
        unsafe { std::arch::x86_64::_pdep_u64(bits, mask) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selects_and_deposits() {
        assert_eq!(Portable::select(0b1011_0100, 2), 1 << 5);
        assert_eq!(Portable::deposit(0b101, 0b1011_0100), 0b0010_0100);
        assert_eq!(Portable::deposit(u64::MAX, u64::MAX), u64::MAX);
        assert_eq!(Portable::deposit(u64::MAX, 0), 0);
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn pdep_is_the_same() {
        if !std::is_x86_feature_detected!("bmi2") {
            return;
        }
        let mut state = 1u64;
        for _ in 0..2000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let (bits, mask) = (state, state.rotate_left(23) & state.rotate_left(51) | 1 << 40);
            assert_eq!(Pdep::deposit(bits, mask), Portable::deposit(bits, mask));
            let n = (state >> 58) as u32 % mask.count_ones();
            assert_eq!(Pdep::select(mask, n), Portable::select(mask, n));
        }
    }
}
