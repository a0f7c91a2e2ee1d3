//! Seek indexes of JPEGs that are stored without one: looked up before an image is decoded, and collected while it is.
//!
//! The pixels do not depend on it: an index is found by a hash of the image's bytes, and only says where in these bytes
//! rows begin.

use std::ops::ControlFlow;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use feedline_pixels::jpeg::{self, Recording};

use super::Shared;
use super::clip_file::ClipFile;
use super::plan::{Plan, usable_cores};
use crate::dataset::{Checkpoints, Dataset, Progress};
use crate::error::{Error, Result};
use crate::field::Kind;
use crate::render::{ImageDecoder, StoredImage};
use crate::sample::{FieldSet, SampleBuffer, Value};
use crate::spec::IndexMode;

/// Smaller files are decoded from their start in less time than an index is found.
const WORTH_INDEXING: usize = 8 << 10;

/// The store for the images that `plan` decodes, if it may have any.
pub(super) fn store(dataset: &Dataset, plan: &Plan) -> Option<Checkpoints> {
    let in_parts = plan.video.iter().any(|video| video.in_parts);
    let decodes = in_parts || plan.image_fields.iter().any(|views| views.values.is_none());
    (plan.options.index != IndexMode::Off && decodes).then(|| dataset.checkpoints())
}

impl Shared {
    /// Saves what was collected in an epoch.
    pub(super) fn save_checkpoints(&self) {
        match (&self.checkpoints, self.plan.options.index) {
            (Some(checkpoints), IndexMode::Build) => drop(checkpoints.save_all()),
            (Some(checkpoints), _) => checkpoints.save(),
            (None, _) => {}
        }
    }
}

/// Whether an image is stored without an index, is large enough for one to save time, and can have one. Images that
/// cannot (progressive ones) are not even hashed.
fn needs_index(bytes: &[u8], index: &[u8]) -> bool {
    index.is_empty()
        && bytes.len() >= WORTH_INDEXING
        && bytes.starts_with(&[0xff, 0xd8, 0xff])
        && jpeg::may_have_index(bytes)
}

/// The index of a worker's current image.
#[derive(Debug, Default)]
pub(super) struct Seeker {
    index: Vec<u8>,
    /// The image's key in the store, if it may get an index.
    key: Option<u64>,
}

impl Seeker {
    /// The same image with its index, if the store knows it. Has `decoder` record what is missing.
    pub(super) fn look_up<'a>(
        &'a mut self,
        store: Option<&Checkpoints>,
        mode: IndexMode,
        image: StoredImage<'a>,
        decoder: &mut ImageDecoder,
    ) -> StoredImage<'a> {
        self.key = None;
        let store = store.filter(|_| needs_index(image.bytes, image.index));
        let Some(store) = store else {
            decoder.record(Recording::Off);
            return image;
        };
        let key = Checkpoints::key(image.bytes);
        self.key = Some(key);
        store.find(key, &mut self.index);
        if mode == IndexMode::Build {
            decoder.record(Recording::Whole);
            if !jpeg::is_whole_index(&self.index) {
                self.index.clear();
            }
        } else {
            decoder.record(Recording::Decoded);
        }
        StoredImage { index: &self.index, ..image }
    }

    /// Keeps what was recorded while the image was decoded.
    pub(super) fn keep(&mut self, store: Option<&Checkpoints>, decoder: &mut ImageDecoder) {
        if let (Some(store), Some(key)) = (store, self.key.take())
            && let Some(index) = decoder.take_index()
        {
            store.add(key, &index);
        }
    }
}

/// Result of [`build_indexes`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct IndexReport {
    /// Images and videos that were indexed now.
    pub indexed: u64,
    /// Images and videos that had an index before: in the store, or in their pack.
    pub known: u64,
    /// Images that cannot or need not have one: other codecs, progressive JPEGs, small files.
    pub without: u64,
    /// Samples that could not be read.
    pub unreadable: u64,
    /// Size of all stored indexes of the data set.
    pub bytes: u64,
    /// Whether they are on disk. If not, the user's cache folder cannot be written.
    pub saved: bool,
}

/// Builds the seek indexes of all JPEGs and videos of a data set ahead of the first epoch, with `workers` threads (0 for all
/// cores). `progress` may end it early; what was indexed by then is kept.
pub fn build_indexes(dataset: &Dataset, workers: usize, progress: &dyn Progress) -> Result<IndexReport> {
    let fields = &dataset.schema().fields;
    let of_kind = |kind: Kind| (0..fields.len()).filter(|n| fields[*n].kind == kind).collect::<Vec<usize>>();
    let (images, videos) = (of_kind(Kind::Image), of_kind(Kind::Video));
    if images.is_empty() && videos.is_empty() {
        return Err(Error::option("path", format!("{} has no images and no videos", dataset.uri())));
    }
    let builder = Builder {
        dataset,
        store: dataset.checkpoints(),
        wanted: FieldSet::only(fields.len(), images),
        videos,
        next: AtomicU64::new(0),
        read: AtomicU64::new(0),
        report: Mutex::default(),
    };
    std::thread::scope(|scope| {
        for _ in 1..if workers > 0 { workers } else { usable_cores() } {
            scope.spawn(|| builder.work(progress));
        }
        builder.work(progress);
    });
    let saved = builder.store.save_all();
    let report = builder.report.into_inner().unwrap_or_default();
    Ok(IndexReport { bytes: builder.store.bytes(), saved, ..report })
}

