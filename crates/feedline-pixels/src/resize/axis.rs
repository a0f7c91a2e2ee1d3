//! One direction of a resize: the source positions of each output position, and their weights.
//!
//! The arithmetic is Pillow's `precompute_coeffs` in double precision, operation by operation, so that windows begin
//! and end on the same pixels; only the final weights are quantised differently (15 bits, see [`Weights`]).

use super::Filter;

/// The mapping of `input` source positions to `output` positions under a filter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Axis {
    filter: Filter,
    input: u32,
    output: u32,
    /// Source positions per output position.
    scale: f64,
    /// Reach of the filter to both sides, in source positions.
    support: f64,
}

impl Axis {
    pub(crate) fn new(filter: Filter, input: u32, output: u32) -> Self {
        let scale = f64::from(input) / f64::from(output);
        Axis { filter, input, output, scale, support: filter.support() * scale.max(1.0) }
    }

    /// Whether positions map one to one, so that filtering changes nothing (Pillow skips such a pass as well).
    fn is_identity(self) -> bool {
        self.input == self.output
    }

    /// Source positions `[start, end)` that output positions `[first, last)` read.
    pub(crate) fn span(self, first: u32, last: u32) -> (u32, u32) {
        if self.filter == Filter::Nearest && !self.is_identity() {
            let mut ends = (0, 0);
            self.each_nearest(last, |output, source| {
                if output == first {
                    ends.0 = source;
                }
                ends.1 = source + 1;
            });
            return ends;
        }
        let (start, _) = self.bounds(first);
        let (_, end) = self.bounds(last - 1);
        (start, end)
    }

    fn center(self, position: u32) -> f64 {
        (f64::from(position) + 0.5) * self.scale
    }

    pub(super) fn bounds(self, position: u32) -> (u32, u32) {
        if self.is_identity() {
            return (position, position + 1);
        }
        let center = self.center(position);
        // Casts truncate as C's do and saturate at 0, which is Pillow's clamp of a negative start.
        let start = (center - self.support + 0.5) as u32;
        let end = ((center + self.support + 0.5) as u32).min(self.input);
        (start, end)
    }

    /// The source position of each output position `[first, last)`. Only these are stored: the whole output may be
    /// far larger than the requested window.
    pub(crate) fn nearest(self, first: u32, last: u32, positions: &mut Vec<u32>) {
        positions.clear();
        self.each_nearest(last, |output, source| {
            if output >= first {
                positions.push(source);
            }
        });
    }

    /// Source positions of output positions `[0, last)`, as in Pillow's `ImagingScaleAffine`: by repeated
    /// addition, whose rounding decides ties.
    fn each_nearest(self, last: u32, mut take: impl FnMut(u32, u32)) {
        let step = self.scale;
        let mut at = step * 0.5;
        for output in 0..last.min(self.output) {
            take(output, (at as u32).min(self.input - 1));
            at += step;
        }
    }

    /// Weights of one output position from source positions `start` on, before normalisation.
    pub(super) fn fill(self, position: u32, start: u32, weights: &mut [f64]) {
        if self.is_identity() {
            return weights.fill(1.0);
        }
        let center = self.center(position);
        let inverse = 1.0 / self.scale.max(1.0);
        let distances = (start..).map(|source| (f64::from(source) - center + 0.5) * inverse);
        let weights = weights.iter_mut().zip(distances);
        match self.filter {
            // Separate, so that the loop of the usual filter has no branches for other filters.
            Filter::Bilinear => weights.for_each(|(weight, x)| *weight = Filter::Bilinear.weight(x)),
            filter => weights.for_each(|(weight, x)| *weight = filter.weight(x)),
        }
    }
}

/// Quantised weights of a run of output positions. Kept between images so that nothing is allocated in steady state.
#[derive(Default, Debug)]
pub(crate) struct Weights {
    /// First source position of each output position, relative to the origin given to [`build`](Self::build).
    pub(crate) starts: Vec<u32>,
    /// Number of source positions of each output position; at most `taps`.
    pub(crate) counts: Vec<u32>,
    /// `taps` weights per output position, zero after its count.
    pub(crate) values: Vec<i16>,
    /// Number of weights per output position.
    pub(crate) taps: usize,
    exact: Vec<f64>,
}

