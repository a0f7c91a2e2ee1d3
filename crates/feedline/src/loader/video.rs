//! Fields of encoded video: chooses a clip's frames, decodes them, runs one program on all, writes them into their column.

use feedline_pixels::Size;
use feedline_video::{Decoder, Frame, Index, Packets, Pieces, WholeFile};

use super::clip_file::{self, ClipFile, decode_failure};
use super::workers::{Destination, EpochRun, decode_error, missing, plan_passes, read_error};
use crate::batch::{ColumnSpec, RowMut};
use crate::dataset::Dataset;
use crate::error::{Error, Location, Result, Stage};
use crate::field::{DType, Meaning};
use crate::render::{ImageDecoder, StoredImage};
use crate::sample::{FieldSet, ImageEncoding, ImageMeta, SampleBuffer, Value};
use crate::spec::{DecodeMode, FieldTransforms, LoaderOptions};
use crate::transform::ops::{Clip, ClipPolicy};
use crate::transform::{ImagePlan, Params, Place, Program, SampleKey, Times, Transform};

/// What happens to one field.
#[derive(Clone, Debug)]
pub(super) struct VideoPlan {
    pub(super) field: usize,
    clip: Clip,
    image: ImagePlan,
    /// Columns of the frames and of their times.
    columns: (usize, usize),
    dense: bool,
    /// Whether only parts of each file are read, here and not with the sample's other fields.
    pub(super) in_parts: bool,
}

/// A thread's decoder, kept from sample to sample.
#[derive(Debug, Default)]
pub(super) struct VideoRunner {
    decoder: Decoder,
    params: Params,
    program: Program,
    rows: Vec<u8>,
    pieces: Pieces,
    /// For videos that cannot be read in parts.
    buffer: SampleBuffer,
}

/// Whether a field's list is for videos.
pub(super) fn has_clip(options: &LoaderOptions, name: &str) -> bool {
    let lists = options.transforms.get(name).map(FieldTransforms::lists).unwrap_or_default();
    lists.iter().any(|list| matches!(list.first(), Some(Transform::Clip(_))))
}

impl VideoPlan {
    /// Checks a field's list: a `Clip`, then operations on images. `at` is the number of the first of its columns.
    pub(super) fn new(
        dataset: &Dataset,
        options: &LoaderOptions,
        (field, name): (usize, &str),
        at: usize,
    ) -> Result<(Self, [ColumnSpec; 2])> {
        let refuse = |reason: &str| Error::option("transforms", format!("{name}: {reason}"));
        let list = match options.transforms.get(name) {
            Some(FieldTransforms::Single(list)) => list.as_slice(),
            _ => return Err(refuse("a video has one list of transforms, no views")),
        };
        let Some((Transform::Clip(clip), rest)) = list.split_first() else {
            return Err(refuse("the list of a video begins with Clip"));
        };
        Transform::from(*clip).check().map_err(|reason| refuse(&format!("number 1 (Clip): {reason}")))?;
        let dtype = options.dtypes.get(name).copied().unwrap_or(options.dtype);
        let image = ImagePlan::new(name, 0, rest, dtype, options.memory_format)?.starting_at(1);
        if image.copies() > 1 || image.needs_boxes() {
            return Err(refuse("several crops and boxes are not made of video frames"));
        }
        let times = format!("{name}.times");
        let size = image.output().filter(|_| clip.policy != ClipPolicy::All);
        let columns = if let Some(size) = size {
            let frames = frames_shape(clip, clip.frames * clip.clips);
            let shape = [&frames[..], &image.shape(size)[..]].concat();
            [ColumnSpec::dense(name, dtype, &shape), ColumnSpec::dense(times, DType::F64, &frames)]
        } else {
            let ragged = |name: &str, dtype| ColumnSpec::ragged(name, dtype, true, Meaning::Numbers);
            [ragged(name, dtype), ragged(&times, DType::F64)]
        };
        let in_parts = clip_file::can_be_read(dataset, field);
        let columns_at = (at, at + 1);
        let plan =
            VideoPlan { field, clip: *clip, image, columns: columns_at, dense: size.is_some(), in_parts };
        Ok((plan, columns))
    }
}

/// The dimensions of `count` frames: several clips have one of their own.
fn frames_shape(clip: &Clip, count: u64) -> Vec<u64> {
    if clip.clips > 1 { vec![clip.clips, clip.frames] } else { vec![count] }
}

