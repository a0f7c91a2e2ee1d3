//! Fields of encoded audio: decodes a window, runs the list on it, writes the result into its column.

use feedline_audio::{Clip, Info, Mel, Reader, Resampler};

use super::workers::Destination;
use crate::dataset::Dataset;
use crate::error::{Error, Location, Result, Stage};
use crate::random::Draw;
use crate::sample::{FieldSet, Kind, SampleBuffer, Value};
use crate::spec::{FieldTransforms, LoaderOptions};
use crate::transform::ops::*;
use crate::transform::{Place, SampleKey, Transform};

/// One operation, prepared.
#[derive(Clone, Debug)]
enum Step {
    Window(AudioWindow),
    Resample(Resample),
    Mono,
    Gain(RandomGain),
    Noise(RandomNoise),
    Recorded(BackgroundNoise, Recordings),
    Mel(Box<Mel>),
    Decibels(AmplitudeToDB),
    Bands(FrequencyMasking),
    Times(TimeMasking),
}

/// Recordings of noise: a data set and its field of audio.
#[derive(Clone, Debug)]
struct Recordings {
    dataset: Dataset,
    field: usize,
}

impl Recordings {
    fn open(path: &str) -> Result<Self, String> {
        let dataset = Dataset::open(path).map_err(|error| error.to_string())?;
        let fields = &dataset.schema().fields;
        let field = fields.iter().position(|field| field.kind == Kind::Audio);
        let field = field.or_else(|| fields.iter().position(|field| field.kind == Kind::Bytes));
        match field {
            Some(field) if !dataset.is_empty() => Ok(Recordings { dataset, field }),
            _ => Err(format!("{path} has no recordings")),
        }
    }
}

/// What happens to one field.
#[derive(Clone, Debug)]
pub(super) struct AudioPlan {
    pub(super) field: usize,
    steps: Vec<Step>,
    /// The result's shape, if it is the same for every sample.
    shape: Option<Vec<u64>>,
    /// Rate and channels that every sample must have, if no operation makes them equal.
    rate: Option<u32>,
    channels: Option<usize>,
}

/// A thread's filters, kept from sample to sample.
#[derive(Debug, Default)]
pub(super) struct AudioRunner {
    resamplers: Vec<Resampler>,
    noise: Vec<f32>,
    /// A sample of recorded noise.
    recording: SampleBuffer,
}

/// Number of pairs of rates whose filters are kept.
const KEPT: usize = 8;

/// Whether a field's list is for audio.
pub(super) fn has_audio(options: &LoaderOptions, name: &str) -> bool {
    let lists = options.transforms.get(name).map(FieldTransforms::lists).unwrap_or_default();
    let is_audio = |transform: &Transform| {
        matches!(transform, Transform::BackgroundNoise(_)) || step(transform).is_some()
    };
    lists.into_iter().flatten().any(is_audio)
}

fn step(transform: &Transform) -> Option<Result<Step, String>> {
    Some(Ok(match transform {
        Transform::AudioWindow(op) => Step::Window(*op),
        Transform::Resample(op) => Step::Resample(*op),
        Transform::Mono(_) => Step::Mono,
        Transform::RandomGain(op) => Step::Gain(*op),
        Transform::RandomNoise(op) => Step::Noise(*op),
        Transform::BackgroundNoise(op) => {
            return Some(Recordings::open(&op.noise).map(|found| Step::Recorded(op.clone(), found)));
        }
        Transform::MelSpectrogram(op) => {
            return Some(
                Mel::new(op.options()).map(|mel| Step::Mel(Box::new(mel))).map_err(|e| e.to_string()),
            );
        }
        Transform::AmplitudeToDB(op) => Step::Decibels(*op),
        Transform::FrequencyMasking(op) => Step::Bands(*op),
        Transform::TimeMasking(op) => Step::Times(*op),
        _ => return None,
    }))
}

/// What is known of a clip before it is read.
struct ClipFacts {
    rate: Option<u32>,
    channels: Option<u64>,
    seconds: Option<f64>,
    /// Bands and windows of a spectrogram, if it is one.
    spectrogram: Option<(u64, Option<u64>)>,
}

