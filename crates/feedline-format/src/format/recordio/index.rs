//! Finds the records of a file: from the index beside it (lines of `key<TAB>offset`), or by following the frames.
//! Records with labels but no content (the tables that some face data sets put first and last) are not samples.

use std::ops::Range;
use std::sync::Arc;

use super::record::{FRAME, HEADER, ImageRecordHeader, Part, content, frame};
use crate::error::{Error, Location, Result};
use crate::sample::SampleBuffer;
use crate::source::{Object, Source};

/// Bytes read at once while following frames.
const WINDOW: u64 = 256 * 1024;
/// A larger index costs more than it saves.
const MAX_INDEX: u64 = 1 << 30;
/// Only records up to this length can be without content: a header and a few labels.
const SMALL: u64 = FRAME + HEADER as u64 + 64;

/// The records of one file.
#[derive(Debug)]
pub(super) struct RecordFile {
    pub(super) size: u64,
    pub(super) version: u64,
    /// Start and end offset of each sample's frames.
    records: Vec<(u64, u64)>,
    pub(super) problems: Vec<Error>,
}

impl RecordFile {
    pub(super) fn len(&self) -> u64 {
        self.records.len() as u64
    }

    pub(super) fn range(&self, record: u64) -> Range<u64> {
        let (start, end) = self.records[record as usize];
        start..end
    }
}

/// Finds the records of the file `name`.
pub(super) fn find_records(source: &dyn Source, name: &str) -> Result<RecordFile> {
    let object = source.open(name)?;
    let place = Location::new(source.uri()).with_shard(name);
    let mut problems = Vec::new();
    let records = match listed(source, name, &object) {
        Some(Ok(records)) => records,
        Some(Err(problem)) => {
            problems.push(problem);
            follow_frames(&*object, &place)?
        }
        None => follow_frames(&*object, &place)?,
    };
    let all = records.len();
    let records = with_content(&*object, records)?;
    if records.len() < all {
        let reason =
            format!("{} records have labels but no content: they are not samples", all - records.len());
        problems.push(Error::data(place, reason));
    }
    Ok(RecordFile { size: object.size(), version: object.version(), records, problems })
}

/// The records from the index beside the file; `None` if there is none.
fn listed(source: &dyn Source, name: &str, object: &Arc<dyn Object>) -> Option<Result<Vec<(u64, u64)>>> {
    let beside = format!("{}.idx", name.rsplit_once('.').map_or(name, |(stem, _)| stem));
    if !source.exists(&beside).ok()? {
        return None;
    }
    let index = source.open(&beside).ok().filter(|index| index.size() <= MAX_INDEX)?;
    let mut text = vec![0; index.size() as usize];
    index.read_at(0, &mut text).ok()?;
    Some(parse(&text, &**object).map_err(|reason| {
        let reason = format!("the index does not fit its file, which was searched instead: {reason}");
        Error::data(Location::new(source.uri()).with_shard(beside), reason)
    }))
}

fn parse(text: &[u8], object: &dyn Object) -> Result<Vec<(u64, u64)>, String> {
    let text = std::str::from_utf8(text).map_err(|_| "not text")?;
    let mut starts = Vec::new();
    for line in text.lines() {
        let offset = line.split('\t').nth(1).and_then(|offset| offset.trim().parse::<u64>().ok());
        starts.push(offset.ok_or_else(|| format!("'{line}' is not a key and an offset"))?);
    }
    starts.sort_unstable();
    let in_order = starts.windows(2).all(|pair| pair[0] + FRAME <= pair[1]);
    let aligned = starts.iter().all(|start| start.is_multiple_of(4));
    if !in_order || !aligned || starts.first().is_some_and(|first| *first != 0) {
        return Err("offsets without a record".to_owned());
    }
    // The last record shows whether records were added or lost since.
    let end = match starts.last() {
        Some(last) => record_end(object, *last)?,
        None => 0,
    };
    if end != object.size() {
        return Err(format!("it ends at byte {end}, the file at {}", object.size()));
    }
    Ok(starts.iter().zip(starts[1.min(starts.len())..].iter().chain([&end])).map(|(a, b)| (*a, *b)).collect())
}

/// End offset of the record that begins at `at`.
fn record_end(object: &dyn Object, mut at: u64) -> Result<u64, String> {
    let mut first = true;
    loop {
        let mut head = [0; 8];
        if at.checked_add(FRAME).is_none_or(|end| end > object.size()) {
            return Err("a record past the end of the file".to_owned());
        }
        object.read_at(at, &mut head).map_err(|e| e.to_string())?;
        let (part, _, padded) = frame(head).ok_or_else(|| format!("no record at byte {at}"))?;
        if first != matches!(part, Part::Whole | Part::First) {
            return Err(format!("a record in parts that do not fit at byte {at}"));
        }
        (at, first) = (at + FRAME + padded, false);
        if matches!(part, Part::Whole | Part::Last) {
            return Ok(at);
        }
    }
}

/// Follows the frames; small records share a read.
fn follow_frames(object: &dyn Object, place: &Location) -> Result<Vec<(u64, u64)>> {
    let (mut records, mut window, mut window_start) = (Vec::new(), Vec::new(), 0);
    let (mut at, mut begun) = (0, None);
    while at < object.size() {
        let bad = |reason: &str| Error::data(place.clone().with_offset(at), reason);
        if at + FRAME > object.size() {
            return Err(bad("the file ends inside a record: it is cut off"));
        }
        let inside = at >= window_start && at + FRAME <= window_start + window.len() as u64;
        if !inside {
            // After a jump past the window, records are large.
            let nearby = at < window_start + window.len() as u64 + WINDOW;
            let length = if nearby { WINDOW } else { FRAME };
            window.resize(length.min(object.size() - at) as usize, 0);
            object.read_at(at, &mut window)?;
            window_start = at;
        }
        let from = (at - window_start) as usize;
        let head: [u8; 8] = window[from..from + 8].try_into().expect("eight bytes");
        let found = frame(head).ok_or_else(|| bad("not a record of RecordIO: the file is damaged"))?;
        let (part, _, padded) = found;
        let end = at + FRAME + padded;
        if end > object.size() {
            return Err(bad("the last record is cut off"));
        }
        match (part, begun) {
            (Part::Whole, None) => records.push((at, end)),
            (Part::First, None) => begun = Some(at),
            (Part::Middle, Some(_)) => {}
            (Part::Last, Some(start)) => {
                records.push((start, end));
                begun = None;
            }
            _ => return Err(bad("a record in parts that do not fit together: the file is damaged")),
        }
        at = end;
    }
    match begun {
        None => Ok(records),
        Some(start) => Err(Error::data(place.clone().with_offset(start), "the last record is cut off")),
    }
}

/// Removes records that contain only labels.
fn with_content(object: &dyn Object, records: Vec<(u64, u64)>) -> Result<Vec<(u64, u64)>> {
    let mut buffer = SampleBuffer::new();
    let mut kept = Vec::with_capacity(records.len());
    for (start, end) in records {
        if end - start <= SMALL {
            buffer.reset(0);
            let (stored, room) = buffer.reserve((end - start) as usize);
            object.read_at(start, room)?;
            let record = content(stored, &mut buffer).ok();
            let record = record.as_ref().map(|range| buffer.bytes(range));
            let is_table = |record: &[u8]| {
                ImageRecordHeader::parse(record)
                    .is_some_and(|h| h.several.is_some() && h.length == record.len())
            };
            if record.is_some_and(is_table) {
                continue;
            }
        }
        kept.push((start, end));
    }
    Ok(kept)
}
