//! From tar files to their indexes: every header once, shards in parallel.

use std::sync::Arc;

use super::super::parallel;
use super::dali;
use super::index::{About, Grouping, ShardIndex, Taken};
use super::packing::{Packing, Restart, Stream, Unpacker};
use super::tar::{TarBytes, TarFault, TarReader, Window};
use crate::error::{Error, Location, Result};
use crate::source::{Object, Source};

/// What a scan found.
#[derive(Debug)]
pub(super) struct Scanned {
    pub(super) index: ShardIndex,
    /// Why an index file beside the shard was not used.
    pub(super) problem: Option<Error>,
}

/// Scans the named shards, in the order given.
pub(super) fn scan_all(source: &dyn Source, names: &[&str]) -> Result<Vec<Scanned>> {
    parallel::collect(names.len(), |number| scan(source, names[number]))
}

fn scan(source: &dyn Source, name: &str) -> Result<Scanned> {
    let object: Arc<dyn Object> = source.open(name)?;
    let place = |offset: u64| Location::new(source.uri()).with_shard(name).with_offset(offset);
    let mut about = About::new(object.size(), object.version());
    let mut first = [0; 6];
    let known = about.size.min(6) as usize;
    object.read_at(0, &mut first[..known])?;
    if first == *b"\xfd7zXZ\0" {
        return Err(Error::data(place(0), "compressed with xz, which is not supported")
            .with_hint("unpack it; tar shards of compressed pictures gain nothing from compression"));
    }
    about.packing = Packing::of(&first[..known]);
    let Some(packing) = about.packing else { return scan_plain(source, name, &object, about) };
    let damaged = |error: std::io::Error| {
        Error::data(place(0), format!("the {} stream is damaged: {error}", packing.name()))
    };
    let unpacker = Unpacker::new(object.clone(), packing, Restart(0, 0)).map_err(damaged)?;
    let mut tar = TarReader::new(Stream::new(unpacker));
    let grouping = walk(&mut tar).map_err(|f| refused(place(f.offset), f))?;
    about.unterminated = tar.unterminated;
    (about.unpacked, about.restarts) = tar.into_bytes().finish().map_err(damaged)?;
    Ok(Scanned { index: grouping.finish(about), problem: None })
}

fn scan_plain(
    source: &dyn Source,
    name: &str,
    object: &Arc<dyn Object>,
    mut about: About,
) -> Result<Scanned> {
    let problem = match dali::members(source, name, &**object) {
        None => None,
        Some(Ok(grouping)) => return Ok(Scanned { index: grouping.finish(about), problem: None }),
        Some(Err(problem)) => Some(problem),
    };
    let mut tar = TarReader::new(Window::new(&**object));
    let place = |offset: u64| Location::new(source.uri()).with_shard(name).with_offset(offset);
    let grouping = walk(&mut tar).map_err(|f| refused(place(f.offset), f))?;
    about.unterminated = tar.unterminated;
    Ok(Scanned { index: grouping.finish(about), problem })
}

fn refused(place: Location, fault: TarFault) -> Error {
    let twice = fault.reason.contains("comes twice");
    let error = Error::data(place, fault.reason);
    if twice {
        return error.with_hint("webdataset refuses this too; write the shard with distinct keys");
    }
    error
}

fn walk<B: TarBytes>(tar: &mut TarReader<B>) -> Result<Grouping, TarFault> {
    let mut grouping = Grouping::default();
    while let Some(member) = tar.next_member()? {
        let length = member.data.end - member.data.start;
        let taken = grouping
            .add(&member.name, member.data.start, length)
            .map_err(|reason| TarFault { offset: member.data.start, reason })?;
        if taken == Taken::Integer {
            let bytes = tar.peek(&member, length as usize)?;
            if bytes.len() as u64 == length {
                grouping.value(bytes);
            }
        }
    }
    Ok(grouping)
}
