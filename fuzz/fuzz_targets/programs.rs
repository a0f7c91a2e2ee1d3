//! Random lists of transforms on random small images: no crash, no access out of bounds, results of the announced form,
//! the same on every run and when replayed. And every kernel at every CPU level gives what the reference gives; geometry
//! for masks moves every kind of pixel.
#![no_main]

use feedline::Transform;
use feedline::apply::{DrawFrom, ImageOps, Moved, replay};
use feedline::transform::Boxes;
use feedline::DType;
use feedline::field::MemoryFormat;
use feedline_pixels::{
    Border, Clahe, CpuLevel, Effect, Filter, Finish, Gaussian, Geometry, ImageRef, Kernel, Map, Nearest, Orientation,
    Outside, PixelLayout, Places, Point, Region, Renderer, RowOp, Sample, Size, Table, TensorLayout, Warp, WarpFilter,
    WholeOp, WholeRunner, Window, resample_wide,
};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

/// One of every transform, as JSON lines: what is drawn of them is decided by the input.
const OPS: &str = include_str!("programs.jsonl");

/// The input, number by number; zeros when it is used up.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn byte(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        *first
    }

    fn below(&mut self, limit: u32) -> u32 {
        (u32::from(self.byte()) << 8 | u32::from(self.byte())) % limit
    }

    fn side(&mut self) -> u32 {
        1 + self.below(48)
    }

    fn size(&mut self) -> Size {
        Size::new(self.side(), self.side())
    }

    /// From -1 to 1, now and then far outside.
    fn number(&mut self) -> f64 {
        let number = f64::from(self.byte()) / 127.5 - 1.0;
        if self.byte() == 255 { number * 1e12 } else { number }
    }

    fn pixels(&mut self, bytes: usize) -> Vec<u8> {
        let seed = u32::from(self.byte());
        (0..bytes as u32).map(|i| ((i + seed).wrapping_mul(2654435761) >> (seed % 24)) as u8).collect()
    }

    /// The same value with some of its numbers changed.
    fn changed(&mut self, value: &mut Value) {
        match value {
            Value::Object(fields) => {
                let names: Vec<String> = fields.keys().filter(|name| *name != "op").cloned().collect();
                names.iter().for_each(|name| self.changed(&mut fields[name.as_str()]));
            }
            Value::Array(values) => values.iter_mut().for_each(|value| self.changed(value)),
            Value::Bool(flag) => *flag ^= self.byte() & 1 == 1,
            Value::Number(number) => {
                let whole = !number.is_f64();
                let old = number.as_f64().unwrap_or(0.0);
                let new = match self.byte() % 16 {
                    0 => old * 2.0,
                    1 => old + 1.0,
                    2 => old / 2.0,
                    3 => 0.0,
                    4 => 1.0,
                    5 => f64::from(self.byte()),
                    6 => -old,
                    _ => old,
                };
                *value = if whole { Value::from(new as i64) } else { Value::from(new) };
            }
            _ => {}
        }
    }
}

fn programs(input: &mut Input<'_>) {
    let templates: Vec<&str> = OPS.lines().collect();
    let mut list = Vec::new();
    for _ in 0..1 + input.byte() % 5 {
        let template = templates[input.below(templates.len() as u32) as usize];
        let mut op: Value = serde_json::from_str(template).expect("a line of JSON");
        input.changed(&mut op);
        list.push(op);
    }
    let Ok(transforms) = serde_json::from_value::<Vec<Transform>>(Value::Array(list)) else { return };
    let dtype = [DType::U8, DType::F32, DType::F16, DType::BF16];
    let dtype = dtype[input.byte() as usize % 4];
    let format = [MemoryFormat::ChannelsLast, MemoryFormat::ChannelsFirst][input.byte() as usize % 2];
    let Ok(ops) = ImageOps::new("image", &transforms, (0, 0), dtype, format) else { return };
    let (width, height) = (input.side(), input.side());
    let pixels = input.pixels((width * height * 3) as usize);
    let from = DrawFrom { seed: u64::from(input.byte()), epoch: 0, sample: u64::from(input.byte()) };
    // A list may ask for an image larger than a fuzzer should make.
    let looks_at_boxes = format!("{transforms:?}").contains("RandomIoUCrop");
    match ops.draw(height, width, from) {
        Ok(drawn) if drawn.bytes() > 1 << 22 => return,
        Err(_) if !looks_at_boxes => return,
        _ => {}
    }
    let boxes: Vec<[f64; 4]> = (0..input.byte() % 4)
        .map(|_| [0.0; 4].map(|_: f64| f64::from(input.below(48))))
        .map(|[a, b, c, d]| [a.min(c), b.min(d), a.max(c), b.max(d)])
        .collect();
    let rules = Boxes::default();
    let applied = || ops.apply_among(&pixels, (height, width), from, Some((&rules, &boxes)));
    let Ok((made, params)) = applied() else { return };
    assert_eq!(made.shape.iter().product::<u64>() as usize * element(dtype), made.bytes.len());
    assert!(applied().expect("it could be done").0 == made, "{transforms:?}");
    if made.shape.len() > 3 {
        return;
    }
    let moved = Moved::new(&params, (height, width)).expect("what was done can be done to boxes");
    moved.boxes(&rules, &boxes).expect("boxes move");
    let again = replay(&params, &pixels, (height, width), dtype, format).expect("what was done can be replayed");
    assert!(again == made, "{transforms:?} {params}");
}

