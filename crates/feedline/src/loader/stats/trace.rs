//! What every thread did when, in the format that Perfetto and Chrome (`chrome://tracing`) read.

use std::io::{self, Write};
use std::time::Duration;

use serde_json::json;

use super::counters::SampleTimes;

/// Samples kept of a whole run; about 60 MB.
pub(super) const MOST_SAMPLES: usize = 1_000_000;

/// Batches kept of a whole run.
pub(super) const MOST_BATCHES: usize = 100_000;

/// One batch as its consumer had it; times since the loader began.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taken {
    pub(super) asked: Duration,
    pub(super) got: Duration,
    pub(super) ready: u64,
}

/// Everything a trace shows.
#[derive(Debug, Default)]
pub(super) struct Trace {
    /// By worker.
    pub(super) samples: Vec<(usize, SampleTimes)>,
    pub(super) batches: Vec<Taken>,
    pub(super) workers: usize,
}

impl Trace {
    /// Writes it as JSON.
    pub(super) fn write(&self, out: &mut impl Write) -> io::Result<()> {
        out.write_all(b"{\"displayTimeUnit\":\"ms\",\"traceEvents\":[")?;
        let mut events = Events { out, process: std::process::id(), first: true };
        events.name(0, "training loop")?;
        for worker in 0..self.workers {
            events.name(worker + 1, &format!("feedline-{worker}"))?;
        }
        for batch in &self.batches {
            events.batch(batch)?;
        }
        for (worker, times) in &self.samples {
            events.sample(worker + 1, times)?;
        }
        out.write_all(b"]}\n")
    }
}

struct Events<'a, W> {
    out: &'a mut W,
    process: u32,
    first: bool,
}

impl<W: Write> Events<'_, W> {
    fn event(&mut self, event: serde_json::Value) -> io::Result<()> {
        if !std::mem::take(&mut self.first) {
            self.out.write_all(b",\n")?;
        }
        serde_json::to_writer(&mut *self.out, &event).map_err(io::Error::other)
    }

    fn name(&mut self, thread: usize, name: &str) -> io::Result<()> {
        let (process, arguments) = (self.process, json!({ "name": name }));
        self.event(
            json!({"ph": "M", "name": "thread_name", "pid": process, "tid": thread, "args": arguments}),
        )
    }

    fn slice(
        &mut self,
        thread: usize,
        name: &str,
        at: Duration,
        time: Duration,
        sample: u64,
    ) -> io::Result<()> {
        if time.is_zero() {
            return Ok(());
        }
        let (start, length, process) = (micros(at), micros(time), self.process);
        let arguments = json!({ "sample": sample });
        self.event(
            json!({"ph": "X", "name": name, "cat": "sample", "pid": process, "tid": thread, "ts": start,
            "dur": length, "args": arguments}),
        )
    }

    /// Decoding and transforming take turns, strip by strip; they are drawn one after the other.
    fn sample(&mut self, thread: usize, times: &SampleTimes) -> io::Result<()> {
        let mut at = times.begun;
        let parts = [
            ("wait for bytes", times.waited),
            ("read", times.read.saturating_sub(times.waited)),
            ("copy", times.copy),
            ("decode", times.decode),
            ("transform", times.transform),
        ];
        for (name, time) in parts {
            self.slice(thread, name, at, time, times.sample)?;
            at += time;
        }
        Ok(())
    }

    fn batch(&mut self, taken: &Taken) -> io::Result<()> {
        let (process, start) = (self.process, micros(taken.asked));
        let length = micros(taken.got.saturating_sub(taken.asked));
        self.event(json!({"ph": "X", "name": "wait for a batch", "cat": "batch", "pid": process, "tid": 0,
            "ts": start, "dur": length}))?;
        let arguments = json!({ "batches": taken.ready });
        let at = micros(taken.got);
        self.event(json!({"ph": "C", "name": "batches ready", "pid": process, "ts": at, "args": arguments}))
    }
}

fn micros(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_is_json_with_a_track_for_every_thread() {
        let time = Duration::from_micros;
        let times = SampleTimes {
            sample: 7,
            begun: time(10),
            read: time(4),
            decode: time(20),
            ..SampleTimes::default()
        };
        let taken = Taken { asked: time(1), got: time(40), ready: 2 };
        let trace = Trace { samples: vec![(1, times)], batches: vec![taken], workers: 2 };
        let mut text = Vec::new();
        trace.write(&mut text).unwrap();
        let read: serde_json::Value = serde_json::from_slice(&text).unwrap();
        let events = read["traceEvents"].as_array().unwrap();
        let named = |name: &str| events.iter().filter(|e| e["name"] == name).collect::<Vec<_>>();
        assert_eq!(named("thread_name").len(), 3);
        assert_eq!(
            (named("read")[0]["ts"].as_f64(), named("decode")[0]["ts"].as_f64()),
            (Some(10.0), Some(14.0))
        );
        assert_eq!(
            (&named("decode")[0]["tid"], &named("decode")[0]["args"]["sample"]),
            (&json!(2), &json!(7))
        );
        assert_eq!(named("wait for a batch")[0]["dur"].as_f64(), Some(39.0));
        assert!(named("transform").is_empty());
    }
}
