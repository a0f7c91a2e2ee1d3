//! The JPEG decoder against libjpeg-turbo: same pixels, same verdict on damage, whatever the file and the region.

use crate::turbo_pixels::{LIMIT, SCALES, by_turbo, by_us, image, region_of};
use feedline_pixels::jpeg::{Decoder, Path, Recording, Scale, probe};
use feedline_pixels::turbo::{self, Encoding};
use feedline_pixels::{CpuLevel, Error, ImageMut, PixelLayout, Region, Size};
use proptest::prelude::*;

fn encoded(encoding: &Encoding, seed: u64) -> Vec<u8> {
    turbo::encode(&image(encoding.size, encoding.channels, seed), encoding).unwrap()
}

fn encodings() -> impl Strategy<Value = Encoding> {
    let sampling = prop::sample::select(vec![(1, 1), (2, 1), (1, 2), (2, 2), (4, 1), (4, 2), (1, 4), (2, 4)]);
    let small = prop_oneof![1..=20u32, 1..=120u32];
    let tall = prop_oneof![1..=20u32, 1..=90u32];
    let channels = prop_oneof![1 => Just(1u8), 4 => Just(3u8)];
    let restart = prop_oneof![3 => Just(0u32), 1 => 1..40u32];
    (small, tall, channels, 1..=100u8, sampling, restart, any::<bool>(), prop::bool::weighted(0.1)).prop_map(
        |(width, height, channels, quality, sampling, restart_interval, optimize, rgb_colors)| {
            let sampling = if channels == 1 || rgb_colors { (1, 1) } else { sampling };
            let size = Size::new(width, height);
            let base = Encoding::baseline(size, channels, quality, sampling);
            Encoding { restart_interval, optimize, rgb_colors, ..base }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn same_pixels_whole_and_in_part(
        encoding in encodings(),
        seed in any::<u64>(),
        regions in prop::collection::vec(any::<[u16; 4]>(), 4),
        rgbx in any::<bool>(),
    ) {
        let bytes = encoded(&encoding, seed);
        let layout = if rgbx { PixelLayout::Rgbx } else { PixelLayout::Rgb };
        for level in CpuLevel::available() {
            let mut decoder = Decoder::with_level(level);
            let index = decoder.build_index(&bytes);
            prop_assert_eq!(index.is_some(), encoding.restart_interval == 0);
            for (scale, eighths) in SCALES {
                let size = scale.apply(encoding.size);
                let boxes = regions.iter().map(|&f| region_of(size, f)).chain([Region::whole(size)]);
                for region in boxes {
                    let expected = by_turbo(&bytes, region, eighths, layout).unwrap();
                    for index in [None, index.as_deref()] {
                        let (pixels, path) =
                            by_us(&mut decoder, &bytes, index, region, scale, layout).unwrap();
                        prop_assert!(path != Path::Turbo, "a regular file went to the fallback");
                        prop_assert!(pixels == expected, "{:?} {:?} {:?}", scale, region, path);
                    }
                }
            }
        }
    }

    #[test]
    fn strips_arrive_once_and_in_order(encoding in encodings(), fractions in any::<[u16; 4]>()) {
        let bytes = encoded(&encoding, 3);
        let region = region_of(encoding.size, fractions);
        let expected = by_turbo(&bytes, region, 8, PixelLayout::Rgbx).unwrap();
        let mut decoder = Decoder::new();
        let index = decoder.build_index(&bytes);
        let mut pixels = Vec::new();
        let mut rows = 0;
        let mut sink = |y, strip: feedline_pixels::ImageRef<'_>| {
            assert_eq!(y, rows);
            rows += strip.size.height;
            for y in 0..strip.size.height {
                pixels.extend_from_slice(strip.row(y));
            }
        };
        decoder
            .decode_region(&bytes, index.as_deref(), region, Scale::Full, PixelLayout::Rgbx, &mut sink)
            .unwrap();
        prop_assert_eq!(rows, region.height);
        prop_assert!(pixels == expected);
    }

    #[test]
    fn an_index_built_while_decoding_is_the_same(encoding in encodings(), fractions in any::<[u16; 4]>()) {
        let bytes = encoded(&encoding, 11);
        let region = region_of(encoding.size, fractions);
        let mut decoder = Decoder::new();
        let mut pixels = vec![0; region.size().area() as usize * 3];
        let stride = region.width as usize * 3;
        let mut out = ImageMut::new(&mut pixels, region.size(), stride, PixelLayout::Rgb).unwrap();
        let (_, index) = decoder.decode_into_and_index(&bytes, region, Scale::Full, &mut out).unwrap();
        prop_assert_eq!(index, decoder.build_sparse_index(&bytes));
        prop_assert!(pixels == by_turbo(&bytes, region, 8, PixelLayout::Rgb).unwrap());
    }

    /// An index that ends where the first decode ended serves all others, and grows to the end when it is too short.
    #[test]
    fn an_index_of_the_decoded_rows_serves_every_region(
        encoding in encodings(),
        first in any::<[u16; 4]>(),
        regions in prop::collection::vec(any::<[u16; 4]>(), 4),
    ) {
        let encoding = Encoding { restart_interval: 0, ..encoding };
        let bytes = encoded(&encoding, 3);
        let layout = PixelLayout::Rgb;
        for level in CpuLevel::available() {
            let mut decoder = Decoder::with_level(level);
            let whole = decoder.build_sparse_index(&bytes);
            decoder.record(Recording::Decoded);
            by_us(&mut decoder, &bytes, None, region_of(encoding.size, first), Scale::Full, layout).unwrap();
            let mut part = decoder.take_index().unwrap();
            let all = regions.iter().map(|&f| region_of(encoding.size, f)).chain([Region::whole(encoding.size)]);
            for region in all {
                let expected = by_turbo(&bytes, region, 8, layout).unwrap();
                let (pixels, path) =
                    by_us(&mut decoder, &bytes, Some(&part), region, Scale::Full, layout).unwrap();
                prop_assert_eq!(path, Path::Indexed);
                prop_assert!(pixels == expected, "{:?} after {:?}", region, region_of(encoding.size, first));
                if let Some(grown) = decoder.take_index() {
                    prop_assert!(grown.len() + 2 > part.len());
                    part = grown;
                }
            }
            prop_assert_eq!(Some(part), whole);
        }
    }

    #[test]
    fn several_regions_equal_single_ones(
        encoding in encodings(),
        fractions in prop::collection::vec(any::<[u16; 4]>(), 1..5),
        indexed in any::<bool>(),
    ) {
        let bytes = encoded(&encoding, 5);
        let regions: Vec<Region> = fractions.iter().map(|&f| region_of(encoding.size, f)).collect();
        let mut decoder = Decoder::new();
        let index = decoder.build_index(&bytes).filter(|_| indexed);
        let mut buffers: Vec<Vec<u8>> =
            regions.iter().map(|r| vec![0; r.size().area() as usize * 3]).collect();
        let mut out: Vec<ImageMut<'_>> = buffers
            .iter_mut()
            .zip(&regions)
            .map(|(b, r)| ImageMut::new(b, r.size(), r.width as usize * 3, PixelLayout::Rgb).unwrap())
            .collect();
        decoder.decode_many(&bytes, index.as_deref(), &regions, Scale::Full, &mut out).unwrap();
        for (region, buffer) in regions.iter().zip(&buffers) {
            prop_assert!(*buffer == by_turbo(&bytes, *region, 8, PixelLayout::Rgb).unwrap());
        }
    }

    /// Flipped bits: the same pixels as libjpeg-turbo or an error where it has one, with an index of the intact file too.
    #[test]
    fn damaged_files_decode_as_in_libjpeg(
        encoding in encodings(),
        flips in prop::collection::vec((any::<prop::sample::Index>(), 0..8u8), 1..4),
        fractions in any::<[u16; 4]>(),
    ) {
        let mut bytes = encoded(&encoding, 7);
        for (at, bit) in flips {
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
        }
        same_verdict(&bytes, fractions)?;
    }

    #[test]
    fn damaged_indexes_never_panic(
        encoding in encodings(),
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12),
        fractions in any::<[u16; 4]>(),
    ) {
        let bytes = encoded(&encoding, 9);
        let mut decoder = Decoder::new();
        let Some(mut index) = decoder.build_index(&bytes) else { return Ok(()) };
        for (at, value) in flips {
            let at = at.index(index.len());
            index[at] = value;
        }
        let region = region_of(encoding.size, fractions);
        // Wrong pixels are possible, as with a damaged file; a panic or an error is not.
        by_us(&mut decoder, &bytes, Some(&index), region, Scale::Full, PixelLayout::Rgb).unwrap();
        let noise: Vec<u8> = index.iter().map(|byte| byte.wrapping_mul(37)).collect();
        let (pixels, _) =
            by_us(&mut decoder, &bytes, Some(&noise), region, Scale::Full, PixelLayout::Rgb).unwrap();
        prop_assert!(pixels == by_turbo(&bytes, region, 8, PixelLayout::Rgb).unwrap());
    }
}

