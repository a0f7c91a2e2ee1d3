//! The reference. The compiler vectorises these loops; memory is the bottleneck.

pub(super) fn blend_f32(a: &mut [u8], b: &mut [u8], own: (f32, f32)) {
    let others = (1.0 - own.0, 1.0 - own.1);
    for (x, y) in a.as_chunks_mut::<4>().0.iter_mut().zip(b.as_chunks_mut::<4>().0) {
        let (first, second) = (f32::from_le_bytes(*x), f32::from_le_bytes(*y));
        *x = (own.0 * first + others.0 * second).to_le_bytes();
        *y = (own.1 * second + others.1 * first).to_le_bytes();
    }
}

pub(super) fn blend_bf16(a: &mut [u8], b: &mut [u8], own: (f32, f32)) {
    let others = (1.0 - own.0, 1.0 - own.1);
    let wide = |value: [u8; 2]| f32::from_bits(u32::from(u16::from_le_bytes(value)) << 16);
    let narrow = |value: f32| {
        let bits = value.to_bits();
        // To the nearest, ties to even; a NaN keeps its upper half.
        let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1));
        ((if value.is_nan() { bits } else { rounded } >> 16) as u16).to_le_bytes()
    };
    for (x, y) in a.as_chunks_mut::<2>().0.iter_mut().zip(b.as_chunks_mut::<2>().0) {
        let (first, second) = (wide(*x), wide(*y));
        *x = narrow(own.0 * first + others.0 * second);
        *y = narrow(own.1 * second + others.1 * first);
    }
}

pub(super) fn blend_u8(a: &mut [u8], b: &mut [u8], own: (f32, f32)) {
    let others = (1.0 - own.0, 1.0 - own.1);
    for (x, y) in a.iter_mut().zip(b) {
        let (first, second) = (f32::from(*x), f32::from(*y));
        *x = (own.0 * first + others.0 * second + 0.5) as u8;
        *y = (own.1 * second + others.1 * first + 0.5) as u8;
    }
}