impl AudioPlan {
    /// Checks a field's list. The first sample determines rate and channels if the list leaves them open.
    pub(super) fn new(dataset: &Dataset, options: &LoaderOptions, field: usize) -> Result<Self> {
        let name = &dataset.schema().fields[field].name;
        let refuse = |reason: String| Error::option("transforms", format!("{name}: {reason}"));
        let list = match options.transforms.get(name) {
            Some(FieldTransforms::Single(list)) => list.as_slice(),
            Some(FieldTransforms::Views(_)) => return Err(refuse("audio has no views".to_owned())),
            None => &[],
        };
        let mut steps = Vec::new();
        for (at, transform) in list.iter().enumerate() {
            let named = |reason| refuse(format!("number {} ({}): {reason}", at + 1, transform.name()));
            transform.check().map_err(named)?;
            let Some(step) = step(transform) else { return Err(named("is not for audio".to_owned())) };
            steps.push(step.map_err(named)?);
        }
        let mut plan = AudioPlan { field, steps, shape: None, rate: None, channels: None };
        plan.find_shape(dataset, &refuse)?;
        Ok(plan)
    }

    /// Walks through the list to find the result's shape, first without looking at a sample.
    fn find_shape(&mut self, dataset: &Dataset, refuse: &dyn Fn(String) -> Error) -> Result<()> {
        let mut facts = self.walk_steps(None).map_err(refuse)?;
        let open = facts.rate.is_none() && facts.seconds.is_some() || facts.channels.is_none();
        if open && facts.seconds.is_some() && !dataset.is_empty() {
            let first = first_info(dataset, self.field)?;
            self.rate = facts.rate.is_none().then_some(first.rate);
            self.channels = facts.channels.is_none().then_some(first.channels);
            facts = self.walk_steps(Some(first)).map_err(refuse)?;
        }
        let frames = facts.rate.zip(facts.seconds).map(|(rate, seconds)| frames(seconds, rate) as u64);
        self.shape = match (facts.channels, frames, facts.spectrogram) {
            (Some(channels), Some(frames), None) => Some(vec![channels, frames]),
            (Some(channels), _, Some((mels, Some(windows)))) => Some(vec![channels, mels, windows]),
            _ => None,
        };
        Ok(())
    }

    fn walk_steps(&self, first: Option<Info>) -> Result<ClipFacts, String> {
        let mut facts = ClipFacts {
            rate: first.map(|info| info.rate),
            channels: first.map(|info| info.channels as u64),
            seconds: None,
            spectrogram: None,
        };
        for step in &self.steps {
            let wave = !matches!(step, Step::Decibels(_) | Step::Bands(_) | Step::Times(_));
            if facts.spectrogram.is_some() && wave {
                return Err("only AmplitudeToDB and masks may follow MelSpectrogram".to_owned());
            }
            match step {
                Step::Window(window) => facts.seconds = Some(window.seconds),
                Step::Resample(resample) => facts.rate = Some(resample.hz),
                Step::Mono => facts.channels = Some(1),
                Step::Mel(mel) => {
                    let rate = mel.options().rate;
                    if facts.rate.is_some_and(|known| known != rate) {
                        let found = facts.rate.unwrap_or(0);
                        return Err(format!("MelSpectrogram is for {rate} Hz, but waves have {found}"));
                    }
                    facts.rate = Some(rate);
                    let windows = facts.seconds.map(|seconds| mel.windows(frames(seconds, rate)) as u64);
                    facts.spectrogram = Some((mel.options().n_mels as u64, windows));
                }
                Step::Bands(_) | Step::Times(_) if facts.spectrogram.is_none() => {
                    return Err("masks are for spectrograms: put MelSpectrogram before them".to_owned());
                }
                Step::Gain(_)
                | Step::Noise(_)
                | Step::Recorded(..)
                | Step::Decibels(_)
                | Step::Bands(_)
                | Step::Times(_) => {}
            }
        }
        Ok(facts)
    }

    /// The result's shape, if it is the same for every sample.
    pub(super) fn shape(&self) -> Option<&[u64]> {
        self.shape.as_deref()
    }
}

/// Number of frames of a time.
fn frames(seconds: f64, rate: u32) -> usize {
    (seconds * f64::from(rate)).round() as usize
}

fn first_info(dataset: &Dataset, field: usize) -> Result<Info> {
    let mut buffer = SampleBuffer::new();
    dataset.read(0, &FieldSet::only(dataset.schema().fields.len(), [field]), &mut buffer)?;
    let place = || dataset.format().locate(0).seen_as(0).with_field(&dataset.schema().fields[field].name);
    let Value::Bytes(bytes) = buffer.value(field) else {
        return Err(Error::sample(place(), Stage::Read, "the first sample has no audio"));
    };
    let reader = Reader::open(buffer.bytes(bytes)).map_err(|e| Error::sample(place(), Stage::Decode, e))?;
    Ok(reader.info())
}

