//! Progressive JPEGs against libjpeg-turbo: same pixels for any list of scans, same verdict on damage.

use crate::turbo_pixels::{LIMIT, SCALES, by_turbo, by_us, image, region_of};
use feedline_pixels::jpeg::{Decoder, Path, Scale, probe};
use feedline_pixels::turbo::{self, Encoding, Scan};
use feedline_pixels::{CpuLevel, ImageMut, PixelLayout, Region, Size};
use proptest::prelude::*;

struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % n.max(1)
    }
}

/// Number of low bits that are missing, of every coefficient of every component; 99: all are.
type Missing = Vec<[u8; 64]>;

/// A random list of scans that gives every bit once; it stops after `most` scans.
fn script(components: usize, seed: u64, most: usize) -> Vec<Scan> {
    let mut random = Random(seed);
    let mut missing: Missing = vec![[99; 64]; components];
    let mut scans = Vec::new();
    let low = random.below(3) as u8;
    let groups: &[&[u8]] = match (components, random.below(4)) {
        (1, _) => &[&[0]],
        (_, 0) => &[&[0], &[2], &[1]],
        (_, 1) => &[&[1, 2], &[0]],
        _ => &[&[0, 1, 2]],
    };
    for group in groups {
        scans.push(Scan { components: group.to_vec(), band: (0, 0), bits: (0, low) });
        for &component in *group {
            missing[usize::from(component)][0] = low;
        }
    }
    while scans.len() < most {
        let open: Vec<(usize, usize)> = (0..components)
            .flat_map(|component| (0..64).map(move |k| (component, k)))
            .filter(|&(component, k)| missing[component][k] != 0)
            .collect();
        if open.is_empty() {
            break;
        }
        let (component, start) = open[random.below(open.len())];
        scans.push(next_scan(&mut missing, component, start, &mut random));
    }
    scans
}

/// A scan that contains coefficient `start` of `component`, and its neighbours that have as many bits.
fn next_scan(missing: &mut Missing, component: usize, start: usize, random: &mut Random) -> Scan {
    let high = missing[component][start];
    let bits = if high == 99 { (0, random.below(4) as u8) } else { (high, high - 1) };
    if start == 0 {
        let same: Vec<u8> = (0..missing.len()).filter(|&c| missing[c][0] == high).map(|c| c as u8).collect();
        for &c in &same {
            missing[usize::from(c)][0] = bits.1;
        }
        return Scan { components: same, band: (0, 0), bits };
    }
    let same = |k: &usize| missing[component][*k] == high;
    let mut first = (1..=start).rev().take_while(same).last().unwrap_or(start);
    let mut last = (start..64).take_while(same).last().unwrap_or(start);
    if random.below(4) == 0 {
        first = first.max(start.saturating_sub(random.below(9)));
        last = last.min(start + random.below(30));
    }
    missing[component][first..=last].fill(bits.1);
    Scan { components: vec![component as u8], band: (first as u8, last as u8), bits }
}

fn encodings() -> impl Strategy<Value = Encoding> {
    let sampling = prop::sample::select(vec![(1, 1), (2, 1), (1, 2), (2, 2), (4, 1), (4, 2), (1, 4), (2, 4)]);
    let width = prop_oneof![1..=20u32, 1..=120u32];
    let height = prop_oneof![1..=20u32, 1..=90u32];
    let channels = prop_oneof![1 => Just(1u8), 4 => Just(3u8)];
    let restart = prop_oneof![3 => Just(0u32), 1 => 1..40u32];
    (width, height, channels, 1..=100u8, sampling, restart, prop::bool::weighted(0.1)).prop_map(
        |(width, height, channels, quality, sampling, restart_interval, rgb_colors)| {
            // A single component is not interleaved, whatever its factors.
            let sampling = if rgb_colors { (1, 1) } else { sampling };
            let base = Encoding::baseline(Size::new(width, height), channels, quality, sampling);
            Encoding { restart_interval, rgb_colors, progressive: true, ..base }
        },
    )
}

