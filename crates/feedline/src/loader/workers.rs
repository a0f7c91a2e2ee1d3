//! Threads that make samples: claim a row, read, decode, transform, write the result into the batch.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use super::audio::AudioRunner;
use super::mix::Member;
use super::plan::{Output, Plan, Views};
use super::seek::Seeker;
use super::stats::{Counters, Made, Watch, Work};
use super::targets::{TargetRunner, put_params};
use super::video::VideoRunner;
use super::{arrays, views, windows};
use crate::batch::{Budget, Claim, Filling, Pool, Ring, Room, RowMut, Shape};
use crate::dataset::{Checkpoints, Dataset};
use crate::error::{Error, Location, Result, Stage};
use crate::order::{Batches, Order};
use crate::random::Draw;
use crate::read::{Look, Prefetch};
use crate::render::{ImageDecoder, Opened, Spent, StoredImage, ValueDecoder, ValueForm};
use crate::sample::{FieldSet, ImageEncoding, ImageMeta, SampleBuffer, Value};
use crate::source::{take_waited, while_wanted};
use crate::spec::OnError;
use crate::transform::{Params, Program, SampleKey};

/// Separates the draws of a sample's repetitions from all other uses of the seed.
const REPETITION: u64 = 0x61_6761_696e; // "again"

/// Number of substitutes tried for a bad sample before its row stays empty.
const SUBSTITUTES: usize = 16;

/// Number of candidates examined to find them: an order may contain the same sample many times.
pub(super) const CANDIDATES: u64 = 64;

/// Images with more pixels for each of their bytes are not planned by their headers.
const MOST_PIXELS_PER_BYTE: u64 = 512;

/// One pass over (the rest of) an epoch, shared by its workers and its consumer.
#[derive(Debug)]
pub(crate) struct EpochRun {
    pub(crate) dataset: Dataset,
    pub(crate) plan: Arc<Plan>,
    pub(crate) pool: Pool,
    pub(crate) ring: Ring<Filling>,
    /// Limits values whose size is not known beforehand.
    pub(crate) budget: Budget,
    pub(crate) order: Order,
    pub(crate) batches: Batches,
    pub(crate) epoch: u64,
    /// Reads bytes before they are needed.
    pub(crate) ahead: Option<Prefetch>,
    /// Seek indexes of images that are stored without.
    pub(crate) checkpoints: Option<Arc<Checkpoints>>,
    /// Set when the batches are no longer wanted.
    pub(crate) given_up: Arc<AtomicBool>,
    /// What the times in a trace count from.
    pub(crate) loader_begun: Instant,
}

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
    /// Drawn parameters and passes for each view of the current image.
    views: Vec<(Params, Program)>,
    targets: TargetRunner,
    audio: AudioRunner,
    video: VideoRunner,
    max_pixels: u64,
    /// Reads so far, to look at one now and then; a look at the one under way, and its batch and position.
    reads: u32,
    waits: Option<Look>,
    place: (u64, u64),
}

