//! Threads that make samples: claim a row, read, decode, transform, write it where it belongs.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Instant;

use super::plan::{Output, Plan, Views};
use super::stats::{Counters, Totals, Work};
use crate::batch::{Claim, Filling, Pool, Ring, Room, RowMut, Shape};
use crate::dataset::Dataset;
use crate::decode::{ImageDecoder, Picture, Spent};
use crate::error::{Error, Result, Stage};
use crate::order::{Batches, Order};
use crate::random::Draw;
use crate::read::Prefetch;
use crate::sample::{FieldSet, ImageMeta, SampleBuffer, Value};
use crate::source::while_wanted;
use crate::spec::OnError;
use crate::transform::{SampleKey, Steps};

/// A bad sample's row is offered to this many substitutes before it stays empty.
const SUBSTITUTES: u64 = 16;

/// Separates the choice of substitutes from all other uses of the seed.
const PURPOSE: u64 = 0x7375_6273_7469; // "substi"

/// One pass over (the rest of) an epoch, shared by its workers and its consumer.
#[derive(Debug)]
pub(crate) struct Flight {
    pub(crate) dataset: Dataset,
    pub(crate) plan: Arc<Plan>,
    pub(crate) pool: Pool,
    pub(crate) ring: Ring<Filling>,
    pub(crate) order: Order,
    pub(crate) batches: Batches,
    pub(crate) epoch: u64,
    /// Asks for bytes that are far away before they are needed.
    pub(crate) ahead: Option<Prefetch>,
    /// Set when nobody wants its batches any more.
    pub(crate) given_up: Arc<AtomicBool>,
}

/// A set of threads that work on one flight at a time.
#[derive(Debug)]
pub(crate) struct Crew {
    threads: Vec<(Sender<Arc<Flight>>, JoinHandle<()>)>,
    process: u32,
}

impl Crew {
    /// Starts `count` threads.
    pub(crate) fn new(count: usize, max_pixels: u64, totals: &Totals) -> Result<Self> {
        let mut threads = Vec::with_capacity(count);
        for number in 0..count {
            let (sender, receiver) = channel();
            let counters = totals.worker();
            let thread = std::thread::Builder::new().name(format!("feedline-{number}"));
            let handle = thread.spawn(move || Worker::new(counters, max_pixels).run(&receiver));
            let handle = handle.map_err(|e| {
                Error::option("num_workers", format!("the system refused thread {number} of {count}: {e}"))
            })?;
            threads.push((sender, handle));
        }
        Ok(Crew { threads, process: std::process::id() })
    }

    /// Number of threads.
    pub(crate) fn len(&self) -> usize {
        self.threads.len()
    }

    /// Gives all threads this flight, to be taken up as soon as they are done with the last one.
    pub(crate) fn start(&self, flight: &Arc<Flight>) {
        for (sender, _) in &self.threads {
            // A thread that is gone panicked outside any sample; the flight is closed then (see `Worker::run`).
            let _ = sender.send(flight.clone());
        }
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        let threads = std::mem::take(&mut self.threads);
        if self.process != std::process::id() {
            // After a fork the threads exist only in the parent: joining them here would wait for ever.
            std::mem::forget(threads);
            return;
        }
        // Dropping the sender ends a thread's loop; it finishes at most the sample it is at.
        let (senders, handles): (Vec<_>, Vec<_>) = threads.into_iter().unzip();
        drop(senders);
        for handle in handles {
            let _ = handle.join();
        }
    }
}

/// One thread's own things, kept from sample to sample and from epoch to epoch.
struct Worker {
    counters: Arc<Counters>,
    sample: SampleBuffer,
    /// For a second reading of one field while `sample` holds the row's other values.
    probed: SampleBuffer,
    image: ImageDecoder,
    /// Steps of each view of the picture at hand.
    steps: Vec<Steps>,
    max_pixels: u64,
}

impl Worker {
    fn new(counters: Arc<Counters>, max_pixels: u64) -> Self {
        Worker {
            counters,
            sample: SampleBuffer::new(),
            probed: SampleBuffer::new(),
            image: ImageDecoder::new(max_pixels),
            steps: Vec::new(),
            max_pixels,
        }
    }