impl Times for Index {
    fn count(&self) -> u64 {
        self.len() as u64
    }

    fn time(&self, frame: u64) -> f64 {
        Index::time(self, frame as usize)
    }

    fn duration(&self) -> f64 {
        self.duration
    }
}

/// How decoding a clip ended.
enum Done {
    Written,
    /// It needs packets that were not read.
    NotRead,
}

impl Done {
    /// `value`, or the error that packets are missing.
    fn or(self, work: &Work<'_>, value: u64) -> Result<u64> {
        match self {
            Done::Written => Ok(value),
            Done::NotRead => {
                Err(Error::sample(work.place(), Stage::Decode, "some of its packets are not there"))
            }
        }
    }
}

/// One clip to make.
#[derive(Clone, Copy)]
struct Work<'a> {
    run: &'a EpochRun,
    key: SampleKey,
    plan: &'a VideoPlan,
}

impl Work<'_> {
    fn place(&self) -> Location {
        self.run.locate_field(self.key.sample, self.plan.field)
    }

    /// The frames of the clip.
    fn choose(&self, index: &Index) -> Result<Vec<usize>> {
        let mut draw = Place::new(self.key, 0, 0).draw();
        let chosen = self.plan.clip.choose(index, &mut draw);
        let chosen = chosen.map_err(|reason| Error::sample(self.place(), Stage::Transform, reason))?;
        Ok(chosen.iter().map(|frame| *frame as usize).collect())
    }
}

impl VideoRunner {
    /// Decodes a sample's clip and writes it. Returns the number of bytes that it read itself.
    pub(super) fn put(
        &mut self,
        run: &EpochRun,
        key: SampleKey,
        buffer: &SampleBuffer,
        plan: &VideoPlan,
        image: &mut ImageDecoder,
        row: &mut RowMut<'_>,
    ) -> Result<u64> {
        let (field, sample) = (plan.field, key.sample);
        let work = Work { run, key, plan };
        if !plan.in_parts {
            return self.put_from(&work, buffer, image, row).map(|()| 0);
        }
        let unread = |error| read_error(error, run, sample);
        let Some(mut file) = ClipFile::open(&run.dataset, sample, field).map_err(unread)? else {
            return self.put_whole(&work, image, row);
        };
        let store = run.checkpoints.as_deref();
        let (index, scanned) = file.index(store, &|| work.place()).map_err(unread)?;
        let frames = work.choose(&index)?;
        let mut pieces = std::mem::take(&mut self.pieces);
        let mut read = file.read(&index, &index.needed(&frames), &mut pieces).map_err(unread)?;
        let mut done = self.decode(&work, &pieces, &index, &frames, image, row);
        if matches!(done, Ok(Done::NotRead)) {
            // Not every key frame stands alone: then all packets up to the last one are needed.
            let last = index.needed(&frames).last().map_or(0, |range| range.end);
            read += file.read(&index, std::slice::from_ref(&(0..last)), &mut pieces).map_err(unread)?;
            done = self.decode(&work, &pieces, &index, &frames, image, row);
        }
        pieces.clear();
        self.pieces = pieces;
        done?.or(&work, scanned + read)
    }

    /// The same for a sample whose video cannot be read in parts, unlike the first one's.
    fn put_whole(&mut self, work: &Work<'_>, image: &mut ImageDecoder, row: &mut RowMut<'_>) -> Result<u64> {
        let Work { run, key, plan } = *work;
        let only = FieldSet::only(run.dataset.schema().fields.len(), [plan.field]);
        let mut buffer = std::mem::take(&mut self.buffer);
        let read = run.dataset.read(key.sample, &only, &mut buffer);
        let done = match read {
            Ok(()) => self.put_from(work, &buffer, image, row),
            Err(error) => Err(read_error(error, run, key.sample)),
        };
        let bytes = buffer.used() as u64;
        self.buffer = buffer;
        done.map(|()| bytes)
    }

    /// The same for a file in memory.
    fn put_from(
        &mut self,
        work: &Work<'_>,
        buffer: &SampleBuffer,
        image: &mut ImageDecoder,
        row: &mut RowMut<'_>,
    ) -> Result<()> {
        let field = work.plan.field;
        let Value::Bytes(bytes) = buffer.value(field) else {
            return Err(missing(work.run, work.key.sample, field));
        };
        let file = buffer.bytes(bytes);
        let index = Index::read(file).map_err(|error| decode_failure(error, work.place()))?;
        let frames = work.choose(&index)?;
        self.decode(work, &WholeFile(file), &index, &frames, image, row)?.or(work, 0).map(drop)
    }