/// Result of an attempt to make a sample.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
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
            views: Vec::new(),
            targets: TargetRunner::new(max_pixels),
            audio: AudioRunner::default(),
            video: VideoRunner::default(),
            max_pixels,
            reads: 0,
            waits: None,
            place: (0, 0),
        }
    }

    /// Works on one run after the other; decrements `busy` after each.
    pub(super) fn run(mut self, runs: &Receiver<Arc<EpochRun>>, busy: &AtomicUsize) {
        self.counters.belong_here();
        while let Ok(run) = runs.recv() {
            // Samples catch their own panics, so a panic here is a bug in the loader itself. Nobody may wait for
            // this thread then.
            let work = || while_wanted(&run.given_up, || self.make_rows(&run));
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
        let others = run.plan.mix.absent(&members, run.batches.positions);
        let elsewhere = run.elsewhere(claim.batch, &others);
        let all = Claim { batch: claim.batch, row: 0, rows: others.len() as u64 };
        if let Some(elsewhere) = &elsewhere {
            let rows = elsewhere.rows(&all);
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
        let mut watch = Watch::start();
        let mut made = Made { begun: watch.at() - run.loader_begun, ..Made::default() };
        let mut count = 0;
        for (position, mut row) in (first..).zip(filling.rows(claim)) {
            if views::put_safely(run, &mut row) {
                made.sample = row.sample();
                row.done();
                count += 1;
            } else {
                self.fill(run, position, &mut row);
            }
        }
        made.copy = watch.lap();
        self.counters.spent(Work::Copy, made.copy);
        if count > 0 {
            self.counters.finished_together(&made, count);
        }
    }

    fn fill(&mut self, run: &EpochRun, position: u64, row: &mut RowMut<'_>) {
        let sample = row.sample();
        if self.attempt(run, sample, position, row) == Fate::Bad
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
            let fate = self.attempt(run, sample, position, row);
            if fate != Fate::Bad || tried.len() > SUBSTITUTES {
                return;
            }
        }
    }

    /// Tries to put `sample` into the row, and records the result there.
    fn attempt(&mut self, run: &EpochRun, sample: u64, position: u64, row: &mut RowMut<'_>) -> Fate {
        let key = run.key(sample, position);
        let failure = match catch_unwind(AssertUnwindSafe(|| self.make(run, key, position, row))) {
            Ok(Ok(())) => {
                row.done();
                return Fate::Done;
            }
            Ok(Err(error)) => error,
            Err(panic) => {
                // Scratch memory may be inconsistent, so it is created again.
                *self = Worker::new(self.counters.clone(), self.max_pixels);
                Error::sample(run.locate(sample), Stage::Decode, panic_text(&*panic))
            }
        };
        let fate = if failure.blames_sample() { Fate::Bad } else { Fate::Unread };
        row.failed(failure);
        fate
    }

    fn make(&mut self, run: &EpochRun, key: SampleKey, position: u64, row: &mut RowMut<'_>) -> Result<()> {
        let sample = key.sample;
        let mut watch = Watch::start();
        let mut made = Made { sample, begun: watch.at() - run.loader_begun, ..Made::default() };
        let plan = &*run.plan;
        let look = self.counters.look();
        (self.place, self.waits) = ((row.batch(), position), run.look(&mut self.reads));
        run.dataset.read(sample, &plan.fields, &mut self.sample).map_err(|e| read_error(e, run, sample))?;
        made.read = watch.lap();
        self.looked(run);
        self.counters.looked(look, made.read);
        made.waited = run.network_wait().min(made.read);
        self.counters.spent(Work::Read, made.read.saturating_sub(made.waited));
        self.counters.spent(Work::Bytes, made.waited);
        let mut bytes = self.sample.used() as u64;
        for (column, output) in plan.outputs.iter().enumerate() {
            if !matches!(output, Output::Image { .. } | Output::Target { .. } | Output::Media { .. }) {
                bytes += match output {
                    Output::PackedLength | Output::PackedRow => {
                        put_packing(run, sample, position, row, column, *output)
                    }
                    Output::ArrayWindow { field } => {
                        arrays::put(run, key, &self.sample, *field, row, column)?;
                        0
                    }
                    _ => self.value(run, sample, row, column, *output)?,
                };
            }
        }
        made.copy = watch.lap();
        self.counters.spent(Work::Copy, made.copy);
        bytes += self.render_media(run, key, row)?;
        made.decode = watch.lap();
        for views in &plan.pictures {
            let spent = self.render_image(run, key, row, views)?;
            made.decode += spent.decode;
            made.transform += spent.transform;
        }
        self.counters.finished(&made, bytes);
        Ok(())
    }

    /// Ends the look at a read, if it was this one's turn.
    fn looked(&mut self, run: &EpochRun) {
        if let (Some(look), Some(ahead)) = (self.waits.take(), &run.ahead) {
            let (batch, position) = self.place;
            let row = position.saturating_sub(run.batches.range(batch).start);
            ahead.looked(&look, &mut self.reads, batch, row);
        }
    }

    /// Puts any value except a decoded image into its row. Returns the number of stored bytes that it read itself.
    fn value(
        &mut self,
        run: &EpochRun,
        sample: u64,
        row: &mut RowMut<'_>,
        column: usize,
        output: Output,
    ) -> Result<u64> {
        let missing = |field| missing(run, sample, field);
        match output {
            Output::Index => row.dense(column).copy_from_slice(&(sample as i64).to_le_bytes()),
            Output::Int { field } => match self.sample.value(field) {
                Value::Int(value) => {
                    let label = run.plan.relabelled(&run.plan.columns[column].name, sample, *value);
                    row.dense(column).copy_from_slice(&label.to_le_bytes());
                }
                _ => return Err(missing(field)),
            },
            Output::Soft { field, soft } => self.soft_label(run, sample, row, column, (field, soft))?,
            Output::Float { field } => match self.sample.value(field) {
                Value::Float(value) => row.dense(column).copy_from_slice(&value.to_le_bytes()),
                _ => return Err(missing(field)),
            },
            Output::IntOrZero { field } => {
                let value = if let Value::Int(value) = self.sample.value(field) { *value } else { 0 };
                row.dense(column).copy_from_slice(&value.to_le_bytes());
            }
            Output::NumberOrNan { field } => {
                let value = match self.sample.value(field) {
                    Value::Int(value) => *value as f64,
                    Value::Float(value) => *value,
                    _ => f64::NAN,
                };
                row.dense(column).copy_from_slice(&value.to_le_bytes());
            }
            Output::Valid { field } => {
                row.dense(column)[0] = u8::from(*self.sample.value(field) != Value::Missing);
            }
            Output::Bytes { field, direct } => {
                refuse_compact(run, sample, field)?;
                if direct {
                    return self.direct(run, sample, row, column, field);
                }
                put_bytes(run, &self.sample, field, row, column)?;
            }
            Output::View { field } => views::put_view(run, sample, row, column, field)?,
            Output::Array { field } => put_array(run, sample, &self.sample, field, row, column)?,
            Output::Tokens { field, skip } => {
                windows::put(run, sample, &self.sample, field, skip, row, column)?;
            }
            Output::ImageSize { field } => self.image_size(run, sample, row, column, field)?,
            Output::Image { .. }
            | Output::Target { .. }
            | Output::Media { .. }
            | Output::ArrayWindow { .. }
            | Output::PackedLength
            | Output::PackedRow => {
                unreachable!("images, media, windows and packing have their own functions")
            }
        }
        Ok(0)
    }

    /// Writes a label as shares of classes.
    fn soft_label(
        &self,
        run: &EpochRun,
        sample: u64,
        row: &mut RowMut<'_>,
        column: usize,
        (field, soft): (usize, usize),
    ) -> Result<()> {
        let Value::Int(value) = self.sample.value(field) else { return Err(missing(run, sample, field)) };
        let label = run.plan.relabelled(&run.plan.columns[column].name, sample, *value);
        run.plan.mix.write_soft(soft, label, row.dense(column)).map_err(|reason| {
            let name = &run.dataset.schema().fields[field].name;
            Error::sample(run.locate(sample).with_field(name), Stage::Batch, reason)
        })
    }

    /// Reads bytes straight from storage into the batch, or through scratch memory if not all lengths were known.
    fn direct(
        &mut self,
        run: &EpochRun,
        sample: u64,
        row: &mut RowMut<'_>,
        column: usize,
        field: usize,
    ) -> Result<u64> {
        let begun = Instant::now();
        if let (Room::Planned(room), _) = row.ragged(column) {
            let bytes = room.len() as u64;
            self.waits = run.look(&mut self.reads);
            run.dataset.read_bytes(sample, field, room).map_err(|e| read_error(e, run, sample))?;
            self.looked(run);
            self.counters.spent(Work::Read, begun.elapsed());
            return Ok(bytes);
        }
        let count = run.dataset.schema().fields.len();
        let only = FieldSet::only(count, [field]);
        run.dataset.read(sample, &only, &mut self.probed).map_err(|e| read_error(e, run, sample))?;
        put_bytes(run, &self.probed, field, row, column)?;
        Ok(self.probed.used() as u64)
    }

    fn image_size(
        &mut self,
        run: &EpochRun,
        sample: u64,
        row: &mut RowMut<'_>,
        column: usize,
        field: usize,
    ) -> Result<()> {
        let stored = run.dataset.format().image_meta(sample, field).filter(|_| run.plan.options.page == 0);
        let size = match stored.and_then(|meta| meta.oriented_size()) {
            Some((height, width)) => [i64::from(height), i64::from(width)],
            None => self.probed_size(run, sample, field)?,
        };
        let room = row.dense(column);
        room[..8].copy_from_slice(&size[0].to_le_bytes());
        room[8..].copy_from_slice(&size[1].to_le_bytes());
        Ok(())
    }

    fn probed_size(&mut self, run: &EpochRun, sample: u64, field: usize) -> Result<[i64; 2]> {
        let only = FieldSet::only(run.dataset.schema().fields.len(), [field]);
        run.dataset.read(sample, &only, &mut self.probed).map_err(|e| read_error(e, run, sample))?;
        let picture = stored_image(&self.probed, field).ok_or_else(|| missing(run, sample, field))?;
        let page = run.plan.options.page as usize;
        let opened = picture.with_page(page, &mut self.paged).and_then(|picture| picture.open());
        let size = opened.map_err(|e| decode_error(run, sample, field, &e))?.upright_size();
        Ok([i64::from(size.height), i64::from(size.width)])
    }

    /// Decodes audio and video. Returns the number of stored bytes that this read.
    fn render_media(&mut self, run: &EpochRun, key: SampleKey, row: &mut RowMut<'_>) -> Result<u64> {
        for (column, plan) in &run.plan.audio {
            self.audio.put(run, key, &self.sample, plan, row, *column)?;
        }
        let mut bytes = 0;
        for plan in &run.plan.video {
            bytes += self.video.put(run, key, &self.sample, plan, &mut self.image, row)?;
        }
        Ok(bytes)
    }

    /// Decodes one image and renders all its views.
    fn render_image(
        &mut self,
        run: &EpochRun,
        key: SampleKey,
        row: &mut RowMut<'_>,
        views: &Views,
    ) -> Result<Spent> {
        let (field, sample) = (views.field, key.sample);
        let bad = |e: feedline_pixels::Error| decode_error(run, sample, field, &e);
        let picture = stored_image(&self.sample, field).ok_or_else(|| missing(run, sample, field))?;
        let options = &run.plan.options;
        let picture =
            if options.allow_truncated { picture.with_end(&mut self.ended).map_err(bad)? } else { picture };
        let picture = picture.with_page(options.page as usize, &mut self.paged).map_err(bad)?;
        let store = run.checkpoints.as_deref().filter(|_| views.values.is_none());
        let picture = self.seeker.look_up(store, options.index, picture, &mut self.image);
        let opened = picture.open().map_err(bad)?;
        let opened = if options.exif_transpose { opened } else { opened.as_stored() };
        self.image.set_up(options);
        opened.check(self.max_pixels).map_err(bad)?;
        let size = opened.upright_size();
        let copies = |plan: usize| run.plan.images[plan].copies();
        let each =
            views.outputs.iter().flat_map(|(_, plan)| (0..copies(*plan)).map(move |copy| (*plan, copy)));
        let count = views.outputs.iter().map(|(_, plan)| copies(*plan) as usize).sum();
        self.views.resize_with(count, Default::default);
        let looks = views.outputs.iter().any(|(_, plan)| run.plan.images[*plan].needs_boxes());
        let boxes =
            if looks { TargetRunner::given_boxes(run, (sample, size), &self.sample, views)? } else { None };
        for ((plan, copy), (params, program)) in each.zip(&mut self.views) {
            params.know_boxes(boxes.clone());
            let drawn = run.plan.images[plan].draw_copy(size, key, copy, params);
            drawn.and_then(|()| planned(params, size, program, self.max_pixels)).map_err(|reason| {
                let name = &run.dataset.schema().fields[field].name;
                let place = run.locate(sample).with_field(name);
                Error::sample(place, Stage::Transform, reason)
            })?;
        }
        let (image, planned, targets, buffer) =
            (&mut self.image, &self.views, &mut self.targets, &self.sample);
        for (column, (params, _)) in views.params.iter().zip(planned) {
            put_params(run, row, *column, &params.to_json())?;
        }
        for target in &views.targets {
            targets.put(run, (sample, size), buffer, &planned[target.view].1, target, row)?;
        }
        let Some(form) = views.values else {
            let spent = render(run, image, planned, &opened, row, views).map_err(bad)?;
            self.seeker.keep(store, image);
            return Ok(spent);
        };
        self.values.set_up(options);
        render_values(run, &mut self.values, form, planned, &opened, row, views).map_err(bad)
    }
}

