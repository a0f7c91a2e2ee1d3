//! Rows of several samples: samples are packed into rows of at most so many tokens, within windows of the shuffled
//! order, so that an epoch's plan takes time in proportion to the number of samples.
//!
//! Each window is packed in two ways, and the one with fewer rows is taken. First-fit-decreasing is best if there are many
//! short samples. If most are a quarter or a fifth of a row, it leaves gaps that nothing fits into (96 % on chats with one
//! image each); filling one row after the other, the last two samples chosen to fit, leaves fewer (98 %).

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use super::permutation::Permutation;
use crate::random::Draw;

/// Separates packing from all other uses of the seed.
const PURPOSE: u64 = 0x7061_636b_6564; // "packed"

/// Pairs that are tried to close a row.
const PAIRS: usize = 8;

/// A row is closed with a pair when so many samples of mean length are left to it.
const CLOSING: f64 = 2.7;

/// Number of epochs whose plans are kept: the current one, and the one whose length was asked for.
const KEPT: usize = 2;

/// Samples with their lengths, to be packed again in every epoch.
#[derive(Debug)]
pub(crate) struct Packing {
    lengths: Box<[u64]>,
    /// The samples that take part.
    members: Box<[u64]>,
    /// Tokens per row, at most.
    most: u64,
    /// Samples that are packed together.
    window: u64,
    shuffle: bool,
    plans: Mutex<Vec<EpochRows>>,
}

/// Seed and epoch, and the rows that were planned for them.
type EpochRows = ((u64, u64), Arc<Rows>);

/// One epoch's rows: samples, one row after the other.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Rows {
    samples: Box<[u64]>,
    /// First position of each row, and the number of samples.
    starts: Box<[u64]>,
}

impl Rows {
    /// Number of rows.
    pub(crate) fn len(&self) -> u64 {
        self.starts.len() as u64 - 1
    }

    /// The sample at `position`.
    pub(crate) fn at(&self, position: u64) -> u64 {
        self.samples[position as usize]
    }

    /// The positions of these rows.
    pub(crate) fn positions(&self, rows: &Range<u64>) -> Range<u64> {
        self.starts[rows.start as usize]..self.starts[rows.end as usize]
    }

    /// The row that has `position`.
    pub(crate) fn row_of(&self, position: u64) -> u64 {
        self.starts.partition_point(|start| *start <= position) as u64 - 1
    }
}

impl Packing {
    /// Packs the samples whose length is at most `most`; `lengths` has all of them.
    pub(crate) fn new(lengths: Vec<u64>, most: u64, window: u64, shuffle: bool) -> Self {
        let members = (0..lengths.len() as u64).filter(|sample| lengths[*sample as usize] <= most).collect();
        Packing { lengths: lengths.into(), members, most, window, shuffle, plans: Mutex::default() }
    }

    /// Number of samples that take part.
    pub(crate) fn len(&self) -> u64 {
        self.members.len() as u64
    }

    /// Length of a sample.
    pub(crate) fn length(&self, sample: u64) -> u64 {
        self.lengths[sample as usize]
    }

