//! Threads that make samples: claim a row, read, decode, transform, write the result into the batch.

mod destination;
mod epoch_run;
mod errors;
mod images;
mod pieces;
mod values;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::Receiver;
use std::time::Instant;

use super::audio::AudioRunner;
use super::mix::Member;
use super::plan::Output;
use super::seek::Seeker;
use super::stats::{Counters, SampleTimes, Stopwatch, Work};
use super::targets::TargetRunner;
use super::video::VideoRunner;
use super::{arrays, views};
use crate::batch::{Claim, Filling, RowMut};
use crate::error::{Error, Result, Stage};
use crate::read::WaitCheck;
use crate::render::{ImageDecoder, ValueDecoder};
use crate::sample::SampleBuffer;
use crate::source::while_wanted;
use crate::spec::OnError;
use crate::transform::{Params, Program, SampleKey};
use errors::panic_text;
use pieces::Pieces;
use values::put_packing;

pub(super) use destination::Destination;
pub(super) use epoch_run::EpochRun;
pub(super) use errors::{decode_error, missing, read_error};
pub(super) use images::plan_passes;
pub(super) use values::refuse_compact;

/// Number of substitutes tried for a bad sample before its row stays empty.
const SUBSTITUTES: usize = 16;

/// Number of candidates examined to find them: an order may contain the same sample many times.
pub(super) const CANDIDATES: u64 = 64;

/// A thread's own buffers, kept from sample to sample and from epoch to epoch.
pub(super) struct Worker {
    counters: Arc<Counters>,
    sample: SampleBuffer,
    /// For a second read of one field while `sample` holds the row's other values.
    probed: SampleBuffer,
    image: ImageDecoder,
    values: ValueDecoder,
    /// A JPEG plus the end marker that is missing in its file.
    ended: Vec<u8>,
    /// A file with the wanted page as its first.
    paged: Vec<u8>,
    seeker: Seeker,
    pieces: Pieces,
    /// Drawn parameters and passes for each view of the current image.
    views: Vec<(Params, Program)>,
    targets: TargetRunner,
    audio: AudioRunner,
    video: VideoRunner,
    max_pixels: u64,
    /// Reads so far, to check one now and then; the check of the current one; its batch and position.
    reads: u32,
    wait_check: Option<WaitCheck>,
    place: (u64, u64),
}

/// Result of an attempt to make a sample.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// The sample is in its row.
    Done,
    /// The sample is bad.
    Bad,
    /// Storage failed, so it is unknown whether the sample is bad.
    Unread,
}

impl Worker {
    pub(super) fn new(counters: Arc<Counters>, max_pixels: u64) -> Self {
        Worker {
            counters,
            sample: SampleBuffer::new(),
            probed: SampleBuffer::new(),
            image: ImageDecoder::new(max_pixels),
            values: ValueDecoder::new(max_pixels),
            ended: Vec::new(),
            paged: Vec::new(),
            seeker: Seeker::default(),
            pieces: Pieces::default(),
            views: Vec::new(),
            targets: TargetRunner::new(max_pixels),
            audio: AudioRunner::default(),
            video: VideoRunner::default(),
            max_pixels,
            reads: 0,
            wait_check: None,
            place: (0, 0),
        }
    }

