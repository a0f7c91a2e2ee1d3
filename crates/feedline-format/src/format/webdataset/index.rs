//! Content of a shard, in bytes that are used in place: just made by a scan, or mapped from a saved index.
//!
//! ```text
//! u64 length of the JSON; JSON (`About`), padded to 8
//! samples: (u32 end of key, u32 end of members) each; both start where the sample before ends
//! members: (u64, u64) each: offset << 16 | known << 15 | field; then the length, or the value of a known integer
//! keys, one after the other, padded to 8
//! ```
//!
//! Integers (class labels) are read while scanning, when their bytes are in memory anyway: reading a sample then
//! needs one read less, and samplers know all labels.

use std::collections::HashMap;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::again;
use super::names::{Content, integer, is_meta, split_name};
use super::packing::{Packing, Restart};
use crate::sample::MAX_FIELDS;
use crate::source::HeldBytes;

pub(super) const SAMPLE: usize = 8;
pub(super) const MEMBER: usize = 16;
/// Offsets have 48 bits in a member's entry.
const MAX_OFFSET: u64 = 1 << 48;
/// Longer texts are not integers.
const MAX_DIGITS: u64 = 24;

/// What is known about a whole shard.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct About {
    /// Length and version of the object that was scanned.
    pub(super) size: u64,
    pub(super) version: u64,
    pub(super) packing: Option<Packing>,
    /// Unpacked length, and places where unpacking can begin.
    pub(super) unpacked: u64,
    pub(super) restarts: Vec<Restart>,
    /// CRC-32C of every unpacked block: a stream's own checksum comes at its end, long after samples were returned.
    pub(super) sums: Vec<u32>,
    /// Whether the tar lacks its end mark.
    pub(super) unterminated: bool,
    /// Suffixes in the order of their first occurrence, and the number of samples that have each.
    pub(super) suffixes: Vec<(String, u64)>,
    samples: u64,
    members: u64,
    key_bytes: u64,
    /// blake3 of keys, suffixes and offsets.
    pub(super) hash: String,
    pub(super) left_out: LeftOut,
}

/// What is not in the samples of a tar, or not as the tar has it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct LeftOut {
    /// Number of tars after the first one's end mark; their members are samples like all others.
    pub(super) appended: u64,
    /// Number of parts of samples that were joined with an earlier part of the same key.
    pub(super) joined: u64,
    /// Number of samples whose key occurred before, with the same suffixes.
    pub(super) repeated: u64,
    /// Number of names without an extension, and the first of them.
    pub(super) nameless: u64,
    pub(super) first_nameless: String,
    /// Number of hard links whose target is not a member of a sample, and the first of them.
    pub(super) links: u64,
    pub(super) first_link: String,
    /// Number of symbolic links, devices and pipes.
    pub(super) special: u64,
    /// Offset of bytes after the end mark that are not a tar.
    pub(super) trailing: Option<u64>,
}

impl About {
    /// Only the object is known.
    pub(super) fn new(size: u64, version: u64) -> Self {
        About { size, version, ..About::default() }
    }
}

/// One field of one sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) offset: u64,
    /// Index into the shard's list of suffixes.
    pub(super) suffix: u16,
    pub(super) place: Place,
}

/// A stored or known value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// In the shard, with this many bytes.
    Stored(u64),
    /// The value itself, from the index.
    Known(i64),
}

/// The samples of one shard.
#[derive(Debug, Clone)]
pub(super) struct ShardIndex {
    about: About,
    bytes: HeldBytes,
    /// All of the index, then the offsets of its parts.
    section: Range<usize>,
    samples: usize,
    members: usize,
    keys: usize,
}