/// Decodes an image of numbers and moves it with the programs of its views.
fn render_values(
    run: &EpochRun,
    values: &mut ValueDecoder,
    form: ValueForm,
    planned: &[(Params, Program)],
    opened: &Opened<'_>,
    row: &mut RowMut<'_>,
    views: &Views,
) -> feedline_pixels::Result<Spent> {
    let begun = Instant::now();
    let file = opened.file().ok_or_else(|| {
        let reason =
            "its pack stores only colours; pack it with image='as-is', or set mode to RGB or L".to_owned();
        feedline_pixels::Error::Unsupported { codec: "image", reason }
    })?;
    values.decode(file, form)?;
    let decode = begun.elapsed();
    for ((column, _), (_, program)) in views.outputs.iter().zip(planned) {
        let shape = values.run(form, program)?;
        if run.plan.columns[*column].row_bytes() > 0 {
            values.write(form, row.dense(*column))?;
            continue;
        }
        let length = shape.iter().product::<u64>() as usize * form.dtype().size();
        run.book(row, length);
        let (room, place) = row.ragged(*column);
        let Room::Free(room) = room else { unreachable!("sizes of whole images are not planned") };
        feedline_pixels::fit(room, length, 0)?;
        *place = Shape::new(&shape);
        values.write(form, room)?;
    }
    Ok(Spent { decode, transform: begun.elapsed().saturating_sub(decode) })
}

