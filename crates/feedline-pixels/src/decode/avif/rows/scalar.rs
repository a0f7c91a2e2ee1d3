//! The reference. Written so that the compiler makes vectors of it: whole pairs, no early end, one store per pixel.

use super::Factors;

#[inline(always)]
pub(super) fn convert(factors: Factors, bits: u32, [light, u, v]: [&[u16]; 3], row: &mut [u8]) {
    let shift = bits - 8;
    let pixels = row.as_chunks_mut::<4>().0.iter_mut();
    for (((pixel, light), u), v) in pixels.zip(light).zip(u).zip(v) {
        let light = u32::from(*light);
        // Widened to 16 bits by repeating the upper bits.
        let wide = light << (16 - bits) | light >> (2 * bits - 16);
        let light = (wide.wrapping_mul(factors.y) >> 16) as i32 + factors.bias;
        let (u, v) = (i32::from(*u >> shift) - 128, i32::from(*v >> shift) - 128);
        let byte = |value: i32| (value >> 6).clamp(0, 255) as u32;
        let red = byte(light + v * factors.v_to_red);
        let green = byte(light - u * factors.u_to_green - v * factors.v_to_green);
        let blue = byte(light + u * factors.u_to_blue);
        *pixel = (red | green << 8 | blue << 16 | 255 << 24).to_le_bytes();
    }
}

/// Between the first and the last sample.
#[inline(always)]
pub(super) fn widen(from: &[u16], to: &mut [u16]) {
    let nearer = |a: u16, b: u16| (3 * a + b + 2) >> 2;
    let (pairs, rest) = to.as_chunks_mut::<2>();
    let next = from.get(1..).unwrap_or(&[]);
    for ((pair, a), b) in pairs.iter_mut().zip(from).zip(next) {
        *pair = [nearer(*a, *b), nearer(*b, *a)];
    }
    let at = pairs.len();
    if let [single] = rest {
        *single = nearer(from[at], from[at + 1]);
    }
}

/// The same from two rows.
#[inline(always)]
pub(super) fn widen_two(near: &[u16], far: &[u16], to: &mut [u16]) {
    let nearer = |a: u16, b: u16, c: u16, d: u16| (9 * a + 3 * b + 3 * c + d + 8) >> 4;
    let (pairs, rest) = to.as_chunks_mut::<2>();
    let (near_next, far_next) = (near.get(1..).unwrap_or(&[]), far.get(1..).unwrap_or(&[]));
    let rows = near.iter().zip(near_next).zip(far.iter().zip(far_next));
    for (pair, ((a, b), (c, d))) in pairs.iter_mut().zip(rows) {
        *pair = [nearer(*a, *b, *c, *d), nearer(*b, *a, *d, *c)];
    }
    let at = pairs.len();
    if let [single] = rest {
        *single = nearer(near[at], near[at + 1], far[at], far[at + 1]);
    }
}