    /// Works on one run after the other; decrements `busy` after each.
    pub(super) fn run(mut self, runs: &Receiver<Arc<EpochRun>>, busy: &AtomicUsize) {
        self.counters.note_thread();
        while let Ok(run) = runs.recv() {
            // Samples catch their own panics, so a panic here is a bug in the loader itself. Nobody may wait for
            // this thread then.
            let work = || while_wanted(&run.cancelled, || self.make_rows(&run));
            if catch_unwind(AssertUnwindSafe(work)).is_err() {
                run.close();
                self = Worker::new(self.counters, self.max_pixels);
            }
            busy.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Makes rows of `run` until there are none left.
    pub(super) fn make_rows(&mut self, run: &EpochRun) {
        loop {
            let Some(claim) = run.ring.claim() else { return };
            let claimed = Instant::now();
            let counters = self.counters.clone();
            let open = |number| run.open(number);
            let fill = |filling: &Filling, claim: &Claim| {
                counters.spent(Work::Wait, claimed.elapsed());
                if !filling.is_broken() {
                    self.fill_group(run, filling, claim);
                }
            };
            let seal = |filling: &mut Filling| {
                let loose = filling.loose_bytes();
                filling.seal(&run.plan.columns, &run.pool);
                run.budget.release(filling.number, loose);
                if let Some(ahead) = &run.ahead {
                    ahead.seal(filling.number);
                }
            };
            if !run.ring.work(claim, open, fill, seal) {
                return;
            }
        }
    }

    /// Makes the rows of a claim, and mixes them if requested.
    fn fill_group(&mut self, run: &EpochRun, filling: &Filling, claim: &Claim) {
        let first = run.batches.range(claim.batch).start + claim.row;
        if run.plan.options.views {
            return self.fill_views(run, first, filling, claim);
        }
        if run.plan.mix.group == 1 {
            for (position, mut row) in (first..).zip(filling.rows(claim)) {
                self.fill(run, position, &mut row);
            }
            return;
        }
        let mut members: Vec<Member<'_>> =
            (first..).zip(filling.rows(claim)).map(|(position, row)| Member { position, row }).collect();
        // In a short last batch, partners may be on another rank: they are made here as well.
        let others = run.plan.mix.partners_on_other_ranks(&members, run.batches.positions);
        let other_ranks = run.rows_of_other_ranks(claim.batch, &others);
        let all = Claim { batch: claim.batch, row: 0, rows: others.len() as u64 };
        if let Some(other_ranks) = &other_ranks {
            let rows = other_ranks.rows(&all);
            members
                .extend(others.iter().zip(rows).map(|(position, row)| Member { position: *position, row }));
        }
        for Member { position, row } in &mut members {
            self.fill(run, *position, row);
        }
        members.sort_by_key(|member| member.position);
        if catch_unwind(AssertUnwindSafe(|| run.mix(&mut members))).is_err() {
            let reason = "internal error, please report it: a panic while samples were mixed";
            for Member { row, .. } in &mut members {
                let place = run.locate(row.sample());
                row.invalidate(Error::sample(place, Stage::Transform, reason.to_owned()));
            }
        }
    }

    /// Makes rows of views, whose time is counted together. A row that fails, or has other values, is made like any other.
    fn fill_views(&mut self, run: &EpochRun, first: u64, filling: &Filling, claim: &Claim) {
        let mut watch = Stopwatch::start();
        let mut times = SampleTimes { begun: watch.at() - run.loader_begun, ..SampleTimes::default() };
        let mut count = 0;
        for (position, mut row) in (first..).zip(filling.rows(claim)) {
            if views::put_safely(run, &mut row) {
                times.sample = row.sample();
                row.done();
                count += 1;
            } else {
                self.fill(run, position, &mut row);
            }
        }
        times.copy = watch.lap();
        self.counters.spent(Work::Copy, times.copy);
        if count > 0 {
            self.counters.finished_together(&times, count);
        }
    }

    fn fill(&mut self, run: &EpochRun, position: u64, row: &mut RowMut<'_>) {
        let sample = row.sample();
        if self.attempt(run, sample, position, row) == Outcome::Bad
            && run.plan.options.on_error == OnError::Replace
        {
            self.replace(run, sample, position, row);
        }
    }

    /// Tries one candidate after the other for the row of a bad sample.
    fn replace(&mut self, run: &EpochRun, bad: u64, position: u64, row: &mut RowMut<'_>) {
        let mut tried = vec![bad];
        for number in 0..CANDIDATES {
            let candidate = run.order.substitute(position, run.batches.positions, number);
            let Some(sample) = candidate else { return };
            if tried.contains(&sample) {
                continue;
            }
            tried.push(sample);
            let outcome = self.attempt(run, sample, position, row);
            if outcome != Outcome::Bad || tried.len() > SUBSTITUTES {
                return;
            }
        }
    }

    /// Tries to put `sample` into the row, and records the result there.
    fn attempt(&mut self, run: &EpochRun, sample: u64, position: u64, row: &mut RowMut<'_>) -> Outcome {
        let key = run.key(sample, position);
        let failure = match catch_unwind(AssertUnwindSafe(|| self.make(run, key, position, row))) {
            Ok(Ok(())) => {
                row.done();
                return Outcome::Done;
            }
            Ok(Err(error)) => error,
            Err(panic) => {
                // Scratch memory may be inconsistent, so it is created again.
                *self = Worker::new(self.counters.clone(), self.max_pixels);
                Error::sample(run.locate(sample), Stage::Decode, panic_text(&*panic))
            }
        };
        let outcome = if failure.blames_sample() { Outcome::Bad } else { Outcome::Unread };
        row.failed(failure);
        outcome
    }

    fn make(&mut self, run: &EpochRun, key: SampleKey, position: u64, row: &mut RowMut<'_>) -> Result<()> {
        let sample = key.sample;
        let mut watch = Stopwatch::start();
        let mut times =
            SampleTimes { sample, begun: watch.at() - run.loader_begun, ..SampleTimes::default() };
        let plan = &*run.plan;
        let on_core = self.counters.begin_core_check();
        (self.place, self.wait_check) = ((row.batch(), position), run.begin_wait_check(&mut self.reads));
        let whole = self.pieces.find(run, sample).map_err(|e| read_error(e, run, sample))?;
        let fields = whole.as_ref().unwrap_or(&plan.fields);
        run.dataset.read(sample, fields, &mut self.sample).map_err(|e| read_error(e, run, sample))?;
        times.read = watch.lap();
        self.end_wait_check(run);
        self.counters.end_core_check(on_core, times.read);
        times.waited = run.network_wait().min(times.read);
        self.counters.spent(Work::Read, times.read.saturating_sub(times.waited));
        self.counters.spent(Work::Bytes, times.waited);
        let mut bytes = self.sample.used() as u64;
        for (column, output) in plan.outputs.iter().enumerate() {
            let to = &mut Destination { run, sample, row, column };
            match *output {
                Output::Image { .. } | Output::Target { .. } | Output::Media { .. } => {}
                Output::PackedLength | Output::PackedRow => put_packing(to, position, *output),
                Output::ArrayWindow { field } => arrays::put(to, key, &self.sample, field)?,
                output => bytes += self.value(to, output)?,
            }
        }
        times.copy = watch.lap();
        self.counters.spent(Work::Copy, times.copy);
        bytes += self.render_media(run, key, row)?;
        times.decode = watch.lap();
        for views in &plan.image_fields {
            let spent = self.render_image(run, key, row, views)?;
            times.decode += spent.decode;
            times.transform += spent.transform;
        }
        times.read += self.pieces.time;
        times.waited += self.pieces.waited;
        self.counters.finished(&times, bytes + self.pieces.bytes);
        Ok(())
    }

    /// Ends the check of a read, if it was this one's turn.
    fn end_wait_check(&mut self, run: &EpochRun) {
        if let (Some(check), Some(ahead)) = (self.wait_check.take(), &run.ahead) {
            let (batch, position) = self.place;
            let row = position.saturating_sub(run.batches.range(batch).start);
            ahead.end_wait_check(&check, &mut self.reads, batch, row);
        }
    }
}