impl ShardIndex {
    /// Reads the index in `bytes`, which begin at a multiple of 8; `None` if they are not one.
    pub(super) fn parse(bytes: HeldBytes, start: usize, length: usize) -> Option<Self> {
        let section = bytes.get(start..start.checked_add(length)?)?;
        let json = usize::try_from(word(section, 0)?).ok()?;
        let about: About = serde_json::from_slice(section.get(8..8usize.checked_add(json)?)?).ok()?;
        let count = |n: u64, size: usize| usize::try_from(n).ok()?.checked_mul(size);
        let samples = start + padded(8 + json);
        let members = samples.checked_add(count(about.samples, SAMPLE)?)?;
        let keys = members.checked_add(count(about.members, MEMBER)?)?;
        let end = keys.checked_add(count(about.key_bytes, 1)?)?;
        let section = start..start + length;
        (end <= section.end).then_some(ShardIndex { about, bytes, section, samples, members, keys })
    }

    pub(super) fn about(&self) -> &About {
        &self.about
    }

    pub(super) fn len(&self) -> u64 {
        self.about.samples
    }

    /// The sample's key.
    pub(super) fn key(&self, sample: u64) -> Option<&[u8]> {
        let (start, end) = self.bounds(sample, 0)?;
        self.bytes.get(self.keys + start..self.keys + end)
    }

    /// The sample's members; none if the index is damaged.
    pub(super) fn members(&self, sample: u64) -> impl Iterator<Item = Member> + '_ {
        let (start, end) = self.bounds(sample, 4).unwrap_or((0, 0));
        let range = self.members + start * MEMBER..self.members + end * MEMBER;
        let entries = self.bytes.get(range).unwrap_or(&[]);
        entries.chunks_exact(MEMBER).map(|entry| {
            let (first, second) = (word(entry, 0).unwrap_or(0), word(entry, 8).unwrap_or(0));
            let known = first & 0x8000 != 0;
            let place = if known { Place::Known(second as i64) } else { Place::Stored(second) };
            Member { offset: first >> 16, suffix: (first & 0x7fff) as u16, place }
        })
    }

    /// Start and end of the sample's keys (`part` 0) or members (4).
    fn bounds(&self, sample: u64, part: usize) -> Option<(usize, usize)> {
        if sample >= self.about.samples {
            return None;
        }
        let at = |sample: u64| half(&self.bytes, self.samples + sample as usize * SAMPLE + part);
        let start = if sample == 0 { 0 } else { at(sample - 1)? };
        let end = at(sample)?;
        let most = if part == 0 { self.about.key_bytes } else { self.about.members };
        (start <= end && u64::from(end) <= most).then_some((start as usize, end as usize))
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?))
}

fn half(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

fn padded(length: usize) -> usize {
    length.next_multiple_of(8)
}

/// Why a member is refused.
#[derive(Debug)]
pub(super) enum Refused {
    /// The sample has a member of this name already.
    Twice(String),
    /// Anything else.
    Other(String),
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (Refused::Twice(reason) | Refused::Other(reason)) = self;
        f.write_str(reason)
    }
}

impl From<String> for Refused {
    fn from(reason: String) -> Self {
        Refused::Other(reason)
    }
}

impl From<Refused> for String {
    fn from(refused: Refused) -> Self {
        refused.to_string()
    }
}

/// Groups members into samples, as webdataset's `group_by_keys` does, and writes the index of a shard.
#[derive(Debug, Default)]
pub(super) struct Grouping {
    numbers: HashMap<String, u16>,
    suffixes: Vec<(String, u64)>,
    contents: Vec<(Content, bool)>,
    samples: Vec<u8>,
    members: Vec<u8>,
    keys: Vec<u8>,
    /// Start of the last sample's key, and the suffixes of that sample.
    last_key: usize,
    last_suffixes: Vec<u16>,
    /// Whether the next member begins a sample, whatever its key.
    apart: bool,
    /// Members by key and suffix, filled at the first hard link.
    places: Option<HashMap<(Vec<u8>, u16), usize>>,
    left_out: LeftOut,
    hasher: blake3::Hasher,
}