/// A file with a random list of scans, or (seed 0) that of libjpeg-turbo.
fn encoded(encoding: &Encoding, seed: u64, most: usize) -> Vec<u8> {
    let scans = if seed == 0 { Vec::new() } else { script(usize::from(encoding.channels), seed, most) };
    turbo::encode_scans(&image(encoding.size, encoding.channels, seed), encoding, &scans).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn same_pixels_whole_and_in_part(
        encoding in encodings(),
        seed in prop_oneof![Just(0), any::<u64>()],
        regions in prop::collection::vec(any::<[u16; 4]>(), 3),
        rgbx in any::<bool>(),
    ) {
        let bytes = encoded(&encoding, seed, 200);
        let layout = if rgbx { PixelLayout::Rgbx } else { PixelLayout::Rgb };
        for level in CpuLevel::available() {
            let mut decoder = Decoder::with_level(level);
            for (scale, eighths) in SCALES {
                let size = scale.apply(encoding.size);
                let boxes = regions.iter().map(|&f| region_of(size, f)).chain([Region::whole(size)]);
                for region in boxes {
                    let expected = by_turbo(&bytes, region, eighths, layout).unwrap();
                    let (pixels, path) = by_us(&mut decoder, &bytes, None, region, scale, layout).unwrap();
                    prop_assert!(path == Path::Sequential, "a regular file went to the fallback");
                    prop_assert!(pixels == expected, "{} {:?} {:?}", level.name(), scale, region);
                }
            }
        }
    }

    /// libjpeg smooths the blocks of files whose last scans are missing: those are its own to decode.
    #[test]
    fn missing_scans_are_smoothed_as_in_libjpeg(
        encoding in encodings(),
        seed in 1..u64::MAX,
        most in 4..12usize,
        fractions in any::<[u16; 4]>(),
    ) {
        let bytes = encoded(&encoding, seed, most);
        let complete = script(usize::from(encoding.channels), seed, 200).len() <= most;
        let region = region_of(encoding.size, fractions);
        let mut decoder = Decoder::new();
        let (pixels, path) = by_us(&mut decoder, &bytes, None, region, Scale::Full, PixelLayout::Rgb).unwrap();
        prop_assert_eq!(path == Path::Sequential, complete);
        prop_assert!(pixels == by_turbo(&bytes, region, 8, PixelLayout::Rgb).unwrap());
    }

    #[test]
    fn several_regions_equal_single_ones(
        encoding in encodings(),
        fractions in prop::collection::vec(any::<[u16; 4]>(), 1..5),
    ) {
        let bytes = encoded(&encoding, 5, 200);
        let regions: Vec<Region> = fractions.iter().map(|&f| region_of(encoding.size, f)).collect();
        let mut buffers: Vec<Vec<u8>> =
            regions.iter().map(|r| vec![0; r.size().area() as usize * 3]).collect();
        let mut out: Vec<ImageMut<'_>> = buffers
            .iter_mut()
            .zip(&regions)
            .map(|(b, r)| ImageMut::new(b, r.size(), r.width as usize * 3, PixelLayout::Rgb).unwrap())
            .collect();
        let path = Decoder::new().decode_many(&bytes, None, &regions, Scale::Full, &mut out).unwrap();
        prop_assert_eq!(path, Path::Sequential);
        for (region, buffer) in regions.iter().zip(&buffers) {
            prop_assert!(*buffer == by_turbo(&bytes, *region, 8, PixelLayout::Rgb).unwrap());
        }
    }

    #[test]
    fn damaged_files_decode_as_in_libjpeg(
        encoding in encodings(),
        seed in prop_oneof![Just(0), any::<u64>()],
        flips in prop::collection::vec((any::<prop::sample::Index>(), 0..8u8), 1..4),
        fractions in any::<[u16; 4]>(),
    ) {
        let mut bytes = encoded(&encoding, seed, 200);
        for (at, bit) in flips {
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
        }
        same_verdict(&bytes, fractions)?;
    }

    /// A file cut short and given an end, as it is read when truncated files are allowed.
    #[test]
    fn truncated_files_decode_as_in_libjpeg(
        encoding in encodings(),
        seed in prop_oneof![Just(0), any::<u64>()],
        cut in any::<prop::sample::Index>(),
        fractions in any::<[u16; 4]>(),
    ) {
        let mut bytes = encoded(&encoding, seed, 200);
        bytes.truncate(cut.index(bytes.len()));
        bytes.extend_from_slice(&[0xFF, 0xD9]);
        same_verdict(&bytes, fractions)?;
    }
}

