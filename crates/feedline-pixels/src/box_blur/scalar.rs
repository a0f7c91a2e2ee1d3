//! The reference; inlined into `avx2`, where the compiler vectorises the same arithmetic.

/// Weights of a box's inner pixels and of the two at its ends, in 24 bits of fixed point.
#[derive(Clone, Copy, Debug)]
pub(super) struct Weights {
    pub(super) radius: usize,
    inner: u32,
    end: u32,
}

/// Larger boxes are as if they had this radius: sums stay in 32 bits.
const MOST_RADIUS: f32 = (1 << 20) as f32;

impl Weights {
    /// `None` for a box of one pixel.
    pub(super) fn new(radius: f32) -> Option<Self> {
        if !(radius > 0.0 && radius.is_finite()) {
            return None;
        }
        let radius = radius.min(MOST_RADIUS);
        let whole = radius as usize;
        let inner = ((1u32 << 24) as f32 / (radius * 2.0 + 1.0)) as u32;
        let end = ((1u32 << 24) - (2 * whole as u32 + 1) * inner) / 2;
        Some(Weights { radius: whole, inner, end })
    }

    #[inline(always)]
    fn mean(self, sum: u32, ends: u32) -> u8 {
        ((sum * self.inner + ends * self.end + (1 << 23)) >> 24) as u8
    }
}

/// The pixels of the box around the first of `length` pixels, and how often each is in it: the outermost are repeated. As many
/// steps as there are pixels, however large the box is.
pub(super) fn first_box(radius: usize, length: usize) -> impl Iterator<Item = (usize, u32)> {
    let last = length.saturating_sub(1);
    let beyond = radius.saturating_sub(last);
    (0..=radius.min(last)).map(move |at| {
        let before = if at == 0 { radius } else { 0 };
        let after = if at == last { beyond } else { 0 };
        (at, (1 + before + after) as u32)
    })
}

/// Blurs a line of pixels of four bytes; the outermost pixels are repeated beyond the edges.
#[inline(always)]
pub(super) fn along(weights: &Weights, from: &[u8], to: &mut [u8]) {
    let (from, _) = from.as_chunks::<4>();
    let (to, _) = to.as_chunks_mut::<4>();
    let (radius, last) = (weights.radius as isize, from.len() as isize - 1);
    let pixel = |at: isize| from[at.clamp(0, last) as usize].map(u32::from);
    let mut sums = [0u32; 4];
    for (at, times) in first_box(weights.radius, from.len()) {
        let four = pixel(at as isize);
        sums.iter_mut().zip(four).for_each(|(sum, value)| *sum += value * times);
    }
    for (x, out) in to.iter_mut().enumerate() {
        let x = x as isize;
        let (before, leaving, entering) = (pixel(x - radius - 1), pixel(x - radius), pixel(x + radius + 1));
        for channel in 0..4 {
            out[channel] = weights.mean(sums[channel], before[channel] + entering[channel]);
            sums[channel] = sums[channel] + entering[channel] - leaving[channel];
        }
    }
}

/// The rows for one step along a column: above the box, its first row, and below it.
pub(super) struct Rows<'a> {
    pub(super) before: &'a [u8],
    pub(super) leaving: &'a [u8],
    pub(super) entering: &'a [u8],
}

/// One row of the result; `sums` are those of the box around it and are updated for the next row.
#[inline(always)]
pub(super) fn down(weights: &Weights, rows: &Rows<'_>, sums: &mut [u32], to: &mut [u8]) {
    let count = to.len();
    let (before, leaving, entering) =
        (&rows.before[..count], &rows.leaving[..count], &rows.entering[..count]);
    for (at, (out, sum)) in to.iter_mut().zip(&mut sums[..count]).enumerate() {
        let new = u32::from(entering[at]);
        *out = weights.mean(*sum, u32::from(before[at]) + new);
        *sum = *sum + new - u32::from(leaving[at]);
    }
}
