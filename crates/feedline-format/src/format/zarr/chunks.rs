//! The chunks of one array: where they are stored, and rows assembled from them.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use super::super::lru_cache::LruCache;
use super::super::open_objects::OpenObjects;
use super::codec::undo;
use super::metadata::{Array, Element};
use crate::error::{Error, Location, Result};
use crate::sample::{Extent, SampleBuffer};
use crate::source::room_for;

/// Decompressed chunks and shard indexes of a data set, by array, chunk (or shard), and whether it is an index.
pub(super) type ChunkCache = LruCache<(u32, u64, bool), Vec<u8>>;

/// An array with the objects that contain it.
#[derive(Debug)]
pub(super) struct Chunks {
    /// Identifies the array in [`ChunkCache`].
    pub(super) number: u32,
    pub(super) array: Array,
    /// Index of the object with a chunk or shard; chunks without an object have the fill value.
    pub(super) objects: HashMap<u64, u32>,
}

/// Where a chunk is stored.
enum Stored {
    Nowhere,
    At(u32, Range<u64>),
}

impl Chunks {
    /// Number of chunks along each dimension.
    fn grid(&self) -> impl Iterator<Item = u64> + '_ {
        self.array.shape.iter().zip(&self.array.chunk).map(|(side, chunk)| side.div_ceil(*chunk))
    }

    /// Number of shards (or of chunks, if there are no shards) along each dimension.
    fn outer_grid(&self) -> Vec<u64> {
        let inside = self.array.sharding.as_ref().map(|sharding| &sharding.inside);
        let outer =
            |(dimension, count): (usize, u64)| count.div_ceil(inside.map_or(1, |inside| inside[dimension]));
        self.grid().enumerate().map(outer).collect()
    }

    /// The number of the chunk or shard with this key (its name after the array's own), if the array has it.
    pub(super) fn object_number(&self, key: &str) -> Option<u64> {
        let Array { prefix, separator, .. } = &self.array;
        let rest = match *prefix {
            "" => key,
            prefix => key.strip_prefix(prefix)?.strip_prefix(*separator)?,
        };
        let mut numbers = rest.split(*separator);
        let mut number = 0u64;
        for count in self.outer_grid() {
            let coordinate = numbers.next()?.parse().ok().filter(|at: &u64| *at < count)?;
            number = number.checked_mul(count)?.checked_add(coordinate)?;
        }
        numbers.next().is_none().then_some(number)
    }

    /// The bytes of row `row` of an array of numbers.
    pub(super) fn read_row(
        &self,
        open_objects: &OpenObjects,
        cache: &ChunkCache,
        row: u64,
        into: &mut [u8],
    ) -> Result<()> {
        let array = &self.array;
        let within = row % array.chunk[0];
        self.each_chunk(row, |coordinates| {
            let chunk = self.chunk(open_objects, cache, coordinates)?;
            copy_row(array, chunk.as_deref(), coordinates, within, into);
            Ok(())
        })
    }

    /// The text or bytes in row `row`.
    pub(super) fn read_varying(
        &self,
        open_objects: &OpenObjects,
        cache: &ChunkCache,
        row: u64,
        into: &mut SampleBuffer,
    ) -> Result<Range<usize>> {
        let coordinates = [row / self.array.chunk[0]];
        let Some(chunk) = self.chunk(open_objects, cache, &coordinates)? else { return Ok(into.append(&[])) };
        let item = item(&chunk, row % self.array.chunk[0]).ok_or_else(|| {
            Error::data(self.place(open_objects, &coordinates), "texts that do not fit their chunk")
        })?;
        Ok(into.append(item))
    }

    /// The ranges that reading row `row` needs, if known.
    pub(super) fn extents(
        &self,
        open_objects: &OpenObjects,
        cache: &ChunkCache,
        row: u64,
        out: &mut Vec<Extent>,
    ) {
        let _ = self.each_chunk(row, |coordinates| {
            if let Some(Stored::At(object, range)) = self.known_place(open_objects, cache, coordinates) {
                out.push(Extent { object, range });
            }
            Ok(())
        });
    }

    /// Calls `with` for the coordinates of every chunk that contains a part of row `row`.
    fn each_chunk(&self, row: u64, mut with: impl FnMut(&[u64]) -> Result<()>) -> Result<()> {
        let grid: Vec<u64> = self.grid().collect();
        let mut at = vec![0; grid.len()];
        at[0] = row / self.array.chunk[0];
        if grid.contains(&0) {
            return Ok(());
        }
        loop {
            with(&at)?;
            let Some(next) = (1..grid.len()).rev().find(|dimension| at[*dimension] + 1 < grid[*dimension])
            else {
                return Ok(());
            };
            at[next] += 1;
            at[next + 1..].fill(0);
        }
    }

    /// The decompressed chunk, in the order of its own dimensions; `None` if it was never written.
    fn chunk(
        &self,
        open_objects: &OpenObjects,
        cache: &ChunkCache,
        coordinates: &[u64],
    ) -> Result<Option<Arc<Vec<u8>>>> {
        let grid: Vec<u64> = self.grid().collect();
        let key = (self.number, flat(coordinates, &grid), false);
        if let Some(found) = cache.peek(key) {
            return Ok(Some(found));
        }
        let Stored::At(object, range) = self.stored(open_objects, cache, coordinates)? else {
            return Ok(None);
        };
        cache
            .get(key, || {
                let stored = read(open_objects, object, range)?;
                let number = matches!(self.array.element, Element::Number { .. });
                let expected = number.then(|| self.array.chunk_bytes());
                let bytes = undo(&self.array.codecs, stored, expected)
                    .map_err(|reason| Error::data(self.place(open_objects, coordinates), reason))?;
                Ok(match &self.array.order {
                    Some(order) => turned(&self.array, order, &bytes),
                    None => bytes,
                })
            })
            .map(Some)
    }

    fn outer(&self, coordinates: &[u64]) -> (u64, u64) {
        let Some(sharding) = &self.array.sharding else {
            return (flat(coordinates, &self.outer_grid()), 0);
        };
        let shard: Vec<u64> =
            coordinates.iter().zip(&sharding.inside).map(|(at, count)| at / count).collect();
        let inner: Vec<u64> =
            coordinates.iter().zip(&sharding.inside).map(|(at, count)| at % count).collect();
        (flat(&shard, &self.outer_grid()), flat(&inner, &sharding.inside))
    }

    fn place(&self, open_objects: &OpenObjects, coordinates: &[u64]) -> Location {
        let place = Location::new(open_objects.source().uri());
        match self.objects.get(&self.outer(coordinates).0) {
            Some(object) => place.with_shard(open_objects.name(*object as usize)),
            None => place,
        }
    }

    fn stored(&self, open_objects: &OpenObjects, cache: &ChunkCache, coordinates: &[u64]) -> Result<Stored> {
        let (outer, inner) = self.outer(coordinates);
        let Some(object) = self.objects.get(&outer).copied() else { return Ok(Stored::Nowhere) };
        if self.array.sharding.is_none() {
            return Ok(Stored::At(object, 0..open_objects.length(object as usize)));
        }
        let index = cache.get((self.number, outer, true), || self.read_index(open_objects, object))?;
        in_shard(&index, open_objects, object, inner)
            .map_err(|reason| Error::data(self.place(open_objects, coordinates), reason))
    }

    /// The same without reading anything.
    fn known_place(
        &self,
        open_objects: &OpenObjects,
        cache: &ChunkCache,
        coordinates: &[u64],
    ) -> Option<Stored> {
        let (outer, inner) = self.outer(coordinates);
        let object = self.objects.get(&outer).copied()?;
        if self.array.sharding.is_none() {
            return Some(Stored::At(object, 0..open_objects.length(object as usize)));
        }
        let index = cache.peek((self.number, outer, true))?;
        in_shard(&index, open_objects, object, inner).ok()
    }

    fn read_index(&self, open_objects: &OpenObjects, object: u32) -> Result<Vec<u8>> {
        let Some(sharding) = &self.array.sharding else { return Ok(Vec::new()) };
        let place =
            || Location::new(open_objects.source().uri()).with_shard(open_objects.name(object as usize));
        let length = open_objects.length(object as usize);
        let entries = sharding.inside.iter().try_fold(16u64, |n, count| n.checked_mul(*count));
        let sums = 4 * sharding.index_codecs.len() as u64;
        let size = entries.and_then(|bytes| bytes.checked_add(sums)).filter(|size| *size <= length);
        let size = size.ok_or_else(|| Error::data(place(), "the shard is shorter than its index"))?;
        let range = if sharding.index_first { 0..size } else { length - size..length };
        let stored = read(open_objects, object, range)?;
        undo(&sharding.index_codecs, stored, entries)
            .map_err(|reason| Error::data(place(), format!("the shard's index: {reason}")))
    }
}