/// What the threads of [`build_indexes`] share.
struct Builder<'a> {
    dataset: &'a Dataset,
    store: Checkpoints,
    wanted: FieldSet,
    videos: Vec<usize>,
    next: AtomicU64,
    read: AtomicU64,
    report: Mutex<IndexReport>,
}

impl Builder<'_> {
    fn work(&self, progress: &dyn Progress) {
        let (mut buffer, mut decoder, mut index) = (SampleBuffer::new(), jpeg::Decoder::new(), Vec::new());
        let mut own = IndexReport::default();
        loop {
            let sample = self.next.fetch_add(1, Ordering::Relaxed);
            if sample >= self.dataset.len() {
                break;
            }
            if self.dataset.read(sample, &self.wanted, &mut buffer).is_ok() {
                for field in self.wanted.iter() {
                    self.index(&buffer, field, &mut decoder, &mut index, &mut own);
                }
            } else {
                own.unreadable += 1;
            }
            for field in &self.videos {
                self.index_video(sample, *field, &mut own);
            }
            let used = buffer.used() as u64;
            let read = self.read.fetch_add(used, Ordering::Relaxed) + used;
            if progress.update(sample + 1, read, self.dataset.len()) == ControlFlow::Break(()) {
                break;
            }
        }
        if let Ok(mut report) = self.report.lock() {
            report.indexed += own.indexed;
            report.known += own.known;
            report.without += own.without;
            report.unreadable += own.unreadable;
        }
    }

    /// Finds the packets of a video.
    fn index_video(&self, sample: u64, field: usize, report: &mut IndexReport) {
        let place = || self.dataset.format().locate(sample);
        let counted = match ClipFile::open(self.dataset, sample, field) {
            Ok(Some(file)) if file.has_index(&self.store) => &mut report.known,
            Ok(Some(mut file)) => match file.index(Some(&self.store), &place) {
                Ok(_) => &mut report.indexed,
                Err(_) => &mut report.unreadable,
            },
            Ok(None) => &mut report.without,
            Err(_) => &mut report.unreadable,
        };
        *counted += 1;
    }

    fn index(
        &self,
        buffer: &SampleBuffer,
        field: usize,
        decoder: &mut jpeg::Decoder,
        index: &mut Vec<u8>,
        report: &mut IndexReport,
    ) {
        let (bytes, stored) = match buffer.value(field) {
            // What pixels have beside them is not a seek index.
            Value::Image { bytes, meta, .. } if !meta.encoding.is_file() => (buffer.bytes(bytes), &[][..]),
            Value::Image { bytes, index, .. } => (buffer.bytes(bytes), buffer.bytes(index)),
            Value::Bytes(bytes) => (buffer.bytes(bytes), &[][..]),
            _ => return,
        };
        if !stored.is_empty() {
            report.known += 1;
            return;
        }
        if !needs_index(bytes, stored) {
            report.without += 1;
            return;
        }
        let key = Checkpoints::key(bytes);
        if self.store.find(key, index) && jpeg::is_whole_index(index) {
            report.known += 1;
        } else if let Some(built) = decoder.build_sparse_index(bytes) {
            self.store.add(key, &built);
            report.indexed += 1;
        } else {
            report.without += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use feedline_pixels::Size;
    use feedline_pixels::turbo::{Encoding, encode};

    #[test]
    fn only_images_that_can_have_an_index_are_looked_up() {
        let size = Size::new(300, 200);
        let pixels: Vec<u8> = (0..size.area() * 3).map(|i| ((i * i) >> 7) as u8).collect();
        let base = Encoding::baseline(size, 3, 95, (2, 2));
        let needed_for = |encoding: Encoding| {
            let bytes = encode(&pixels, &encoding).unwrap();
            assert!(bytes.len() >= WORTH_INDEXING);
            assert_eq!(needs_index(&bytes, &[]), jpeg::Decoder::new().build_index(&bytes).is_some());
            needs_index(&bytes, &[])
        };
        assert!(needed_for(base));
        assert!(!needed_for(Encoding { progressive: true, ..base }));
        assert!(!needed_for(Encoding { restart_interval: 5, ..base }));
        let bytes = encode(&pixels, &base).unwrap();
        assert!(!needs_index(&bytes, &[1]));
        assert!(!needs_index(&bytes[..WORTH_INDEXING - 1], &[]));
    }
}