/// A clip, or its spectrogram.
struct Wave {
    clip: Clip,
    /// Bands and windows.
    spectrogram: Option<(usize, usize)>,
    seconds: Option<f64>,
}

impl AudioRunner {
    /// Decodes a sample's audio, runs the list and writes the result.
    pub(super) fn put(
        &mut self,
        to: &mut Destination<'_, '_>,
        key: SampleKey,
        buffer: &SampleBuffer,
        plan: &AudioPlan,
    ) -> Result<()> {
        let (run, field) = (to.run, plan.field);
        let Value::Bytes(bytes) = buffer.value(field) else { return Err(to.missing(field)) };
        let place = || run.locate_field(key.sample, field);
        let wave =
            self.render(buffer.bytes(bytes), plan, key).map_err(|error| decode_failure(error, place()))?;
        let shape = wave.shape();
        let floats = &wave.clip.data;
        let Some(expected) = &plan.shape else {
            let bytes: Vec<u8> = floats.iter().flat_map(|value| value.to_le_bytes()).collect();
            return to.put_array(&bytes, &shape);
        };
        if *expected != shape {
            let reason = format!("its shape is {shape:?}, but the batch's is {expected:?}");
            return Err(Error::sample(place(), Stage::Batch, reason));
        }
        for (room, value) in to.dense().chunks_exact_mut(4).zip(floats) {
            room.copy_from_slice(&value.to_le_bytes());
        }
        Ok(())
    }

    fn render(
        &mut self,
        bytes: &[u8],
        plan: &AudioPlan,
        key: SampleKey,
    ) -> Result<Wave, feedline_audio::Error> {
        let mut reader = Reader::open(bytes)?;
        agree(plan, reader.info())?;
        let mut steps = plan.steps.iter().enumerate();
        let draw = |at: usize| Place::new(key, at as u64, 0).draw();
        let mut wave = if let Some(Step::Window(window)) = plan.steps.first() {
            steps.next();
            first_window(&mut reader, window, &mut draw(0))?
        } else {
            let all = reader.info().frames as usize;
            Wave { clip: reader.window(0, all)?, spectrogram: None, seconds: None }
        };
        for (at, step) in steps {
            self.step(step, &mut wave, &mut draw(at))?;
        }
        Ok(wave)
    }

    fn step(&mut self, step: &Step, wave: &mut Wave, draw: &mut Draw) -> Result<(), feedline_audio::Error> {
        match step {
            Step::Window(window) => later_window(wave, window, draw)?,
            Step::Resample(op) => self.resample(wave, *op)?,
            Step::Mono => wave.clip.to_mono(),
            Step::Gain(op) => gain(wave, *op, draw),
            Step::Noise(op) => self.add_noise(wave, *op, draw),
            Step::Recorded(op, noise) => self.add_recorded(wave, op, noise, draw)?,
            Step::Mel(mel) => spectrogram(wave, mel)?,
            Step::Decibels(op) => decibels(wave, *op),
            Step::Bands(op) => mask_bands(wave, *op, draw),
            Step::Times(op) => mask_times(wave, *op, draw),
        }
        Ok(())
    }

    fn resample(&mut self, wave: &mut Wave, op: Resample) -> Result<(), feedline_audio::Error> {
        let (from, options) = (wave.clip.rate, op.options());
        if from != op.hz {
            let found = self.resamplers.iter().position(|made| made.fits(from, op.hz, options));
            let at = if let Some(at) = found {
                at
            } else {
                if self.resamplers.len() == KEPT {
                    self.resamplers.remove(0);
                }
                self.resamplers.push(Resampler::new(from, op.hz, options)?);
                self.resamplers.len() - 1
            };
            self.resamplers[at].run(&mut wave.clip)?;
        }
        // A window of a time has as many frames as the new rate says, whatever the old one was rounded to.
        if let Some(seconds) = wave.seconds {
            wave.clip.cut(0, frames(seconds, op.hz))?;
        }
        Ok(())
    }

    fn add_noise(&mut self, wave: &mut Wave, op: RandomNoise, draw: &mut Draw) {
        let decibels = draw.between(op.snr.0, op.snr.1);
        if !draw.chance(op.p) {
            return;
        }
        self.noise.clear();
        self.noise.extend((0..wave.clip.data.len()).map(|_| draw.normal() as f32));
        add_scaled(&mut wave.clip.data, &self.noise, decibels);
    }

