//! Whole recipes, one thread: from a JPEG's bytes to a normalised float32 tensor, against the usual pipeline
//! (libjpeg-turbo decodes everything, then crop, `fast_image_resize`, normalise).
//!
//! `cargo bench -p feedline-pixels --bench recipes -- PATH... [--rounds N]`
//!
//! Techniques take turns over the whole set; the best round of each counts, in CPU time of this thread. The output is the
//! table of docs/performance.md.
#![expect(clippy::print_stdout, reason = "a benchmark reports to the terminal")]

use std::path::{Path, PathBuf};
use std::time::Instant;

use fast_image_resize::images::{Image as RivalImage, ImageRef as RivalRef};
use fast_image_resize::{FilterType, PixelType, ResizeAlg, ResizeOptions, Resizer};
use feedline_pixels::jpeg::{Decoder, Scale};
use feedline_pixels::{
    Dtype, Filter, Finish, Geometry, ImageMut, ImageRef, Normalise, PixelLayout, Region, Renderer, Size, dct,
    turbo,
};

const SIDE: u32 = 224;
const LIMIT: u64 = 1 << 28;

struct Photo {
    bytes: Vec<u8>,
    /// What `pack --baseline` stores: progressive files rewritten without loss, others as they are.
    baseline: Vec<u8>,
    progressive: bool,
    index: Option<Vec<u8>>,
    coefficients: Vec<u8>,
    size: Size,
    train: Geometry,
    validation: Geometry,
}

fn main() {
    let mut rounds = 5;
    let mut paths = Vec::new();
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--rounds" => rounds = arguments.next().and_then(|n| n.parse().ok()).unwrap_or(5),
            other if other.starts_with("--") => {}
            path => paths.push(PathBuf::from(path)),
        }
    }
    if paths.is_empty() {
        println!("no PATH given: nothing to measure");
        return;
    }
    for path in &paths {
        measure(path, rounds);
    }
}

fn measure(path: &Path, rounds: usize) {
    let mut files = Vec::new();
    collect(path, &mut files);
    files.sort();
    let mut random = Random(7);
    let photos: Vec<Photo> = files.iter().filter_map(|file| Photo::load(file, &mut random)).collect();
    if photos.is_empty() {
        return println!("{}: no JPEG that all ways can decode", path.display());
    }
    let mut out = vec![0u8; (SIDE * SIDE * 3 * 4) as usize];
    let mut techniques = techniques();
    for _ in 0..rounds {
        for technique in &mut techniques {
            let begun = cpu_time();
            for photo in &photos {
                (technique.run)(photo, &mut out);
            }
            let each = (cpu_time() - begun) as f64 / photos.len() as f64 / 1e3;
            technique.best = technique.best.min(each);
        }
    }
    report(path, &photos, &techniques);
}

fn report(path: &Path, photos: &[Photo], techniques: &[Technique]) {
    let megapixels = photos.iter().map(|p| p.size.area()).sum::<u64>() as f64 / photos.len() as f64 / 1e6;
    let name =
        path.file_name().map_or_else(|| path.display().to_string(), |n| n.to_string_lossy().into_owned());
    println!("\n{name}: {} photos, {megapixels:.2} MP on average\n", photos.len());
    let progressive = photos.iter().filter(|p| p.progressive).count();
    if progressive > 0 {
        println!(
            "{progressive} of them are progressive; the ways with an index read them as `pack --baseline` stores them.\n"
        );
    }
    println!("| recipe | technique | us/image | x naive |");
    println!("|---|---|--:|--:|");
    let mut naive = 0.0;
    for technique in techniques {
        if technique.name == "naive" {
            naive = technique.best;
        }
        let ratio = naive / technique.best;
        println!("| {} | {} | {:.0} | {ratio:.2} |", technique.recipe, technique.name, technique.best);
    }
}

type Run = Box<dyn FnMut(&Photo, &mut [u8])>;

struct Technique {
    recipe: &'static str,
    name: &'static str,
    run: Run,
    best: f64,
}