/// Where the chunk `inner` of a shard is stored, according to the shard's index.
fn in_shard(index: &[u8], open_objects: &OpenObjects, object: u32, inner: u64) -> Result<Stored, String> {
    let word = |at: usize| {
        let eight = index.get(at..at + 8).and_then(|eight| <[u8; 8]>::try_from(eight).ok());
        eight.map(u64::from_le_bytes).ok_or_else(|| "the shard's index ends early".to_owned())
    };
    let at = inner as usize * 16;
    let (start, length) = (word(at)?, word(at + 8)?);
    if start == u64::MAX && length == u64::MAX {
        return Ok(Stored::Nowhere);
    }
    let end = start.checked_add(length).filter(|end| *end <= open_objects.length(object as usize));
    let end = end.ok_or("a chunk past the end of its shard")?;
    Ok(Stored::At(object, start..end))
}

fn read(open_objects: &OpenObjects, object: u32, range: Range<u64>) -> Result<Vec<u8>> {
    let number = object as usize;
    let mut bytes =
        room_for(range.end - range.start, open_objects.source().uri(), open_objects.name(number))?;
    open_objects.with(number, |object| object.read_at(range.start, &mut bytes))??;
    Ok(bytes)
}

/// Row-major index of these coordinates.
fn flat(coordinates: &[u64], grid: &[u64]) -> u64 {
    coordinates.iter().zip(grid).fold(0u64, |sum, (at, count)| sum.wrapping_mul(*count).wrapping_add(*at))
}

