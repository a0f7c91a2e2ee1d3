//! [`WebDataset`]: maps sample numbers to values.

use crate::format::Index as _;
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use super::super::open_objects::OpenObjects;
use super::super::parallel;
use super::super::saved_index::SavedIndex;
use super::super::{Format, ReadingOptions, bounds, nifti, npy};
use super::index::{Member, Place, ShardIndex, join, split};
use super::names::{Content, integer};
use super::packing::{PackedShard, Unpacked};
use super::scan::scan_all;
use super::wids::{Layout, ListedShard};
use super::{ShardList, notes, tenbin};
use crate::error::{Error, Location, Result};
use crate::sample::{
    Extent, FieldSet, FieldSpec, Fingerprint, ImageMeta, Kind, MAX_FIELDS, SampleBuffer, Schema, Value,
};
use crate::source::{Seen, Source, to_usize};

/// The sample's key is field 0.
const KEY: usize = 0;
/// Kind and version of saved indexes.
const SAVED: &str = "webdataset-3";
/// Smaller sets are scanned faster than an index is found, checked and mapped.
const WORTH_SAVING: u64 = 256;

/// Open shards with the index of their members.
#[derive(Debug)]
pub(crate) struct WebDataset {
    uri: String,
    schema: Schema,
    fingerprint: Fingerprint,
    problems: Vec<Error>,
    /// The problems with members that are in no sample, or in another one than webdataset puts them in.
    lost: Vec<Error>,
    open_objects: OpenObjects,
    unpacked: Unpacked,
    shards: Vec<Shard>,
    /// First sample of each shard, and the number of samples.
    starts: Vec<u64>,
}

/// One shard: its index, and the data set's fields for its suffixes.
#[derive(Debug)]
struct Shard {
    index: ShardIndex,
    suffixes: Vec<Suffix>,
}

#[derive(Debug, Clone, Copy)]
struct Suffix {
    field: u16,
    content: Content,
    gzipped: bool,
}

/// A sample's place.
#[derive(Debug, Clone, Copy)]
struct At<'a> {
    sample: u64,
    number: u32,
    shard: &'a Shard,
    /// Its index in the shard.
    inside: u64,
}

impl<'a> At<'a> {
    /// The sample's members, with their suffixes.
    fn members(self) -> impl Iterator<Item = (Member, Suffix)> + 'a {
        let members = self.shard.index.members(self.inside);
        members.filter_map(move |m| Some((m, *self.shard.suffixes.get(usize::from(m.suffix))?)))
    }
}

impl WebDataset {
    /// Opens the listed shards; scans those whose index was not saved.
    pub(super) fn open(source: Arc<dyn Source>, list: ShardList, options: &ReadingOptions) -> Result<Self> {
        let ShardList { shards: listed, layout } = list;
        let mut problems = Vec::new();
        let indexes = indexes(&*source, &listed, options, &mut problems)?;
        for (listed, index) in listed.iter().zip(&indexes) {
            check_listed(&*source, listed, index)?;
        }
        if options.verify_hashes {
            parallel::collect(listed.len(), |number| check_hash(&*source, &listed[number]))?;
        }
        let uri = source.uri().to_owned();
        let mut fields = Fields::new(&uri, layout);
        let mut shards = Vec::with_capacity(indexes.len());
        let mut starts = vec![0];
        let (mut pieces, mut lost) = (Vec::new(), Vec::new());
        for (listed, index) in listed.iter().zip(indexes) {
            let about = index.about();
            note_unterminated(&mut problems, &uri, &listed.url, &index);
            lost.extend(notes::of(&Location::new(&uri).with_shard(&listed.url), &about.left_out));
            pieces.extend([about.size.to_le_bytes(), about.version.to_le_bytes()].concat());
            pieces.extend_from_slice(about.hash.as_bytes());
            starts.push(starts.last().expect("it begins with one") + index.len());
            let suffixes = about.suffixes.iter().map(|(s, seen)| fields.suffix(s, *seen));
            shards.push(Shard { suffixes: suffixes.collect::<Result<_>>()?, index });
        }
        let schema = fields.finish(*starts.last().expect("it begins with one"));
        let names = schema.fields.iter().map(|f| f.name.as_str()).collect::<Vec<_>>().join("\0");
        let fingerprint = Fingerprint::of([&b"webdataset"[..], names.as_bytes(), &pieces]);
        let unpacked = unpacked(&source, &listed, &shards);
        note_packed(&mut problems, &uri, &shards);
        problems.extend(lost.iter().cloned());
        let objects = listed.into_iter().zip(&shards).map(|(l, s)| (l.url, s.index.about()));
        let objects = objects.map(|(name, about)| (name, about.size, about.version)).collect();
        let open_objects = OpenObjects::with_versions(source, objects);
        let mut open =
            WebDataset { uri, schema, fingerprint, problems, lost, open_objects, unpacked, shards, starts };
        open.demote_non_integers();
        Ok(open)
    }