    /// Adds a stretch of a recording, the same to all channels. What it draws does not depend on the recordings' lengths.
    fn add_recorded(
        &mut self,
        wave: &mut Wave,
        op: &BackgroundNoise,
        noise: &Recordings,
        draw: &mut Draw,
    ) -> Result<(), feedline_audio::Error> {
        let decibels = draw.between(op.snr.0, op.snr.1);
        let wanted = draw.chance(op.p);
        let (number, place) = (draw.below(noise.dataset.len()), draw.unit());
        if !wanted {
            return Ok(());
        }
        let blamed =
            |reason: String| wrong(format!("the noise {}: {reason}", noise.dataset.format().locate(number)));
        let only = FieldSet::only(noise.dataset.schema().fields.len(), [noise.field]);
        noise.dataset.read(number, &only, &mut self.recording).map_err(|error| blamed(error.to_string()))?;
        let Value::Bytes(bytes) = self.recording.value(noise.field) else {
            return Err(blamed("the sample has none".to_owned()));
        };
        let clip =
            stretch_of(self.recording.bytes(bytes), &wave.clip, place).map_err(|e| blamed(e.to_string()))?;
        let mut heard = Wave { clip, spectrogram: None, seconds: None };
        self.resample(&mut heard, Resample::to(wave.clip.rate))?;
        let frames = wave.clip.frames();
        heard.clip.repeat_to(frames)?;
        self.noise.clear();
        for _ in 0..wave.clip.channels {
            self.noise.extend_from_slice(&heard.clip.data);
        }
        add_scaled(&mut wave.clip.data, &self.noise, decibels);
        Ok(())
    }
}

/// Adds noise at a signal-to-noise ratio in decibels.
fn add_scaled(data: &mut [f32], noise: &[f32], decibels: f64) {
    let energy = |values: &[f32]| values.iter().map(|v| f64::from(*v).powi(2)).sum::<f64>();
    let (signal, loud) = (energy(data), energy(noise));
    if signal > 0.0 && loud > 0.0 {
        let scale = (signal / loud / 10f64.powf(decibels / 10.0)).sqrt() as f32;
        for (value, noise) in data.iter_mut().zip(noise) {
            *value += noise * scale;
        }
    }
}

/// A part of a recording that lasts as long as `clip`, in one channel at its own rate. `place` is where it begins: 0 for
/// the recording's beginning, 1 for the latest possible place.
fn stretch_of(bytes: &[u8], clip: &Clip, place: f64) -> Result<Clip, feedline_audio::Error> {
    let mut reader = Reader::open(bytes)?;
    let Info { rate, frames: total, .. } = reader.info();
    let seconds = clip.frames() as f64 / f64::from(clip.rate.max(1));
    let length = (frames(seconds, rate) as u64 + 1).min(total);
    let start = (place * (total - length + 1) as f64) as u64;
    let mut stretch = reader.window(start.min(total - length), length as usize)?;
    stretch.to_mono();
    Ok(stretch)
}

impl Wave {
    fn shape(&self) -> Vec<u64> {
        let channels = self.clip.channels as u64;
        match self.spectrogram {
            Some((bands, windows)) => vec![channels, bands as u64, windows as u64],
            None => vec![channels, self.clip.frames() as u64],
        }
    }
}

fn decode_failure(error: feedline_audio::Error, place: Location) -> Error {
    match error {
        feedline_audio::Error::OutOfMemory { bytes } => {
            Error::out_of_memory(bytes, format!("decoding {place}"))
        }
        error => Error::sample(place, Stage::Decode, error),
    }
}

fn wrong(reason: String) -> feedline_audio::Error {
    feedline_audio::Error::Malformed(reason)
}

/// Samples of one batch have one rate and as many channels, unless operations make them equal.
fn agree(plan: &AudioPlan, info: Info) -> Result<(), feedline_audio::Error> {
    if let Some(rate) = plan.rate.filter(|rate| *rate != info.rate) {
        return Err(wrong(format!(
            "{} Hz, but the first sample has {rate}; T.Resample makes them equal",
            info.rate
        )));
    }
    if let Some(channels) = plan.channels.filter(|channels| *channels != info.channels) {
        let found = info.channels;
        return Err(wrong(format!(
            "{found} channels, but the first sample has {channels}; T.Mono makes them equal"
        )));
    }
    Ok(())
}

