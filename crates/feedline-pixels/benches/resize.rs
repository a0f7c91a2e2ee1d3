//! Crop → 224 × 224 → float32 planes, against `fast_image_resize` doing the same in the usual three steps.
//!
//! `cargo bench -p feedline-pixels --bench resize` prints criterion's times; `-- ratios` prints a table of ratios
//! measured in interleaved rounds (best round of each), which a busy machine disturbs less.

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion};
use fast_image_resize::images::{Image, ImageRef as RivalRef};
use fast_image_resize::{FilterType, PixelType, ResizeAlg, ResizeOptions, Resizer};
use feedline_pixels::*;

const OUT: Size = Size::new(224, 224);

/// A crop box out of an image of 500 × 375 or larger, by name. The mean crop of `RandomResizedCrop` over ImageNet has
/// 295² pixels.
const CROPS: [(&str, Size, Region); 4] = [
    ("mean 295x295", Size::new(500, 375), Region::new(100, 40, 295, 295)),
    ("small 150x130", Size::new(500, 375), Region::new(201, 77, 150, 130)),
    ("whole 500x375", Size::new(500, 375), Region::new(0, 0, 500, 375)),
    ("photo 3000x2000", Size::new(4000, 3000), Region::new(501, 303, 3000, 2000)),
];

fn noise(size: Size, layout: PixelLayout) -> Vec<u8> {
    let mut state = 1u32;
    let bytes = size.area() as usize * layout.bytes();
    let mut next = || {
        state = state.wrapping_mul(1664525).wrapping_add(1013904223);
        (state >> 24) as u8
    };
    (0..bytes).map(|_| next()).collect()
}

/// The usual way: copy the crop out, resize it, normalise.
struct Rival {
    resizer: Resizer,
    crop: Vec<u8>,
    resized: Image<'static>,
    options: ResizeOptions,
    kind: PixelType,
}

impl Rival {
    fn new(layout: PixelLayout) -> Self {
        let kind = if layout == PixelLayout::Rgb { PixelType::U8x3 } else { PixelType::U8x4 };
        Rival {
            resizer: Resizer::new(),
            crop: Vec::new(),
            resized: Image::new(OUT.width, OUT.height, kind),
            options: ResizeOptions::new()
                .resize_alg(ResizeAlg::Convolution(FilterType::Bilinear))
                .use_alpha(false),
            kind,
        }
    }

    fn resize(&mut self, image: ImageRef<'_>, region: Region) {
        let crop = image.crop(region).unwrap();
        self.crop.clear();
        for y in 0..crop.size.height {
            self.crop.extend_from_slice(crop.row(y));
        }
        let source = RivalRef::new(region.width, region.height, &self.crop, self.kind).unwrap();
        self.resizer.resize(&source, &mut self.resized, &self.options).unwrap();
    }

    fn render(&mut self, image: ImageRef<'_>, region: Region, out: &mut [f32]) {
        self.resize(image, region);
        let Normalise { mean, std } = Normalise::IMAGENET;
        // Not three roundings as in torchvision: dividing would make the rival three times slower.
        let multiply = std.map(|std| 1.0 / (255.0 * std));
        let add: [f32; 3] = std::array::from_fn(|channel| -mean[channel] / std[channel]);
        let plane = OUT.area() as usize;
        let (red, rest) = out.split_at_mut(plane);
        let (green, blue) = rest.split_at_mut(plane);
        let step = image.layout.bytes();
        // Plane by plane over zipped slices, which the compiler vectorises as far as it can.
        for (channel, plane) in [red, green, blue].into_iter().enumerate() {
            let (multiply, add) = (multiply[channel], add[channel]);
            for (value, pixel) in plane.iter_mut().zip(self.resized.buffer().chunks_exact(step)) {
                *value = f32::from(pixel[channel]) * multiply + add;
            }
        }
    }
}

/// Ours, fed in strips of 16 rows as a decoder would.
fn ours(renderer: &mut Renderer, image: ImageRef<'_>, region: Region, finish: &Finish, out: &mut [u8]) {
    let geometry = Geometry::crop_resize(image.size, region, OUT);
    let mut rendering = renderer.begin(&geometry, Filter::Bilinear, finish, out).unwrap();
    let mut y = region.y;
    while y < region.bottom() {
        let rows = 16.min(region.bottom() - y);
        let strip = image.crop(Region::new(0, y, image.size.width, rows)).unwrap();
        rendering.push((0, y), strip).unwrap();
        y += rows;
    }
    rendering.finish().unwrap();
}

