//! The reference: one weight after the other over a whole line, which the compiler makes vectors of.

/// Bytes as floats.
#[inline(always)]
pub(super) fn widen(row: &[u8], line: &mut [f32]) {
    for (value, byte) in line.iter_mut().zip(row) {
        *value = f32::from(*byte);
    }
}

/// Blurs across rows: `pairs[d]` is where the two rows at distance `d` begin.
pub(super) fn down(rows: &[f32], pairs: &[[usize; 2]], weights: &[f32], line: &mut [f32]) {
    for (sum, middle) in line.iter_mut().zip(&rows[pairs[0][0]..]) {
        *sum = middle * weights[0];
    }
    for ([above, below], weight) in pairs.iter().zip(weights).skip(1) {
        for ((sum, above), below) in line.iter_mut().zip(&rows[*above..]).zip(&rows[*below..]) {
            *sum = (above + below).mul_add(*weight, *sum);
        }
    }
}

/// Blurs a line with margins along itself and rounds it. Margins are as wide as there are weights beside the middle.
pub(super) fn along(line: &[f32], weights: &[f32], sums: &mut [f32], out: &mut [u8]) {
    let radius = weights.len() - 1;
    for (sum, value) in sums.iter_mut().zip(&line[radius * 4..]) {
        *sum = value * weights[0];
    }
    for (distance, weight) in weights.iter().enumerate().skip(1) {
        let (left, right) = (&line[(radius - distance) * 4..], &line[(radius + distance) * 4..]);
        for ((sum, left), right) in sums.iter_mut().zip(left).zip(right) {
            *sum = (left + right).mul_add(*weight, *sum);
        }
    }
    for (byte, sum) in out.iter_mut().zip(&*sums) {
        *byte = crate::colour::truncated(sum.round_ties_even());
    }
}
