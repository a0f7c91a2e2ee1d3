//! Resizing and windows against what Pillow and torchvision gave (`tools/make_resize_golden.py`).

use feedline_pixels::*;

/// The image of `make_resize_golden.py`.
fn synthetic(size: Size, layout: PixelLayout) -> Vec<u8> {
    let mut bytes = Vec::new();
    for y in 0..size.height {
        for x in 0..size.width {
            let noise = x.wrapping_mul(2654435761).wrapping_add(y.wrapping_mul(2246822519));
            let noise = (noise ^ (noise >> 15)).wrapping_mul(2654435761) >> 24;
            let red = (x * 255 / (size.width - 1).max(1) + noise / 8).min(255);
            let green = if (x / 7 + y / 5).is_multiple_of(2) { 0 } else { 255 };
            bytes.extend_from_slice(&[red as u8, green, noise as u8]);
            if layout == PixelLayout::Rgbx {
                bytes.push(255);
            }
        }
    }
    bytes
}

struct Case {
    line: String,
    filter: Filter,
    geometry: Geometry,
    expected: Vec<u8>,
}

fn cases() -> Vec<Case> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/resize/");
    let table = std::fs::read_to_string(format!("{folder}golden.txt")).unwrap();
    let blob = std::fs::read(format!("{folder}golden.bin")).unwrap();
    table.lines().map(|line| parse(line, &blob)).collect()
}

fn parse(line: &str, blob: &[u8]) -> Case {
    let (name, numbers) = line.split_once(' ').unwrap();
    let filter = match name {
        "nearest" => Filter::Nearest,
        "box" => Filter::Box,
        "bilinear" => Filter::Bilinear,
        "hamming" => Filter::Hamming,
        "bicubic" => Filter::Bicubic,
        "lanczos" => Filter::Lanczos,
        other => panic!("{other}"),
    };
    let signed: Vec<i32> = numbers.split(' ').map(|number| number.parse().unwrap()).collect();
    let n: Vec<u32> = signed.iter().map(|number| number.cast_unsigned()).collect();
    let geometry = Geometry {
        image: Size::new(n[0], n[1]),
        crop: Region::new(n[2], n[3], n[4], n[5]),
        resized: Size::new(n[6], n[7]),
        window: Window::new(signed[8], signed[9], n[10], n[11]),
        fill: [n[12] as u8; 3],
        flip_horizontal: n[13] == 1,
        flip_vertical: n[14] == 1,
    };
    let length = geometry.output().area() as usize * 3;
    Case { line: line.into(), filter, geometry, expected: blob[n[15] as usize..][..length].to_vec() }
}

/// Largest difference to Pillow that each filter may show. Lanczos at 45 : 1 sums 272 products of 14 bits each.
fn tolerance(filter: Filter) -> u8 {
    match filter {
        Filter::Nearest => 0,
        Filter::Lanczos => 2,
        _ => 1,
    }
}

#[test]
fn equals_pillow_within_a_level() {
    for case in cases() {
        for layout in [PixelLayout::Rgb, PixelLayout::Rgbx] {
            for level in CpuLevel::available() {
                check(&case, layout, level);
            }
        }
    }
}

fn check(case: &Case, layout: PixelLayout, level: CpuLevel) {
    let image = case.geometry.image;
    let bytes = synthetic(image, layout);
    let pixels = ImageRef::new(&bytes, image, image.width as usize * layout.bytes(), layout).unwrap();
    let finish = Finish::bytes(TensorLayout::ChannelsLast);
    let mut out = vec![7u8; finish.output_bytes(case.geometry.output())];
    let mut renderer = Renderer::with_level(level);
    renderer.render_image(pixels, (0, 0), &case.geometry, case.filter, &finish, &mut out).unwrap();
    let worst = out.iter().zip(&case.expected).map(|(a, b)| a.abs_diff(*b)).max().unwrap();
    assert!(worst <= tolerance(case.filter), "{} {layout:?} {level:?}: off by {worst}", case.line);
}