    fn run(mut self, flights: &Receiver<Arc<Flight>>) {
        while let Ok(flight) = flights.recv() {
            // Samples catch their own panics; one that comes here is a bug in the loader itself. Nobody must wait for
            // this thread then.
            let fly = || while_wanted(&flight.given_up, || self.fly(&flight));
            if catch_unwind(AssertUnwindSafe(fly)).is_err() {
                flight.close();
                self = Worker::new(self.counters, self.max_pixels);
            }
        }
    }

    fn fly(&mut self, flight: &Flight) {
        loop {
            let Some(claim) = flight.ring.claim() else { return };
            let claimed = Instant::now();
            let counters = self.counters.clone();
            let open = |number| flight.open(number);
            let fill = |filling: &Filling, claim: &Claim| {
                counters.spent(Work::Wait, claimed.elapsed());
                // The ring counts every batch as full; the rows a short one lacks are nobody's.
                if claim.row < filling.samples.len() as u64 {
                    self.fill(flight, filling.row(claim));
                }
            };
            let seal = |filling: &mut Filling| {
                filling.seal(&flight.plan.columns, &flight.pool);
                if let Some(ahead) = &flight.ahead {
                    ahead.seal(filling.number);
                }
            };
            if !flight.ring.work(claim, open, fill, seal) {
                return;
            }
        }
    }

    fn fill(&mut self, flight: &Flight, mut row: RowMut<'_>) {
        let first = row.sample();
        let mut sample = first;
        let mut tries = 0;
        loop {
            let made = catch_unwind(AssertUnwindSafe(|| self.make(flight, sample, &mut row)));
            let failure = match made {
                Ok(Ok(())) => return row.done(),
                Ok(Err(error)) => error,
                Err(panic) => {
                    // Scratch may be half-changed; start afresh.
                    *self = Worker::new(self.counters.clone(), self.max_pixels);
                    Error::sample(flight.dataset.format().locate(sample), Stage::Decode, panic_text(&*panic))
                }
            };
            row.failed(failure);
            tries += 1;
            if flight.plan.options.on_error != OnError::Replace || tries > SUBSTITUTES {
                return;
            }
            sample = flight.substitute(first, tries);
        }
    }

    fn make(&mut self, flight: &Flight, sample: u64, row: &mut RowMut<'_>) -> Result<()> {
        let begun = Instant::now();
        let plan = &*flight.plan;
        flight
            .dataset
            .read(sample, &plan.fields, &mut self.sample)
            .map_err(|e| read_error(e, flight, sample))?;
        let read = Instant::now();
        self.counters.spent(Work::Read, read - begun);
        let mut bytes = self.sample.used() as u64;
        for (column, output) in plan.outputs.iter().enumerate() {
            if !matches!(output, Output::Image { .. }) {
                bytes += self.value(flight, sample, row, column, *output)?;
            }
        }
        self.counters.spent(Work::Copy, read.elapsed());
        for views in &plan.pictures {
            let spent = self.picture(flight, sample, row, views)?;
            self.counters.spent(Work::Decode, spent.decode);
            self.counters.spent(Work::Transform, spent.transform);
        }
        self.counters.sample(bytes);
        Ok(())
    }

    /// Puts anything but a decoded picture into its row. Gives the number of stored bytes it read itself.
    fn value(
        &mut self,
        flight: &Flight,
        sample: u64,
        row: &mut RowMut<'_>,
        column: usize,
        output: Output,
    ) -> Result<u64> {
        let missing = |field| missing(flight, sample, field);
        match output {
            Output::Index => row.dense(column).copy_from_slice(&(sample as i64).to_le_bytes()),
            Output::Int { field } => match self.sample.value(field) {
                Value::Int(value) => row.dense(column).copy_from_slice(&value.to_le_bytes()),
                _ => return Err(missing(field)),
            },
            Output::Float { field } => match self.sample.value(field) {
                Value::Float(value) => row.dense(column).copy_from_slice(&value.to_le_bytes()),
                _ => return Err(missing(field)),
            },
            Output::Bytes { field, direct: true } => return self.direct(flight, sample, row, column, field),
            Output::Bytes { field, direct: false } => put_bytes(&self.sample, field, row, column),
            Output::Array { field } => put_array(flight, sample, &self.sample, field, row, column)?,
            Output::ImageSize { field } => self.image_size(flight, sample, row, column, field)?,
            Output::Image { .. } => unreachable!("pictures take their own way"),
        }
        Ok(0)
    }

