//! Makes indexes of tar files: reads every header once, shards in parallel.

use std::sync::Arc;

use super::super::parallel;
use super::dali;
use super::index::{About, Grouping, MemberUse, Refused, ShardIndex};
use super::packing::{Packing, Restart, Stream, Unpacker};
use super::tar::{TarBytes, TarFault, TarReader, Window};
use crate::error::{Error, Location, Result};
use crate::format::stream::unread;
use crate::source::{Object, Source};

/// Result of a scan.
#[derive(Debug)]
pub(super) struct Scanned {
    pub(super) index: ShardIndex,
    /// Why an index file beside the shard was not used.
    pub(super) problem: Option<Error>,
}

/// Scans the named shards, in the given order. `samples` is their number of samples in another index.
pub(super) fn scan_all(source: &dyn Source, shards: &[(&str, Option<u64>)]) -> Result<Vec<Scanned>> {
    parallel::collect(shards.len(), |number| scan(source, shards[number].0, shards[number].1))
}

fn scan(source: &dyn Source, name: &str, samples: Option<u64>) -> Result<Scanned> {
    let object: Arc<dyn Object> = source.open(name)?;
    let place = |offset: u64| Location::new(source.uri()).with_shard(name).with_offset(offset);
    let mut about = About::new(object.size(), object.version());
    let mut first = [0; 6];
    let known = about.size.min(6) as usize;
    object.read_at(0, &mut first[..known])?;
    about.packing = Packing::of(&first[..known]);
    let Some(packing) = about.packing else {
        return scan_plain(source, name, &object, about, samples);
    };
    let damaged = |error: std::io::Error| {
        let reason = || format!("the {} stream is damaged: {error}", packing.name());
        unread(&error).unwrap_or_else(|| Error::data(place(0), reason()))
    };
    let unpacker = Unpacker::new(object.clone(), packing, Restart(0, 0)).map_err(damaged)?;
    let mut tar = TarReader::new(Stream::new(unpacker));
    let grouping = walk(&mut tar).map_err(|f| refused(place(f.offset), f))?;
    note_tar(&mut about, &tar);
    (about.unpacked, about.restarts, about.sums) = tar.into_bytes().finish().map_err(damaged)?;
    Ok(Scanned { index: grouping.finish(about, samples), problem: None })
}

fn scan_plain(
    source: &dyn Source,
    name: &str,
    object: &Arc<dyn Object>,
    mut about: About,
    samples: Option<u64>,
) -> Result<Scanned> {
    let problem = match dali::members(source, name, &**object) {
        None => None,
        Some(Ok(grouping)) => {
            return Ok(Scanned { index: grouping.finish(about, samples), problem: None });
        }
        Some(Err(problem)) => Some(problem),
    };
    let mut tar = TarReader::new(Window::new(&**object));
    let place = |offset: u64| Location::new(source.uri()).with_shard(name).with_offset(offset);
    let grouping = walk(&mut tar).map_err(|f| refused(place(f.offset), f))?;
    note_tar(&mut about, &tar);
    Ok(Scanned { index: grouping.finish(about, samples), problem })
}

fn note_tar<B: TarBytes>(about: &mut About, tar: &TarReader<B>) {
    about.unterminated = tar.unterminated;
    about.left_out.special = tar.special;
    about.left_out.trailing = tar.trailing;
}

fn refused(place: Location, fault: TarFault) -> Error {
    let error = Error::data(place, fault.reason);
    if fault.twice {
        return error.with_hint("webdataset refuses this too; write the shard with distinct keys");
    }
    error
}

fn walk<B: TarBytes>(tar: &mut TarReader<B>) -> Result<Grouping, TarFault> {
    let mut grouping = Grouping::default();
    while let Some(member) = tar.next_member()? {
        let length = member.data.end - member.data.start;
        let wrong = |refused: Refused| TarFault {
            offset: member.data.start,
            twice: matches!(refused, Refused::Twice(_)),
            reason: refused.to_string(),
        };
        if member.appended {
            grouping.end_of_tar();
        }
        if let Some(target) = &member.link {
            grouping.link(&member.name, target).map_err(wrong)?;
            continue;
        }
        let taken = grouping.add(&member.name, member.data.start, length).map_err(wrong)?;
        if taken == MemberUse::Integer {
            let bytes = tar.peek(&member, length as usize)?;
            if bytes.len() as u64 == length {
                grouping.value(bytes);
            }
        }
    }
    Ok(grouping)
}
