//! CRC-32C (Castagnoli), the checksum of packs. With AVX-512 it takes half the time of the processor's own instruction for it
//! (113 KB: 1.9 instead of 4.2 us from the cache, 5.6 instead of 9.8 from memory).

#[cfg(target_arch = "x86_64")]
mod avx512;
mod scalar;

use crate::CpuLevel;

/// The checksum of `bytes`.
pub fn crc32c(bytes: &[u8]) -> u32 {
    append(0, bytes)
}

/// The checksum of some bytes followed by `bytes`, from the checksum of the former.
pub fn append(before: u32, bytes: &[u8]) -> u32 {
    append_at(CpuLevel::detect(), before, bytes)
}

fn append_at(level: CpuLevel, before: u32, bytes: &[u8]) -> u32 {
    match level {
        #[cfg(target_arch = "x86_64")]
        CpuLevel::Avx512 if bytes.len() >= avx512::LEAST && std::is_x86_feature_detected!("vpclmulqdq") => {
            // SAFETY: the level was detected, and so was the multiplication.
            unsafe { avx512::append(before, bytes) }
        }
        _ => scalar::append(before, bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_level_equals_scalar(bytes in prop::collection::vec(any::<u8>(), 0..4000), before in any::<u32>(), cut in 0usize..4000) {
            let expected = scalar::append(before, &bytes);
            let (front, back) = bytes.split_at(cut.min(bytes.len()));
            for level in CpuLevel::available() {
                prop_assert_eq!(append_at(level, before, &bytes), expected);
                prop_assert_eq!(append_at(level, append_at(level, before, front), back), expected);
            }
        }
    }

    /// The values of RFC 3720, appendix B.4, and one that is long enough for every kernel.
    #[test]
    fn known_values() {
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        let counted: Vec<u8> = (0..4096u32).map(|i| (i * 7 + i / 256) as u8).collect();
        let bitwise = counted.iter().fold(!0u32, |sum, &byte| {
            (0..8).fold(sum ^ u32::from(byte), |sum, _| sum >> 1 ^ 0x82f6_3b78 & (sum & 1).wrapping_neg())
        });
        assert_eq!(crc32c(&counted), !bitwise);
    }
}