fn techniques() -> Vec<Technique> {
    let mut all = Vec::new();
    for (recipe, geometry) in [("train", train as fn(&Photo) -> &Geometry), ("validation", validation)] {
        let mut add = |name, run: Run| {
            all.push(Technique { recipe, name, run, best: f64::INFINITY });
        };
        let mut naive = Naive::default();
        add("naive", Box::new(move |photo, out| naive.run(photo, geometry(photo), out)));
        for (name, way) in [
            ("jpeg", Way::Jpeg),
            ("jpeg + index", Way::Indexed),
            ("dct", Way::Dct),
            ("jpeg + index, fast", Way::FastIndexed),
            ("dct, fast", Way::FastDct),
        ] {
            let mut ours = Ours::default();
            add(name, Box::new(move |photo, out| ours.run(photo, geometry(photo), way, out)));
        }
    }
    all
}

fn train(photo: &Photo) -> &Geometry {
    &photo.train
}

fn validation(photo: &Photo) -> &Geometry {
    &photo.validation
}

#[derive(Clone, Copy, PartialEq)]
enum Way {
    Jpeg,
    Indexed,
    Dct,
    FastIndexed,
    FastDct,
}

#[derive(Default)]
struct Ours {
    jpeg: Decoder,
    dct: dct::Decoder,
    renderer: Renderer,
}

impl Ours {
    fn run(&mut self, photo: &Photo, geometry: &Geometry, way: Way, out: &mut [u8]) {
        let finish = Finish::tensor(Dtype::F32, Normalise::IMAGENET);
        let fast = matches!(way, Way::FastIndexed | Way::FastDct);
        let (scale, geometry) = if fast { Scale::reduce(geometry) } else { (Scale::Full, *geometry) };
        let needed = geometry.needed(Filter::Bilinear).expect("boxes lie inside");
        let mut rendering =
            self.renderer.begin(&geometry, Filter::Bilinear, &finish, out).expect("a good geometry");
        let mut take = |y: u32, strip: ImageRef<'_>| {
            rendering.push((needed.x, needed.y + y), strip).expect("strips fit");
        };
        if matches!(way, Way::Dct | Way::FastDct) {
            let done =
                self.dct.decode_region(&photo.coefficients, needed, scale, PixelLayout::Rgbx, &mut take);
            done.expect("checked when loaded");
        } else {
            let plain = way == Way::Jpeg;
            let (bytes, index) =
                if plain { (&photo.bytes, None) } else { (&photo.baseline, photo.index.as_deref()) };
            let done = self.jpeg.decode_region(bytes, index, needed, scale, PixelLayout::Rgbx, &mut take);
            done.expect("checked when loaded");
        }
        rendering.finish().expect("all rows were pushed");
    }
}

/// What one writes with good libraries: decode all, crop, resize, normalise.
#[derive(Default)]
struct Naive {
    pixels: Vec<u8>,
    crop: Vec<u8>,
    resized: Vec<u8>,
    resizer: Resizer,
}

impl Naive {
    fn run(&mut self, photo: &Photo, geometry: &Geometry, out: &mut [u8]) {
        let Size { width, height } = photo.size;
        let stride = width as usize * 3;
        self.pixels.resize(stride * height as usize, 0);
        let mut image =
            ImageMut::new(&mut self.pixels, photo.size, stride, PixelLayout::Rgb).expect("it fits");
        turbo::decode_region(&photo.bytes, Region::whole(photo.size), 8, LIMIT, &mut image)
            .expect("checked when loaded");
        self.crop.clear();
        let region = geometry.crop;
        for y in region.y..region.bottom() {
            let row = y as usize * stride + region.x as usize * 3;
            self.crop.extend_from_slice(&self.pixels[row..row + region.width as usize * 3]);
        }
        let source =
            RivalRef::new(region.width, region.height, &self.crop, PixelType::U8x3).expect("it fits");
        let size = geometry.resized;
        self.resized.resize(size.area() as usize * 3, 0);
        let mut target =
            RivalImage::from_slice_u8(size.width, size.height, &mut self.resized, PixelType::U8x3)
                .expect("it fits");
        let options = ResizeOptions::new().resize_alg(ResizeAlg::Convolution(FilterType::Bilinear));
        self.resizer.resize(&source, &mut target, &options).expect("sizes are right");
        normalise(&self.resized, size, geometry, out);
    }
}

