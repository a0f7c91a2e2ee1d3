//! The file of a video, of which only the parts are read that a clip needs: its tables, once, and groups of frames.

use std::ops::Range;
use std::sync::Arc;

use feedline_video::{BlockReader, Index, Pieces};

use crate::dataset::{Checkpoints, Dataset};
use crate::error::{Error, Location, Result, Stage};
use crate::source::Object;

/// Packets with fewer bytes than this between them are read at once: a request costs more than these bytes.
const MOST_GAP: u64 = 64 << 10;

/// A video inside an object.
#[derive(Debug)]
pub(super) struct ClipFile {
    object: Arc<dyn Object>,
    /// The video's bytes in the object.
    range: Range<u64>,
    /// Key of its stored index; `None` if the source reports nothing that changes with the object.
    key: Option<u64>,
    /// The index that is stored beside it, and that index's length.
    beside: Option<(Index, u64)>,
}

/// Whether the videos of a field are stored as they are, so that parts of them can be read.
pub(super) fn can_be_read(dataset: &Dataset, field: usize) -> bool {
    !dataset.is_empty() && matches!(dataset.format().stored_at(0, field), Ok(Some(_)))
}

impl ClipFile {
    /// Opens a sample's video; `None` if it has none, is not stored as it is, or has a checksum that only the whole of it
    /// can be compared with.
    pub(super) fn open(dataset: &Dataset, sample: u64, field: usize) -> Result<Option<Self>> {
        let format = dataset.format();
        let Some(extent) = format.stored_at(sample, field)? else { return Ok(None) };
        let Some((source, name)) = format.object(extent.object).filter(|_| !extent.range.is_empty()) else {
            return Ok(None);
        };
        let size = extent.range.end - extent.range.start;
        let beside = match format.stored_index(sample, field)? {
            Some(bytes) => match Index::from_bytes(&bytes, size) {
                Ok(index) if !index.checks.is_empty() => Some((index, bytes.len() as u64)),
                _ => return Ok(None),
            },
            None => None,
        };
        let seen = format.seen(extent.object);
        let object = match seen {
            Some(seen) => source.open_seen(&name, seen)?,
            None => source.open(&name)?,
        };
        let version = seen.map_or(0, |seen| seen.version);
        let described = |version: u64| {
            let Range { start, end } = extent.range;
            format!("video index 1|{}|{name}|{version}|{start}|{end}|{}", source.uri(), object.size())
        };
        let key = (version != 0).then(|| Checkpoints::key(described(version).as_bytes()));
        Ok(Some(ClipFile { object, range: extent.range, key, beside }))
    }

    fn size(&self) -> u64 {
        self.range.end - self.range.start
    }

    /// The index of its packets: stored beside it, found in the store, or read from its tables and stored. Returns the
    /// number of bytes that were read, too.
    pub(super) fn index(
        &mut self,
        store: Option<&Checkpoints>,
        place: &dyn Fn() -> Location,
    ) -> Result<(Index, u64)> {
        if let Some(beside) = self.beside.take() {
            return Ok(beside);
        }
        if let Some(index) = self.stored(store) {
            return Ok((index, 0));
        }
        let (index, read) = self.scan(place)?;
        if let (Some(store), Some(key)) = (store, self.key) {
            store.add(key, &index.to_bytes(self.size()));
        }
        Ok((index, read))
    }

    /// Whether its index is stored: beside it, or in the store.
    pub(super) fn has_index(&self, store: &Checkpoints) -> bool {
        self.beside.is_some() || self.stored(Some(store)).is_some()
    }

    /// The index that the store has.
    fn stored(&self, store: Option<&Checkpoints>) -> Option<Index> {
        let mut bytes = Vec::new();
        let found = store.is_some_and(|store| self.key.is_some_and(|key| store.find(key, &mut bytes)));
        if found { Index::from_bytes(&bytes, self.size()).ok() } else { None }
    }

    /// Reads the file's tables.
    fn scan(&self, place: &dyn Fn() -> Location) -> Result<(Index, u64)> {
        let (mut failed, mut read) = (None, 0);
        let mut reader = BlockReader::new(self.size(), |offset, into: &mut [u8]| {
            read += into.len() as u64;
            self.object.read_at(self.range.start + offset, into).map_err(|error| {
                let reason = error.to_string();
                failed = Some(error);
                feedline_video::Error::Malformed(reason)
            })
        });
        let index = Index::read_from(&mut reader);
        match (index, failed) {
            (_, Some(error)) => Err(error),
            (Ok(index), None) => Ok((index, read)),
            (Err(error), None) => Err(decode_failure(error, place())),
        }
    }

    /// Reads these packets, in as few reads as is sensible. Returns the number of bytes.
    pub(super) fn read(&self, index: &Index, packets: &[Range<u32>], into: &mut Pieces) -> Result<u64> {
        into.clear();
        let numbers = packets.iter().flat_map(|range| range.start as usize..range.end as usize);
        let places = numbers.filter_map(|number| index.packets.get(number));
        let mut places: Vec<Range<u64>> = places
            .map(|packet| packet.offset..packet.offset.saturating_add(u64::from(packet.size)))
            .collect();
        places.sort_unstable_by_key(|place| place.start);
        let mut joined: Vec<Range<u64>> = Vec::new();
        for place in places {
            match joined.last_mut() {
                Some(last) if place.start <= last.end.saturating_add(MOST_GAP) => {
                    last.end = last.end.max(place.end);
                }
                _ => joined.push(place),
            }
        }
        let mut read = 0;
        for place in joined {
            let length = place.end - place.start;
            let mut bytes = Vec::new();
            let count = usize::try_from(length).unwrap_or(usize::MAX);
            let none = |_| Error::out_of_memory(length, "reading a video".to_owned());
            bytes.try_reserve_exact(count).map_err(none)?;
            bytes.resize(count, 0);
            self.object.read_at(self.range.start + place.start, &mut bytes)?;
            read += length;
            into.push(place.start, bytes);
        }
        Ok(read)
    }
}

/// The error of a video that cannot be decoded.
pub(super) fn decode_failure(error: feedline_video::Error, place: Location) -> Error {
    match error {
        feedline_video::Error::OutOfMemory { bytes } => {
            Error::out_of_memory(bytes, format!("decoding {place}"))
        }
        error => Error::sample(place, Stage::Decode, error),
    }
}