    /// Bytes straight from storage into the batch, or through scratch where lengths were not known for all rows.
    fn direct(
        &mut self,
        flight: &Flight,
        sample: u64,
        row: &mut RowMut<'_>,
        column: usize,
        field: usize,
    ) -> Result<u64> {
        let begun = Instant::now();
        if let (Room::Planned(room), _) = row.ragged(column) {
            let bytes = room.len() as u64;
            flight
                .dataset
                .format()
                .read_bytes(sample, field, room)
                .map_err(|e| read_error(e, flight, sample))?;
            self.counters.spent(Work::Read, begun.elapsed());
            return Ok(bytes);
        }
        let count = flight.dataset.schema().fields.len();
        let only = FieldSet::only(count, [field]);
        flight.dataset.read(sample, &only, &mut self.probed).map_err(|e| read_error(e, flight, sample))?;
        put_bytes(&self.probed, field, row, column);
        Ok(self.probed.used() as u64)
    }

    fn image_size(
        &mut self,
        flight: &Flight,
        sample: u64,
        row: &mut RowMut<'_>,
        column: usize,
        field: usize,
    ) -> Result<()> {
        let known = flight.dataset.format().image_meta(sample, field).and_then(|meta| meta.oriented_size());
        let size = match known {
            Some((height, width)) => [i64::from(height), i64::from(width)],
            None => self.probed_size(flight, sample, field)?,
        };
        let room = row.dense(column);
        room[..8].copy_from_slice(&size[0].to_le_bytes());
        room[8..].copy_from_slice(&size[1].to_le_bytes());
        Ok(())
    }

    fn probed_size(&mut self, flight: &Flight, sample: u64, field: usize) -> Result<[i64; 2]> {
        let only = FieldSet::only(flight.dataset.schema().fields.len(), [field]);
        flight.dataset.read(sample, &only, &mut self.probed).map_err(|e| read_error(e, flight, sample))?;
        let picture = picture(&self.probed, field).ok_or_else(|| missing(flight, sample, field))?;
        let size = picture.open().map_err(|e| decode_error(flight, sample, field, &e))?.upright_size();
        Ok([i64::from(size.height), i64::from(size.width)])
    }

    /// Decodes one picture and renders all its views.
    fn picture(
        &mut self,
        flight: &Flight,
        sample: u64,
        row: &mut RowMut<'_>,
        views: &Views,
    ) -> Result<Spent> {
        let field = views.field;
        let bad = |e: feedline_pixels::Error| decode_error(flight, sample, field, &e);
        let picture = picture(&self.sample, field).ok_or_else(|| missing(flight, sample, field))?;
        let opened = picture.open().map_err(bad)?;
        let key = SampleKey { seed: flight.plan.options.seed, epoch: flight.epoch, sample };
        self.steps.resize_with(views.outputs.len(), Steps::new);
        for ((_, plan), steps) in views.outputs.iter().zip(&mut self.steps) {
            flight.plan.images[*plan].draw(opened.upright_size(), key, steps).map_err(|reason| {
                let name = &flight.dataset.schema().fields[field].name;
                let place = flight.dataset.format().locate(sample).with_field(name);
                Error::sample(place, Stage::Transform, reason)
            })?;
        }
        let Worker { image, steps, .. } = self;
        if let [(column, plan)] = views.outputs[..] {
            let finish = flight.plan.images[plan].finish();
            let mode = flight.plan.options.decode;
            return put_picture(flight, row, column, plan, &steps[0], |out| {
                image.render(&opened, &steps[0], finish, mode, out)
            })
            .map_err(bad);
        }
        let begun = Instant::now();
        let needed: Vec<_> = steps.iter().map(|s| s[0].geometry.needed(s[0].filter)).collect();
        image.decode_views(&opened, &needed).map_err(bad)?;
        let decode = begun.elapsed();
        for (number, (column, plan)) in views.outputs.iter().enumerate() {
            let finish = flight.plan.images[*plan].finish();
            put_picture(flight, row, *column, *plan, &steps[number], |out| {
                image.render_view(number, &steps[number], finish, out)
            })
            .map_err(bad)?;
        }
        Ok(Spent { decode, transform: begun.elapsed().saturating_sub(decode) })
    }
}

/// Makes a reading error one of this sample.
fn read_error(error: Error, flight: &Flight, sample: u64) -> Error {
    error.of_sample(flight.dataset.format().locate(sample), Stage::Read)
}