    /// A suffix such as `cls` means an integer. If no sample has an integer there, the field is bytes with that name.
    fn demote_non_integers(&mut self) {
        for field in 1..self.schema.fields.len() {
            let is_it = self.schema.fields[field].kind == Kind::Int && !self.holds_integers(field);
            if is_it && self.len() > 0 {
                self.schema.fields[field].kind = Kind::Bytes;
                let suffixes = self.shards.iter_mut().flat_map(|shard| &mut shard.suffixes);
                for suffix in suffixes.filter(|s| usize::from(s.field) == field) {
                    suffix.content = Content::Bytes;
                }
            }
        }
    }

    /// Whether some sample has an integer there. The first sample with the field nearly always decides it, and the
    /// index nearly always knows its value. Indexes of other systems do not; then it is read.
    fn holds_integers(&self, field: usize) -> bool {
        let mut having = (0..self.len()).filter(|sample| self.member(*sample, field).is_some());
        let Some(first) = having.next() else { return true };
        if self.int_value(first, field).is_some() {
            return true;
        }
        let only = FieldSet::only(self.schema.fields.len(), [field]);
        self.read(first, &only, &mut SampleBuffer::new()).is_ok()
            || having.any(|sample| self.int_value(sample, field).is_some())
    }

    fn at(&self, sample: u64) -> Result<At<'_>> {
        let after = self.starts.partition_point(|start| *start <= sample);
        let Some(shard) = after.checked_sub(1).and_then(|number| self.shards.get(number)) else {
            let place = Location::new(&self.uri).with_sample(sample);
            return Err(Error::data(place, format!("the shards hold {} samples", self.len())));
        };
        let number = after - 1;
        Ok(At { sample, number: number as u32, shard, inside: sample - self.starts[number] })
    }

    fn member(&self, sample: u64, field: usize) -> Option<(At<'_>, Member, Suffix)> {
        let at = self.at(sample).ok()?;
        let found = at.members().find(|(_, suffix)| usize::from(suffix.field) == field);
        found.map(|(member, suffix)| (at, member, suffix))
    }

    fn key(&self, at: At<'_>) -> Result<&[u8]> {
        let shard = &self.shards[at.number as usize];
        shard.index.key(at.inside).ok_or_else(|| {
            let place = Location::new(&self.uri).with_sample(at.sample);
            Error::data(place, "the saved index is damaged").with_hint("remove it from the cache folder")
        })
    }

    fn place(&self, at: At<'_>, member: Member, suffix: Suffix) -> Location {
        Location::new(&self.uri)
            .with_shard(self.open_objects.name(at.number as usize))
            .with_sample(at.sample)
            .with_field(&self.schema.fields[usize::from(suffix.field)].name)
            .with_offset(member.offset)
    }

    fn read_at(&self, shard: u32, offset: u64, into: &mut [u8]) -> Result<()> {
        if self.unpacked.has(shard) {
            return self.unpacked.read_at(shard, offset, into);
        }
        self.open_objects.with(shard as usize, |object| object.read_at(offset, into))?
    }

    fn read_member(&self, at: At<'_>, member: Member, suffix: Suffix, into: &mut SampleBuffer) -> Result<()> {
        let length = match member.place {
            Place::Known(value) => {
                into.set(usize::from(suffix.field), Value::Int(value));
                return Ok(());
            }
            Place::Stored(length) => length,
        };
        let length = to_usize(length, &self.uri, self.open_objects.name(at.number as usize))?;
        let bad = |reason: String| Error::data(self.place(at, member, suffix), reason);
        let (mut range, room) = into.reserve(length);
        self.read_at(at.number, member.offset, room)?;
        if suffix.gzipped {
            let plain = bounds::gunzip(into.bytes(&range)).map_err(bad)?;
            range = into.append(&plain);
        }
        let value = match suffix.content {
            Content::Int => Value::Int(integer(into.bytes(&range)).map_err(bad)?),
            Content::Float => Value::Float(float(into.bytes(&range)).map_err(bad)?),
            Content::Npy => npy::parse(range, into).map_err(bad)?,
            Content::Tenbin => tenbin::parse(range, into).map_err(bad)?,
            Content::Nifti => nifti::parse(range, into).map_err(bad)?,
            Content::Image => {
                Value::Image { index: range.end..range.end, bytes: range, meta: ImageMeta::UNKNOWN }
            }
            Content::Text | Content::Json | Content::Pickle | Content::Bytes => Value::Bytes(range),
        };
        into.set(usize::from(suffix.field), value);
        Ok(())
    }
}

