//! JPEG decoding against libjpeg-turbo on a folder of files: that the pixels are the same, then how long each way takes.
//!
//! `cargo bench -p feedline-pixels --bench decode -- PATH... [--rounds N] [--regions N] [--no-check] [--only TEXT]`
//!
//! Boxes are those of RandomResizedCrop (scale 0.08 to 1, ratio 3/4 to 4/3, torchvision's sampling) with a fixed seed.
//! Techniques take turns over the whole set, and the best round of each counts. Times are of this thread's CPU.
#![expect(clippy::print_stdout, reason = "a benchmark reports to the terminal")]

use std::collections::BTreeMap;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::time::Instant;

use feedline_pixels::jpeg::{self, Decoder, Scale};
use feedline_pixels::{CpuLevel, ImageMut, PixelLayout, Region, Size, dct, turbo};

const LIMIT: u64 = 1 << 28;

fn main() {
    let options = Options::parse();
    if options.paths.is_empty() {
        println!("no PATH given: nothing to decode");
        return;
    }
    let mut files = Vec::new();
    for path in &options.paths {
        collect(path, &mut files);
    }
    files.sort();
    let images: Vec<Image> = files.iter().filter_map(|path| Image::load(path)).collect();
    println!("{} JPEG files, CPU level {}", images.len(), CpuLevel::detect().name());
    if options.check {
        check(&images, options.regions);
    }
    measure(images, options.rounds, &options.only);
}

struct Options {
    paths: Vec<PathBuf>,
    rounds: usize,
    regions: usize,
    check: bool,
    /// Only techniques with this in their names are timed.
    only: String,
}

impl Options {
    fn parse() -> Self {
        let mut options =
            Options { paths: Vec::new(), rounds: 5, regions: 50, check: true, only: String::new() };
        let mut arguments = std::env::args().skip(1);
        while let Some(argument) = arguments.next() {
            let mut number = |default| arguments.next().and_then(|n| n.parse().ok()).unwrap_or(default);
            match argument.as_str() {
                "--rounds" => options.rounds = number(5),
                "--regions" => options.regions = number(50),
                "--no-check" => options.check = false,
                "--only" => options.only = arguments.next().unwrap_or_default(),
                other if other.starts_with("--") => {}
                path => options.paths.push(PathBuf::from(path)),
            }
        }
        options
    }
}

fn collect(path: &Path, files: &mut Vec<PathBuf>) {
    if path.is_file() {
        let name = path.to_string_lossy().to_lowercase();
        if [".jpg", ".jpeg"].iter().any(|ending| name.ends_with(ending)) {
            files.push(path.to_path_buf());
        }
        return;
    }
    for entry in std::fs::read_dir(path).into_iter().flatten().flatten() {
        collect(&entry.path(), files);
    }
}

struct Image {
    name: String,
    bytes: Vec<u8>,
    size: Size,
    index: Option<Vec<u8>>,
    dct: Option<Vec<u8>>,
    compact: Option<Vec<u8>>,
    region: Region,
}

impl Image {
    fn load(path: &Path) -> Option<Self> {
        let bytes = std::fs::read(path).ok()?;
        let size = jpeg::probe(&bytes).ok()?.size;
        if size.area() > LIMIT {
            return None;
        }
        let name = path.file_name()?.to_string_lossy().into_owned();
        let seed = name.bytes().fold(7, |hash: u64, byte| hash.wrapping_mul(31) + u64::from(byte));
        let region = random_resized_crop(&mut Random(seed), size);
        let index = Decoder::new().build_index(&bytes);
        let dct = dct::encode(&bytes, LIMIT).ok();
        let compact = dct::compact::encode(&bytes, LIMIT).ok();
        Some(Image { name, bytes, size, index, dct, compact, region })
    }
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }

    fn below(&mut self, n: u32) -> u32 {
        (self.next() % u64::from(n)) as u32
    }
}

