//! Images of which only a part is read: their tables of pieces are read with the sample, the parameters are drawn, then
//! follow the pieces that the drawn boxes need.

use std::time::{Duration, Instant};

use feedline_pixels::pieces::{Form, PieceTable};

use super::Worker;
use super::epoch_run::EpochRun;
use super::errors::{decode_error, read_error};
use super::images::draw_views;
use crate::error::Result;
use crate::loader::plan::ImageViews;
use crate::loader::stats::Work;
use crate::render::{StoredImage, form_of, needed_rows};
use crate::sample::{FieldSet, ImageMeta, Value};
use crate::transform::{Program, SampleKey};

/// The images of the current sample that are read in pieces.
#[derive(Debug, Default)]
pub(super) struct Pieces {
    images: Vec<PiecedImage>,
    /// Memory for the next table.
    table: Vec<u8>,
    /// What reading pieces took since the sample's other fields were read.
    pub(super) time: Duration,
    /// The part of this time in which a network was waited for.
    pub(super) waited: Duration,
    pub(super) bytes: u64,
}

#[derive(Debug)]
struct PiecedImage {
    field: usize,
    form: Form,
    meta: ImageMeta,
    /// Length of the whole image.
    length: u64,
    table: Vec<u8>,
}

impl Pieces {
    /// Finds the images that are read in pieces. Returns the fields that are still to be read whole, if they are not those of
    /// the plan.
    pub(super) fn find(&mut self, run: &EpochRun, sample: u64) -> Result<Option<FieldSet>> {
        (self.time, self.waited, self.bytes) = (Duration::ZERO, Duration::ZERO, 0);
        while let Some(image) = self.images.pop() {
            self.table = image.table;
        }
        let mut whole = None;
        for &field in &run.plan.in_pieces {
            let table = &mut self.table;
            let Some(length) = run.dataset.piece_table(sample, field, table)? else { continue };
            // Asked after the table: a copy that is complete now has both.
            let meta = run.dataset.format().image_meta(sample, field);
            let known = meta.filter(|meta| meta.width > 0 && meta.height > 0 && meta.orientation > 0);
            let form = known.and_then(|meta| Some((meta, form_of(meta.encoding)?)));
            let fits = PieceTable::parse(table, length).is_some() && usize::try_from(length).is_ok();
            let Some((meta, form)) = form.filter(|_| fits) else { continue };
            self.images.push(PiecedImage { field, form, meta, length, table: std::mem::take(table) });
            whole.get_or_insert_with(|| run.plan.fields.clone()).remove(field);
        }
        Ok(whole)
    }
}

impl Worker {
    /// Draws the views of an image that is read in pieces, and reads those that they need. Returns whether it did: other images
    /// are there already, and nothing is drawn yet.
    pub(super) fn read_pieces(&mut self, run: &EpochRun, key: SampleKey, views: &ImageViews) -> Result<bool> {
        let Worker { pieces, sample: buffer, views: drawn, max_pixels, .. } = self;
        let Some(image) = pieces.images.iter().find(|image| image.field == views.field) else {
            return Ok(false);
        };
        let bad = |e: feedline_pixels::Error| decode_error(run, key.sample, image.field, &e);
        let opened = StoredImage { bytes: &[], index: &[], meta: image.meta }.open().map_err(bad)?;
        let opened = if run.plan.options.exif_transpose { opened } else { opened.as_stored() };
        opened.check_length(image.length, *max_pixels).map_err(bad)?;
        draw_views(run, key, views, opened.upright_size(), buffer, drawn)?;
        let programs: Vec<&Program> = drawn.iter().map(|(_, program)| program).collect();
        let (rows, scale) = needed_rows(&opened, &programs, run.plan.options.decode).map_err(bad)?;
        let begun = Instant::now();
        // A table of another form, or of another image: all is read, and the checksum of the whole decides.
        let table = PieceTable::parse(&image.table, image.length);
        let size = opened.stored_size();
        let runs = table.and_then(|table| Some((table, table.needed(image.form, size, rows, scale)?)));
        let runs = runs.as_ref().map(|(table, runs)| (*table, &runs[..]));
        // Whether reads wait for storage is checked when the table is read.
        let read = run.dataset.read_pieces(key.sample, image.field, image.length as usize, runs, buffer);
        let (place, bytes) = read.map_err(|e| read_error(e, run, key.sample))?;
        buffer.set(image.field, Value::Image { bytes: place, index: 0..0, meta: image.meta });
        let time = begun.elapsed();
        let waited = run.network_wait().min(time);
        pieces.bytes += bytes + image.table.len() as u64;
        pieces.time += time;
        pieces.waited += waited;
        self.counters.spent(Work::Read, time.saturating_sub(waited));
        self.counters.spent(Work::Bytes, waited);
        Ok(true)
    }
}
