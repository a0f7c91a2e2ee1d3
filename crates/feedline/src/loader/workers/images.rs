//! Decoded images: draws, passes, and the columns of all views.

use std::time::Instant;

use feedline_pixels::Size;

use super::Worker;
use super::destination::Destination;
use super::epoch_run::EpochRun;
use super::errors::{decode_error, missing};
use crate::batch::{Room, RowMut, Shape};
use crate::error::{Error, Result, Stage};
use crate::loader::plan::ImageViews;
use crate::loader::targets::{TargetRunner, TargetWork};
use crate::render::{ImageDecoder, OpenedImage, RenderTime, StoredImage, ValueDecoder, ValueForm};
use crate::sample::{ImageMeta, SampleBuffer, Value};
use crate::transform::{ImagePlan, Params, Program, SampleKey};

impl Worker {
    /// Decodes audio and video. Returns the number of stored bytes that this read.
    pub(super) fn render_media(
        &mut self,
        run: &EpochRun,
        key: SampleKey,
        row: &mut RowMut<'_>,
    ) -> Result<u64> {
        for (column, plan) in &run.plan.audio {
            let to = &mut Destination { run, sample: key.sample, row, column: *column };
            self.audio.put(to, key, &self.sample, plan)?;
        }
        let mut bytes = 0;
        for plan in &run.plan.video {
            bytes += self.video.put(run, key, &self.sample, plan, &mut self.image, row)?;
        }
        Ok(bytes)
    }

    /// Decodes one image and renders all its views.
    pub(super) fn render_image(
        &mut self,
        run: &EpochRun,
        key: SampleKey,
        row: &mut RowMut<'_>,
        views: &ImageViews,
    ) -> Result<RenderTime> {
        let (field, sample) = (views.field, key.sample);
        let drawn = self.read_pieces(run, key, views)?;
        let bad = |e: feedline_pixels::Error| decode_error(run, sample, field, &e);
        let stored = stored_image(&self.sample, field).ok_or_else(|| missing(run, sample, field))?;
        let options = &run.plan.options;
        // What was read in pieces is no file, and its first bytes may not have been read.
        let file = options.allow_truncated && !drawn;
        let stored = if file { stored.with_end(&mut self.ended).map_err(bad)? } else { stored };
        let stored = stored.with_page(options.page as usize, &mut self.paged).map_err(bad)?;
        let store = run.checkpoints.as_deref().filter(|_| views.values.is_none() && !drawn);
        let stored = self.seeker.look_up(store, options.index, stored, &mut self.image);
        let opened = stored.open().map_err(bad)?;
        let opened = if options.exif_transpose { opened } else { opened.as_stored() };
        self.image.set_up(options);
        opened.check(self.max_pixels).map_err(bad)?;
        let size = opened.upright_size();
        if !drawn {
            draw_views(run, key, views, size, &self.sample, &mut self.views)?;
        }
        let (image, planned, targets, buffer) =
            (&mut self.image, &self.views, &mut self.targets, &self.sample);
        for (column, (params, _)) in views.params.iter().zip(planned) {
            let params = params.to_json();
            let to = &mut Destination { run, sample, row, column: *column };
            to.put_array(params.as_bytes(), &[params.len() as u64])?;
        }
        for target in &views.targets {
            let program = &planned[target.view].1;
            targets.put(&TargetWork { run, sample, image: size, buffer, program, target }, row)?;
        }
        let Some(form) = views.values else {
            let spent = render(run, image, planned, &opened, row, views).map_err(bad)?;
            self.seeker.keep(store, image);
            if let Some(sizes) = &run.seen_sizes {
                sizes.note(field, sample, size);
            }
            return Ok(spent);
        };
        self.values.set_up(options);
        render_values(run, &mut self.values, form, planned, &opened, row, views).map_err(bad)
    }
}

/// Draws the parameters of all views of an image of this size, and plans their passes.
pub(super) fn draw_views(
    run: &EpochRun,
    key: SampleKey,
    views: &ImageViews,
    size: Size,
    buffer: &SampleBuffer,
    drawn: &mut Vec<(Params, Program)>,
) -> Result<()> {
    let plans = || views.outputs.iter().map(|(_, plan)| &run.plan.images[*plan]);
    drawn.resize_with(plans().map(|plan| plan.copies() as usize).sum(), Default::default);
    let boxes = if plans().any(ImagePlan::needs_boxes) {
        TargetRunner::given_boxes(run, (key.sample, size), buffer, views)?
    } else {
        None
    };
    let each = plans().flat_map(|plan| (0..plan.copies()).map(move |copy| (plan, copy)));
    for ((plan, copy), (params, program)) in each.zip(drawn) {
        params.know_boxes(boxes.clone());
        let done = plan.draw_copy(size, key, copy, params);
        let max_pixels = run.plan.options.max_pixels;
        done.and_then(|()| plan_passes(params, size, program, max_pixels)).map_err(|reason| {
            Error::sample(run.locate_field(key.sample, views.field), Stage::Transform, reason)
        })?;
    }
    Ok(())
}

/// Decodes an image of numbers and moves it with the programs of its views.
fn render_values(
    run: &EpochRun,
    values: &mut ValueDecoder,
    form: ValueForm,
    planned: &[(Params, Program)],
    opened: &OpenedImage<'_>,
    row: &mut RowMut<'_>,
    views: &ImageViews,
) -> feedline_pixels::Result<RenderTime> {
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
        run.reserve(row, length);
        let (room, place) = row.ragged(*column);
        let Room::Free(room) = room else { unreachable!("sizes of whole images are not planned") };
        feedline_pixels::fit(room, length, 0)?;
        *place = Shape::new(&shape);
        values.write(form, room)?;
    }
    Ok(RenderTime { decode, transform: begun.elapsed().saturating_sub(decode) })
}

/// Runs the programs of all views.
fn render(
    run: &EpochRun,
    image: &mut ImageDecoder,
    planned: &[(Params, Program)],
    opened: &OpenedImage<'_>,
    row: &mut RowMut<'_>,
    views: &ImageViews,
) -> feedline_pixels::Result<RenderTime> {
    let mode = run.plan.options.decode;
    // If the memory of the result is taken for this sample only, an image that cannot be decoded must not take it.
    let size_known = |plan: usize| run.plan.images[plan].output().is_some() || opened.streams();
    if let ([(column, plan)], [_]) = (&views.outputs[..], planned)
        && size_known(*plan)
    {
        let (column, plan) = (*column, *plan);
        let (finish, program) = (run.plan.images[plan].finish(), &planned[0].1);
        return put_image(run, row, column, plan, program, |out| {
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
        put_image(run, row, *column, *plan, programs[number], |out| {
            let length = out.len() / copies;
            for (copy, out) in out.chunks_exact_mut(length.max(1)).enumerate() {
                image.render_view(number + copy, programs[number + copy], finish, out)?;
            }
            Ok(())
        })?;
        number += copies;
    }
    Ok(RenderTime { decode, transform: begun.elapsed().saturating_sub(decode) })
}

pub(super) fn stored_image(buffer: &SampleBuffer, field: usize) -> Option<StoredImage<'_>> {
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
fn put_image<T>(
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
        run.reserve(row, length);
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
pub(crate) fn plan_passes(
    params: &Params,
    image: Size,
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