/// Whether an end marker follows the scan's start. In the tables before it the same two bytes may be values.
fn has_end_marker(bytes: &[u8]) -> bool {
    let scan = bytes.windows(2).rposition(|pair| pair == [0xFF, 0xDA]).unwrap_or(0);
    bytes[scan..].windows(2).any(|pair| pair == [0xFF, 0xD9])
}

/// Ours and libjpeg-turbo's pixels agree, or both refuse. A missing end marker is an error here whatever the region.
///
/// Damage can drive the inverse DCT into overflow, where libjpeg-turbo's kernels differ between architectures; ours follow
/// those of x86 everywhere. So elsewhere only the verdict is compared.
fn same_verdict(bytes: &[u8], fractions: [u16; 4]) -> Result<(), TestCaseError> {
    let Ok(header) = probe(bytes) else {
        prop_assert!(turbo::header(bytes).is_err());
        return Ok(());
    };
    if header.size.area() > LIMIT {
        return Ok(());
    }
    let mut decoder = Decoder::new().with_pixel_limit(LIMIT);
    let index = decoder.build_index(bytes);
    for region in [Region::whole(header.size), region_of(header.size, fractions)] {
        let ended = has_end_marker(bytes);
        let expected = by_turbo(bytes, region, 8, PixelLayout::Rgb);
        for index in [None, index.as_deref()] {
            match by_us(&mut decoder, bytes, index, region, Scale::Full, PixelLayout::Rgb) {
                Ok((pixels, path)) => {
                    let same = |expected: &Vec<u8>| *expected == pixels || !cfg!(target_arch = "x86_64");
                    prop_assert!(expected.as_ref().is_ok_and(same), "{:?} {:?}", region, path);
                }
                Err(_) => prop_assert!(expected.is_err() || !ended),
            }
        }
    }
    Ok(())
}