fn random_resized_crop(random: &mut Random, size: Size) -> Region {
    let area = size.area() as f64;
    for _ in 0..10 {
        let target = area * random.between(0.08, 1.0);
        let ratio = random.between((3f64 / 4.0).ln(), (4f64 / 3.0).ln()).exp();
        let width = (target * ratio).sqrt().round() as u32;
        let height = (target / ratio).sqrt().round() as u32;
        if (1..=size.width).contains(&width) && (1..=size.height).contains(&height) {
            let y = random.below(size.height - height + 1);
            let x = random.below(size.width - width + 1);
            return Region::new(x, y, width, height);
        }
    }
    let side = size.width.min(size.height);
    Region::new((size.width - side) / 2, (size.height - side) / 2, side, side)
}

fn any_region(random: &mut Random, size: Size) -> Region {
    let width = 1 + random.below(size.width);
    let height = 1 + random.below(size.height);
    let x = random.below(size.width - width + 1);
    let y = random.below(size.height - height + 1);
    Region::new(x, y, width, height)
}

fn crop(pixels: &[u8], size: Size, region: Region) -> Vec<u8> {
    let mut out = Vec::with_capacity(region.size().area() as usize * 3);
    for y in region.y..region.bottom() {
        let start = (y as usize * size.width as usize + region.x as usize) * 3;
        out.extend_from_slice(&pixels[start..start + region.width as usize * 3]);
    }
    out
}

fn by_turbo(bytes: &[u8], size: Size, scale: u8) -> Option<Vec<u8>> {
    let size = turbo::scaled_size(size, scale);
    let mut pixels = vec![0; size.area() as usize * 3];
    let mut out = ImageMut::new(&mut pixels, size, size.width as usize * 3, PixelLayout::Rgb).ok()?;
    turbo::decode_region(bytes, Region::whole(size), scale, LIMIT, &mut out).ok()?;
    Some(pixels)
}

fn by_us(
    decoder: &mut Decoder,
    bytes: &[u8],
    index: Option<&[u8]>,
    region: Region,
    scale: Scale,
) -> Option<(Vec<u8>, jpeg::Path)> {
    let mut pixels = vec![0; region.size().area() as usize * 3];
    let mut out =
        ImageMut::new(&mut pixels, region.size(), region.width as usize * 3, PixelLayout::Rgb).ok()?;
    let path = decoder.decode_into(bytes, index, region, scale, &mut out).ok()?;
    Some((pixels, path))
}

/// Full images and random regions, at all scales, with and without an index.
fn check(images: &[Image], regions: usize) {
    let mut decoder = Decoder::new();
    let (mut compared, mut different, mut rejected) = (0u64, 0u64, 0u64);
    let mut paths: BTreeMap<String, u64> = BTreeMap::new();
    for image in images {
        let mut random = Random(image.bytes.len() as u64);
        for (scale, eighths) in [(Scale::Full, 8), (Scale::Half, 4), (Scale::Quarter, 2), (Scale::Eighth, 1)]
        {
            let size = turbo::scaled_size(image.size, eighths);
            let Some(expected) = by_turbo(&image.bytes, image.size, eighths) else {
                rejected += 1;
                if by_us(&mut decoder, &image.bytes, None, Region::whole(size), scale).is_some() {
                    println!("turbo rejects but we decode: {}", image.name);
                }
                continue;
            };
            let boxes = std::iter::once(Region::whole(size))
                .chain((0..regions).map(|_| any_region(&mut random, size)))
                .collect::<Vec<_>>();
            for region in boxes {
                let wanted = crop(&expected, size, region);
                for index in [None, image.index.as_deref()] {
                    compared += 1;
                    let ours = by_us(&mut decoder, &image.bytes, index, region, scale);
                    let path = ours.as_ref().map(|(_, path)| *path);
                    *paths.entry(format!("{path:?}")).or_default() += 1;
                    if ours.is_none_or(|(pixels, _)| pixels != wanted) {
                        different += 1;
                        println!("DIFFERENT {} {scale:?} {region:?} {path:?}", image.name);
                    }
                }
            }
        }
    }
    check_packed("dct", images, regions, |image| image.dct.as_deref());
    check_packed("compact", images, regions, |image| image.compact.as_deref());
    check_original(images);
    println!(
        "exactness: {compared} decodes compared, {different} different, {rejected} rejected by both; {paths:?}"
    );
}

