//! The reference. NEON uses it, too: plain loops over slices, which the compiler vectorises.

pub(super) fn double(input: &[u8], count: usize, out: &mut [u8]) {
    for (pair, window) in out.chunks_exact_mut(2).zip(input.windows(3)).take(count) {
        let [left, middle, right] = [0, 1, 2].map(|i| u16::from(window[i]));
        pair[0] = ((3 * middle + left + 1) >> 2) as u8;
        pair[1] = ((3 * middle + right + 2) >> 2) as u8;
    }
}

pub(super) fn blend(near: &[u8], far: &[u8], count: usize, bias: u8, out: &mut [u8]) {
    for ((to, &near), &far) in out.iter_mut().zip(near).zip(far).take(count) {
        *to = ((3 * u16::from(near) + u16::from(far) + u16::from(bias)) >> 2) as u8;
    }
}

pub(super) fn double_blend(near: &[u8], far: &[u8], count: usize, out: &mut [u8]) {
    let rows = near.windows(3).zip(far.windows(3));
    for (pair, (near, far)) in out.chunks_exact_mut(2).zip(rows).take(count) {
        let [left, middle, right] = [0, 1, 2].map(|i| 3 * u16::from(near[i]) + u16::from(far[i]));
        pair[0] = ((3 * middle + left + 8) >> 4) as u8;
        pair[1] = ((3 * middle + right + 7) >> 4) as u8;
    }
}
