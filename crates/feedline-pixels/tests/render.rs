//! Properties of a rendering: every CPU level gives the same bytes, however rows are split into strips, whatever lies
//! around the needed region; and the values are those of a plain double-precision resize.

use feedline_pixels::*;
use proptest::prelude::*;

const FILTERS: [Filter; 6] =
    [Filter::Nearest, Filter::Box, Filter::Bilinear, Filter::Hamming, Filter::Bicubic, Filter::Lanczos];

prop_compose! {
    fn geometries()(
        width in 1u32..120, height in 1u32..120, resized_width in 1u32..90, resized_height in 1u32..90,
    )(
        x in 0..width, y in 0..height, size in Just((width, height, resized_width, resized_height)),
        far in any::<prop::sample::Index>(), low in any::<prop::sample::Index>(),
        window in (-20i32..40, -20i32..40, 1u32..70, 1u32..70), whole in any::<bool>(), same in prop::bool::weighted(0.1),
        flips in any::<(bool, bool)>(), fill in any::<[u8; 3]>(),
    ) -> Geometry {
        let (width, height, resized_width, resized_height) = size;
        let crop = Region::new(x, y, 1 + far.index((width - x) as usize) as u32, 1 + low.index((height - y) as usize) as u32);
        let resized = if same { crop.size() } else { Size::new(resized_width, resized_height) };
        Geometry {
            image: Size::new(width, height),
            crop,
            resized,
            window: if whole { Window::whole(resized) } else { Window::new(window.0, window.1, window.2, window.3) },
            fill,
            flip_horizontal: flips.0,
            flip_vertical: flips.1,
        }
    }
}

fn finishes() -> impl Strategy<Value = Finish> {
    let layouts = prop::sample::select(vec![TensorLayout::ChannelsFirst, TensorLayout::ChannelsLast]);
    let dtypes = prop::sample::select(vec![Dtype::F32, Dtype::F16, Dtype::BF16, Dtype::U8]);
    (layouts, dtypes, any::<bool>(), any::<bool>()).prop_map(|(layout, dtype, scale, normalise)| {
        let float = dtype != Dtype::U8;
        let normalise = (float && normalise).then_some(Normalise::IMAGENET);
        Finish { layout, dtype, scale: float && scale, normalise, channels: Channels::Rgb }
    })
}

fn noise(size: Size, layout: PixelLayout, seed: u32, hard: bool) -> Vec<u8> {
    let mut state = seed;
    let bytes = size.area() as usize * layout.bytes();
    let mut next = || {
        state = state.wrapping_mul(1664525).wrapping_add(1013904223);
        let byte = (state >> 24) as u8;
        if hard { if byte < 128 { 0 } else { 255 } } else { byte }
    };
    (0..bytes).map(|_| next()).collect()
}

fn view(bytes: &[u8], size: Size, layout: PixelLayout) -> ImageRef<'_> {
    ImageRef::new(bytes, size, size.width as usize * layout.bytes(), layout).unwrap()
}

fn render(
    level: CpuLevel,
    image: ImageRef<'_>,
    geometry: &Geometry,
    filter: Filter,
    finish: &Finish,
) -> Vec<u8> {
    let mut out = vec![0x55; finish.output_bytes(geometry.output())];
    Renderer::with_level(level).render_image(image, (0, 0), geometry, filter, finish, &mut out).unwrap();
    out
}