/// First frame of a window of `length` in `total` frames.
fn place_of(policy: AudioPolicy, total: u64, length: u64, draw: &mut Draw) -> u64 {
    let room = total.saturating_sub(length);
    match policy {
        AudioPolicy::Random => draw.below(room + 1),
        AudioPolicy::Start => 0,
        AudioPolicy::Center => room / 2,
    }
}

fn refuse_short(window: &AudioWindow, total: u64, length: u64) -> Result<(), feedline_audio::Error> {
    if window.pad == AudioPad::Error && total < length {
        return Err(wrong(format!("{total} frames, a window takes {length}; pad='zeros' fills it up")));
    }
    Ok(())
}

/// Decodes only the window.
fn first_window(
    reader: &mut Reader<'_>,
    window: &AudioWindow,
    draw: &mut Draw,
) -> Result<Wave, feedline_audio::Error> {
    let Info { rate, frames: total, .. } = reader.info();
    let length = frames(window.seconds, rate);
    refuse_short(window, total, length as u64)?;
    let start = place_of(window.policy, total, length as u64, draw);
    let short = total < length as u64 && window.pad == AudioPad::Repeat;
    let mut clip = reader.window(start, if short { total as usize } else { length })?;
    if short {
        clip.repeat_to(length)?;
    }
    Ok(Wave { clip, spectrogram: None, seconds: Some(window.seconds) })
}

/// Cuts a window out of a clip in memory.
fn later_window(wave: &mut Wave, window: &AudioWindow, draw: &mut Draw) -> Result<(), feedline_audio::Error> {
    let (total, length) = (wave.clip.frames() as u64, frames(window.seconds, wave.clip.rate));
    refuse_short(window, total, length as u64)?;
    let start = place_of(window.policy, total, length as u64, draw);
    wave.seconds = Some(window.seconds);
    if total < length as u64 && window.pad == AudioPad::Repeat {
        return wave.clip.repeat_to(length);
    }
    wave.clip.cut(start as usize, length)
}

fn gain(wave: &mut Wave, op: RandomGain, draw: &mut Draw) {
    let decibels = draw.between(op.gain.0, op.gain.1);
    if draw.chance(op.p) {
        let factor = 10f64.powf(decibels / 20.0) as f32;
        for value in &mut wave.clip.data {
            *value *= factor;
        }
    }
}

fn spectrogram(wave: &mut Wave, mel: &Mel) -> Result<(), feedline_audio::Error> {
    if wave.clip.rate != mel.options().rate {
        let (found, rate) = (wave.clip.rate, mel.options().rate);
        return Err(wrong(format!("{found} Hz, but MelSpectrogram is for {rate}; put T.Resample before it")));
    }
    let mut out = Vec::new();
    for plane in wave.clip.planes() {
        mel.run(plane, &mut out)?;
    }
    wave.spectrogram = Some((mel.options().n_mels, mel.windows(wave.clip.frames())));
    wave.clip.data = out;
    Ok(())
}

fn decibels(wave: &mut Wave, op: AmplitudeToDB) {
    let (factor, least) = if op.power { (10.0, 1e-10f32) } else { (20.0, 1e-10) };
    let data = &mut wave.clip.data;
    for value in data.iter_mut() {
        *value = factor * value.max(least).log10();
    }
    if let Some(most) = op.top_db {
        let loudest = data.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        for value in data.iter_mut() {
            *value = value.max(loudest - most as f32);
        }
    }
}

/// A stretch of at most `most` of `length`, drawn as torchaudio does.
fn stretch(length: usize, most: f64, draw: &mut Draw) -> std::ops::Range<usize> {
    let value = draw.unit() * most;
    let start = (draw.unit() * (length as f64 - value).max(0.0)) as usize;
    start..(start + value as usize).min(length)
}

fn mask_bands(wave: &mut Wave, op: FrequencyMasking, draw: &mut Draw) {
    let Some((bands, windows)) = wave.spectrogram else { return };
    let masked = stretch(bands, f64::from(op.freq_mask_param), draw);
    for plane in wave.clip.data.chunks_exact_mut((bands * windows).max(1)) {
        plane[masked.start * windows..masked.end * windows].fill(0.0);
    }
}

fn mask_times(wave: &mut Wave, op: TimeMasking, draw: &mut Draw) {
    let Some((_, windows)) = wave.spectrogram else { return };
    let most = f64::from(op.time_mask_param).min((windows as f64 * op.p).floor());
    let masked = stretch(windows, most, draw);
    for line in wave.clip.data.chunks_exact_mut(windows.max(1)) {
        line[masked.clone()].fill(0.0);
    }
}