/// Runs the programs of all views.
fn render(
    run: &EpochRun,
    image: &mut ImageDecoder,
    planned: &[(Params, Program)],
    opened: &Opened<'_>,
    row: &mut RowMut<'_>,
    views: &Views,
) -> feedline_pixels::Result<Spent> {
    let mode = run.plan.options.decode;
    // If the memory of the result is taken for this sample only, an image that cannot be decoded must not take it.
    let roomy = |plan: usize| run.plan.images[plan].output().is_some() || opened.streams();
    if let ([(column, plan)], [_]) = (&views.outputs[..], planned)
        && roomy(*plan)
    {
        let (column, plan) = (*column, *plan);
        let (finish, program) = (run.plan.images[plan].finish(), &planned[0].1);
        return put_picture(run, row, column, plan, program, |out| {
            image.render(opened, program, finish, mode, out)
        });
    }
    let begun = Instant::now();
    let programs: Vec<&Program> = planned.iter().map(|(_, program)| program).collect();
    image.decode_views(opened, &programs, mode)?;
    let decode = begun.elapsed();
    let mut number = 0;
    for (column, plan) in &views.outputs {
        let (finish, copies) = (run.plan.images[*plan].finish(), run.plan.images[*plan].copies() as usize);
        put_picture(run, row, *column, *plan, programs[number], |out| {
            let length = out.len() / copies;
            for (copy, out) in out.chunks_exact_mut(length.max(1)).enumerate() {
                image.render_view(number + copy, programs[number + copy], finish, out)?;
            }
            Ok(())
        })?;
        number += copies;
    }
    Ok(Spent { decode, transform: begun.elapsed().saturating_sub(decode) })
}