/// Only the needed region, at its own origin, in strips of changing height.
fn render_strips(
    renderer: &mut Renderer,
    image: ImageRef<'_>,
    geometry: &Geometry,
    filter: Filter,
    finish: &Finish,
    heights: &[u32],
) -> Vec<u8> {
    let mut out = vec![0xAA; finish.output_bytes(geometry.output())];
    let mut rendering = renderer.begin(geometry, filter, finish, &mut out).unwrap();
    if let Some(needed) = geometry.needed(filter) {
        let mut y = needed.y;
        for height in heights.iter().cycle() {
            if y == needed.bottom() {
                break;
            }
            let rows = (*height).min(needed.bottom() - y);
            let strip = image.crop(Region::new(needed.x, y, needed.width, rows)).unwrap();
            // A copy that ends with its last pixel: reading past it would be caught by a sanitizer.
            let copy: Vec<u8> = (0..rows).flat_map(|row| strip.row(row).to_vec()).collect();
            rendering.push((needed.x, y), view(&copy, strip.size, strip.layout)).unwrap();
            y += rows;
        }
    }
    rendering.finish().unwrap();
    out
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn cpu_levels_and_strips_agree(
        geometry in geometries(),
        finish in finishes(),
        filter in prop::sample::select(FILTERS.to_vec()),
        layout in prop::sample::select(vec![PixelLayout::Rgb, PixelLayout::Rgbx]),
        seed in any::<u32>(),
        hard in any::<bool>(),
        heights in prop::collection::vec(1u32..20, 1..5),
    ) {
        let bytes = noise(geometry.image, layout, seed, hard);
        let image = view(&bytes, geometry.image, layout);
        let expected = render(CpuLevel::Scalar, image, &geometry, filter, &finish);
        for level in CpuLevel::available() {
            prop_assert!(render(level, image, &geometry, filter, &finish) == expected, "{:?} whole", level);
            let mut renderer = Renderer::with_level(level);
            for round in 0..2 {
                let strips = render_strips(&mut renderer, image, &geometry, filter, &finish, &heights);
                prop_assert!(strips == expected, "{:?} in strips, use {}", level, round);
            }
        }
    }

    #[test]
    fn values_equal_a_plain_resize(
        geometry in geometries(),
        filter in prop::sample::select(vec![Filter::Box, Filter::Bilinear, Filter::Hamming]),
        seed in any::<u32>(),
        hard in any::<bool>(),
    ) {
        let bytes = noise(geometry.image, PixelLayout::Rgb, seed, hard);
        let image = view(&bytes, geometry.image, PixelLayout::Rgb);
        let finish = Finish::bytes(TensorLayout::ChannelsLast);
        let out = render(CpuLevel::detect(), image, &geometry, filter, &finish);
        let error = 0.02 * plain_taps(&geometry, filter);
        for (index, (low, high)) in plain(image, &geometry, filter, error).into_iter().enumerate() {
            let got = f64::from(out[index]);
            let near = low - 0.5 - error <= got && got <= high + 0.5 + error;
            prop_assert!(near, "{} is {}, not between {} and {}", index, got, low, high);
        }
    }
}

/// Allowed error, in units of 0.02 level: one unit per eight taps at most.
fn plain_taps(geometry: &Geometry, filter: Filter) -> f64 {
    let support = match filter {
        Filter::Bicubic => 4.0,
        Filter::Lanczos => 6.0,
        _ => 1.0,
    };
    let ratio = |from: u32, to: u32| (f64::from(from) / f64::from(to)).max(1.0);
    let ratios = ratio(geometry.crop.width, geometry.resized.width)
        + ratio(geometry.crop.height, geometry.resized.height);
    1.0 + support * ratios / 4.0
}

/// The hand-written reference: both passes in double precision, no tables, no tricks; rows blend first and are rounded.
/// What lies within `error` of a half may be rounded either way, so there are two ends to each value.
fn plain(image: ImageRef<'_>, geometry: &Geometry, filter: Filter, error: f64) -> Vec<(f64, f64)> {
    let Geometry { crop, resized, window, fill, .. } = *geometry;
    let mut values = Vec::new();
    for row in 0..window.height {
        for column in 0..window.width {
            let x = if geometry.flip_horizontal { window.width - 1 - column } else { column };
            let y = if geometry.flip_vertical { window.height - 1 - row } else { row };
            let (x, y) = (window.x + x as i32, window.y + y as i32);
            let inside = (0..resized.width as i32).contains(&x) && (0..resized.height as i32).contains(&y);
            for (channel, fill) in fill.into_iter().enumerate() {
                if !inside {
                    values.push((f64::from(fill), f64::from(fill)));
                    continue;
                }
                let rows = plain_weights(filter, crop.height, resized.height, y);
                let (mut low, mut high) = (0.0, 0.0);
                for (sx, wx) in plain_weights(filter, crop.width, resized.width, x) {
                    let at = (crop.x + sx) as usize * 3 + channel;
                    let blend: f64 =
                        rows.iter().map(|(sy, wy)| wy * f64::from(image.row(crop.y + sy)[at])).sum();
                    low += wx * (blend - error + 0.5).floor();
                    high += wx * (blend + error + 0.5).floor();
                }
                values.push((low, high));
            }
        }
    }
    values
}

