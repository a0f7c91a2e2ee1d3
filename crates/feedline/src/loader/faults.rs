//! Records bad samples, and decides when they are too many.
//!
//! A bad sample counts once, however often this or a later epoch reads it. The count is part of a saved state, so that
//! a resumed run stops where an uninterrupted one would.

use std::collections::BTreeSet;

use crate::batch::Sealed;
use crate::error::{Error, Result};
use crate::order::BadSamples;
use crate::spec::OnError;

/// Number of bad samples kept for [`Loader::errors`](super::Loader::errors) and in a saved state; more are only
/// counted.
const KEPT: usize = 10_000;

/// Without `max_errors`: this many bad samples, in a row and in total, are always allowed.
const ALWAYS: u64 = 100;

/// Without `max_errors`: one in this many samples of the data set may be bad.
const SHARE: u64 = 100;

/// Limits on the number of bad samples.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    in_a_row: u64,
    in_all: u64,
    /// Whether the user set the limits.
    asked: bool,
}

impl Limits {
    pub(super) fn new(max_errors: Option<u64>, samples: u64) -> Self {
        match max_errors {
            Some(limit) => Limits { in_a_row: limit, in_all: limit, asked: true },
            None => Limits { in_a_row: ALWAYS, in_all: (samples / SHARE).max(ALWAYS), asked: false },
        }
    }

    fn check(&self, in_a_row: u64, in_all: u64, last: &Error) -> Result<()> {
        let reason = if in_a_row > self.in_a_row {
            format!("{in_a_row} bad samples in a row are more than {}", self.in_a_row)
        } else if in_all > self.in_all {
            format!("{in_all} bad samples are more than {}", self.in_all)
        } else {
            return Ok(());
        };
        let advice = if self.asked { "" } else { " (max_errors=… sets the limit)" };
        Err(Error::TooManyBadSamples { reason: reason + advice, last: Box::new(last.clone()) })
    }
}

/// Bad samples so far.
#[derive(Debug, Default)]
pub(super) struct Faults {
    /// The first failure of each sample, in order, and the numbers of these samples.
    errors: Vec<Error>,
    listed: BTreeSet<u64>,
    /// All samples that count, including those of the run before a resume.
    known: BTreeSet<u64>,
    /// Bad samples since the last good one.
    in_a_row: BTreeSet<u64>,
}

impl Faults {
    pub(super) fn errors(&self) -> Vec<Error> {
        self.errors.clone()
    }

    /// The part that belongs in a saved state.
    pub(super) fn to_state(&self) -> BadSamples {
        let first = |set: &BTreeSet<u64>| set.iter().copied().take(KEPT).collect();
        BadSamples { samples: first(&self.known), in_a_row: first(&self.in_a_row) }
    }

    /// Continues from a saved state.
    pub(super) fn restore(&mut self, state: &BadSamples) {
        self.known = state.samples.iter().copied().collect();
        self.in_a_row = state.in_a_row.iter().copied().collect();
    }

    /// Notes a batch without a failure.
    pub(super) fn good_batch(&mut self) {
        self.in_a_row.clear();
    }

    /// Lists a sample's failure, unless it is listed already; returns the sample.
    fn list(&mut self, error: &Error) -> Option<u64> {
        let sample = error.location()?.sample?;
        if self.errors.len() < KEPT && self.listed.insert(sample) {
            self.errors.push(error.clone());
        }
        Some(sample)
    }

    /// Lists failures that are raised at once: they count towards no limit.
    pub(super) fn raised(&mut self, sealed: &Sealed) {
        for (_, error) in &sealed.failures {
            self.list(error);
        }
    }

    /// Records a batch's failures; an error if there are too many, or if a bad sample found no substitute.
    pub(super) fn record(&mut self, sealed: &Sealed, limits: Limits, policy: OnError) -> Result<()> {
        let mut longest = 0;
        let mut failures = sealed.failures.iter().peekable();
        for row in 0..sealed.rows {
            while let Some((_, error)) = failures.next_if(|(at, _)| *at == row) {
                let sample = self.list(error);
                self.known.extend(sample);
                self.in_a_row.extend(sample);
            }
            longest = longest.max(self.in_a_row.len() as u64);
            // A row with a good substitute ends the series of failures.
            if sealed.kept.binary_search(&row).is_ok() {
                self.in_a_row.clear();
            }
        }
        let Some((_, last)) = sealed.failures.last() else { return Ok(()) };
        limits.check(longest, self.known.len() as u64, last)?;
        if policy == OnError::Replace { find_unreplaced(sealed) } else { Ok(()) }
    }
}

