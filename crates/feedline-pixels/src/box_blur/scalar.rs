//! The reference.

/// Shares of a box's inner pixels and of the two at its ends, in 24 bits of fixed point.
#[derive(Clone, Copy, Debug)]
pub(super) struct Weights {
    radius: usize,
    inner: u32,
    end: u32,
}

impl Weights {
    /// `None` for a box of one pixel.
    pub(super) fn new(radius: f32) -> Option<Self> {
        if !(radius > 0.0 && radius.is_finite()) {
            return None;
        }
        let whole = radius as usize;
        let inner = ((1u32 << 24) as f32 / (radius * 2.0 + 1.0)) as u32;
        let end = ((1u32 << 24) - (2 * whole as u32 + 1) * inner) / 2;
        Some(Weights { radius: whole, inner, end })
    }
}

/// A line of pixels through the box; the outermost pixels go on for ever.
pub(super) fn blur_line(weights: &Weights, from: &[u8], to: &mut [u8]) {
    let (radius, last) = (weights.radius as isize, from.len() as isize / 4 - 1);
    let value = |at: isize, channel: usize| u32::from(from[at.clamp(0, last) as usize * 4 + channel]);
    for channel in 0..3 {
        let mut sum: u32 = (-radius..=radius).map(|at| value(at, channel)).sum();
        for x in 0..=last {
            let ends = value(x - radius - 1, channel) + value(x + radius + 1, channel);
            let bulk = sum * weights.inner + ends * weights.end;
            to[x as usize * 4 + channel] = ((bulk + (1 << 23)) >> 24) as u8;
            sum = sum + value(x + radius + 1, channel) - value(x - radius, channel);
        }
    }
    to.chunks_exact_mut(4).for_each(|pixel| pixel[3] = 255);
}
