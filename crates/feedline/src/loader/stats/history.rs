//! How the queue filled over time: few points, however long the run.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// Most points: when there are as many, every second one is removed.
const MOST_POINTS: usize = 256;

/// Time between two points at first; it doubles whenever points are removed.
const FIRST_DISTANCE: Duration = Duration::from_millis(100);

/// The state when a batch was taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Moment {
    /// Since the loader was made.
    pub seconds: f64,
    /// Samples delivered until then.
    pub samples: u64,
    /// Batches that were ready behind this one.
    pub ready: u64,
    /// Seconds that the consumer had waited until then.
    pub waited: f64,
}

/// The moments that are kept.
#[derive(Debug)]
pub(super) struct History {
    begun: Instant,
    every: Duration,
    last: Option<Instant>,
    moments: Vec<Moment>,
}

impl History {
    pub(super) fn new(begun: Instant) -> Self {
        History { begun, every: FIRST_DISTANCE, last: None, moments: Vec::new() }
    }

    /// Adds a moment, unless the last one is too close. `what` is called only if it is added.
    pub(super) fn note(&mut self, now: Instant, what: impl FnOnce() -> Moment) {
        if self.last.is_some_and(|last| now - last < self.every) {
            return;
        }
        self.last = Some(now);
        if self.moments.len() == MOST_POINTS {
            let mut number = 0;
            self.moments.retain(|_| {
                number += 1;
                number % 2 == 1
            });
            self.every *= 2;
        }
        self.moments.push(Moment { seconds: (now - self.begun).as_secs_f64(), ..what() });
    }

    pub(super) fn moments(&self) -> &[Moment] {
        &self.moments
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_thin_out_and_keep_their_order() {
        let begun = Instant::now();
        let mut history = History::new(begun);
        for tenth in 0..3000_u64 {
            let now = begun + Duration::from_millis(100 * tenth);
            history.note(now, || Moment { samples: tenth, ..Moment::default() });
        }
        let moments = history.moments();
        assert!(moments.len() <= MOST_POINTS && moments.len() > MOST_POINTS / 3, "{}", moments.len());
        assert!(moments.windows(2).all(|two| two[0].samples < two[1].samples));
        assert!(moments[0].seconds == 0.0 && moments[moments.len() - 1].samples > 2900);
    }

    #[test]
    fn close_points_are_not_kept() {
        let begun = Instant::now();
        let mut history = History::new(begun);
        for _ in 0..10 {
            history.note(begun, Moment::default);
        }
        assert_eq!(history.moments().len(), 1);
    }
}