/// A JSON number, or what Python's `json` writes for numbers that JSON lacks.
fn float(bytes: &[u8]) -> Result<f64, String> {
    match bytes.trim_ascii() {
        b"NaN" => Ok(f64::NAN),
        b"Infinity" => Ok(f64::INFINITY),
        b"-Infinity" => Ok(f64::NEG_INFINITY),
        text => std::str::from_utf8(text).ok().and_then(|t| t.parse().ok()).ok_or_else(|| {
            format!("'{}' is not a number", String::from_utf8_lossy(&bytes[..bytes.len().min(20)]))
        }),
    }
}

/// The index of every shard: a saved one if the shard has not changed, otherwise made now. All are saved again.
fn indexes(
    source: &dyn Source,
    listed: &[ListedShard],
    options: &ReadingOptions,
    problems: &mut Vec<Error>,
) -> Result<Vec<ShardIndex>> {
    let mut key = blake3::Hasher::new();
    for name in std::iter::once(source.uri()).chain(listed.iter().map(|l| l.url.as_str())) {
        key.update(name.as_bytes());
        key.update(b"\0");
    }
    // The number of samples in another index decides how members are grouped.
    for samples in listed.iter().map(|l| l.nsamples) {
        key.update(&samples.map_or([255; 8], u64::to_le_bytes));
    }
    let saved = SavedIndex::new(options, SAVED, &key.finalize());
    let loaded = saved.load().and_then(|bytes| split(&bytes)).filter(|found| found.len() == listed.len());
    let mut found: Vec<Option<ShardIndex>> = match loaded {
        None => vec![None; listed.len()],
        Some(loaded) => {
            let now = versions(source, listed)?;
            let same = |index: &ShardIndex, now: &(u64, u64)| {
                (index.about().size, index.about().version) == *now && now.1 != 0
            };
            loaded.into_iter().zip(&now).map(|(index, now)| same(&index, now).then_some(index)).collect()
        }
    };
    let unknown = listed.iter().zip(&found).filter(|(_, f)| f.is_none());
    let missing: Vec<(&str, Option<u64>)> = unknown.map(|(l, _)| (l.url.as_str(), l.nsamples)).collect();
    if missing.is_empty() {
        return Ok(found.into_iter().flatten().collect());
    }
    let mut scanned = scan_all(source, &missing)?.into_iter();
    for slot in found.iter_mut().filter(|slot| slot.is_none()) {
        let scanned = scanned.next().expect("one for each that was missing");
        problems.extend(scanned.problem);
        *slot = Some(scanned.index);
    }
    let found: Vec<ShardIndex> = found.into_iter().flatten().collect();
    let unchanging = found.iter().all(|index| SavedIndex::is_old_enough(index.about().version));
    if unchanging && found.iter().map(ShardIndex::len).sum::<u64>() >= WORTH_SAVING {
        saved.save(&join(&found.iter().collect::<Vec<_>>()));
    }
    Ok(found)
}

/// Length and version of each shard. A bucket lists a thousand objects in the time of one request; a disk opens a
/// file as fast as it lists it.
fn versions(source: &dyn Source, listed: &[ListedShard]) -> Result<Vec<(u64, u64)>> {
    if source.is_remote()
        && listed.len() > 4
        && let Ok(listing) = source.list("")
    {
        let entries: HashMap<&str, (u64, u64)> =
            listing.entries.iter().map(|e| (e.name.as_str(), (e.size, e.version))).collect();
        let found: Option<Vec<_>> = listed.iter().map(|l| entries.get(l.url.as_str()).copied()).collect();
        if let Some(found) = found {
            return Ok(found);
        }
    }
    parallel::collect(listed.len(), |number| {
        let object = source.open(&listed[number].url)?;
        Ok((object.size(), object.version()))
    })
}