/// Turns a read error into an error of this sample.
pub(super) fn read_error(error: Error, run: &EpochRun, sample: u64) -> Error {
    error.of_sample(run.locate(sample), Stage::Read)
}

impl EpochRun {
    /// Closes the run: workers stop at their next row, waits for storage are cancelled where possible.
    pub(crate) fn close(&self) {
        self.ring.close();
        self.budget.close();
        self.given_up.store(true, Ordering::Relaxed);
        if let Some(ahead) = &self.ahead {
            ahead.stop();
        }
    }

    fn open(&self, number: u64) -> Filling {
        let samples: Vec<u64> = self.batches.range(number).map(|position| self.order.at(position)).collect();
        let planned = |column: usize| match self.plan.outputs[column] {
            Output::Bytes { field, direct: true } => {
                samples.iter().map(|sample| self.dataset.format().byte_length(*sample, field)).collect()
            }
            Output::Image { field, whole: Some(plan) } => {
                samples.iter().map(|sample| self.whole_length(*sample, field, plan)).collect()
            }
            _ => None,
        };
        let filling = Filling::new(number, samples.clone(), &self.plan.columns, &self.pool, planned);
        match filling {
            Ok(filling) => {
                // This memory is lent but not yet touched; rows are read into it once the budget admits it.
                self.budget.reserve(number, filling.planned_bytes());
                filling
            }
            Err(error) => Filling::without_memory(number, samples, error),
        }
    }