/// Ours and libjpeg-turbo's pixels agree, or both refuse.
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
    let ended = bytes.windows(2).any(|pair| pair == [0xFF, 0xD9]);
    for region in [Region::whole(header.size), region_of(header.size, fractions)] {
        let expected = by_turbo(bytes, region, 8, PixelLayout::Rgb);
        match by_us(&mut decoder, bytes, None, region, Scale::Full, PixelLayout::Rgb) {
            Ok((pixels, path)) => {
                let same = |expected: &Vec<u8>| *expected == pixels || !cfg!(target_arch = "x86_64");
                prop_assert!(expected.as_ref().is_ok_and(same), "{:?} {:?}", region, path);
            }
            Err(_) => prop_assert!(expected.is_err() || !ended),
        }
    }
    Ok(())
}

#[test]
fn truncation_at_every_byte_is_an_error() {
    for (sampling, restart_interval) in [((1, 1), 0), ((2, 2), 0), ((2, 1), 3)] {
        let base = Encoding::baseline(Size::new(40, 24), 3, 80, sampling);
        let bytes = encoded(&Encoding { restart_interval, progressive: true, ..base }, 0, 200);
        let mut decoder = Decoder::new();
        for cut in 0..bytes.len() {
            let region = Region::new(0, 0, 40, 24);
            let done = by_us(&mut decoder, &bytes[..cut], None, region, Scale::Full, PixelLayout::Rgb);
            assert!(done.is_err(), "cut at {cut}");
        }
    }
}

#[test]
fn every_small_size_equals_libjpeg() {
    let mut decoder = Decoder::new();
    for sampling in [(1, 1), (2, 1), (1, 2), (2, 2)] {
        for side in 1..=70 {
            let size = Size::new(side, 71 - side);
            let base = Encoding::baseline(size, 3, 75, sampling);
            let bytes = encoded(&Encoding { progressive: true, ..base }, 0, 200);
            let region = Region::whole(size);
            let (pixels, path) =
                by_us(&mut decoder, &bytes, None, region, Scale::Full, PixelLayout::Rgb).unwrap();
            assert_eq!(path, Path::Sequential);
            assert!(
                pixels == by_turbo(&bytes, region, 8, PixelLayout::Rgb).unwrap(),
                "{size:?} {sampling:?}"
            );
        }
    }
}

/// In noise of high quality many blocks end with their last coefficient, and the next block follows without an end.
#[test]
fn blocks_without_an_end_equal_libjpeg() {
    let mut decoder = Decoder::new();
    for quality in 60..=100 {
        let size = Size::new(96, 80);
        let mut random = Random(u64::from(quality));
        let pixels: Vec<u8> = (0..96 * 80 * 3).map(|_| random.below(256) as u8).collect();
        let encoding = Encoding { progressive: true, ..Encoding::baseline(size, 3, quality, (1, 1)) };
        let bytes = turbo::encode(&pixels, &encoding).unwrap();
        let region = Region::whole(size);
        let (pixels, path) =
            by_us(&mut decoder, &bytes, None, region, Scale::Full, PixelLayout::Rgb).unwrap();
        assert_eq!(path, Path::Sequential);
        assert!(pixels == by_turbo(&bytes, region, 8, PixelLayout::Rgb).unwrap(), "quality {quality}");
    }
}
