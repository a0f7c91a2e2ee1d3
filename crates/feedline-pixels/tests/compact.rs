//! The `compact` encoding: the JPEG's own pixels, the JPEG's own bytes, and no harm from damaged files.

use crate::turbo_pixels::{LIMIT, by_turbo, noise, region_of, stored_pixels};
use feedline_pixels::dct::{self, Decoder, compact};
use feedline_pixels::jpeg::Scale;
use feedline_pixels::turbo::{self, Encoding};
use feedline_pixels::{CpuLevel, PixelLayout, Region, Size};
use proptest::prelude::*;

fn encodings() -> impl Strategy<Value = Encoding> {
    let sampling = prop::sample::select(vec![(1, 1), (2, 1), (1, 2), (2, 2), (4, 1), (4, 2)]);
    let channels = prop_oneof![1 => Just(1u8), 4 => Just(3u8)];
    (1..=150u32, 1..=70u32, channels, 1..=100u8, sampling, 0..9u32).prop_map(
        |(width, height, channels, quality, sampling, restart_interval)| {
            let sampling = if channels == 1 { (1, 1) } else { sampling };
            let base = Encoding::baseline(Size::new(width, height), channels, quality, sampling);
            Encoding { restart_interval, ..base }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn same_pixels_and_same_bytes_as_the_jpeg(
        encoding in encodings(), seed in any::<u64>(), fractions in any::<[u16; 4]>(), tail in prop::collection::vec(any::<u8>(), 0..9),
    ) {
        let mut jpeg = turbo::encode(&noise(encoding.size, encoding.channels, seed), &encoding).unwrap();
        jpeg.extend_from_slice(&tail);
        let packed = compact::encode(&jpeg, LIMIT).unwrap();
        prop_assert!(compact::original(&packed, LIMIT).unwrap() == jpeg);
        prop_assert_eq!(dct::probe(&packed).unwrap().size, encoding.size);
        for level in CpuLevel::available() {
            let mut decoder = Decoder::with_level(level);
            for region in [Region::whole(encoding.size), region_of(encoding.size, fractions)] {
                let pixels = stored_pixels(&mut decoder, &packed, region, Scale::Full).unwrap();
                prop_assert!(pixels == by_turbo(&jpeg, region, 8, PixelLayout::Rgb).unwrap());
            }
        }
    }

    /// Scaled decodes need only the front of the file and are those of the `dct` encoding.
    #[test]
    fn scaled_decodes_equal_those_of_dct(encoding in encodings(), seed in any::<u64>(), fractions in any::<[u16; 4]>()) {
        let jpeg = turbo::encode(&noise(encoding.size, encoding.channels, seed), &encoding).unwrap();
        let (packed, plain) = (compact::encode(&jpeg, LIMIT).unwrap(), dct::encode(&jpeg, LIMIT).unwrap());
        let prefix = dct::probe(&packed).unwrap().prefix.map(|end| end as usize);
        for (scale, end) in [(Scale::Half, prefix[1]), (Scale::Quarter, prefix[1]), (Scale::Eighth, prefix[0])] {
            let region = region_of(scale.apply(encoding.size), fractions);
            let expected = stored_pixels(&mut Decoder::new(), &plain, region, scale).unwrap();
            for level in CpuLevel::available() {
                let mut decoder = Decoder::with_level(level);
                prop_assert!(stored_pixels(&mut decoder, &packed[..end], region, scale).unwrap() == expected);
                prop_assert!(stored_pixels(&mut decoder, &packed[..end - 1], region, scale).is_err());
            }
        }
    }

    /// Damage is refused, or decodes alike at every level.
    #[test]
    fn damage_never_panics(
        encoding in encodings(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        early in any::<bool>(),
        fractions in any::<[u16; 4]>(),
        cut in any::<prop::sample::Index>(),
    ) {
        let jpeg = turbo::encode(&noise(encoding.size, encoding.channels, 1), &encoding).unwrap();
        let mut packed = compact::encode(&jpeg, LIMIT).unwrap();
        let reach = if early { packed.len().min(300) } else { packed.len() };
        for (at, value) in changes {
            packed[at.index(reach)] = value;
        }
        for bytes in [&packed[..], &packed[..cut.index(packed.len())]] {
            compact::original(bytes, 1 << 20).ok();
            let Ok(header) = dct::probe(bytes) else { continue };
            let region = region_of(header.size, fractions);
            if region.size().area() >= 1 << 20 {
                continue;
            }
            let outcome = |level| {
                let mut decoder = Decoder::with_level(level).with_pixel_limit(1 << 20);
                stored_pixels(&mut decoder, bytes, region, Scale::Full).ok()
            };
            let expected = outcome(CpuLevel::Scalar);
            for level in CpuLevel::available() {
                prop_assert!(outcome(level) == expected);
            }
        }
    }
}

#[test]
fn coefficients_that_cannot_round_trip_are_refused() {
    let size = Size::new(40, 40);
    let base = Encoding::baseline(size, 3, 80, (2, 2));
    let progressive = turbo::encode(&noise(size, 3, 1), &Encoding { progressive: true, ..base }).unwrap();
    assert!(compact::encode(&progressive, LIMIT).is_err());
    let cmyk = turbo::encode(&noise(size, 4, 1), &Encoding::baseline(size, 4, 80, (1, 1))).unwrap();
    assert!(compact::encode(&cmyk, LIMIT).is_err());
    // A fill byte before the end marker is no part of the scan, so it comes back with the tail.
    let mut jpeg = turbo::encode(&noise(size, 3, 1), &base).unwrap();
    jpeg.insert(jpeg.len() - 2, 0xFF);
    assert_eq!(compact::original(&compact::encode(&jpeg, LIMIT).unwrap(), LIMIT).unwrap(), jpeg);
}

#[test]
fn large_coefficients_round_trip() {
    // Full contrast at quality 100: coefficients of eleven bits.
    let size = Size::new(64, 32);
    let pixels: Vec<u8> = (0..64 * 32).map(|i| if (i / 3 + i / 64) % 2 == 0 { 0 } else { 255 }).collect();
    let jpeg = turbo::encode(&pixels, &Encoding::baseline(size, 1, 100, (1, 1))).unwrap();
    let packed = compact::encode(&jpeg, LIMIT).unwrap();
    let whole = Region::whole(size);
    for level in CpuLevel::available() {
        let pixels = stored_pixels(&mut Decoder::with_level(level), &packed, whole, Scale::Full).unwrap();
        assert!(pixels == by_turbo(&jpeg, whole, 8, PixelLayout::Rgb).unwrap());
    }
}