    /// Length of the result of a whole image, if the store knows its size, and it may take so much memory: an image
    /// over the limit and one whose bytes cannot contain it get none before they are looked at.
    fn whole_length(&self, sample: u64, field: usize, plan: usize) -> Option<u64> {
        let format = self.dataset.format();
        let (height, width) = format.image_meta(sample, field)?.oriented_size()?;
        let size = feedline_pixels::Size::new(width, height);
        let believable = size.area() / MOST_PIXELS_PER_BYTE <= format.byte_length(sample, field)?;
        (believable && size.area() <= self.plan.options.max_pixels)
            .then(|| self.plan.images[plan].finish().output_bytes(size) as u64)
    }

    /// Key of the draws for a sample at this position. Its repetitions have their own draws.
    fn key(&self, sample: u64, position: u64) -> SampleKey {
        let options = &self.plan.options;
        let seed = match position % options.repeats {
            0 => options.seed,
            repetition => Draw::new(&[REPETITION, options.seed, repetition]).bits(),
        };
        SampleKey { seed, epoch: self.epoch, sample }
    }

    /// Rows for samples of other ranks that are mixed with samples of this one.
    fn elsewhere(&self, batch: u64, positions: &[u64]) -> Option<Filling> {
        if positions.is_empty() {
            return None;
        }
        let samples = positions.iter().map(|position| self.order.at(*position)).collect();
        Filling::new(batch, samples, &self.plan.columns, &self.pool, |_| None).ok()
    }

    /// Reserves memory for a value of `bytes` bytes, which exists twice while its batch is sealed.
    pub(super) fn book(&self, row: &RowMut<'_>, bytes: usize) {
        self.budget.reserve(row.batch(), 2 * bytes as u64);
    }

    /// Begins a close look at the next read of the calling worker, now and then.
    fn look(&self, turn: &mut u32) -> Option<Look> {
        self.ahead.as_ref()?.look(turn)
    }

    /// Time the calling worker waited for a network. Waits for local storage are part of reading.
    fn network_wait(&self) -> Duration {
        let waited = take_waited();
        if self.plan.remote { waited } else { Duration::ZERO }
    }

    /// Location of a sample, with the number that batches show.
    pub(super) fn locate(&self, sample: u64) -> Location {
        self.dataset.format().locate(sample).seen_as(sample)
    }
}

fn stored_image(buffer: &SampleBuffer, field: usize) -> Option<StoredImage<'_>> {
    match buffer.value(field) {
        Value::Image { bytes, index, meta } => {
            Some(StoredImage { bytes: buffer.bytes(bytes), index: buffer.bytes(index), meta: *meta })
        }
        Value::Bytes(bytes) => {
            Some(StoredImage { bytes: buffer.bytes(bytes), index: &[], meta: ImageMeta::UNKNOWN })
        }
        _ => None,
    }
}

/// Passes the row's bytes in an image column to `render`, and records the shape if the column is ragged.
fn put_picture<T>(
    run: &EpochRun,
    row: &mut RowMut<'_>,
    column: usize,
    plan: usize,
    program: &Program,
    render: impl FnOnce(&mut [u8]) -> feedline_pixels::Result<T>,
) -> feedline_pixels::Result<T> {
    let plan = &run.plan.images[plan];
    if plan.output().is_some() {
        return render(row.dense(column));
    }
    let output = program.output;
    let length = plan.finish().output_bytes(output);
    let form = Shape::new(&plan.finish().shape(output));
    if !row.is_planned(column, length) {
        run.book(row, length);
    }
    let (room, shape) = row.ragged_of(column, length);
    *shape = form;
    match room {
        Room::Planned(room) => render(room),
        Room::Free(room) => {
            feedline_pixels::fit(room, length, 0)?;
            render(room)
        }
    }
}

/// Plans the passes. The limit on pixels applies to what each pass makes, not only to what the first one reads.
pub(super) fn planned(
    params: &Params,
    image: feedline_pixels::Size,
    program: &mut Program,
    max_pixels: u64,
) -> Result<(), String> {
    params.plan(image, program);
    let Some(size) = program.results().find(|size| size.area() > max_pixels) else { return Ok(()) };
    let (height, width) = (size.height, size.width);
    Err(format!(
        "the result of {height}x{width} (height x width) is over the limit of {max_pixels} pixels (max_pixels)"
    ))
}