impl Flight {
    /// Ends it: workers stop at their next row, waits for storage are given up where they can be.
    pub(crate) fn close(&self) {
        self.ring.close();
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
            _ => None,
        };
        Filling::new(number, samples.clone(), &self.plan.columns, &self.pool, planned)
    }

    /// Who takes the place of bad sample `sample`: a function of (seed, epoch, index, try) alone.
    fn substitute(&self, sample: u64, tries: u64) -> u64 {
        Draw::new(&[PURPOSE, self.plan.options.seed, self.epoch, sample, tries]).below(self.dataset.len())
    }
}

fn picture(buffer: &SampleBuffer, field: usize) -> Option<Picture<'_>> {
    match buffer.value(field) {
        Value::Image { bytes, index, meta } => {
            Some(Picture { bytes: buffer.bytes(bytes), index: buffer.bytes(index), meta: *meta })
        }
        Value::Bytes(bytes) => {
            Some(Picture { bytes: buffer.bytes(bytes), index: &[], meta: ImageMeta::UNKNOWN })
        }
        _ => None,
    }
}

/// Gives `render` the row's bytes in an image column, and notes the shape where the column is ragged.
fn put_picture<T>(
    flight: &Flight,
    row: &mut RowMut<'_>,
    column: usize,
    plan: usize,
    steps: &Steps,
    render: impl FnOnce(&mut [u8]) -> feedline_pixels::Result<T>,
) -> feedline_pixels::Result<T> {
    let plan = &flight.plan.images[plan];
    if plan.output().is_some() {
        return render(row.dense(column));
    }
    let output = steps.last().map_or(feedline_pixels::Size::new(0, 0), |step| step.geometry.output());
    let (room, shape) = row.ragged(column);
    let Room::Free(room) = room else { unreachable!("sizes of whole pictures are not planned") };
    room.resize(plan.finish().output_bytes(output), 0);
    *shape = picture_shape(plan.finish().layout, output);
    render(room)
}

fn picture_shape(layout: feedline_pixels::TensorLayout, size: feedline_pixels::Size) -> Shape {
    let (height, width) = (u64::from(size.height), u64::from(size.width));
    match layout {
        feedline_pixels::TensorLayout::ChannelsFirst => Shape::new(&[3, height, width]),
        feedline_pixels::TensorLayout::ChannelsLast => Shape::new(&[height, width, 3]),
    }
}

fn put_bytes(buffer: &SampleBuffer, field: usize, row: &mut RowMut<'_>, column: usize) {
    let bytes: &[u8] = match buffer.value(field) {
        Value::Bytes(bytes) | Value::Image { bytes, .. } => buffer.bytes(bytes),
        _ => &[],
    };
    match row.ragged(column).0 {
        Room::Planned(room) => room.copy_from_slice(bytes),
        Room::Free(room) => {
            room.clear();
            room.extend_from_slice(bytes);
        }
    }
}

fn put_array(
    flight: &Flight,
    sample: u64,
    buffer: &SampleBuffer,
    field: usize,
    row: &mut RowMut<'_>,
    column: usize,
) -> Result<()> {
    let (room, noted) = row.ragged(column);
    let Room::Free(room) = room else { unreachable!("array lengths are not planned") };
    room.clear();
    *noted = Shape::new(&[0]);
    let Value::Array { dtype, dimensions, shape, bytes } = buffer.value(field) else { return Ok(()) };
    let expected = flight.plan.columns[column].dtype;
    if *dtype != expected {
        let reason = format!("array of {}, but the column is {}", dtype.name(), expected.name());
        let name = &flight.dataset.schema().fields[field].name;
        return Err(Error::sample(
            flight.dataset.format().locate(sample).with_field(name),
            Stage::Batch,
            reason,
        ));
    }
    room.extend_from_slice(buffer.bytes(bytes));
    *noted = Shape::new(&shape[..*dimensions as usize]);
    Ok(())
}

fn missing(flight: &Flight, sample: u64, field: usize) -> Error {
    let name = &flight.dataset.schema().fields[field].name;
    let place = flight.dataset.format().locate(sample).with_field(name);
    Error::sample(place, Stage::Read, "the sample lacks this field; leave it out with fields=[...]")
}

fn decode_error(flight: &Flight, sample: u64, field: usize, error: &feedline_pixels::Error) -> Error {
    let name = &flight.dataset.schema().fields[field].name;
    Error::sample(flight.dataset.format().locate(sample).with_field(name), Stage::Decode, error)
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