/// Compares a shard with its entry in a wids index.
fn check_listed(source: &dyn Source, listed: &ListedShard, index: &ShardIndex) -> Result<()> {
    let place = || Location::new(source.uri()).with_shard(&listed.url);
    let wrong = |what: &str, announced: u64, found: u64| {
        let reason = format!("{found} {what}, but the index that lists the shard says {announced}");
        Err(Error::data(place(), reason).with_hint("make the index again, or open the tars without it"))
    };
    match (listed.filesize, listed.nsamples) {
        (Some(bytes), _) if bytes != index.about().size => wrong("bytes", bytes, index.about().size),
        (_, Some(samples)) if samples != index.len() => wrong("samples", samples, index.len()),
        _ => Ok(()),
    }
}

fn check_hash(source: &dyn Source, listed: &ListedShard) -> Result<()> {
    use md5::Digest;
    let Some(expected) = &listed.md5sum else { return Ok(()) };
    let object = source.open(&listed.url)?;
    let mut hasher = md5::Md5::new();
    let mut buffer = vec![0; 1 << 20];
    let mut offset = 0;
    while offset < object.size() {
        let length = (object.size() - offset).min(1 << 20) as usize;
        object.read_at(offset, &mut buffer[..length])?;
        hasher.update(&buffer[..length]);
        offset += length as u64;
    }
    let found = format!("{:032x}", u128::from_be_bytes(hasher.finalize().into()));
    if found.eq_ignore_ascii_case(expected) {
        return Ok(());
    }
    let reason = format!("its md5 is {found}, but the index that lists the shard says {expected}");
    Err(Error::data(Location::new(source.uri()).with_shard(&listed.url), reason))
}

fn note_unterminated(problems: &mut Vec<Error>, uri: &str, name: &str, index: &ShardIndex) {
    if index.about().unterminated {
        let place = Location::new(uri).with_shard(name).with_offset(index.about().size);
        problems.push(Error::data(place, "the tar has no end mark; if it was cut, samples are missing"));
    }
}

fn note_packed(problems: &mut Vec<Error>, uri: &str, shards: &[Shard]) {
    let packed = shards.iter().filter(|s| s.index.about().packing.is_some() && s.index.len() > 0).count();
    if packed > 0 {
        let reason = format!(
            "{packed} of {} shards are compressed: to reach a sample, all before it in its shard is unpacked",
            shards.len()
        );
        let hint = "read them in order (shuffle=False or \"block\"), or unpack or convert them once";
        problems.push(Error::data(Location::new(uri), reason).with_hint(hint));
    }
}

fn unpacked(source: &Arc<dyn Source>, listed: &[ListedShard], shards: &[Shard]) -> Unpacked {
    let packed = listed.iter().zip(shards).enumerate().filter_map(|(number, (listed, shard))| {
        let about = shard.index.about();
        let packed = PackedShard {
            name: listed.url.clone(),
            size: about.size,
            version: about.version,
            packing: about.packing?,
            unpacked: about.unpacked,
            restarts: about.restarts.clone(),
            sums: about.sums.clone(),
        };
        Some((number as u32, packed))
    });
    Unpacked::new(source.clone(), packed)
}

/// The fields of a data set, collected from the suffixes of its shards.
struct Fields<'a> {
    uri: &'a str,
    layout: Option<Layout>,
    specs: Vec<FieldSpec>,
    seen: Vec<u64>,
}

impl<'a> Fields<'a> {
    fn new(uri: &'a str, layout: Option<Layout>) -> Self {
        let key = FieldSpec::new("key", Kind::Text);
        let stored = layout.iter().flat_map(|l| &l.fields).map(|f| f.spec.clone());
        let specs: Vec<FieldSpec> = std::iter::once(key).chain(stored).collect();
        Fields { uri, layout, seen: vec![0; specs.len()], specs }
    }

    /// The field of a suffix that occurs `seen` times in one shard.
    fn suffix(&mut self, suffix: &str, seen: u64) -> Result<Suffix> {
        if let Some((at, content, gzipped)) = self.layout.as_ref().and_then(|l| l.find(suffix)) {
            self.seen[at + 1] += seen;
            return Ok(Suffix { field: at as u16 + 1, content, gzipped });
        }
        let (content, gzipped) = Content::of(suffix);
        // Members called `x.key` are data; the sample's own key already has that name.
        let name = if suffix == "key" { ".key" } else { suffix };
        let at = match self.specs.iter().position(|f| f.name == name) {
            Some(at) => at,
            None if self.specs.len() >= MAX_FIELDS => {
                let reason = format!("more than {MAX_FIELDS} different suffixes");
                return Err(Error::data(Location::new(self.uri), reason));
            }
            None => {
                let mut spec = FieldSpec::new(name, content.kind());
                spec.pickled = content == Content::Pickle;
                self.specs.push(spec);
                self.seen.push(0);
                self.specs.len() - 1
            }
        };
        self.seen[at] += seen;
        Ok(Suffix { field: at as u16, content, gzipped })
    }

