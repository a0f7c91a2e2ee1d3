//! The reference: a two-dimensional fast Fourier transform whose sides are powers of two.

pub(super) fn transform(
    real: &mut [f32],
    imaginary: &mut [f32],
    width: usize,
    height: usize,
    line: &mut [(f32, f32)],
) {
    for y in 0..height {
        let row = y * width;
        one(real, imaginary, line, width, |x| row + x);
    }
    for x in 0..width {
        one(real, imaginary, line, height, |y| y * width + x);
    }
}

/// Transforms one row or column.
fn one(
    real: &mut [f32],
    imaginary: &mut [f32],
    line: &mut [(f32, f32)],
    count: usize,
    at: impl Fn(usize) -> usize,
) {
    if count < 2 {
        return;
    }
    let shift = usize::BITS - count.trailing_zeros();
    for i in 0..count {
        line[i.reverse_bits() >> shift] = (real[at(i)], imaginary[at(i)]);
    }
    let mut half = 1;
    while half < count {
        let turn = std::f64::consts::PI / half as f64;
        for k in 0..half {
            let (sin, cos) = (turn * k as f64).sin_cos();
            let (sin, cos) = (sin as f32, cos as f32);
            for start in (k..count).step_by(2 * half) {
                let (a, b) = (line[start], line[start + half]);
                let turned = (b.0 * cos - b.1 * sin, b.0 * sin + b.1 * cos);
                line[start] = (a.0 + turned.0, a.1 + turned.1);
                line[start + half] = (a.0 - turned.0, a.1 - turned.1);
            }
        }
        half *= 2;
    }
    for (i, (re, im)) in line[..count].iter().enumerate() {
        (real[at(i)], imaginary[at(i)]) = (*re, *im);
    }
}
