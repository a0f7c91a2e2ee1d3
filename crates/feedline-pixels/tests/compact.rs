//! The `compact` encoding: the JPEG's own pixels, the JPEG's own bytes, and no harm from damaged files.

use feedline_pixels::dct::{self, Decoder, compact};
use feedline_pixels::jpeg::Scale;
use feedline_pixels::turbo::{self, Encoding};
use feedline_pixels::{CpuLevel, ImageMut, PixelLayout, Region, Result, Size};
use proptest::prelude::*;

const LIMIT: u64 = 1 << 24;

fn image(size: Size, channels: u8, seed: u64) -> Vec<u8> {
    let mut state = seed | 1;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    };
    let smooth = seed.is_multiple_of(3);
    (0..size.area() * u64::from(channels)).map(|i| if smooth { (i / 40) as u8 } else { next() }).collect()
}

fn decoded(decoder: &mut Decoder, bytes: &[u8], region: Region, scale: Scale) -> Result<Vec<u8>> {
    let mut pixels = vec![0; region.size().area() as usize * 3];
    let mut out = ImageMut::new(&mut pixels, region.size(), region.width as usize * 3, PixelLayout::Rgb)?;
    decoder.decode_into(bytes, region, scale, &mut out)?;
    Ok(pixels)
}

fn by_turbo(bytes: &[u8], region: Region) -> Vec<u8> {
    let mut pixels = vec![0; region.size().area() as usize * 3];
    let mut out =
        ImageMut::new(&mut pixels, region.size(), region.width as usize * 3, PixelLayout::Rgb).unwrap();
    turbo::decode_region(bytes, region, 8, LIMIT, &mut out).unwrap();
    pixels
}

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

fn region_of(size: Size, fractions: [u16; 4]) -> Region {
    let part = |n: u32, f: u16| (u64::from(n) * u64::from(f) / 65536) as u32;
    let width = 1 + part(size.width, fractions[0]);
    let height = 1 + part(size.height, fractions[1]);
    let x = part(size.width - width + 1, fractions[2]);
    let y = part(size.height - height + 1, fractions[3]);
    Region::new(x, y, width, height)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn same_pixels_and_same_bytes_as_the_jpeg(
        encoding in encodings(), seed in any::<u64>(), fractions in any::<[u16; 4]>(), tail in prop::collection::vec(any::<u8>(), 0..9),
    ) {
        let mut jpeg = turbo::encode(&image(encoding.size, encoding.channels, seed), &encoding).unwrap();
        jpeg.extend_from_slice(&tail);
        let packed = compact::encode(&jpeg, LIMIT).unwrap();
        prop_assert!(compact::original(&packed, LIMIT).unwrap() == jpeg);
        prop_assert_eq!(dct::probe(&packed).unwrap().size, encoding.size);
        for level in CpuLevel::available() {
            let mut decoder = Decoder::with_level(level);
            for region in [Region::whole(encoding.size), region_of(encoding.size, fractions)] {
                let pixels = decoded(&mut decoder, &packed, region, Scale::Full).unwrap();
                prop_assert!(pixels == by_turbo(&jpeg, region));
            }
        }
    }

    /// Scaled decodes need only the front of the file and are those of the `dct` encoding.
    #[test]
    fn scaled_decodes_equal_those_of_dct(encoding in encodings(), seed in any::<u64>(), fractions in any::<[u16; 4]>()) {
        let jpeg = turbo::encode(&image(encoding.size, encoding.channels, seed), &encoding).unwrap();
        let (packed, plain) = (compact::encode(&jpeg, LIMIT).unwrap(), dct::encode(&jpeg, LIMIT).unwrap());
        let prefix = dct::probe(&packed).unwrap().prefix.map(|end| end as usize);
        for (scale, end) in [(Scale::Half, prefix[1]), (Scale::Quarter, prefix[1]), (Scale::Eighth, prefix[0])] {
            let region = region_of(scale.apply(encoding.size), fractions);
            let expected = decoded(&mut Decoder::new(), &plain, region, scale).unwrap();
            for level in CpuLevel::available() {
                let mut decoder = Decoder::with_level(level);
                prop_assert!(decoded(&mut decoder, &packed[..end], region, scale).unwrap() == expected);
                prop_assert!(decoded(&mut decoder, &packed[..end - 1], region, scale).is_err());
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
        let jpeg = turbo::encode(&image(encoding.size, encoding.channels, 1), &encoding).unwrap();
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
                decoded(&mut decoder, bytes, region, Scale::Full).ok()
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
    let progressive = turbo::encode(&image(size, 3, 1), &Encoding { progressive: true, ..base }).unwrap();
    assert!(compact::encode(&progressive, LIMIT).is_err());
    let cmyk = turbo::encode(&image(size, 4, 1), &Encoding::baseline(size, 4, 80, (1, 1))).unwrap();
    assert!(compact::encode(&cmyk, LIMIT).is_err());
    // A fill byte before the end marker is no part of the scan, so it comes back with the tail.
    let mut jpeg = turbo::encode(&image(size, 3, 1), &base).unwrap();
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
        let pixels = decoded(&mut Decoder::with_level(level), &packed, whole, Scale::Full).unwrap();
        assert!(pixels == by_turbo(&jpeg, whole));
    }
}