    /// The rows of an epoch. The latest plans are kept.
    pub(crate) fn rows(&self, seed: u64, epoch: u64) -> Arc<Rows> {
        let mut plans = self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, known)) = plans.iter().find(|(key, _)| *key == (seed, epoch)) {
            return known.clone();
        }
        let made = Arc::new(self.plan(seed, epoch));
        if plans.len() == KEPT {
            plans.remove(0);
        }
        plans.push(((seed, epoch), made.clone()));
        made
    }

    fn plan(&self, seed: u64, epoch: u64) -> Rows {
        let order = Permutation::new(self.len(), &[PURPOSE, seed, epoch]);
        let at = |position: u64| if self.shuffle { order.at(position) } else { position };
        let drawn: Vec<u64> = (0..self.len()).map(|position| self.members[at(position) as usize]).collect();
        let (mut samples, mut starts) = (Vec::with_capacity(drawn.len()), vec![0]);
        for (number, window) in drawn.chunks(self.window.max(1) as usize).enumerate() {
            let (fitted, filled) =
                (self.fit(window), self.fill(window, &[PURPOSE, seed, epoch, number as u64]));
            let rows = if filled.len() < fitted.len() { filled } else { fitted };
            let shuffled = Permutation::new(rows.len() as u64, &[PURPOSE, seed, epoch, number as u64]);
            for row in 0..rows.len() as u64 {
                let row = if self.shuffle { shuffled.at(row) } else { row };
                samples.extend(rows[row as usize].iter().map(|place| window[*place as usize]));
                starts.push(samples.len() as u64);
            }
        }
        Rows { samples: samples.into(), starts: starts.into() }
    }

    /// Packs one window: the places of each row's samples, ascending; rows by their first sample.
    fn fit(&self, window: &[u64]) -> Vec<Vec<u32>> {
        let mut places: Vec<u32> = (0..window.len() as u32).collect();
        let length = |place: u32| self.length(window[place as usize]);
        places.sort_by_key(|place| std::cmp::Reverse(length(*place)));
        let mut room = FirstFit::new(window.len(), self.most);
        let mut rows: Vec<Vec<u32>> = Vec::new();
        for place in places {
            let row = room.take(length(place));
            if row == rows.len() {
                rows.push(Vec::new());
            }
            rows[row].push(place);
        }
        in_order(rows)
    }

    /// Fills one row after the other: the longest sample that is left, then random ones, then the pair that fits best.
    fn fill(&self, window: &[u64], key: &[u64]) -> Vec<Vec<u32>> {
        let mut draw = Draw::new(key);
        let mut left = UnplacedSamples::new(
            (0..window.len() as u32).map(|at| (self.length(window[at as usize]), at)).collect(),
        );
        let mut rows = Vec::new();
        while let Some(longest) = left.at_most(u64::MAX) {
            let mut row = vec![left.places[longest].1];
            let mut room = self.most - left.take(longest);
            while let Some(fitting) = left.at_most(room) {
                let many = room as f64 > CLOSING * left.mean();
                let next = if many {
                    left.random(fitting, &mut draw)
                } else {
                    left.closing(fitting, room, &mut draw)
                };
                row.push(left.places[next].1);
                room -= left.take(next);
            }
            rows.push(row);
        }
        in_order(rows)
    }
}

/// The places of each row ascending; rows by their first place.
fn in_order(mut rows: Vec<Vec<u32>>) -> Vec<Vec<u32>> {
    for row in &mut rows {
        row.sort_unstable();
    }
    rows.sort_unstable_by_key(|row| row[0]);
    rows
}

/// The samples of a window that are in no row yet, by length.
struct UnplacedSamples {
    /// Length and place, ascending.
    places: Vec<(u64, u32)>,
    /// For each number of shortest samples: how many of them remain to be considered, the last of which is left.
    below: Vec<u32>,
    count: u64,
    total: u64,
}

impl UnplacedSamples {
    fn new(mut places: Vec<(u64, u32)>) -> Self {
        places.sort_unstable();
        let (count, total) = (places.len() as u64, places.iter().map(|(length, _)| length).sum());
        UnplacedSamples { below: (0..=places.len() as u32).collect(), places, count, total }
    }

    fn mean(&self) -> f64 {
        self.total as f64 / self.count.max(1) as f64
    }

    /// The last sample that is left among the `first` shortest.
    fn last_of(&mut self, first: usize) -> Option<usize> {
        let mut at = first;
        while self.below[at] as usize != at {
            self.below[at] = self.below[self.below[at] as usize];
            at = self.below[at] as usize;
        }
        at.checked_sub(1)
    }

    /// The longest sample of at most this length.
    fn at_most(&mut self, length: u64) -> Option<usize> {
        let first = self.places.partition_point(|(known, _)| *known <= length);
        self.last_of(first)
    }

    /// Takes a sample out; returns its length.
    fn take(&mut self, at: usize) -> u64 {
        self.below[at + 1] = at as u32;
        let length = self.places[at].0;
        (self.count, self.total) = (self.count - 1, self.total - length);
        length
    }

    /// A random one of those up to `most`.
    fn random(&mut self, most: usize, draw: &mut Draw) -> usize {
        let first = draw.below(most as u64 + 1) as usize;
        self.last_of(first + 1).unwrap_or(most)
    }

    /// The first of the pair that leaves least room, of a few random ones; or the longest that fits.
    fn closing(&mut self, longest: usize, room: u64, draw: &mut Draw) -> usize {
        let (mut least, mut best) = (room - self.places[longest].0, longest);
        for _ in 0..PAIRS {
            let one = self.random(longest, draw);
            let rest = room - self.places[one].0;
            let other = self.at_most(rest).and_then(|at| if at == one { self.last_of(at) } else { Some(at) });
            let gap = rest - other.map_or(0, |other| self.places[other].0);
            if gap < least {
                (least, best) = (gap, one);
            }
        }
        best
    }
}

/// Finds the first row with enough room: a tree whose nodes have the most room below them.
struct FirstFit {
    tree: Vec<u64>,
    leaves: usize,
}