fn element(dtype: DType) -> usize {
    match dtype {
        DType::U8 => 1,
        DType::F32 => 4,
        _ => 2,
    }
}

fn whole_op(input: &mut Input<'_>, size: Size) -> WholeOp {
    let kernel = |input: &mut Input<'_>| 1 + 2 * input.below(9);
    match input.byte() % 8 {
        7 => WholeOp::Effect(Box::new(effect(input, size))),
        0 => WholeOp::Contrast(input.number() as f32 * 3.0),
        1 => WholeOp::Equalize,
        2 => WholeOp::Autocontrast,
        3 => WholeOp::Sharpness(input.number() as f32 * 3.0),
        4 => {
            let sigma = 0.05 + input.number().abs() * 4.0;
            WholeOp::Blur(Gaussian::new((kernel(input), kernel(input)), (sigma, sigma)))
        }
        5 => {
            let border = [Border::Edge, Border::Reflect, Border::Symmetric][input.byte() as usize % 3];
            WholeOp::Pad([0; 4].map(|_: u32| input.below(70)), border)
        }
        _ => WholeOp::Erase(region(input, size), [1, 2, 3]),
    }
}

fn effect(input: &mut Input<'_>, size: Size) -> Effect {
    match input.byte() % 7 {
        0 => {
            let (width, height) = (1 + 2 * input.below(4), 1 + 2 * input.below(4));
            let weights = (0..width * height).map(|_| input.number() as f32).collect();
            Effect::Filter(Kernel { width, height, weights })
        }
        1 => Effect::BoxBlur(input.number() as f32 * 5.0),
        2 => Effect::Clahe(Clahe {
            clip_limit: input.number() as f32 * 8.0,
            tiles: (1 + input.below(12), 1 + input.below(12)),
        }),
        3 => Effect::TensorContrast(input.number() as f32 * 3.0),
        4 => Effect::TensorAutocontrast,
        5 => Effect::Recompress(1 + input.byte() % 100),
        _ => Effect::Sample(sample(input, size)),
    }
}

fn sample(input: &mut Input<'_>, size: Size) -> Sample {
    let outside = [Outside::Fill([9, 8, 7]), Outside::Edge, Outside::Reflect][input.byte() as usize % 3];
    let filter = [WarpFilter::Nearest, WarpFilter::Bilinear][input.byte() as usize % 2];
    let places = match input.byte() % 3 {
        0 => Places::Map(warp(input).map),
        1 => Places::Lens { distortion: input.number() * 3.0, shift: (input.number() * 9.0, input.number() * 9.0) },
        _ => Places::Elastic { alpha: (input.byte().into(), 20.0), sigma: (2.0, 1.0), seed: input.byte().into() },
    };
    // A field and a lens belong to the image; a map may lead anywhere.
    let output = if matches!(places, Places::Map(_)) { input.size() } else { size };
    Sample { places, output, filter, outside }
}

fn row_op(input: &mut Input<'_>) -> RowOp {
    match input.byte() % 9 {
        6 => RowOp::Point(Point::TensorSaturation(input.number() as f32 * 3.0)),
        7 => RowOp::Point(Point::TensorGrey),
        8 => {
            let rows = [[0.0; 3]; 3].map(|row: [f32; 3]| row.map(|_| input.number() as f32 * 2.0));
            RowOp::Point(Point::Matrix { rows, add: [input.number() as f32 * 200.0; 3] })
        }
        0 => RowOp::Saturation(input.number() as f32 * 3.0),
        1 => RowOp::Grey,
        2 => RowOp::Hue(input.byte()),
        3 => RowOp::Permute([0; 3].map(|_: u8| input.byte() % 3)),
        4 => {
            let from = input.byte();
            RowOp::Table(Table::of(|x| if x >= from { !x } else { x }))
        }
        _ => {
            let (factor, flip) = (input.byte(), input.byte());
            RowOp::Table(Table::of(|x| x.wrapping_mul(factor) ^ flip))
        }
    }
}

fn region(input: &mut Input<'_>, size: Size) -> Region {
    let (x, y) = (input.below(size.width), input.below(size.height));
    Region::new(x, y, 1 + input.below(size.width - x), 1 + input.below(size.height - y))
}