/// The window of `pixels` as float32 planes.
fn normalise(pixels: &[u8], size: Size, geometry: &Geometry, out: &mut [u8]) {
    let Normalise { mean, std } = Normalise::IMAGENET;
    let scale: [f32; 3] = std::array::from_fn(|c| 1.0 / (255.0 * std[c]));
    let shift: [f32; 3] = std::array::from_fn(|c| -mean[c] / std[c]);
    let plane = (SIDE * SIDE) as usize * 4;
    let (x0, y0) = (geometry.window.x as usize, geometry.window.y as usize);
    let [red, rest] = split(out, plane);
    let [green, blue] = split(rest, plane);
    for y in 0..SIDE as usize {
        let row = &pixels[((y + y0) * size.width as usize + x0) * 3..][..SIDE as usize * 3];
        let line = y * SIDE as usize * 4..(y + 1) * SIDE as usize * 4;
        let planes = red[line.clone()].chunks_exact_mut(4).zip(green[line.clone()].chunks_exact_mut(4));
        for (pixel, ((r, g), b)) in row.chunks_exact(3).zip(planes.zip(blue[line].chunks_exact_mut(4))) {
            r.copy_from_slice(&(f32::from(pixel[0]) * scale[0] + shift[0]).to_le_bytes());
            g.copy_from_slice(&(f32::from(pixel[1]) * scale[1] + shift[1]).to_le_bytes());
            b.copy_from_slice(&(f32::from(pixel[2]) * scale[2] + shift[2]).to_le_bytes());
        }
    }
}

fn split(bytes: &mut [u8], at: usize) -> [&mut [u8]; 2] {
    let (a, b) = bytes.split_at_mut(at);
    [a, b]
}

impl Photo {
    fn load(path: &Path, random: &mut Random) -> Option<Photo> {
        let bytes = std::fs::read(path).ok()?;
        if !bytes.starts_with(&[0xff, 0xd8, 0xff]) {
            return None;
        }
        let size = turbo::header(&bytes).ok()?.size;
        let coefficients = dct::encode(&bytes, LIMIT).ok()?;
        let progressive = feedline_pixels::jpeg::probe(&bytes).ok()?.progressive;
        let baseline = if progressive { turbo::to_baseline(&bytes, LIMIT).ok()? } else { bytes.clone() };
        let index = Decoder::new().build_index(&baseline);
        let crop = random.resized_crop(size);
        let train = Geometry::crop_resize(size, crop, Size::new(SIDE, SIDE));
        let validation = Geometry::resize_center_crop(size, shorter(size, 256), Size::new(SIDE, SIDE));
        let train = train.with_flip_horizontal(random.unit() < 0.5);
        Some(Photo { bytes, baseline, progressive, index, coefficients, size, train, validation })
    }
}

fn shorter(size: Size, side: u32) -> Size {
    let long = |long: u32, short: u32| (f64::from(side) * f64::from(long) / f64::from(short)) as u32;
    if size.width <= size.height {
        Size::new(side, long(size.height, size.width))
    } else {
        Size::new(long(size.width, size.height), side)
    }
}

fn collect(path: &Path, files: &mut Vec<PathBuf>) {
    if path.is_file() {
        return files.push(path.to_owned());
    }
    for entry in std::fs::read_dir(path).into_iter().flatten().flatten() {
        collect(&entry.path(), files);
    }
}

/// Nanoseconds of CPU this thread has used.
fn cpu_time() -> u64 {
    static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let own = text.and_then(|t| t.split_whitespace().next()?.parse().ok());
    own.unwrap_or_else(|| START.get_or_init(Instant::now).elapsed().as_nanos() as u64)
}

struct Random(u64);

impl Random {
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }

    /// torchvision's sampling.
    fn resized_crop(&mut self, size: Size) -> Region {
        for _ in 0..10 {
            let area = size.area() as f64 * (0.08 + 0.92 * self.unit());
            let ratio = ((3f64 / 4.0).ln() + self.unit() * (16f64 / 9.0).ln()).exp();
            let (width, height) =
                ((area * ratio).sqrt().round() as u32, (area / ratio).sqrt().round() as u32);
            if (1..=size.width).contains(&width) && (1..=size.height).contains(&height) {
                let x = (self.unit() * f64::from(size.width - width + 1)) as u32;
                let y = (self.unit() * f64::from(size.height - height + 1)) as u32;
                return Region::new(x, y, width, height);
            }
        }
        let side = size.width.min(size.height);
        Region::new((size.width - side) / 2, (size.height - side) / 2, side, side)
    }
}