/// How many files the compact encoding gives back byte for byte, and how large it is.
fn check_original(images: &[Image]) {
    let same = |image: &&Image| {
        let back = image.compact.as_ref().map(|bytes| dct::compact::original(bytes, LIMIT));
        back.is_some_and(|back| back.is_ok_and(|back| back == image.bytes))
    };
    let stored = images.iter().filter(|image| image.compact.is_some()).count();
    let back = images.iter().filter(same).count();
    println!("compact: {stored} of {} files have it, {back} come back byte for byte", images.len());
    for (name, limit) in [("all", f64::INFINITY), ("with those over 1.15 as jpeg + index", 1.15)] {
        let sizes = images.iter().filter_map(|image| {
            let (plain, packed) = (image.bytes.len(), image.compact.as_ref()?.len());
            let indexed = plain + image.index.as_ref().map_or(0, Vec::len);
            Some((plain, if packed as f64 > limit * plain as f64 { indexed } else { packed }))
        });
        let (plain, packed) = sizes.fold((0, 0), |sum, size| (sum.0 + size.0, sum.1 + size.1));
        println!("compact, {name}: {:.4} times the size of the files", packed as f64 / plain as f64);
    }
}

/// The same of stored coefficients, at full size only: their scaled decodes drop high frequencies instead of folding them in.
fn check_packed(kind: &str, images: &[Image], regions: usize, stored: fn(&Image) -> Option<&[u8]>) {
    let mut decoder = dct::Decoder::new();
    let (mut compared, mut different) = (0u64, 0u64);
    for image in images {
        let (Some(packed), Some(expected)) = (stored(image), by_turbo(&image.bytes, image.size, 8)) else {
            continue;
        };
        let mut random = Random(image.bytes.len() as u64 + 1);
        for i in 0..=regions {
            let region = if i == 0 { Region::whole(image.size) } else { any_region(&mut random, image.size) };
            let mut pixels = vec![0; region.size().area() as usize * 3];
            let mut done = false;
            with_view(region.size(), &mut pixels, PixelLayout::Rgb, |out| {
                done = decoder.decode_into(packed, region, Scale::Full, out).is_ok();
            });
            compared += 1;
            if !done || pixels != crop(&expected, image.size, region) {
                different += 1;
                println!("DIFFERENT {kind} {} {region:?}", image.name);
            }
        }
    }
    println!("exactness of {kind}: {compared} decodes compared, {different} different");
}

/// Nanoseconds that this thread has run, as the scheduler counts them.
fn cpu_time() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_whitespace().next()?.parse().ok()
}

fn timed(mut pass: impl FnMut()) -> f64 {
    let (wall, cpu) = (Instant::now(), cpu_time());
    pass();
    match (cpu, cpu_time()) {
        (Some(before), Some(after)) => (after - before) as f64,
        _ => wall.elapsed().as_nanos() as f64,
    }
}

type Run<'a> = Box<dyn FnMut(&Image, &mut [u8]) + 'a>;

struct Technique<'a> {
    name: &'static str,
    run: Run<'a>,
    best: f64,
}

fn technique<'a>(name: &'static str, run: impl FnMut(&Image, &mut [u8]) + 'a) -> Technique<'a> {
    Technique { name, run: Box::new(run), best: f64::INFINITY }
}