/// Item `wanted` of texts or bytes: their number, then each with its length.
fn item(chunk: &[u8], wanted: u64) -> Option<&[u8]> {
    let word = |at: usize| {
        let four = chunk.get(at..at.checked_add(4)?)?;
        Some(u32::from_le_bytes(four.try_into().ok()?) as usize)
    };
    if wanted >= word(0)? as u64 {
        return None;
    }
    let mut at = 4;
    for _ in 0..wanted {
        at += 4 + word(at)?;
    }
    chunk.get(at + 4..(at + 4).checked_add(word(at)?)?)
}

/// Copies the part of a row that is in one chunk; a chunk that was never written gives the fill value.
fn copy_row(array: &Array, chunk: Option<&Vec<u8>>, coordinates: &[u64], within: u64, into: &mut [u8]) {
    let size = array.size();
    let dimensions = array.shape.len();
    // For every dimension but the first: where the chunk begins, and how much of it is inside the array.
    let begin = |d: usize| coordinates[d] * array.chunk[d];
    let extent = |d: usize| (array.shape[d] - begin(d)).min(array.chunk[d]);
    let run = if dimensions == 1 { 1 } else { extent(dimensions - 1) } as usize * size;
    let mut at = vec![0; dimensions];
    at[0] = within;
    loop {
        let from = flat(&at, &array.chunk) as usize * size;
        let to = (1..dimensions).fold(0, |sum, d| sum * array.shape[d] + begin(d) + at[d]) as usize * size;
        let room = &mut into[to..to + run];
        match chunk {
            Some(chunk) => room.copy_from_slice(&chunk[from..from + run]),
            None => room.chunks_exact_mut(size).for_each(|element| element.copy_from_slice(&array.fill)),
        }
        let next = (1..dimensions.saturating_sub(1)).rev().find(|d| at[*d] + 1 < extent(*d));
        let Some(next) = next else { return };
        at[next] += 1;
        at[next + 1..].fill(0);
    }
}

/// Transposes a chunk whose dimensions were stored in another order.
fn turned(array: &Array, order: &[usize], stored: &[u8]) -> Vec<u8> {
    let size = array.size();
    let stored_sides: Vec<u64> = order.iter().map(|d| array.chunk[*d]).collect();
    let mut bytes = Vec::with_capacity(stored.len());
    let mut at = vec![0; array.chunk.len()];
    for _ in 0..stored.len() / size {
        let there: Vec<u64> = order.iter().map(|d| at[*d]).collect();
        let from = flat(&there, &stored_sides) as usize * size;
        bytes.extend_from_slice(&stored[from..from + size]);
        if let Some(next) = (0..at.len()).rev().find(|d| at[*d] + 1 < array.chunk[*d]) {
            at[next] += 1;
            at[next + 1..].fill(0);
        }
    }
    bytes
}
