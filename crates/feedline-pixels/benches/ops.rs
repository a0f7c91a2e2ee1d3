//! Every operation on pixels at every CPU level of this machine: `cargo bench -p feedline-pixels --bench ops`.
//!
//! Microseconds per image of 224 × 224 and of 512 × 512, the best of many runs on one thread. Memory to memory: the image
//! is four bytes a pixel before and after, as between two passes of a program.
#![expect(clippy::print_stdout, reason = "it prints a table")]

use std::hint::black_box;
use std::time::Instant;

use feedline_pixels::{
    Border, CpuLevel, Filter, Finish, Gaussian, Geometry, ImageRef, Map, PixelLayout, Region, Renderer,
    RowOp, Size, Table, TensorLayout, Warp, WarpFilter, WholeOp, WholeRunner,
};

fn main() {
    let levels = CpuLevel::available();
    print!("{:<34}", "us per image");
    for side in [224, 512] {
        for level in &levels {
            print!("{:>12}", format!("{} {side}", level.name()));
        }
    }
    println!();
    let mut rows: Vec<(&str, Vec<f64>)> = Vec::new();
    for side in [224, 512] {
        for level in &levels {
            for (at, (name, time)) in measured(*level, Size::new(side, side)).into_iter().enumerate() {
                if rows.len() <= at {
                    rows.push((name, Vec::new()));
                }
                rows[at].1.push(time);
            }
        }
    }
    for (name, times) in rows {
        print!("{name:<34}");
        for time in times {
            print!("{time:>12.1}");
        }
        println!();
    }
}

/// An image with gradients, edges and noise: bytes of four channels.
fn picture(size: Size) -> Vec<u8> {
    let pixel = |x: u32, y: u32| {
        let noise = (x.wrapping_mul(2654435761) ^ y.wrapping_mul(40503)).wrapping_mul(2246822519) >> 28;
        let edge = if (x / 40 + y / 30).is_multiple_of(2) { 60 } else { 0 };
        [x / 3 + noise, y / 3 + edge, (x + y) / 5 + noise + edge, 255].map(|value| value.min(255) as u8)
    };
    (0..size.area() as u32).flat_map(|at| pixel(at % size.width, at / size.width)).collect()
}

fn best(mut work: impl FnMut()) -> f64 {
    let begun = Instant::now();
    let mut least = f64::MAX;
    let mut rounds = 0;
    while rounds < 5 || (begun.elapsed().as_millis() < 60 && rounds < 2000) {
        let start = Instant::now();
        work();
        least = least.min(start.elapsed().as_secs_f64());
        rounds += 1;
    }
    least * 1e6
}

fn whole_ops(size: Size) -> Vec<(&'static str, WholeOp)> {
    let blur = |kernel, sigma| WholeOp::Blur(Gaussian::new((kernel, kernel), (sigma, sigma)));
    vec![
        ("contrast", WholeOp::Contrast(1.3)),
        ("equalize", WholeOp::Equalize),
        ("autocontrast", WholeOp::Autocontrast),
        ("sharpness", WholeOp::Sharpness(1.7)),
        ("blur 3", blur(3, 0.8)),
        ("blur 9", blur(9, 1.7)),
        ("blur 23", blur(23, 1.5)),
        ("pad 4, reflect", WholeOp::Pad([4; 4], Border::Reflect)),
        ("erase a quarter", WholeOp::Erase(Region::new(9, 9, size.width / 2, size.height / 2), [1, 2, 3])),
    ]
}

fn row_ops() -> Vec<(&'static str, RowOp)> {
    vec![
        ("brightness", RowOp::Table(Table::of(|x| (f32::from(x) * 1.3).min(255.0) as u8))),
        ("invert", RowOp::Table(Table::of(|x| !x))),
        ("posterize", RowOp::Table(Table::of(|x| x & 0xF0))),
        ("solarize", RowOp::Table(Table::of(|x| if x >= 128 { !x } else { x }))),
        ("saturation", RowOp::Saturation(1.3)),
        ("grayscale", RowOp::Grey),
        ("hue", RowOp::Hue(25)),
        ("permute channels", RowOp::Permute([2, 0, 1])),
    ]
}

fn warps(size: Size) -> Vec<(&'static str, Warp)> {
    let (sine, cosine) = (0.5, 0.75f64.sqrt());
    let middle = f64::from(size.width) / 2.0;
    let turn = [cosine, sine, middle * (1.0 - cosine - sine), -sine, cosine, middle * (1.0 - cosine + sine)];
    let slant = [1.1, 0.1, -9.0, 0.05, 0.9, 4.0, 0.0002, -0.0003];
    let warp = |map, filter| Warp { map, output: size, filter, fill: [0; 3] };
    vec![
        ("rotate nearest", warp(Map::Affine(turn), WarpFilter::Nearest)),
        ("rotate bilinear", warp(Map::Affine(turn), WarpFilter::Bilinear)),
        ("perspective bilinear", warp(Map::Perspective(slant), WarpFilter::Bilinear)),
    ]
}

fn resizes(size: Size) -> Vec<(&'static str, Geometry, Filter)> {
    let half = Geometry::crop_resize(size, Region::whole(size), Size::new(size.width / 2, size.height / 2));
    let crop = Region::new(size.width / 8, size.height / 8, size.width * 5 / 8, size.height / 2);
    let crop = Geometry::crop_resize(size, crop, Size::new(224, 224));
    vec![
        ("half, bilinear", half, Filter::Bilinear),
        ("half, bicubic", half, Filter::Bicubic),
        ("half, lanczos", half, Filter::Lanczos),
        ("half, nearest", half, Filter::Nearest),
        ("crop to 224, bilinear", crop, Filter::Bilinear),
        ("mirror", Geometry::identity(size).with_flip_horizontal(true), Filter::Bilinear),
        ("copy", Geometry::identity(size), Filter::Bilinear),
    ]
}

fn measured(level: CpuLevel, size: Size) -> Vec<(&'static str, f64)> {
    let mut runner = WholeRunner::with_level(level);
    let image = picture(size);
    let mut pixels = image.clone();
    let mut all = Vec::new();
    for (name, op) in row_ops() {
        all.push((name, best(|| runner.rows(std::slice::from_ref(&op), black_box(&mut pixels), size))));
        pixels.clone_from(&image);
    }
    for (name, op) in whole_ops(size) {
        let time = best(|| {
            pixels.resize(image.len(), 0);
            runner.run(&op, black_box(&mut pixels), size).expect("it fits");
        });
        all.push((name, time));
        pixels.clone_from(&image);
    }
    for (name, warp) in warps(size) {
        all.push((name, best(|| runner.warp(&warp, black_box(&mut pixels), size).expect("it fits"))));
        pixels.clone_from(&image);
    }
    let mut renderer = Renderer::with_level(level);
    let rgb: Vec<u8> = image.chunks_exact(4).flat_map(|pixel| pixel[..3].to_vec()).collect();
    let view = ImageRef::new(&rgb, size, size.width as usize * 3, PixelLayout::Rgb).expect("it fits");
    let finish = Finish::bytes(TensorLayout::ChannelsLast);
    for (name, geometry, filter) in resizes(size) {
        let mut out = vec![0; finish.output_bytes(geometry.output())];
        let time = best(|| {
            let done = renderer.render_image(view, (0, 0), &geometry, filter, &finish, black_box(&mut out));
            done.expect("it fits");
        });
        all.push((name, time));
    }
    all
}