impl Weights {
    /// Builds the table for output positions `[first, last)`, backwards if `reverse`. One is `1 << bits`.
    pub(crate) fn build(&mut self, axis: Axis, first: u32, last: u32, reverse: bool, bits: u32) {
        self.starts.clear();
        self.counts.clear();
        let (origin, _) = axis.bounds(first);
        let position = |index: u32| if reverse { last - 1 - index } else { first + index };
        let mut taps = 0;
        for index in 0..last - first {
            let (start, end) = axis.bounds(position(index));
            self.starts.push(start - origin);
            self.counts.push(end - start);
            taps = taps.max(end - start);
        }
        self.taps = taps as usize;
        self.exact.resize(self.taps, 0.0);
        self.values.clear();
        self.values.resize(self.starts.len() * self.taps, 0);
        let outputs = self.values.chunks_exact_mut(self.taps);
        for (index, values) in (0..).zip(outputs) {
            let count = self.counts[index as usize] as usize;
            let exact = &mut self.exact[..count];
            axis.fill(position(index), origin + self.starts[index as usize], exact);
            quantise(exact, bits, &mut values[..count]);
        }
    }

    /// The weights of one output position.
    pub(crate) fn of(&self, index: usize) -> &[i16] {
        let at = index * self.taps;
        &self.values[at..at + self.counts[index] as usize]
    }

    /// End of the source positions of an output position.
    pub(crate) fn end(&self, index: usize) -> u32 {
        self.starts[index] + self.counts[index]
    }
}

/// Normalises and rounds running sums rather than weights: every weight is off by less than one unit and their sum is
/// exact, so flat areas keep their value and errors do not add up over wide filters.
fn quantise(exact: &[f64], bits: u32, values: &mut [i16]) {
    let total: f64 = exact.iter().sum();
    let unit = if total == 0.0 { 0.0 } else { f64::from(1u32 << bits) / total };
    let mut sum = 0.0;
    let mut before = 0i32;
    for (value, weight) in values.iter_mut().zip(exact) {
        sum += weight;
        let after = round(sum * unit);
        // A weight of 1 in 15 bits is one more than i16 holds; 32767 / 32768 moves no value by even 1/128 level.
        *value = (after - before).min(i32::from(i16::MAX)) as i16;
        before = after;
    }
}

/// To nearest. `f64::round` is a library call on baseline x86-64 and took a seventh of a resize; adding 1.5 · 2^52
/// leaves no bits for a fraction, so the addition rounds, and the result's lower bits are the integer.
fn round(value: f64) -> i32 {
    const NO_FRACTION: f64 = 6_755_399_441_055_744.0;
    (value + NO_FRACTION).to_bits() as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_sum_to_one() {
        let mut weights = Weights::default();
        for (input, output) in [(7, 3), (300, 224), (10, 224), (4000, 17), (5, 5), (1, 9), (9, 1)] {
            for filter in [Filter::Box, Filter::Bilinear, Filter::Hamming, Filter::Bicubic, Filter::Lanczos] {
                weights.build(Axis::new(filter, input, output), 0, output, false, 14);
                for index in 0..output as usize {
                    let sum: i32 = weights.of(index).iter().map(|w| i32::from(*w)).sum();
                    assert_eq!(sum, 1 << 14, "{filter:?} {input}->{output} at {index}");
                    assert!(weights.end(index) <= input);
                }
            }
        }
    }

    #[test]
    fn reversed_tables_mirror_the_result() {
        let (mut forward, mut backward) = (Weights::default(), Weights::default());
        let axis = Axis::new(Filter::Bilinear, 50, 20);
        forward.build(axis, 3, 17, false, 15);
        backward.build(axis, 3, 17, true, 15);
        for index in 0..14 {
            assert_eq!(forward.of(index), backward.of(13 - index));
            assert_eq!(forward.starts[index], backward.starts[13 - index]);
        }
    }
}
