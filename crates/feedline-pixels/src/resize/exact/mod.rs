//! Resizes with Pillow's own arithmetic: weights of 22 bits, sums of 32, rounded to bytes after each direction. Slower than
//! [`super::convolve`] and equal to Pillow bit for bit; for the filter of so many taps, both ways, that sixteen bits add up to
//! a level.

mod scalar;

#[cfg(target_arch = "x86_64")]
mod avx2;

use super::{Axis, RowSink};
use crate::cpu::dispatch;
use crate::{CpuLevel, Region};

/// Fraction bits of a weight.
const BITS: u32 = 22;

/// Weights of a run of output positions.
#[derive(Debug, Default)]
struct Taps {
    /// First source position, number of weights and where they begin, per output position.
    spans: Vec<(u32, u32, usize)>,
    weights: Vec<i32>,
    exact: Vec<f64>,
}

impl Taps {
    /// The table for output positions `[first, last)`, backwards if `reverse`; starts count from the first source position.
    fn build(&mut self, axis: Axis, first: u32, last: u32, reverse: bool) {
        let Taps { spans, weights, exact } = self;
        spans.clear();
        weights.clear();
        let (origin, _) = axis.bounds(first);
        for index in first..last {
            let position = if reverse { first + last - 1 - index } else { index };
            let (start, end) = axis.bounds(position);
            exact.clear();
            exact.resize((end - start) as usize, 0.0);
            axis.fill(position, start, exact);
            let sum: f64 = exact.iter().sum();
            spans.push((start - origin, end - start, weights.len()));
            weights.extend(exact.iter().map(|weight| quantised(*weight, sum)));
        }
    }

    fn of(&self, index: usize) -> (usize, &[i32]) {
        let (start, count, at) = self.spans[index];
        (start as usize, &self.weights[at..at + count as usize])
    }

    fn longest(&self) -> usize {
        self.spans.iter().map(|(_, count, _)| *count as usize).max().unwrap_or(0)
    }
}

/// Half away from zero, as Pillow rounds.
fn quantised(weight: f64, sum: f64) -> i32 {
    let share = if sum == 0.0 { weight } else { weight / sum } * f64::from(1 << BITS);
    (share + if share < 0.0 { -0.5 } else { 0.5 }) as i32
}

/// One resize at a time; memory is kept for the next. Rows come and go with four bytes a pixel.
#[derive(Debug, Default)]
pub(super) struct Exact {
    across: Taps,
    down: Taps,
    columns_first: bool,
    /// The last rows that the vertical pass needs, each at the place of its number.
    rows: Vec<u8>,
    row_length: usize,
    kept: usize,
    /// What the vertical pass makes.
    line: Vec<u8>,
    out: Vec<u8>,
}

impl Exact {
    /// Prepares for the rows of one image: `width` source columns are given, `covered` output pixels wanted.
    pub(super) fn begin(
        &mut self,
        [across, down]: [Axis; 2],
        covered: Region,
        width: u32,
        flip: bool,
        columns_first: bool,
    ) {
        self.across.build(across, covered.x, covered.right(), flip);
        self.down.build(down, covered.y, covered.bottom(), false);
        self.columns_first = columns_first;
        self.row_length = if columns_first { covered.width } else { width } as usize * 4;
        self.kept = self.down.longest();
        self.rows.resize(self.kept * self.row_length, 0);
        self.line.resize(self.row_length, 0);
        self.out.resize(covered.width as usize * 4, 0);
    }

    /// Takes source row `number`; finished rows leave. Gives the first that has not left yet.
    pub(super) fn push(
        &mut self,
        level: CpuLevel,
        number: u32,
        row: &[u8],
        mut next: u32,
        sink: &mut impl RowSink,
    ) -> u32 {
        let at = number as usize % self.kept * self.row_length;
        let place = &mut self.rows[at..at + self.row_length];
        if self.columns_first {
            dispatch!(level, across(&self.across, row, place));
        } else {
            place.copy_from_slice(row);
        }
        while (next as usize) < self.down.spans.len() {
            let (start, weights) = self.down.of(next as usize);
            if start + weights.len() > number as usize + 1 {
                break;
            }
            self.finish(level, next as usize);
            sink(next, if self.columns_first { &self.line } else { &self.out });
            next += 1;
        }
        next
    }

    /// Makes one row of the rows that are kept.
    fn finish(&mut self, level: CpuLevel, index: usize) {
        let Exact { down, rows, row_length, kept, line, .. } = self;
        let (start, weights) = down.of(index);
        // The rows lie in a ring: from the first on, then from its beginning.
        let first = start % *kept;
        let wrapped = weights.len().saturating_sub(*kept - first);
        let (upper, lower) = weights.split_at(weights.len() - wrapped);
        dispatch!(level, down([(&rows[first * *row_length..], upper), (rows, lower)], *row_length, line));
        if !self.columns_first {
            dispatch!(level, across(&self.across, &self.line, &mut self.out));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Filter;
    use super::*;

    fn made(level: CpuLevel, size: (u32, u32), to: (u32, u32), columns_first: bool, flip: bool) -> Vec<u8> {
        let mut exact = Exact::default();
        let axes = [Axis::new(Filter::Lanczos, size.0, to.0), Axis::new(Filter::Lanczos, size.1, to.1)];
        exact.begin(axes, Region::new(0, 0, to.0, to.1), size.0, flip, columns_first);
        let (mut out, mut next) = (Vec::new(), 0);
        for y in 0..size.1 {
            let row: Vec<u8> =
                (0..size.0 * 4).map(|x| ((x + y * 977).wrapping_mul(2654435761) >> 20) as u8).collect();
            next = exact.push(level, y, &row, next, &mut |_, row: &[u8]| out.extend_from_slice(row));
        }
        assert_eq!(next, to.1);
        out
    }

    #[test]
    fn cpu_levels_agree_bit_for_bit() {
        for (size, to) in [((37, 23), (11, 9)), ((5, 7), (31, 40)), ((1, 1), (3, 2)), ((40, 3), (1, 1))] {
            for columns_first in [false, true] {
                let expected = made(CpuLevel::Scalar, size, to, columns_first, false);
                assert_eq!(expected.len(), (to.0 * to.1 * 4) as usize);
                for level in CpuLevel::available() {
                    assert!(made(level, size, to, columns_first, false) == expected, "{level:?} {size:?}");
                }
            }
        }
    }

    #[test]
    fn mirroring_equals_mirroring_the_result() {
        let (plain, mirrored) = (
            made(CpuLevel::Scalar, (37, 5), (12, 4), true, false),
            made(CpuLevel::Scalar, (37, 5), (12, 4), true, true),
        );
        for (row, other) in plain.chunks_exact(48).zip(mirrored.chunks_exact(48)) {
            let back: Vec<u8> = other.as_chunks::<4>().0.iter().rev().flatten().copied().collect();
            assert_eq!(row, back);
        }
    }
}