#[test]
fn truncation_at_every_byte_is_an_error() {
    for (sampling, restart_interval) in [((1, 1), 0), ((2, 2), 0), ((2, 1), 3)] {
        let base = Encoding::baseline(Size::new(40, 24), 3, 80, sampling);
        let bytes = encoded(&Encoding { restart_interval, ..base }, 1);
        let mut decoder = Decoder::new();
        let index = decoder.build_index(&bytes);
        for cut in 0..bytes.len() {
            let region = Region::new(0, 0, 40, 24);
            for index in [None, index.as_deref()] {
                let done = by_us(&mut decoder, &bytes[..cut], index, region, Scale::Full, PixelLayout::Rgb);
                assert!(done.is_err(), "cut at {cut}");
            }
        }
    }
}

#[test]
fn other_kinds_are_left_to_libjpeg_turbo() {
    let base = Encoding::baseline(Size::new(50, 30), 3, 80, (2, 2));
    let inks = Encoding::baseline(Size::new(50, 30), 4, 80, (1, 1));
    let kinds = [
        Encoding { arithmetic: true, ..base },
        Encoding { arithmetic: true, progressive: true, ..base },
        inks,
        Encoding { progressive: true, ..inks },
    ];
    for encoding in kinds {
        let bytes = encoded(&encoding, 2);
        let mut decoder = Decoder::new();
        assert!(decoder.build_index(&bytes).is_none());
        assert!(!probe(&bytes).unwrap().indexable);
        let region = Region::new(3, 5, 40, 20);
        for (scale, eighths) in [(Scale::Full, 8), (Scale::Half, 4)] {
            let region = if eighths == 8 { region } else { Region::new(1, 2, 20, 10) };
            let (pixels, path) = by_us(&mut decoder, &bytes, None, region, scale, PixelLayout::Rgb).unwrap();
            assert_eq!(path, Path::Turbo);
            assert!(pixels == by_turbo(&bytes, region, eighths, PixelLayout::Rgb).unwrap());
        }
    }
}

#[test]
fn limits_and_misuse_are_errors() {
    let bytes = encoded(&Encoding::baseline(Size::new(64, 48), 3, 80, (2, 2)), 2);
    let whole = Region::new(0, 0, 64, 48);
    let mut small = Decoder::new().with_pixel_limit(1000);
    let refused = by_us(&mut small, &bytes, None, whole, Scale::Full, PixelLayout::Rgb);
    assert!(matches!(refused, Err(Error::TooLarge { .. })), "{refused:?}");
    let mut decoder = Decoder::new();
    for region in [Region::new(0, 0, 65, 1), Region::new(0, 0, 0, 1), Region::new(60, 0, 5, 5)] {
        let refused = by_us(&mut decoder, &bytes, None, region, Scale::Full, PixelLayout::Rgb);
        assert!(matches!(refused, Err(Error::Misuse(_))), "{refused:?}");
    }
    assert!(probe(b"").is_err() && probe(b"\xFF\xD8\xFF").is_err());
}

#[test]
fn baseline_transcode_keeps_the_pixels() {
    let base = Encoding::baseline(Size::new(90, 70), 3, 85, (2, 2));
    let progressive = encoded(&Encoding { progressive: true, ..base }, 4);
    let baseline = turbo::to_baseline(&progressive, LIMIT).unwrap();
    let mut decoder = Decoder::new();
    let index = decoder.build_index(&baseline).unwrap();
    let region = Region::new(11, 13, 60, 40);
    let (pixels, path) =
        by_us(&mut decoder, &baseline, Some(&index), region, Scale::Full, PixelLayout::Rgb).unwrap();
    assert_eq!(path, Path::Indexed);
    assert!(pixels == by_turbo(&progressive, region, 8, PixelLayout::Rgb).unwrap());
}