impl FirstFit {
    fn new(rows: usize, most: u64) -> Self {
        let leaves = rows.max(1).next_power_of_two();
        FirstFit { tree: vec![most; 2 * leaves], leaves }
    }

    /// Takes `length` from the first row that has it. There is one row for each sample, so some row always has.
    fn take(&mut self, length: u64) -> usize {
        let mut node = 1;
        while node < self.leaves {
            node *= 2;
            node += usize::from(self.tree[node] < length);
        }
        self.tree[node] -= length;
        let row = node - self.leaves;
        while node > 1 {
            node /= 2;
            self.tree[node] = self.tree[2 * node].max(self.tree[2 * node + 1]);
        }
        row
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// First-fit-decreasing, as it is defined.
    fn model(lengths: &[u64], most: u64) -> Vec<Vec<u32>> {
        let mut places: Vec<u32> = (0..lengths.len() as u32).collect();
        places.sort_by_key(|place| std::cmp::Reverse(lengths[*place as usize]));
        let mut rows: Vec<(u64, Vec<u32>)> = Vec::new();
        for place in places {
            let length = lengths[place as usize];
            match rows.iter_mut().find(|(used, _)| used + length <= most) {
                Some((used, row)) => {
                    *used += length;
                    row.push(place);
                }
                None => rows.push((length, vec![place])),
            }
        }
        let mut rows: Vec<Vec<u32>> = rows.into_iter().map(|(_, row)| row).collect();
        for row in &mut rows {
            row.sort_unstable();
        }
        rows.sort_unstable_by_key(|row| row[0]);
        rows
    }

    proptest! {
        #[test]
        fn rows_are_complete_and_first_fit(
            lengths in proptest::collection::vec(0u64..40, 1..200), most in 20u64..60, window in 1u64..80,
            seed: u64, shuffle: bool,
        ) {
            let packing = Packing::new(lengths.clone(), most, window, shuffle);
            let rows = packing.rows(seed, 3);
            let mut seen: Vec<u64> = (0..packing.len()).map(|position| rows.at(position)).collect();
            for row in 0..rows.len() {
                let positions = rows.positions(&(row..row + 1));
                prop_assert!(!positions.is_empty());
                prop_assert!(positions.clone().map(|p| lengths[rows.at(p) as usize]).sum::<u64>() <= most);
                prop_assert!(positions.into_iter().all(|position| rows.row_of(position) == row));
            }
            seen.sort_unstable();
            let kept = (0..lengths.len() as u64).filter(|sample| lengths[*sample as usize] <= most);
            prop_assert!(seen.into_iter().eq(kept));
            let short: Vec<u64> = lengths.iter().map(|length| length % 20).collect();
            let window: Vec<u64> = (0..short.len() as u64).collect();
            let packing = Packing::new(short.clone(), most, 1, shuffle);
            prop_assert_eq!(packing.fit(&window), model(&short, most));
            let filled = packing.fill(&window, &[seed]);
            prop_assert!(filled.iter().all(|row| row.iter().map(|at| short[*at as usize]).sum::<u64>() <= most));
            let mut all: Vec<u32> = filled.into_iter().flatten().collect();
            all.sort_unstable();
            prop_assert!(all.into_iter().eq(0..short.len() as u32));
        }
    }

    /// Lengths as in a mix of chats: most have an image of 576 patches, some are long texts.
    fn llava(count: usize) -> Vec<u64> {
        let mut draw = Draw::new(&[5]);
        let mut one = || {
            let (patches, median) = if draw.chance(0.94) { (576, 180.0) } else { (0, 600.0) };
            (patches + 20 + (median * (0.8 * draw.normal()).exp()) as u64).min(4096)
        };
        (0..count).map(|_| one()).collect()
    }

    #[test]
    fn rows_are_nearly_full() {
        let lengths = llava(50_000);
        let total: u64 = lengths.iter().sum();
        let packing = Packing::new(lengths, 4096, 8192, true);
        for epoch in 0..2 {
            let used = total as f64 / (4096 * packing.rows(7, epoch).len()) as f64;
            assert!(used > 0.97, "{used}");
        }
    }

    #[test]
    fn epochs_differ_and_repeat() {
        let packing = Packing::new(llava(500), 4096, 100, true);
        assert_eq!(packing.plan(7, 0), packing.plan(7, 0));
        assert_ne!(packing.plan(7, 0), packing.plan(7, 1));
        assert_ne!(packing.plan(8, 0), packing.plan(7, 0));
    }
}