    /// Decodes frames and writes them.
    fn decode(
        &mut self,
        work: &Work<'_>,
        file: &dyn Packets,
        index: &Index,
        frames: &[usize],
        image: &mut ImageDecoder,
        row: &mut RowMut<'_>,
    ) -> Result<Done> {
        let Work { run, key, plan } = *work;
        let (field, sample) = (plan.field, key.sample);
        let size = shown_size(index);
        let output = self
            .prepare(run, plan, key, size)
            .map_err(|why| Error::sample(work.place(), Stage::Transform, why))?;
        let each = plan.image.finish().output_bytes(output);
        let bytes = each.saturating_mul(frames.len());
        let VideoRunner { decoder, program, rows, .. } = self;
        feedline_pixels::fit(rows, bytes, 0).map_err(|error| decode_error(run, sample, field, &error))?;
        image.set_up(&run.plan.options);
        let finish = plan.image.finish();
        let mut failed = None;
        let decoded = decoder.frames(file, index, frames, &mut |at, frame: &Frame| {
            let room = &mut rows[at * each..(at + 1) * each];
            if let Err(error) = render(image, frame, size, program, finish, room) {
                failed.get_or_insert(error);
            }
            Ok(())
        });
        if matches!(decoded, Err(feedline_video::Error::NotRead { .. })) {
            return Ok(Done::NotRead);
        }
        decoded.map_err(|error| decode_failure(error, work.place()))?;
        if let Some(error) = failed {
            return Err(decode_error(run, sample, field, &error));
        }
        let times: Vec<u8> =
            frames.iter().flat_map(|frame| Index::time(index, *frame).to_le_bytes()).collect();
        write(work, (&self.rows[..bytes], &times), frames.len(), output, row)?;
        Ok(Done::Written)
    }

    /// Draws once for all frames. Returns the size of the result.
    fn prepare(
        &mut self,
        run: &EpochRun,
        plan: &VideoPlan,
        key: SampleKey,
        size: Size,
    ) -> Result<Size, String> {
        plan.image.draw(size, key, &mut self.params)?;
        plan_passes(&self.params, size, &mut self.program, run.plan.options.max_pixels)?;
        Ok(self.program.output)
    }
}

/// Size of the frames as they are shown.
fn shown_size(index: &Index) -> Size {
    if index.rotation.is_multiple_of(180) {
        Size::new(index.width, index.height)
    } else {
        Size::new(index.height, index.width)
    }
}

fn render(
    image: &mut ImageDecoder,
    frame: &Frame,
    size: Size,
    program: &Program,
    finish: &feedline_pixels::Finish,
    room: &mut [u8],
) -> feedline_pixels::Result<()> {
    if (frame.width as u32, frame.height as u32) != (size.width, size.height) {
        let reason = format!(
            "a frame of {}x{} in a video of {}x{}",
            frame.width, frame.height, size.width, size.height
        );
        return Err(feedline_pixels::Error::Unsupported { codec: "video", reason });
    }
    let meta = ImageMeta {
        encoding: ImageEncoding::Rgb,
        width: size.width,
        height: size.height,
        orientation: 1,
        ..ImageMeta::UNKNOWN
    };
    let opened = StoredImage { bytes: &frame.rgb, index: &[], meta }.open()?;
    image.render(&opened, program, finish, DecodeMode::Exact, room).map(|_| ())
}

/// Writes the frames and their times.
fn write(
    work: &Work<'_>,
    (rows, times): (&[u8], &[u8]),
    count: usize,
    output: Size,
    row: &mut RowMut<'_>,
) -> Result<()> {
    let Work { run, key, plan } = *work;
    let (frames, seconds) = plan.columns;
    if plan.dense {
        row.dense(frames).copy_from_slice(rows);
        row.dense(seconds).copy_from_slice(times);
        return Ok(());
    }
    let count = frames_shape(&plan.clip, count as u64);
    let shape = [&count[..], &plan.image.shape(output)[..]].concat();
    let mut to = Destination { run, sample: key.sample, row, column: frames };
    to.put_array(rows, &shape)?;
    to.column = seconds;
    to.put_array(times, &count)
}