fn warp(input: &mut Input<'_>) -> Warp {
    let output = input.size();
    let filter = [WarpFilter::Nearest, WarpFilter::Bilinear][input.byte() as usize % 2];
    let map = if input.byte() % 2 == 0 {
        let [a, b, c, d, e, f] = [2.0, 2.0, 40.0, 2.0, 2.0, 40.0].map(|most| input.number() * most);
        Map::Affine([a, b, c, d, e, f])
    } else {
        let map = [2.0, 2.0, 40.0, 2.0, 2.0, 40.0, 0.1, 0.1].map(|most| input.number() * most);
        Map::Perspective(map)
    };
    Warp { map, output, filter, fill: [9, 8, 7] }
}

/// The first three bytes of every four: the last one nobody reads.
fn colours(pixels: &[u8]) -> Vec<u8> {
    pixels.chunks_exact(4).flat_map(|pixel| pixel[..3].to_vec()).collect()
}

fn levels_agree(input: &mut Input<'_>) {
    let size = input.size();
    let pixels = input.pixels(size.area() as usize * 4);
    let (op, row, warp) = (whole_op(input, size), row_op(input), warp(input));
    let made = |level| {
        let mut runner = WholeRunner::with_level(level);
        let mut image = pixels.clone();
        runner.rows(std::slice::from_ref(&row), &mut image, size);
        let after = runner.run(&op, &mut image, size).unwrap_or(size);
        runner.warp(&warp, &mut image, after).expect("a warp always can be done");
        colours(&image)
    };
    let expected = made(CpuLevel::Scalar);
    for level in CpuLevel::available() {
        assert!(made(level) == expected, "{level:?} {row:?} {op:?} {warp:?} {size:?}");
    }
    resizes_agree(input, &pixels, size);
}

/// Crops, resizes, windows and flips, with every filter.
fn resizes_agree(input: &mut Input<'_>, pixels: &[u8], size: Size) {
    let filters = [Filter::Nearest, Filter::Box, Filter::Bilinear, Filter::Hamming, Filter::Bicubic, Filter::Lanczos];
    let filter = filters[input.byte() as usize % filters.len()];
    let geometry = geometry(input, size);
    let finish = Finish::bytes(TensorLayout::ChannelsLast);
    let image = ImageRef::new(pixels, size, size.width as usize * 4, PixelLayout::Rgbx).expect("it fits");
    let made = |level| {
        let mut out = vec![0; finish.output_bytes(geometry.output())];
        let done = Renderer::with_level(level).render_image(image, (0, 0), &geometry, filter, &finish, &mut out);
        done.expect("it fits");
        out
    };
    let expected = made(CpuLevel::Scalar);
    for level in CpuLevel::available() {
        assert!(made(level) == expected, "{level:?} {filter:?} {geometry:?}");
    }
}

fn geometry(input: &mut Input<'_>, size: Size) -> Geometry {
    let mut geometry = Geometry::crop_resize(size, region(input, size), input.size());
    let offset = |input: &mut Input<'_>| input.below(80) as i32 - 40;
    geometry.window = Window::new(offset(input), offset(input), input.side(), input.side());
    (geometry.flip_horizontal, geometry.flip_vertical) = (input.byte() & 1 == 1, input.byte() & 1 == 1);
    geometry
}

fn all_layouts(input: &mut Input<'_>) {
    let layout = PixelLayout::ALL[input.byte() as usize % PixelLayout::ALL.len()];
    let size = input.size();
    let bytes = layout.bytes();
    let pixels = input.pixels(size.area() as usize * bytes);
    let image = ImageRef::new(&pixels, size, size.width as usize * bytes, layout).expect("it fits");
    let (mut nearest, mut out, fill) = (Nearest::default(), Vec::new(), vec![7; bytes]);
    let geometry = geometry(input, size);
    let wide = resample_wide(&geometry, Filter::Lanczos, image, &mut out).expect("it fits");
    assert_eq!(out.len(), wide.area() as usize * bytes);
    let made = nearest.resample(&geometry, image, &fill, &mut out).expect("it fits");
    assert_eq!(out.len(), made.area() as usize * bytes);
    let op = warp(input);
    nearest.warp(&op, image, &fill, &mut out).expect("a warp always can be done");
    nearest.pad([1, 2, 3, 60], Border::Reflect, image, &mut out).expect("it fits");
    let turned = Orientation::from_exif(u32::from(input.byte() % 9));
    assert_eq!(nearest.turn(turned, image, &mut out).expect("it fits").area(), size.area());
}

fuzz_target!(|bytes: &[u8]| {
    let mut input = Input(bytes);
    match input.byte() % 4 {
        0 => levels_agree(&mut input),
        1 => all_layouts(&mut input),
        _ => programs(&mut input),
    }
});