fn with_view(size: Size, buffer: &mut [u8], layout: PixelLayout, run: impl FnOnce(&mut ImageMut<'_>)) {
    let stride = size.width as usize * layout.bytes();
    if let Ok(mut out) = ImageMut::new(buffer, size, stride, layout) {
        run(&mut out);
    }
}

fn ours(indexed: bool, whole: bool, scale: Scale, layout: PixelLayout) -> impl FnMut(&Image, &mut [u8]) {
    ours_at(CpuLevel::detect(), indexed, whole, scale, layout)
}

fn ours_at(
    level: CpuLevel,
    indexed: bool,
    whole: bool,
    scale: Scale,
    layout: PixelLayout,
) -> impl FnMut(&Image, &mut [u8]) {
    let mut decoder = Decoder::with_level(level);
    move |image, buffer| {
        let region = if whole { Region::whole(scale.apply(image.size)) } else { image.region };
        let index = image.index.as_deref().filter(|_| indexed);
        with_view(region.size(), buffer, layout, |out| {
            decoder.decode_into(&image.bytes, index, region, scale, out).ok();
        });
    }
}

fn packed(
    whole: bool,
    scale: Scale,
    level: CpuLevel,
    stored: fn(&Image) -> Option<&[u8]>,
) -> impl FnMut(&Image, &mut [u8]) {
    let mut decoder = dct::Decoder::with_level(level);
    move |image, buffer| {
        let region = if whole { Region::whole(scale.apply(image.size)) } else { image.region };
        with_view(region.size(), buffer, PixelLayout::Rgbx, |out| {
            if let Some(bytes) = stored(image) {
                decoder.decode_into(bytes, region, scale, out).ok();
            }
        });
    }
}

fn measure(images: Vec<Image>, rounds: usize, only: &str) {
    // Times are of files that this decoder covers; the others go to libjpeg-turbo and would only dilute the ratios.
    let images: Vec<Image> = images.into_iter().filter(|image| image.index.is_some()).collect();
    if images.is_empty() {
        return;
    }
    let largest = images.iter().map(|image| image.size.area()).max().unwrap_or(0);
    let mut buffer = vec![0; largest as usize * 4];
    let mut builder = Decoder::new();
    let mut sink_decoder = Decoder::new();
    let levels = CpuLevel::available();
    let best = CpuLevel::detect();
    let second = *levels.get(1).unwrap_or(&CpuLevel::Scalar);
    let dct: fn(&Image) -> Option<&[u8]> = |image| image.dct.as_deref();
    let compact: fn(&Image) -> Option<&[u8]> = |image| image.compact.as_deref();
    let mut techniques = vec![
        technique("turbo full, RGB", |image, buffer| {
            with_view(image.size, buffer, PixelLayout::Rgb, |out| {
                turbo::decode_region(&image.bytes, Region::whole(image.size), 8, LIMIT, out).ok();
            });
        }),
        technique("turbo crop, skip and crop, RGB", |image, buffer| {
            with_view(image.region.size(), buffer, PixelLayout::Rgb, |out| {
                turbo::decode_region_partial(&image.bytes, image.region, 8, LIMIT, out).ok();
            });
        }),
        technique("ours full, index, RGB", ours(true, true, Scale::Full, PixelLayout::Rgb)),
        technique("ours full, index, RGBX", ours(true, true, Scale::Full, PixelLayout::Rgbx)),
        technique("ours full, no index, RGB", ours(false, true, Scale::Full, PixelLayout::Rgb)),
        technique("ours crop, index, RGB", ours(true, false, Scale::Full, PixelLayout::Rgb)),
        technique("ours crop, index, RGBX", ours(true, false, Scale::Full, PixelLayout::Rgbx)),
        technique("ours crop, index, RGBX strips", move |image: &Image, _: &mut [u8]| {
            let mut sum = 0;
            let mut sink = |y, strip: feedline_pixels::ImageRef<'_>| sum += y + u32::from(strip.bytes[0]);
            let index = image.index.as_deref();
            sink_decoder
                .decode_region(&image.bytes, index, image.region, Scale::Full, PixelLayout::Rgbx, &mut sink)
                .ok();
            black_box(sum);
        }),
        technique("ours crop, no index, RGBX", ours(false, false, Scale::Full, PixelLayout::Rgbx)),
        technique("ours full at 1/2, index, RGBX", ours(true, true, Scale::Half, PixelLayout::Rgbx)),
        technique("ours full at 1/4, index, RGBX", ours(true, true, Scale::Quarter, PixelLayout::Rgbx)),
        technique("ours full at 1/8, index, RGBX", ours(true, true, Scale::Eighth, PixelLayout::Rgbx)),
        technique("dct full, RGBX", packed(true, Scale::Full, best, dct)),
        technique("dct crop, RGBX", packed(false, Scale::Full, best, dct)),
        technique("dct full at 1/2, RGBX", packed(true, Scale::Half, best, dct)),
        technique("dct full at 1/4, RGBX", packed(true, Scale::Quarter, best, dct)),
        technique("dct full at 1/8, RGBX", packed(true, Scale::Eighth, best, dct)),
        technique("compact full, RGBX", packed(true, Scale::Full, best, compact)),
        technique("compact crop, RGBX", packed(false, Scale::Full, best, compact)),
        technique("compact crop, AVX2, RGBX", packed(false, Scale::Full, second, compact)),
        technique("compact crop, scalar, RGBX", packed(false, Scale::Full, CpuLevel::Scalar, compact)),
        technique(
            "ours crop, index, AVX2, RGBX",
            ours_at(second, true, false, Scale::Full, PixelLayout::Rgbx),
        ),
        technique(
            "ours crop, index, scalar, RGBX",
            ours_at(CpuLevel::Scalar, true, false, Scale::Full, PixelLayout::Rgbx),
        ),
        technique("dct crop, AVX2, RGBX", packed(false, Scale::Full, second, dct)),
        technique("dct full, AVX2, RGBX", packed(true, Scale::Full, second, dct)),
        technique("compact full at 1/2, RGBX", packed(true, Scale::Half, best, compact)),
        technique("compact full at 1/8, RGBX", packed(true, Scale::Eighth, best, compact)),
        // Sixteen times: the clock of threads is coarse.
        technique("16 checksums of the file", |image, _| {
            for _ in 0..16 {
                black_box(feedline_pixels::checksum::crc32c(black_box(&image.bytes)));
            }
        }),
        technique("16 checksums by the crate crc32c", |image, _| {
            for _ in 0..16 {
                black_box(crc32c::crc32c(black_box(&image.bytes)));
            }
        }),
        technique("packing compact", |image, _| {
            black_box(dct::compact::encode(&image.bytes, LIMIT).ok());
        }),
        technique("compact back to the file", |image, _| {
            black_box(image.compact.as_ref().map(|bytes| dct::compact::original(bytes, LIMIT).ok()));
        }),
        technique("packing dct", |image, _| {
            black_box(dct::encode(&image.bytes, LIMIT).ok());
        }),
        technique("building the index", |image, _| {
            black_box(builder.build_index(&image.bytes));
        }),
    ];
    for _ in 0..rounds {
        for technique in techniques.iter_mut().filter(|technique| technique.name.contains(only)) {
            let time = timed(|| images.iter().for_each(|image| (technique.run)(image, &mut buffer)));
            technique.best = technique.best.min(time);
        }
    }
    report(&images, &techniques);
}

fn report(images: &[Image], techniques: &[Technique<'_>]) {
    let count = images.len() as f64;
    let (full, partial) = (techniques[0].best, techniques[1].best);
    println!("\n{:<34}{:>12}{:>10}{:>12}", "technique", "µs/image", "× full", "× partial");
    for technique in techniques.iter().filter(|technique| technique.best.is_finite()) {
        let time = technique.best;
        println!(
            "{:<34}{:>12.1}{:>10.3}{:>12.3}",
            technique.name,
            time / count / 1000.0,
            time / full,
            time / partial
        );
    }
    let bytes: usize = images.iter().map(|image| image.bytes.len()).sum();
    let index: usize = images.iter().filter_map(|image| image.index.as_ref()).map(Vec::len).sum();
    let share = images.iter().map(|i| i.index.as_ref().map_or(0, Vec::len) as f64 / i.bytes.len() as f64);
    let cropped: f64 = images.iter().map(|i| i.region.size().area() as f64 / i.size.area() as f64).sum();
    println!(
        "\n{} indexable files, {:.1} KB each, mean crop {:.1} % of the pixels",
        images.len(),
        bytes as f64 / count / 1e3,
        100.0 * cropped / count
    );
    let packed: usize = images.iter().filter_map(|image| image.dct.as_ref()).map(Vec::len).sum();
    let packing = techniques[techniques.len() - 2].best;
    println!(
        "dct: {:.2} × the JPEG bytes, packed at {:.0} MB/s of JPEG",
        packed as f64 / bytes as f64,
        bytes as f64 / packing * 1000.0
    );
    println!(
        "index: {:.2} % of all bytes, {:.2} % on average per file, built at {:.0} MB/s",
        100.0 * index as f64 / bytes as f64,
        100.0 * share.sum::<f64>() / count,
        bytes as f64 / techniques[techniques.len() - 1].best * 1000.0
    );
}