/// Undecoded bytes are for other decoders, and no other decoder reads the compact form.
pub(super) fn refuse_compact(run: &EpochRun, sample: u64, field: usize) -> Result<()> {
    let stored = run.dataset.format().image_meta(sample, field);
    if stored.is_none_or(|meta| meta.encoding != ImageEncoding::Compact) {
        return Ok(());
    }
    let place = run.locate(sample).with_field(&run.dataset.schema().fields[field].name);
    let reason = "stored as compact, which no other decoder reads; pack with image='jpeg' for decode='none'";
    Err(Error::sample(place, Stage::Read, reason))
}

fn put_bytes(
    run: &EpochRun,
    buffer: &SampleBuffer,
    field: usize,
    row: &mut RowMut<'_>,
    column: usize,
) -> Result<()> {
    let bytes: &[u8] = match buffer.value(field) {
        Value::Bytes(bytes) | Value::Image { bytes, .. } => buffer.bytes(bytes),
        _ => &[],
    };
    if let (Room::Planned(room), _) = row.ragged(column) {
        room.copy_from_slice(bytes);
        return Ok(());
    }
    run.book(row, bytes.len());
    copy_free(bytes, row, column)
}

/// Copies a value into a row of unplanned length.
pub(super) fn copy_free(bytes: &[u8], row: &mut RowMut<'_>, column: usize) -> Result<()> {
    let Room::Free(room) = row.ragged(column).0 else { unreachable!("the length was not planned") };
    room.clear();
    let starved = |_| Error::out_of_memory(bytes.len() as u64, "a value of a batch");
    room.try_reserve_exact(bytes.len()).map_err(starved)?;
    room.extend_from_slice(bytes);
    Ok(())
}

fn put_array(
    run: &EpochRun,
    sample: u64,
    buffer: &SampleBuffer,
    field: usize,
    row: &mut RowMut<'_>,
    column: usize,
) -> Result<()> {
    *row.ragged(column).1 = Shape::new(&[0]);
    let Value::Array { dtype, dimensions, shape, bytes } = buffer.value(field) else {
        return copy_free(&[], row, column);
    };
    let expected = run.plan.columns[column].dtype;
    if *dtype != expected {
        let reason = format!("array of {}, but the column is {}", dtype.name(), expected.name());
        let name = &run.dataset.schema().fields[field].name;
        return Err(Error::sample(run.locate(sample).with_field(name), Stage::Batch, reason));
    }
    let bytes = buffer.bytes(bytes);
    run.book(row, bytes.len());
    copy_free(bytes, row, column)?;
    *row.ragged(column).1 = Shape::new(&shape[..*dimensions as usize]);
    Ok(())
}

/// Writes a packed sample's length or row; no bytes are read for it.
fn put_packing(
    run: &EpochRun,
    sample: u64,
    position: u64,
    row: &mut RowMut<'_>,
    column: usize,
    output: Output,
) -> u64 {
    let number = match output {
        Output::PackedLength => run.plan.packed_length(sample),
        _ => run.batches.row_in_batch(row.batch(), position),
    };
    row.dense(column).copy_from_slice(&(number as i64).to_le_bytes());
    0
}

pub(super) fn missing(run: &EpochRun, sample: u64, field: usize) -> Error {
    let name = &run.dataset.schema().fields[field].name;
    let place = run.locate(sample).with_field(name);
    Error::sample(
        place,
        Stage::Read,
        "the sample has no value for this field; leave it out with fields=[...]",
    )
}

pub(super) fn decode_error(
    run: &EpochRun,
    sample: u64,
    field: usize,
    error: &feedline_pixels::Error,
) -> Error {
    let name = &run.dataset.schema().fields[field].name;
    let place = run.locate(sample).with_field(name);
    match error {
        feedline_pixels::Error::OutOfMemory { bytes } => {
            Error::out_of_memory(*bytes, format!("decoding {place}"))
        }
        error => Error::sample(place, Stage::Decode, error),
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic
        .downcast_ref::<&str>()
        .map(|s| (*s).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned());
    format!(
        "internal error, please report it: {}",
        text.unwrap_or_else(|| "a panic without a message".to_owned())
    )
}
