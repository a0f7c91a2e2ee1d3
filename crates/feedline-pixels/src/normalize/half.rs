//! Converts single precision to the two half types, to nearest, ties to even.

/// IEEE binary16, as `vcvtps2ph` rounds.
#[inline(always)]
pub(super) fn to_f16(value: f32) -> u16 {
    let bits = value.to_bits();
    let sign = (bits >> 16) as u16 & 0x8000;
    let magnitude = bits & 0x7FFF_FFFF;
    if magnitude >= 0x7F80_0000 {
        // Infinity, or a quiet NaN that keeps its upper bits.
        let nan = if magnitude > 0x7F80_0000 { 0x0200 | (magnitude >> 13) as u16 & 0x03FF } else { 0 };
        return sign | 0x7C00 | nan;
    }
    if magnitude < 0x3880_0000 {
        return sign | subnormal(magnitude);
    }
    // Exponents are rebased from 127 to 15; a carry from the fraction moves into the exponent, as it should.
    let rounded = (magnitude - (112 << 23) + 0x0FFF + (magnitude >> 13 & 1)) >> 13;
    sign | rounded.min(0x7C00) as u16
}

/// Below 2^-14 the result counts units of 2^-24. Adding 0.5 puts that unit at the last place of a single, so the
/// addition itself rounds to nearest even.
#[inline(always)]
fn subnormal(magnitude: u32) -> u16 {
    let sum = f32::from_bits(magnitude) + 0.5;
    (sum.to_bits() - 0.5f32.to_bits()) as u16
}

/// bfloat16. Values are finite here: weights are checked, pixels are bytes.
#[inline(always)]
pub(super) fn to_bf16(value: f32) -> u16 {
    let bits = value.to_bits();
    (bits.wrapping_add(0x7FFF + (bits >> 16 & 1)) >> 16) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_of_known_values() {
        let cases = [
            (0.0, 0x0000),
            (-0.0, 0x8000),
            (1.0, 0x3C00),
            (65504.0, 0x7BFF),
            (65519.9, 0x7BFF),
            (65520.0, 0x7C00),
            (1e9, 0x7C00),
            (f32::NEG_INFINITY, 0xFC00),
            (6.103_515_6e-5, 0x0400),
            (5.960_464_5e-8, 0x0001),
            (2.980_232_2e-8, 0x0000),
            (2.980_232_6e-8, 0x0001),
            (1.000_488_3, 0x3C00),
            (1.001_464_8, 0x3C02),
        ];
        for (value, expected) in cases {
            assert_eq!(to_f16(value), expected, "{value:e}");
        }
        assert_eq!([to_bf16(1.0), to_bf16(1.003_906_3), to_bf16(1.011_718_8)], [0x3F80, 0x3F80, 0x3F82]);
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn equals_the_instruction() {
        use std::arch::x86_64::*;

        #[target_feature(enable = "f16c,avx")]
        fn instruction(value: f32) -> u16 {
            _mm_extract_epi16::<0>(_mm_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(_mm_set1_ps(value))) as u16
        }
        if !std::is_x86_feature_detected!("f16c") {
            return;
        }
        // Every 977th bit pattern: all exponents, both signs, fractions on every side of every tie.
        for bits in (0..=u32::MAX).step_by(977) {
            let value = f32::from_bits(bits);
            // SAFETY: F16C was just found.
            assert_eq!(to_f16(value), unsafe { instruction(value) }, "{bits:#x}");
        }
    }
}