/// What a member was taken as.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum MemberUse {
    /// Not part of any sample.
    Skipped,
    Stored,
    /// A short integer: pass its bytes to [`Grouping::value`].
    Integer,
}

impl Grouping {
    /// Adds the next member. The error is a reason.
    pub(super) fn add(&mut self, name: &str, offset: u64, length: u64) -> Result<MemberUse, Refused> {
        if is_meta(name) {
            return Ok(MemberUse::Skipped);
        }
        let Some((key, suffix)) = split_name(name) else {
            self.skip_member(name);
            return Ok(MemberUse::Skipped);
        };
        if offset >= MAX_OFFSET {
            return Err(Refused::Other("a shard of more than 256 TiB".to_owned()));
        }
        let number = self.number(suffix)?;
        self.store(name, key, number, (offset << 16, length))?;
        let integer = self.contents[usize::from(number)] == (Content::Int, false) && length <= MAX_DIGITS;
        Ok(if integer { MemberUse::Integer } else { MemberUse::Stored })
    }

    /// Adds another name for an earlier member. If that member does not exist, the link is skipped and counted.
    pub(super) fn link(&mut self, name: &str, target: &str) -> Result<(), Refused> {
        if is_meta(name) {
            return Ok(());
        }
        let Some((key, suffix)) = split_name(name) else {
            self.skip_member(name);
            return Ok(());
        };
        let number = self.number(suffix)?;
        if let Some(place) = self.find(target, number) {
            return self.store(name, key, number, place);
        }
        if self.left_out.links == 0 {
            self.left_out.first_link = format!("{name} -> {target}");
        }
        self.left_out.links += 1;
        Ok(())
    }

    /// The entry of member `name`, for a field `number`.
    fn find(&mut self, name: &str, number: u16) -> Option<(u64, u64)> {
        let (key, suffix) = split_name(name)?;
        let wanted = *self.numbers.get(&suffix.to_lowercase())?;
        if self.places.is_none() {
            self.places = Some(again::places(&self.samples, &self.members, &self.keys));
        }
        let at = *self.places.as_ref()?.get(&(key.as_bytes().to_vec(), wanted))?;
        let (first, second) = (word(&self.members, at)?, word(&self.members, at + 8)?);
        // Of a known integer only the value was kept, so only the same field can use it.
        let known = first & 0x8000 != 0;
        let same = self.contents[usize::from(number)] == (Content::Int, false);
        (!known || same).then_some((first & !0x7fff, second))
    }

    fn store(&mut self, name: &str, key: &str, number: u16, place: (u64, u64)) -> Result<(), Refused> {
        let apart = std::mem::take(&mut self.apart);
        if apart || self.samples.is_empty() || self.keys[self.last_key..] != *key.as_bytes() {
            self.begin(key)?;
        }
        if self.last_suffixes.contains(&number) {
            return Err(Refused::Twice(format!("'{name}' occurs twice in one sample")));
        }
        self.last_suffixes.push(number);
        self.suffixes[usize::from(number)].1 += 1;
        let at = self.members.len();
        self.members.extend_from_slice(&(place.0 | u64::from(number)).to_le_bytes());
        self.members.extend_from_slice(&place.1.to_le_bytes());
        self.hasher.update(&self.members[at..]);
        if let Some(places) = &mut self.places {
            places.insert((key.as_bytes().to_vec(), number), at);
        }
        Ok(self.end_sample()?)
    }

    fn skip_member(&mut self, name: &str) {
        if self.left_out.nameless == 0 {
            name.clone_into(&mut self.left_out.first_nameless);
        }
        self.left_out.nameless += 1;
    }

    /// A new, appended tar begins: the sample ends here, even if the next one has the same key.
    pub(super) fn end_of_tar(&mut self) {
        self.apart = true;
        self.left_out.appended += 1;
    }