fn plain_weights(filter: Filter, from: u32, to: u32, position: i32) -> Vec<(u32, f64)> {
    if from == to {
        return vec![(position as u32, 1.0)];
    }
    let scale = f64::from(from) / f64::from(to);
    let stretch = scale.max(1.0);
    let center = (f64::from(position) + 0.5) * scale;
    let reach = stretch
        * match filter {
            Filter::Box => 0.5,
            Filter::Bicubic => 2.0,
            Filter::Lanczos => 3.0,
            _ => 1.0,
        };
    let first = (center - reach + 0.5).max(0.0) as u32;
    let last = ((center + reach + 0.5) as u32).min(from);
    let weights: Vec<(u32, f64)> = (first..last)
        .map(|source| (source, plain_curve(filter, (f64::from(source) + 0.5 - center) / stretch)))
        .collect();
    let total: f64 = weights.iter().map(|(_, weight)| weight).sum();
    weights.into_iter().map(|(source, weight)| (source, weight / total)).collect()
}

fn plain_curve(filter: Filter, x: f64) -> f64 {
    use std::f64::consts::PI;
    let sinc = |x: f64| if x == 0.0 { 1.0 } else { (PI * x).sin() / (PI * x) };
    let d = x.abs();
    match filter {
        Filter::Box => f64::from(x > -0.5 && x <= 0.5),
        Filter::Bilinear => (1.0 - d).max(0.0),
        Filter::Hamming if d < 1.0 => sinc(d) * (0.54 + 0.46 * (PI * d).cos()),
        Filter::Bicubic if d < 1.0 => 1.5 * d.powi(3) - 2.5 * d.powi(2) + 1.0,
        Filter::Bicubic if d < 2.0 => -0.5 * d.powi(3) + 2.5 * d.powi(2) - 4.0 * d + 2.0,
        Filter::Lanczos if d < 3.0 => sinc(d) * sinc(d / 3.0),
        _ => 0.0,
    }
}

#[test]
fn missing_rows_and_columns_are_named() {
    let size = Size::new(20, 20);
    let bytes = noise(size, PixelLayout::Rgb, 1, false);
    let image = view(&bytes, size, PixelLayout::Rgb);
    let geometry = Geometry::crop_resize(size, Region::whole(size), Size::new(8, 8));
    let finish = Finish::bytes(TensorLayout::ChannelsLast);
    let mut out = vec![0; finish.output_bytes(geometry.output())];
    let mut renderer = Renderer::new();
    let error =
        renderer.render_image(image, (1, 0), &geometry, Filter::Bilinear, &finish, &mut out).unwrap_err();
    assert!(error.to_string().contains("columns 1..21"), "{error}");
    let error =
        renderer.render_image(image, (0, 2), &geometry, Filter::Bilinear, &finish, &mut out).unwrap_err();
    assert!(error.to_string().contains("row 0 was due"), "{error}");
    let upper = image.crop(Region::new(0, 0, 20, 10)).unwrap();
    assert!(renderer.render_image(upper, (0, 0), &geometry, Filter::Bilinear, &finish, &mut out).is_err());
    assert!(renderer.begin(&geometry, Filter::Bilinear, &finish, &mut out[1..]).is_err());
}
