//! NEON's table lookup. Every 64-bit Arm has it, so nothing here needs detection.

use std::arch::aarch64::*;

use super::{Block, Lanes, Row};

/// # Safety
/// All of the blocks must be in the row.
#[target_feature(enable = "neon")]
pub(in super::super) unsafe fn expand(row: &Row<'_>, first: usize, blocks: &mut [Block]) -> Option<()> {
    // SAFETY: as above.
    unsafe { super::expand::<Sixteen>(row, first, blocks) }
}

#[derive(Clone, Copy)]
struct Sixteen(uint8x16_t);

impl Lanes for Sixteen {
    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: the caller guarantees sixteen readable bytes.
        Sixteen(unsafe { vld1q_u8(from) })
    }

    #[inline(always)]
    fn store(self, to: &mut [u8; 16]) {
        // SAFETY: sixteen writable bytes.
        unsafe { vst1q_u8(to.as_mut_ptr(), self.0) };
    }

    #[inline(always)]
    fn splat(value: u8) -> Self {
        // SAFETY: every 64-bit Arm has NEON.
        Sixteen(unsafe { vdupq_n_u8(value) })
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        // SAFETY: every 64-bit Arm has NEON.
        Sixteen(unsafe { vaddq_u8(self.0, other.0) })
    }

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        // SAFETY: every 64-bit Arm has NEON.
        Sixteen(unsafe { vsubq_u8(self.0, other.0) })
    }

    #[inline(always)]
    fn and(self, other: Self) -> Self {
        // SAFETY: every 64-bit Arm has NEON.
        Sixteen(unsafe { vandq_u8(self.0, other.0) })
    }

    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        // SAFETY: every 64-bit Arm has NEON.
        Sixteen(unsafe { veorq_u8(self.0, other.0) })
    }

    #[inline(always)]
    fn ones(bits: u16) -> Self {
        let [low, high] = bits.to_le_bytes();
        // SAFETY: every 64-bit Arm has NEON.
        unsafe {
            let each = vreinterpretq_u8_u64(vdupq_n_u64(0x8040_2010_0804_0201));
            Sixteen(vtstq_u8(vcombine_u8(vdup_n_u8(low), vdup_n_u8(high)), each))
        }
    }

    #[inline(always)]
    fn join(low: [u8; 8], high: [u8; 8], offset: u8) -> Self {
        // SAFETY: eight readable bytes each; every 64-bit Arm has NEON.
        unsafe {
            let high = vadd_u8(vld1_u8(high.as_ptr()), vdup_n_u8(offset));
            Sixteen(vcombine_u8(vld1_u8(low.as_ptr()), high))
        }
    }

    #[inline(always)]
    fn pick(self, indices: Self) -> Self {
        // SAFETY: every 64-bit Arm has NEON.
        Sixteen(unsafe { vqtbl1q_u8(self.0, indices.0) })
    }

    #[inline(always)]
    fn widen(self, to: &mut [i16; 16]) {
        // SAFETY: sixteen writable numbers; every 64-bit Arm has NEON.
        unsafe {
            let signed = vreinterpretq_s8_u8(self.0);
            vst1q_s16(to.as_mut_ptr(), vmovl_s8(vget_low_s8(signed)));
            vst1q_s16(to.as_mut_ptr().add(8), vmovl_high_s8(signed));
        }
    }

    #[inline(always)]
    fn pair(self, upper: Self, sign: Self, to: &mut [i16; 16]) {
        // SAFETY: sixteen writable numbers; every 64-bit Arm has NEON.
        unsafe {
            let low = (vzip1q_u8(self.0, upper.0), vzip1q_u8(sign.0, sign.0));
            let high = (vzip2q_u8(self.0, upper.0), vzip2q_u8(sign.0, sign.0));
            let signed = |(value, sign)| {
                let sign = vreinterpretq_s16_u8(sign);
                vsubq_s16(veorq_s16(vreinterpretq_s16_u8(value), sign), sign)
            };
            vst1q_s16(to.as_mut_ptr(), signed(low));
            vst1q_s16(to.as_mut_ptr().add(8), signed(high));
        }
    }
}
