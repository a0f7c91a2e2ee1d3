//! The reference for the raw recipe: how fast this machine copies the same bytes from memory to memory.
//!
//! The stored bytes are in one warm buffer; each batch's samples are copied from there, in shuffled
//! order, one after the other into a batch-sized buffer that is reused. This is the upper limit for a loader.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use feedline::field::Carrier;
use feedline::sample::{FieldSet, SampleBuffer};
use feedline::{Dataset, Kind, Result};
use serde::Serialize;

use super::measure::Setup;
use crate::args::BenchArgs;
use crate::{data, machine};

/// Largest number of bytes to measure: beyond any cache, the speed no longer depends on the size.
const MOST_BYTES: usize = 2 << 30;
/// Number of rounds; the fastest counts, since the others only show what else the machine was doing.
const ROUNDS: usize = 7;
/// Small sets are copied more often: one round takes only milliseconds.
const LEAST_TIME: Duration = Duration::from_millis(250);

/// Speed of copying, best of several rounds.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct CopySpeed {
    /// Number of bytes in one round.
    pub(crate) bytes: u64,
    /// Bytes per second with one thread.
    pub(crate) one_thread: f64,
    /// Bytes per second with as many threads as the loader has.
    pub(crate) all_threads: f64,
    /// Number of threads of the loader.
    pub(crate) threads: usize,
}

/// Position of each sample's bytes in the buffer.
type Places = Vec<std::ops::Range<usize>>;

/// Measures; `None` if there are no bytes or not enough memory.
pub(crate) fn measure(args: &BenchArgs, setup: &Setup) -> Result<Option<CopySpeed>> {
    let dataset = data::open(std::slice::from_ref(&args.path), &args.open)?;
    let (buffer, mut places) = read(&dataset);
    if buffer.is_empty() {
        return Ok(None);
    }
    shuffle(&mut places);
    let batches: Vec<&[std::ops::Range<usize>]> = places.chunks(args.batch_size as usize).collect();
    let best = |threads: usize| {
        let (begun, mut rounds, mut fastest) = (Instant::now(), 0, f64::INFINITY);
        while rounds < ROUNDS || begun.elapsed() < LEAST_TIME {
            fastest = round(&buffer, &batches, threads).min(fastest);
            rounds += 1;
        }
        buffer.len() as f64 / fastest
    };
    let (one_thread, all_threads) = (best(1), best(setup.threads));
    Ok(Some(CopySpeed { bytes: buffer.len() as u64, one_thread, all_threads, threads: setup.threads }))
}

fn read(dataset: &Dataset) -> (Vec<u8>, Places) {
    let fields = &dataset.schema().fields;
    let with_bytes = |kind: Kind| matches!(kind.carrier(), Carrier::Image | Carrier::Bytes);
    let wanted = FieldSet::only(fields.len(), (0..fields.len()).filter(|n| with_bytes(fields[*n].kind)));
    let most = machine::memory("MemAvailable").map_or(MOST_BYTES, |free| MOST_BYTES.min(free as usize / 3));
    let (mut buffer, mut places, mut sample) = (Vec::new(), Vec::new(), SampleBuffer::new());
    for number in 0..dataset.len() {
        // Bad samples are left out here, as in the loader.
        if dataset.read(number, &wanted, &mut sample).is_err() {
            continue;
        }
        let bytes = sample.bytes(&(0..sample.used()));
        if buffer.len() + bytes.len() > most {
            break;
        }
        places.push(buffer.len()..buffer.len() + bytes.len());
        buffer.extend_from_slice(bytes);
    }
    (buffer, places)
}

/// Any order except the stored one is fine.
fn shuffle(places: &mut Places) {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for at in (1..places.len()).rev() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        places.swap(at, (state >> 33) as usize % (at + 1));
    }
}

/// Seconds to copy all batches once.
fn round(buffer: &[u8], batches: &[&[std::ops::Range<usize>]], threads: usize) -> f64 {
    let length = |batch: &&[std::ops::Range<usize>]| batch.iter().map(ExactSizeIterator::len).sum::<usize>();
    let largest = batches.iter().map(length).max().unwrap_or(0);
    let next = AtomicUsize::new(0);
    let mut rooms: Vec<Vec<u8>> = (0..threads).map(|_| vec![1; largest]).collect();
    let begun = Instant::now();
    std::thread::scope(|scope| {
        let mut rooms = rooms.iter_mut();
        let own = rooms.next();
        for room in rooms {
            scope.spawn(|| copy_batches(buffer, batches, &next, room));
        }
        if let Some(room) = own {
            copy_batches(buffer, batches, &next, room);
        }
    });
    let seconds = begun.elapsed().as_secs_f64();
    std::hint::black_box(&rooms);
    seconds
}

fn copy_batches(buffer: &[u8], batches: &[&[std::ops::Range<usize>]], next: &AtomicUsize, room: &mut [u8]) {
    while let Some(batch) = batches.get(next.fetch_add(1, Ordering::Relaxed)) {
        let mut at = 0;
        for place in *batch {
            room[at..at + place.len()].copy_from_slice(&buffer[place.clone()]);
            at += place.len();
        }
        std::hint::black_box(&mut *room);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shuffle_keeps_every_element() {
        let mut places: Places = (0..100).map(|n| n..n + 1).collect();
        shuffle(&mut places);
        assert_ne!(places[..5], [0..1, 1..2, 2..3, 3..4, 4..5]);
        places.sort_by_key(|p| p.start);
        assert!(places.iter().enumerate().all(|(n, p)| *p == (n..n + 1)));
    }
}