    /// Sets the value of the integer that was just added. Bytes that are not an integer are left to `read`, which
    /// reports it.
    pub(super) fn value(&mut self, bytes: &[u8]) {
        let Ok(value) = integer(bytes) else { return };
        let at = self.members.len() - MEMBER;
        self.members[at + 1] |= 0x80;
        self.members[at + 8..].copy_from_slice(&value.to_le_bytes());
    }

    fn number(&mut self, suffix: &str) -> Result<u16, String> {
        // Nearly all suffixes were seen before, in lower case; those need no allocation.
        if let Some(number) = self.numbers.get(suffix) {
            return Ok(*number);
        }
        let lower = suffix.to_lowercase();
        if let Some(number) = self.numbers.get(&lower) {
            return Ok(*number);
        }
        if self.numbers.len() >= MAX_FIELDS - 1 {
            return Err(format!("more than {MAX_FIELDS} different suffixes: this is not a WebDataset"));
        }
        let number = self.numbers.len() as u16;
        self.contents.push(Content::of(&lower));
        self.suffixes.push((lower.clone(), 0));
        self.numbers.insert(lower, number);
        Ok(number)
    }

    fn begin(&mut self, key: &str) -> Result<(), String> {
        self.last_key = self.keys.len();
        self.last_suffixes.clear();
        self.keys.extend_from_slice(key.as_bytes());
        self.hasher.update(&(key.len() as u64).to_le_bytes());
        self.hasher.update(key.as_bytes());
        let end = u32::try_from(self.keys.len()).map_err(|_| "more than 4 GiB of keys in one shard")?;
        self.samples.extend_from_slice(&end.to_le_bytes());
        self.samples.extend_from_slice(&[0; 4]);
        Ok(())
    }

    fn end_sample(&mut self) -> Result<(), String> {
        let count = u32::try_from(self.members.len() / MEMBER).map_err(|_| "more than 2^32 members")?;
        let at = self.samples.len() - 4;
        self.samples[at..].copy_from_slice(&count.to_le_bytes());
        Ok(())
    }

    pub(super) fn samples(&self) -> u64 {
        (self.samples.len() / SAMPLE) as u64
    }

    /// Joins members of a key that occurs again, unless another index counts them as separate samples.
    fn join_again(&mut self, samples: Option<u64>) {
        if samples == Some(self.samples()) {
            return;
        }
        let Some(joined) = again::join(&self.samples, &self.members, &self.keys) else { return };
        (self.left_out.joined, self.left_out.repeated) = (joined.runs, joined.repeated);
        if joined.runs > 0 {
            (self.samples, self.members, self.keys) = (joined.samples, joined.members, joined.keys);
            self.hasher.update(b"joined");
        }
    }

    /// The finished index; `about` adds what the members do not tell. `samples` is the number of samples in another
    /// index.
    pub(super) fn finish(mut self, about: About, samples: Option<u64>) -> ShardIndex {
        self.join_again(samples);
        for (suffix, _) in &self.suffixes {
            self.hasher.update(suffix.as_bytes());
            self.hasher.update(b"\0");
        }
        let about = About {
            samples: self.samples(),
            members: (self.members.len() / MEMBER) as u64,
            key_bytes: self.keys.len() as u64,
            suffixes: std::mem::take(&mut self.suffixes),
            hash: self.hasher.finalize().to_hex().to_string(),
            left_out: LeftOut {
                special: about.left_out.special,
                trailing: about.left_out.trailing,
                ..std::mem::take(&mut self.left_out)
            },
            ..about
        };
        let json = serde_json::to_vec(&about).expect("plain data are JSON");
        let mut bytes = (json.len() as u64).to_le_bytes().to_vec();
        bytes.extend_from_slice(&json);
        bytes.resize(padded(bytes.len()), 0);
        for part in [self.samples, self.members, self.keys] {
            bytes.extend_from_slice(&part);
        }
        bytes.resize(padded(bytes.len()), 0);
        let length = bytes.len();
        ShardIndex::parse(HeldBytes::Owned(bytes.into()), 0, length).expect("it was written just now")
    }
}