fn finishes() -> [(&'static str, Finish); 2] {
    [
        ("f32", Finish::tensor(Dtype::F32, Normalise::IMAGENET)),
        ("u8", Finish::bytes(TensorLayout::ChannelsLast)),
    ]
}

fn times(criterion: &mut Criterion) {
    for (name, size, region) in CROPS {
        let mut group = criterion.benchmark_group(name);
        group
            .sample_size(30)
            .measurement_time(Duration::from_secs(2))
            .warm_up_time(Duration::from_millis(500));
        for layout in [PixelLayout::Rgbx, PixelLayout::Rgb] {
            let bytes = noise(size, layout);
            let image = ImageRef::new(&bytes, size, size.width as usize * layout.bytes(), layout).unwrap();
            let mut renderer = Renderer::new();
            for (kind, finish) in finishes() {
                let mut out = vec![0u8; finish.output_bytes(OUT)];
                group.bench_function(
                    BenchmarkId::new(format!("feedline {kind}"), format!("{layout:?}")),
                    |b| {
                        b.iter(|| ours(&mut renderer, image, region, &finish, black_box(&mut out)));
                    },
                );
            }
            let mut rival = Rival::new(layout);
            let mut out = vec![0f32; OUT.area() as usize * 3];
            group.bench_function(BenchmarkId::new("fast_image_resize f32", format!("{layout:?}")), |b| {
                b.iter(|| rival.render(image, region, black_box(&mut out)));
            });
            group.bench_function(BenchmarkId::new("fast_image_resize u8", format!("{layout:?}")), |b| {
                b.iter(|| rival.resize(image, black_box(region)));
            });
        }
    }
}

/// Best time of a few calls, in microseconds.
fn round(calls: u32, mut run: impl FnMut()) -> f64 {
    let start = Instant::now();
    (0..calls).for_each(|_| run());
    start.elapsed().as_secs_f64() * 1e6 / f64::from(calls)
}

#[expect(clippy::print_stdout, reason = "a table is what was asked for")]
fn ratios(only: &str) {
    println!(
        "{:<18} {:<5} {:>12} {:>12} {:>12} {:>12} {:>7} {:>7}",
        "crop", "from", "ours f32", "rival f32", "ours u8", "rival u8", "f32 ×", "u8 ×"
    );
    for (name, size, region) in CROPS.into_iter().filter(|crop| crop.0.starts_with(only)) {
        for layout in [PixelLayout::Rgbx, PixelLayout::Rgb] {
            let bytes = noise(size, layout);
            let image = ImageRef::new(&bytes, size, size.width as usize * layout.bytes(), layout).unwrap();
            let (mut renderer, mut rival) = (Renderer::new(), Rival::new(layout));
            let [(_, float), (_, byte)] = finishes();
            let mut out = vec![0u8; float.output_bytes(OUT)];
            let mut floats = vec![0f32; OUT.area() as usize * 3];
            let calls = (40_000_000 / region.size().area()).clamp(4, 300) as u32;
            let mut best = [f64::INFINITY; 4];
            for _ in 0..15 {
                let rounds = [
                    round(calls, || ours(&mut renderer, image, region, &float, &mut out)),
                    round(calls, || rival.render(image, region, black_box(&mut floats))),
                    round(calls, || {
                        ours(&mut renderer, image, region, &byte, &mut out[..byte.output_bytes(OUT)]);
                    }),
                    round(calls, || rival.resize(image, black_box(region))),
                ];
                best.iter_mut().zip(rounds).for_each(|(best, time)| *best = best.min(time));
            }
            let [a, b, c, d] = best;
            println!(
                "{name:<18} {:<5} {a:>9.1} µs {b:>9.1} µs {c:>9.1} µs {d:>9.1} µs {:>7.2} {:>7.2}",
                format!("{layout:?}"),
                b / a,
                d / c
            );
        }
    }
}

fn main() {
    let mut arguments = std::env::args().skip_while(|argument| argument != "ratios");
    if arguments.next().is_some() {
        return ratios(&arguments.next().filter(|only| !only.starts_with('-')).unwrap_or_default());
    }
    let mut criterion = Criterion::default().configure_from_args();
    times(&mut criterion);
    criterion.final_summary();
}
