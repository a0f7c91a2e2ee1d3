//! Progress: a bar on a terminal, occasional lines in a log.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::report::message;
use crate::{interrupt, units};

/// Rates are those of the last seconds, not of the whole run: parts that existed before a resumed run would distort
/// them.
const WINDOW: Duration = Duration::from_secs(8);
const REDRAW: Duration = Duration::from_millis(100);
/// Without a terminal, one line this often, so that a log of a night's work stays readable.
const LOG_EVERY: Duration = Duration::from_secs(60);

/// Shows progress and passes on the request to stop.
#[derive(Debug)]
pub(crate) struct Bar {
    title: &'static str,
    line: ProgressBar,
    on_terminal: bool,
    quiet: bool,
    begun: Instant,
    /// The largest count reported so far; threads report out of order.
    samples: AtomicU64,
    bytes: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    drawn: Instant,
    points: VecDeque<Point>,
}

#[derive(Debug, Clone, Copy)]
struct Point {
    when: Instant,
    samples: u64,
    bytes: u64,
}

impl Bar {
    /// A progress bar on standard error; silent with `quiet`.
    pub(crate) fn new(title: &'static str, quiet: bool) -> Self {
        let bar = ProgressBar::with_draw_target(
            // Not 0: the bar of an empty task would be full.
            Some(1),
            if quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() },
        );
        let style = ProgressStyle::with_template("{prefix} [{bar:20}] {percent:>3} %  {wide_msg}")
            .expect("the template is valid")
            .progress_chars("=> ");
        bar.set_style(style);
        bar.set_prefix(title);
        let on_terminal = !bar.is_hidden();
        let begun = Instant::now();
        let state = State { drawn: begun, points: VecDeque::new() };
        let (samples, bytes) = (AtomicU64::new(0), AtomicU64::new(0));
        Bar { title, line: bar, on_terminal, quiet, begun, samples, bytes, state: Mutex::new(state) }
    }

    /// Removes the bar from the screen.
    pub(crate) fn clear(&self) {
        self.line.finish_and_clear();
    }

    /// Samples and bytes done, as last reported.
    pub(crate) fn done(&self) -> (u64, u64) {
        (self.samples.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed))
    }

    /// Seconds since the bar was created.
    pub(crate) fn elapsed(&self) -> f64 {
        self.begun.elapsed().as_secs_f64()
    }

    fn draw(&self, state: &mut State, now: Instant, total: u64) {
        let (samples, bytes) = self.done();
        state.points.push_back(Point { when: now, samples, bytes });
        while state.points.len() > 2 && state.points.front().is_some_and(|p| now - p.when > WINDOW) {
            state.points.pop_front();
        }
        let text = describe(&state.points, samples, total);
        if self.on_terminal {
            self.line.update(|state| {
                state.set_len(total);
                state.set_pos(samples);
            });
            self.line.set_message(text);
        } else {
            let percent = samples * 100 / total.max(1);
            message(&format!("{}: {percent} %, {} of {}, {text}", self.title, samples, total));
        }
        state.drawn = now;
    }
}

/// Whether something must be shown, this long after the last time.
fn is_due(on_terminal: bool, since: Duration) -> bool {
    since >= if on_terminal { REDRAW } else { LOG_EVERY }
}

/// Rates over the window and the time left.
fn describe(points: &VecDeque<Point>, samples: u64, total: u64) -> String {
    let (Some(first), Some(last)) = (points.front(), points.back()) else { return String::new() };
    let time = (last.when - first.when).as_secs_f64();
    if time < 0.05 {
        return String::new();
    }
    let rate = (last.samples - first.samples) as f64 / time;
    let megabytes = (last.bytes - first.bytes) as f64 / time / 1e6;
    let left = if rate > 0.0 {
        format!(", {} left", units::time_left(total.saturating_sub(samples) as f64 / rate))
    } else {
        String::new()
    };
    format!("{} MB/s, {} samples/s{left}", units::significant(megabytes), units::count(rate as u64))
}

impl feedline::format::Progress for Bar {
    fn update(&self, samples: u64, bytes: u64, total: u64) -> ControlFlow<()> {
        if interrupt::asked() {
            return ControlFlow::Break(());
        }
        self.samples.fetch_max(samples, Ordering::Relaxed);
        self.bytes.fetch_max(bytes, Ordering::Relaxed);
        // Another thread is drawing: this update can be skipped.
        let Ok(mut state) = self.state.try_lock() else { return ControlFlow::Continue(()) };
        let now = Instant::now();
        if !self.quiet && is_due(self.on_terminal, now.saturating_duration_since(state.drawn)) {
            self.draw(&mut state, now, total);
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_file_gets_one_line_per_minute() {
        let mut drawn = 0;
        let lines = (0..600u64).filter(|second| {
            let due = is_due(false, Duration::from_secs(*second - drawn));
            drawn = if due { *second } else { drawn };
            due
        });
        assert_eq!(lines.count(), 9);
        assert!(is_due(true, Duration::from_secs(1)));
    }

    #[test]
    fn the_rate_and_the_time_left_are_shown() {
        let start = Instant::now();
        let points = VecDeque::from([
            Point { when: start, samples: 100, bytes: 0 },
            Point { when: start + Duration::from_secs(2), samples: 300, bytes: 20_000_000 },
        ]);
        assert_eq!(describe(&points, 300, 1300), "10.0 MB/s, 100 samples/s, 10 s left");
    }
}