/// The indexes of all shards as one file: their number, their lengths, then the indexes.
pub(super) fn join(shards: &[&ShardIndex]) -> Vec<u8> {
    let sections: Vec<&[u8]> = shards.iter().map(|shard| &shard.bytes[shard.section.clone()]).collect();
    let mut bytes = (sections.len() as u64).to_le_bytes().to_vec();
    for section in &sections {
        bytes.extend_from_slice(&(section.len() as u64).to_le_bytes());
    }
    for section in sections {
        bytes.extend_from_slice(section);
    }
    bytes
}

/// The inverse of `join`; `None` if the bytes are not such a file.
pub(super) fn split(bytes: &HeldBytes) -> Option<Vec<ShardIndex>> {
    let count = usize::try_from(word(bytes, 0)?).ok()?;
    let mut start = count.checked_add(1)?.checked_mul(8).filter(|end| *end <= bytes.len())?;
    let mut shards = Vec::with_capacity(count);
    for number in 0..count {
        let length = usize::try_from(word(bytes, 8 + number * 8)?).ok()?;
        shards.push(ShardIndex::parse(bytes.clone(), start, length)?);
        start = start.checked_add(length)?;
    }
    Some(shards)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> ShardIndex {
        let mut grouping = Grouping::default();
        assert_eq!(grouping.add("a/k1.JPG", 512, 100).unwrap(), MemberUse::Stored);
        assert_eq!(grouping.add("a/k1.cls", 1536, 2).unwrap(), MemberUse::Integer);
        grouping.value(b"-7");
        assert_eq!(grouping.add("__meta__", 2560, 2).unwrap(), MemberUse::Skipped);
        assert_eq!(grouping.add("k2.cls", 3584, 2).unwrap(), MemberUse::Integer);
        grouping.value(b"no");
        assert!(grouping.add("k2.CLS", 4608, 2).unwrap_err().to_string().contains("twice"));
        grouping.finish(About::new(9, 3), None)
    }

    fn check(index: &ShardIndex) {
        assert_eq!((index.len(), index.about.size, index.about.version), (2, 9, 3));
        assert_eq!(index.about.suffixes, [("jpg".to_owned(), 1), ("cls".to_owned(), 2)]);
        assert_eq!((index.key(0), index.key(1), index.key(2)), (Some(&b"a/k1"[..]), Some(&b"k2"[..]), None));
        let members: Vec<_> = index.members(0).chain(index.members(1)).collect();
        let member = |offset, suffix, place| Member { offset, suffix, place };
        assert_eq!(
            members,
            [
                member(512, 0, Place::Stored(100)),
                member(1536, 1, Place::Known(-7)),
                member(3584, 1, Place::Stored(2))
            ]
        );
    }

    #[test]
    fn an_index_round_trips_through_a_file() {
        let index = example();
        check(&index);
        let file = HeldBytes::Owned(join(&[&index, &index]).into());
        let shards = split(&file).unwrap();
        assert_eq!(shards.len(), 2);
        shards.iter().for_each(check);
        assert_eq!(join(&shards.iter().collect::<Vec<_>>()), file[..]);
    }

    #[test]
    fn damaged_index_files_are_ignored_and_never_panic() {
        let file = join(&[&example()]);
        for length in 0..file.len() {
            assert!(split(&HeldBytes::Owned(file[..length].to_vec().into())).is_none(), "{length}");
        }
        for at in 0..file.len() {
            let mut bytes = file.clone();
            bytes[at] ^= 0xff;
            for index in split(&HeldBytes::Owned(bytes.into())).into_iter().flatten() {
                for sample in 0..index.len().min(10) {
                    let _ = (index.key(sample), index.members(sample).count());
                }
            }
        }
    }
}