/// Returns an error for the first row that could not be filled: the batch would be one sample short.
fn find_unreplaced(sealed: &Sealed) -> Result<()> {
    let Some(row) = (0..sealed.rows).find(|row| sealed.kept.binary_search(row).is_err()) else {
        return Ok(());
    };
    let tried: Vec<&Error> = sealed.failures.iter().filter(|(at, _)| *at == row).map(|(_, e)| e).collect();
    let (Some(first), Some(last)) = (tried.first(), tried.last()) else { return Ok(()) };
    let name = first
        .location()
        .and_then(|place| place.sample)
        .map_or("a sample".to_owned(), |s| format!("sample {s}"));
    let reason = match tried.len() - 1 {
        0 => format!("{name} is bad and the order has no other sample to replace it"),
        tries => format!("{name} is bad and so are all {tries} substitutes that were tried"),
    };
    Err(Error::TooManyBadSamples { reason, last: Box::new((*last).clone()) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{Location, Stage};

    /// A batch of `rows` rows with these failures (row, sample); the rows in `lost` are empty.
    fn sealed(rows: usize, failures: &[(usize, u64)], lost: &[usize]) -> Sealed {
        let error = |sample: u64| Error::sample(Location::new("x").with_sample(sample), Stage::Decode, "bad");
        Sealed {
            batch: None,
            failures: failures.iter().map(|(row, sample)| (*row, error(*sample))).collect(),
            rows,
            kept: (0..rows).filter(|row| !lost.contains(row)).collect(),
            lost: lost.len(),
        }
    }

    #[test]
    fn a_sample_counts_once_however_often_it_is_met() {
        let mut faults = Faults::default();
        let limits = Limits::new(Some(2), 1000);
        for _ in 0..50 {
            faults.record(&sealed(4, &[(0, 7), (2, 9)], &[0, 2]), limits, OnError::Skip).unwrap();
        }
        assert_eq!(faults.errors().len(), 2);
        let message =
            faults.record(&sealed(4, &[(3, 8)], &[3]), limits, OnError::Skip).unwrap_err().to_string();
        assert!(message.starts_with("3 bad samples are more than 2"), "{message}");
    }

    #[test]
    fn a_resumed_run_stops_at_the_same_bad_sample() {
        let batches: Vec<Sealed> = (0..12).map(|n| sealed(2, &[(1, n % 9)], &[1])).collect();
        let limits = Limits::new(Some(6), 1000);
        let gives_up = |faults: &mut Faults, from: usize| {
            (from..12).find(|n| faults.record(&batches[*n], limits, OnError::Skip).is_err())
        };
        let whole = gives_up(&mut Faults::default(), 0);
        assert_eq!(whole, Some(6));
        for stop in 0..6 {
            let mut before = Faults::default();
            batches[..stop].iter().for_each(|b| before.record(b, limits, OnError::Skip).unwrap());
            let mut after = Faults::default();
            after.restore(&before.to_state());
            assert_eq!(gives_up(&mut after, stop), whole);
        }
    }

    #[test]
    fn runs_of_bad_samples_end_with_a_good_one() {
        let limits = Limits::new(None, 1_000_000);
        let rows: Vec<(usize, u64)> = (0..101).map(|n| (n, n as u64)).collect();
        let lost: Vec<usize> = (0..101).collect();
        let mut faults = Faults::default();
        assert!(faults.record(&sealed(101, &rows, &lost), limits, OnError::Skip).is_err());
        let mut faults = Faults::default();
        faults.record(&sealed(101, &rows[..100], &lost[..100]), limits, OnError::Skip).unwrap();
        faults.record(&sealed(101, &rows[..100], &lost[..100]), limits, OnError::Skip).unwrap();
        assert_eq!(faults.to_state().in_a_row.len(), 0);
    }

    #[test]
    fn a_row_that_nobody_fills_is_named() {
        let limits = Limits::new(None, 1000);
        let alone = sealed(2, &[(1, 5)], &[1]);
        let message = Faults::default().record(&alone, limits, OnError::Replace).unwrap_err().to_string();
        assert!(message.starts_with("sample 5 is bad and the order has no other sample"), "{message}");
        let tried = sealed(2, &[(1, 5), (1, 6), (1, 8)], &[1]);
        let message = Faults::default().record(&tried, limits, OnError::Replace).unwrap_err().to_string();
        assert!(message.starts_with("sample 5 is bad and so are all 2 substitutes"), "{message}");
        assert!(message.contains("sample 8"), "{message}");
    }

    #[test]
    fn what_is_raised_is_listed_within_bounds() {
        let mut faults = Faults::default();
        for sample in 0..12_000 {
            faults.raised(&sealed(1, &[(0, sample)], &[0]));
            faults.raised(&sealed(1, &[(0, sample)], &[0]));
        }
        assert_eq!(faults.errors().len(), KEPT);
        assert_eq!(faults.to_state(), BadSamples::default());
    }
}
