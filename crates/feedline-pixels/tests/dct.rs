//! The `dct` encoding: the JPEG's own pixels, and no harm from damaged files.

use crate::turbo_pixels::{LIMIT, by_turbo, noise, region_of, stored_pixels};
use feedline_pixels::dct::{self, Decoder};
use feedline_pixels::jpeg::Scale;
use feedline_pixels::turbo::{self, Encoding};
use feedline_pixels::{CpuLevel, PixelLayout, Region, Size};
use proptest::prelude::*;

fn encodings() -> impl Strategy<Value = Encoding> {
    let sampling = prop::sample::select(vec![(1, 1), (2, 1), (1, 2), (2, 2), (4, 1), (4, 2)]);
    let channels = prop_oneof![1 => Just(1u8), 4 => Just(3u8)];
    (1..=150u32, 1..=70u32, channels, 1..=100u8, sampling, 0..9u32, any::<bool>()).prop_map(
        |(width, height, channels, quality, sampling, restart_interval, progressive)| {
            let sampling = if channels == 1 { (1, 1) } else { sampling };
            let base = Encoding::baseline(Size::new(width, height), channels, quality, sampling);
            Encoding { restart_interval, progressive, ..base }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn same_pixels_as_the_jpeg(encoding in encodings(), seed in any::<u64>(), fractions in any::<[u16; 4]>()) {
        let jpeg = turbo::encode(&noise(encoding.size, encoding.channels, seed), &encoding).unwrap();
        let packed = dct::encode(&jpeg, LIMIT).unwrap();
        prop_assert_eq!(dct::probe(&packed).unwrap().size, encoding.size);
        for level in CpuLevel::available() {
            let mut decoder = Decoder::with_level(level);
            for region in [Region::whole(encoding.size), region_of(encoding.size, fractions)] {
                let pixels = stored_pixels(&mut decoder, &packed, region, Scale::Full).unwrap();
                prop_assert!(pixels == by_turbo(&jpeg, region, 8, PixelLayout::Rgb).unwrap());
            }
        }
    }

    /// Scaled decodes need only the front of the file and agree between CPU levels.
    #[test]
    fn scaled_decodes_read_a_prefix(encoding in encodings(), seed in any::<u64>(), fractions in any::<[u16; 4]>()) {
        let jpeg = turbo::encode(&noise(encoding.size, encoding.channels, seed), &encoding).unwrap();
        let packed = dct::encode(&jpeg, LIMIT).unwrap();
        let prefix = dct::probe(&packed).unwrap().prefix.map(|end| end as usize);
        for (scale, end) in [(Scale::Half, prefix[1]), (Scale::Quarter, prefix[1]), (Scale::Eighth, prefix[0])] {
            let region = region_of(scale.apply(encoding.size), fractions);
            let expected =
                stored_pixels(&mut Decoder::with_level(CpuLevel::Scalar), &packed, region, scale).unwrap();
            for level in CpuLevel::available() {
                let mut decoder = Decoder::with_level(level);
                prop_assert!(stored_pixels(&mut decoder, &packed[..end], region, scale).unwrap() == expected);
                prop_assert!(stored_pixels(&mut decoder, &packed[..end - 1], region, scale).is_err());
            }
            if scale == Scale::Eighth && encoding.sampling == (1, 1) {
                prop_assert!(expected == by_turbo(&jpeg, region, 1, PixelLayout::Rgb).unwrap());
            }
        }
    }

    #[test]
    fn damage_never_panics(
        encoding in encodings(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        early in any::<bool>(),
        fractions in any::<[u16; 4]>(),
        cut in any::<prop::sample::Index>(),
    ) {
        let jpeg = turbo::encode(&noise(encoding.size, encoding.channels, 1), &encoding).unwrap();
        let mut packed = dct::encode(&jpeg, LIMIT).unwrap();
        let reach = if early { packed.len().min(500) } else { packed.len() };
        for (at, value) in changes {
            packed[at.index(reach)] = value;
        }
        let mut decoder = Decoder::new().with_pixel_limit(1 << 20);
        for bytes in [&packed[..], &packed[..cut.index(packed.len())]] {
            if let Ok(header) = dct::probe(bytes) {
                let region = region_of(header.size, fractions);
                if region.size().area() < 1 << 20 {
                    stored_pixels(&mut decoder, bytes, region, Scale::Full).ok();
                    let region = region_of(Scale::Half.apply(header.size), fractions);
                    stored_pixels(&mut decoder, bytes, region, Scale::Half).ok();
                }
            }
        }
    }
}

#[test]
fn large_coefficients_round_trip() {
    // Full contrast at quality 100: coefficients far beyond a byte.
    let size = Size::new(64, 32);
    let pixels: Vec<u8> = (0..64 * 32).map(|i| if (i / 3 + i / 64) % 2 == 0 { 0 } else { 255 }).collect();
    let jpeg = turbo::encode(&pixels, &Encoding::baseline(size, 1, 100, (1, 1))).unwrap();
    let packed = dct::encode(&jpeg, LIMIT).unwrap();
    let whole = Region::whole(size);
    let pixels = stored_pixels(&mut Decoder::new(), &packed, whole, Scale::Full).unwrap();
    assert!(pixels == by_turbo(&jpeg, whole, 8, PixelLayout::Rgb).unwrap());
}

#[test]
fn cmyk_is_refused() {
    let size = Size::new(16, 16);
    let jpeg = turbo::encode(&noise(size, 4, 1), &Encoding::baseline(size, 4, 80, (1, 1))).unwrap();
    assert!(dct::encode(&jpeg, LIMIT).is_err());
}