    fn finish(mut self, samples: u64) -> Schema {
        for (field, seen) in self.specs.iter_mut().zip(&self.seen).skip(1) {
            field.optional |= *seen < samples;
        }
        Schema { fields: self.specs, classes: self.layout.and_then(|l| l.classes) }
    }
}

impl Format for WebDataset {
    fn name(&self) -> &'static str {
        "webdataset"
    }

    fn len(&self) -> u64 {
        *self.starts.last().expect("it begins with one")
    }

    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    fn problems(&self) -> &[Error] {
        &self.problems
    }

    fn warnings(&self) -> &[Error] {
        &self.lost
    }

    fn read(&self, sample: u64, fields: &FieldSet, into: &mut SampleBuffer) -> Result<()> {
        into.reset(self.schema.fields.len());
        let at = self.at(sample)?;
        if fields.has(KEY) {
            let range = into.append(self.key(at)?);
            into.set(KEY, Value::Bytes(range));
        }
        for (member, suffix) in at.members().filter(|(_, s)| fields.has(usize::from(s.field))) {
            self.read_member(at, member, suffix, into)?;
        }
        Ok(())
    }

    fn locate(&self, sample: u64) -> Location {
        let place = Location::new(&self.uri).with_sample(sample);
        let Ok(at) = self.at(sample) else { return place };
        let place = place.with_shard(self.open_objects.name(at.number as usize));
        match at.shard.index.members(at.inside).next() {
            Some(member) => place.with_offset(member.offset),
            None => place,
        }
    }
}

impl crate::format::Index for WebDataset {
    fn byte_length(&self, sample: u64, field: usize) -> Option<u64> {
        if field == KEY {
            let at = self.at(sample).ok()?;
            return at.shard.index.key(at.inside).map(|key| key.len() as u64);
        }
        let (_, member, suffix) = self.member(sample, field)?;
        let as_stored = matches!(suffix.content.kind(), Kind::Image | Kind::Text | Kind::Json | Kind::Bytes)
            && !suffix.gzipped;
        match member.place {
            Place::Stored(length) if as_stored => Some(length),
            _ => None,
        }
    }

    fn read_bytes(&self, sample: u64, field: usize, into: &mut [u8]) -> Result<()> {
        if field == KEY {
            into.copy_from_slice(self.key(self.at(sample)?)?);
            return Ok(());
        }
        let (at, member, _) = self
            .member(sample, field)
            .ok_or_else(|| Error::data(self.locate(sample), "the field is missing"))?;
        self.read_at(at.number, member.offset, into)
    }

    fn stored_at(&self, sample: u64, field: usize) -> Result<Option<Extent>> {
        let Some((at, member, suffix)) = self.member(sample, field) else { return Ok(None) };
        // Offsets in a packed shard are not offsets in the tar.
        let as_stored = !suffix.gzipped && !self.unpacked.has(at.number);
        Ok(match member.place {
            Place::Stored(length) if as_stored => {
                let range = member.offset..member.offset.saturating_add(length);
                Some(Extent { object: at.number, range })
            }
            _ => None,
        })
    }

    fn int_value(&self, sample: u64, field: usize) -> Option<i64> {
        match self.member(sample, field)?.1.place {
            Place::Known(value) => Some(value),
            Place::Stored(_) => None,
        }
    }
}

impl crate::format::Extents for WebDataset {
    fn is_remote(&self) -> bool {
        self.open_objects.source().is_remote()
    }

    fn seen(&self, number: u32) -> Option<Seen> {
        let about = self.shards.get(number as usize)?.index.about();
        Some(Seen { size: about.size, version: about.version })
    }

    fn object_count(&self) -> u32 {
        self.open_objects.len() as u32
    }

    fn object(&self, number: u32) -> Option<(&Arc<dyn Source>, Cow<'_, str>)> {
        Some((self.open_objects.source(), self.open_objects.name(number as usize).into()))
    }

    fn extents(&self, sample: u64, fields: &FieldSet, out: &mut Vec<Extent>) {
        let Ok(at) = self.at(sample) else { return };
        // Offsets in a packed shard are not offsets in the tar.
        if self.unpacked.has(at.number) {
            return;
        }
        for (member, suffix) in at.members() {
            if let Place::Stored(length) = member.place
                && fields.has(usize::from(suffix.field))
            {
                let range = member.offset..member.offset.saturating_add(length);
                out.push(Extent { object: at.number, range });
            }
        }
    }
}
