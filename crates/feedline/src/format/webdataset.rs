//! WebDataset: tar shards whose members `key.suffix` make one sample of the neighbours with the same key.
//!
//! At opening, the headers of all shards are scanned, in parallel; after that any sample is one or a few reads away.
//! Grouping is webdataset's own (`base_plus_ext`, `group_by_keys`), including what it leaves out. Damage that webdataset
//! passes over in silence (a bad header ends the shard early) is an error here: training on half a shard is worse.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::shelf::Shelf;
use super::tar::{TarReader, is_header};
use super::{Format, Probe, ReadingOptions, npy};
use crate::error::{Error, Location, Result};
use crate::sample::{
    Extent, FieldSet, FieldSpec, Fingerprint, ImageMeta, Kind, MAX_FIELDS, SampleBuffer, Schema, Value,
};
use crate::source::{Object, Source, Target, to_usize};

/// How to recognise and open WebDataset shards.
pub(super) const PROBE: Probe = Probe { name: "webdataset", recognises, open };

/// The sample's key is field 0.
const KEY: usize = 0;

fn recognises(target: &Target) -> Result<Option<String>> {
    match target {
        Target::Folder(source) => {
            let names = source.children("")?;
            let tars = names.iter().filter(|n| is_tar_name(n)).count();
            let others = names.iter().any(|n| n.ends_with('/') || super::folder::is_image_name(n));
            Ok((tars > 0 && !others).then(|| format!("{tars} .tar files")))
        }
        Target::Objects(source, names) => {
            let Some(first) = names.first() else { return Ok(None) };
            let object = source.open(first)?;
            let mut block = [0; 512];
            if object.size() < 512 {
                return Ok(None);
            }
            object.read_at(0, &mut block)?;
            // A tar without members is two blocks of zeros.
            let tar = is_header(&block) || (block == [0; 512] && is_tar_name(first));
            Ok(tar.then(|| "tar files".to_owned()))
        }
    }
}

fn is_tar_name(name: &str) -> bool {
    name.len() > 4 && name.as_bytes()[name.len() - 4..].eq_ignore_ascii_case(b".tar")
}

fn open(target: &Target, _: &ReadingOptions) -> Result<Arc<dyn Format>> {
    let (source, names) = match target {
        Target::Objects(source, names) => (source.clone(), names.clone()),
        Target::Folder(source) => {
            let mut names = source.children("")?;
            names.retain(|n| is_tar_name(n));
            names.sort();
            (source.clone(), names)
        }
    };
    if names.is_empty() {
        return Err(Error::data(Location::new(source.uri()), "no .tar file in this folder"));
    }
    Ok(Arc::new(WebDataset::open(source, names)?))
}

/// Open shards with the index of their members.
#[derive(Debug)]
pub(crate) struct WebDataset {
    uri: String,
    schema: Schema,
    fingerprint: Fingerprint,
    problems: Vec<Error>,
    shelf: Shelf,
    keys: String,
    samples: Vec<SampleEntry>,
    members: Vec<MemberEntry>,
}

/// One sample: where its key ends in `keys`, and its members end in `members`; both start where the last one's end.
#[derive(Debug, Clone, Copy)]
struct SampleEntry {
    key_end: u64,
    member_end: u64,
    shard: u32,
}

#[derive(Debug, Clone, Copy)]
struct MemberEntry {
    offset: u64,
    length: u64,
    field: u16,
}

impl WebDataset {
    /// Scans the named shards.
    pub(crate) fn open(source: Arc<dyn Source>, names: Vec<String>) -> Result<Self> {
        let shards = scan_all(&*source, &names)?;
        // An index cached on disk would be read here instead of `scan_all`, keyed by the shards' sizes and versions.
        let uri = source.uri().to_owned();
        let mut builder = Builder::new(uri.clone());
        let mut objects = Vec::with_capacity(names.len());
        for (number, (name, shard)) in names.into_iter().zip(shards).enumerate() {
            builder.add(number as u32, &name, &shard)?;
            objects.push((name, shard.size));
        }
        let (schema, fingerprint) = builder.finish();
        Ok(WebDataset {
            uri,
            schema,
            fingerprint,
            problems: builder.problems,
            shelf: Shelf::new(source, objects),
            keys: builder.keys,
            samples: builder.samples,
            members: builder.members,
        })
    }

    fn sample(&self, sample: u64) -> Result<(&str, &[MemberEntry], u32)> {
        let at = usize::try_from(sample).ok().filter(|at| *at < self.samples.len()).ok_or_else(|| {
            let place = Location::new(&self.uri).with_sample(sample);
            Error::data(place, format!("the shards hold {} samples", self.samples.len()))
        })?;
        let entry = self.samples[at];
        let (key_start, member_start) =
            if at == 0 { (0, 0) } else { (self.samples[at - 1].key_end, self.samples[at - 1].member_end) };
        let key = &self.keys[key_start as usize..entry.key_end as usize];
        Ok((key, &self.members[member_start as usize..entry.member_end as usize], entry.shard))
    }

    fn member(&self, sample: u64, field: usize) -> Option<(MemberEntry, u32)> {
        let (_, members, shard) = self.sample(sample).ok()?;
        members.iter().find(|m| usize::from(m.field) == field).map(|m| (*m, shard))
    }

    fn place(&self, sample: u64, shard: u32, member: &MemberEntry) -> Location {
        Location::new(&self.uri)
            .with_shard(self.shelf.name(shard as usize))
            .with_sample(sample)
            .with_field(&self.schema.fields[usize::from(member.field)].name)
            .with_offset(member.offset)
    }

    fn read_member(
        &self,
        sample: u64,
        shard: u32,
        member: &MemberEntry,
        into: &mut SampleBuffer,
    ) -> Result<()> {
        let field = usize::from(member.field);
        let length = to_usize(member.length, &self.uri, self.shelf.name(shard as usize))?;
        let (range, room) = into.reserve(length);
        self.shelf.with(shard as usize, |object| object.read_at(member.offset, room))??;
        let bad = |reason: String| Error::data(self.place(sample, shard, member), reason);
        let value = match self.schema.fields[field].kind {
            Kind::Int => Value::Int(integer(into.bytes(&range)).map_err(bad)?),
            Kind::Array => npy::parse(range, into).map_err(bad)?,
            Kind::Image => {
                Value::Image { index: range.end..range.end, bytes: range, meta: ImageMeta::UNKNOWN }
            }
            _ => Value::Bytes(range),
        };
        into.set(field, value);
        Ok(())
    }
}

/// A class number as Python's `int` reads it.
fn integer(bytes: &[u8]) -> Result<i64, String> {
    let text = std::str::from_utf8(bytes).ok().map(str::trim);
    text.and_then(|t| t.parse().ok()).ok_or_else(|| {
        format!("'{}' is not an integer", String::from_utf8_lossy(&bytes[..bytes.len().min(20)]))
    })
}

/// What a suffix means, by its last part, as webdataset's decoder has it. Pickles are never decoded: they can run code.
fn kind_of(suffix: &str) -> Kind {
    match suffix.rsplit('.').next().unwrap_or(suffix) {
        "jpg" | "jpeg" | "jpe" | "jfif" | "png" | "webp" | "ppm" | "pgm" | "pbm" | "pnm" | "bmp" | "gif"
        | "tif" | "tiff" | "avif" | "jp2" => Kind::Image,
        "cls" | "cls2" | "index" | "inx" | "id" => Kind::Int,
        "txt" | "text" | "transcript" => Kind::Text,
        "json" | "jsn" => Kind::Json,
        "npy" => Kind::Array,
        _ => Kind::Bytes,
    }
}

/// One shard's samples, before shards are joined: fields are numbers in the shard's own list of suffixes.
#[derive(Debug, Default)]
struct Shard {
    size: u64,
    version: u64,
    suffixes: Vec<String>,
    /// All keys in one string, and for each sample where its key ends and its members start.
    key_text: String,
    keys: Vec<(usize, usize)>,
    members: Vec<MemberEntry>,
    unterminated: bool,
}

impl Shard {
    fn last_key(&self) -> Option<&str> {
        let (end, _) = self.keys.last()?;
        let start = self.keys.len().checked_sub(2).map_or(0, |before| self.keys[before].0);
        Some(&self.key_text[start..*end])
    }
}

fn scan_all(source: &dyn Source, names: &[String]) -> Result<Vec<Shard>> {
    let results: Vec<Mutex<Option<Result<Shard>>>> = names.iter().map(|_| Mutex::new(None)).collect();
    let next = AtomicUsize::new(0);
    let work = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(name) = names.get(number) else { return };
            let shard = scan(source, name);
            *results[number].lock().unwrap_or_else(PoisonError::into_inner) = Some(shard);
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(names.len());
    std::thread::scope(|scope| {
        for number in 1..threads {
            // A thread that cannot be started is not needed: the others do its share.
            let builder = std::thread::Builder::new().name(format!("feedline-scan-{number}"));
            let _ = builder.spawn_scoped(scope, work);
        }
        work();
    });
    let taken = |slot: Mutex<Option<Result<Shard>>>| {
        slot.into_inner().unwrap_or_else(PoisonError::into_inner).expect("every shard was scanned")
    };
    results.into_iter().map(taken).collect()
}

fn scan(source: &dyn Source, name: &str) -> Result<Shard> {
    let object: Arc<dyn Object> = source.open(name)?;
    let place = |offset: u64| Location::new(source.uri()).with_shard(name).with_offset(offset);
    let mut tar = TarReader::new(&*object);
    let mut shard = Shard { size: object.size(), version: object.version(), ..Shard::default() };
    let mut numbers: HashMap<String, u16> = HashMap::new();
    while let Some(member) = tar.next_member().map_err(|f| Error::data(place(f.offset), f.reason))? {
        if is_meta(&member.name) {
            continue;
        }
        let Some((key, suffix)) = split_name(&member.name) else { continue };
        // Nearly all suffixes were seen before, in lower case: no allocation for those.
        let known = numbers.get(suffix).or_else(|| numbers.get(&suffix.to_lowercase())).copied();
        let field = match known {
            Some(field) => field,
            None if numbers.len() >= MAX_FIELDS - 1 => {
                let reason = format!("more than {MAX_FIELDS} different suffixes: this is no WebDataset");
                return Err(Error::data(place(member.data.start), reason));
            }
            None => {
                let field = shard.suffixes.len() as u16;
                numbers.insert(suffix.to_lowercase(), field);
                shard.suffixes.push(suffix.to_lowercase());
                field
            }
        };
        if shard.last_key() != Some(key) {
            shard.key_text.push_str(key);
            shard.keys.push((shard.key_text.len(), shard.members.len()));
        }
        let start = shard.keys.last().map_or(0, |(_, start)| *start);
        if shard.members[start..].iter().any(|m| m.field == field) {
            let reason = format!("'{}' comes twice in one sample", member.name);
            return Err(Error::data(place(member.data.start), reason)
                .with_hint("webdataset refuses this too; write the shard with distinct keys"));
        }
        let length = member.data.end - member.data.start;
        shard.members.push(MemberEntry { offset: member.data.start, length, field });
    }
    shard.unterminated = tar.unterminated;
    Ok(shard)
}

/// Names webdataset keeps for itself: `__x__` alone, or below a first folder `__x__`.
fn is_meta(name: &str) -> bool {
    match name.split_once('/') {
        None => name.len() >= 2 && name.starts_with("__") && name.ends_with("__"),
        Some((first, _)) => first.len() >= 4 && first.starts_with("__") && first.ends_with("__"),
    }
}

/// webdataset's `base_plus_ext`, the regular expression `^((?:.*/|)[^.]+)[.]([^/]*)$`, by hand.
fn split_name(name: &str) -> Option<(&str, &str)> {
    let base_start = name.rfind('/').map_or(0, |slash| slash + 1);
    let dot = base_start + name[base_start..].find('.')?;
    if dot == base_start {
        // `[^.]+` may then take the last folder and its slash, if that folder has no dot.
        let folder = name[..base_start].strip_suffix('/')?;
        let last = folder.rsplit('/').next().unwrap_or(folder);
        if last.contains('.') {
            return None;
        }
    }
    Some((&name[..dot], &name[dot + 1..]))
}

/// Joins shards into one index.
struct Builder {
    uri: String,
    fields: Vec<FieldSpec>,
    seen: Vec<u64>,
    problems: Vec<Error>,
    keys: String,
    samples: Vec<SampleEntry>,
    members: Vec<MemberEntry>,
    hasher: blake3::Hasher,
}

impl Builder {
    fn new(uri: String) -> Self {
        Builder {
            uri,
            fields: vec![FieldSpec::new("key", Kind::Text)],
            seen: vec![0],
            problems: Vec::new(),
            keys: String::new(),
            samples: Vec::new(),
            members: Vec::new(),
            hasher: blake3::Hasher::new(),
        }
    }

    fn add(&mut self, number: u32, name: &str, shard: &Shard) -> Result<()> {
        let fields = shard.suffixes.iter().map(|s| self.field(s)).collect::<Result<Vec<u16>>>()?;
        if shard.unterminated {
            let place = Location::new(&self.uri).with_shard(name).with_offset(shard.size);
            let reason = "the tar has no end mark; if it was cut, samples are missing";
            self.problems.push(Error::data(place, reason));
        }
        self.hasher.update(&shard.size.to_le_bytes());
        self.hasher.update(&shard.version.to_le_bytes());
        self.hasher.update(&(shard.keys.len() as u64).to_le_bytes());
        let ends = shard.keys.iter().skip(1).map(|(_, start)| *start).chain([shard.members.len()]);
        let mut key_start = 0;
        for ((key_end, start), end) in shard.keys.iter().zip(ends) {
            let key = &shard.key_text[key_start..*key_end];
            key_start = *key_end;
            self.keys.push_str(key);
            self.hasher.update(&(key.len() as u64).to_le_bytes());
            self.hasher.update(key.as_bytes());
            for member in &shard.members[*start..end] {
                let field = fields[usize::from(member.field)];
                self.seen[usize::from(field)] += 1;
                self.members.push(MemberEntry { field, ..*member });
                self.hasher.update(&field.to_le_bytes());
                self.hasher.update(&member.offset.to_le_bytes());
                self.hasher.update(&member.length.to_le_bytes());
            }
            self.samples.push(SampleEntry {
                key_end: self.keys.len() as u64,
                member_end: self.members.len() as u64,
                shard: number,
            });
        }
        Ok(())
    }

    fn field(&mut self, suffix: &str) -> Result<u16> {
        // Members called `x.key` are data; the sample's own key has that name already.
        let name = if suffix == "key" { ".key" } else { suffix };
        if let Some(at) = self.fields.iter().position(|f| f.name == name) {
            return Ok(at as u16);
        }
        if self.fields.len() >= MAX_FIELDS {
            let reason = format!("more than {MAX_FIELDS} different suffixes");
            return Err(Error::data(Location::new(&self.uri), reason));
        }
        self.fields.push(FieldSpec::new(name, kind_of(suffix)));
        self.seen.push(0);
        Ok(self.fields.len() as u16 - 1)
    }

    fn finish(&mut self) -> (Schema, Fingerprint) {
        let mut fields = std::mem::take(&mut self.fields);
        for (field, seen) in fields.iter_mut().zip(&self.seen).skip(1) {
            field.optional = *seen < self.samples.len() as u64;
        }
        let names = fields.iter().map(|f| f.name.as_str()).collect::<Vec<_>>().join("\0");
        let hash = self.hasher.finalize();
        let fingerprint = Fingerprint::of([&b"webdataset"[..], names.as_bytes(), &hash.as_bytes()[..]]);
        (Schema { fields, classes: None }, fingerprint)
    }
}

impl Format for WebDataset {
    fn name(&self) -> &'static str {
        "webdataset"
    }

    fn len(&self) -> u64 {
        self.samples.len() as u64
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

    fn read(&self, sample: u64, fields: &FieldSet, into: &mut SampleBuffer) -> Result<()> {
        into.reset(self.schema.fields.len());
        let (key, members, shard) = self.sample(sample)?;
        if fields.has(KEY) {
            let range = into.append(key.as_bytes());
            into.set(KEY, Value::Bytes(range));
        }
        for member in members.iter().filter(|m| fields.has(usize::from(m.field))) {
            self.read_member(sample, shard, member, into)?;
        }
        Ok(())
    }

    fn locate(&self, sample: u64) -> Location {
        let place = Location::new(&self.uri).with_sample(sample);
        let Ok((_, members, shard)) = self.sample(sample) else { return place };
        let place = place.with_shard(self.shelf.name(shard as usize));
        match members.first() {
            Some(member) => place.with_offset(member.offset),
            None => place,
        }
    }

    fn byte_length(&self, sample: u64, field: usize) -> Option<u64> {
        if field == KEY {
            return self.sample(sample).ok().map(|(key, _, _)| key.len() as u64);
        }
        let kind = self.schema.fields[field].kind;
        let (member, _) = self.member(sample, field)?;
        (!matches!(kind, Kind::Int | Kind::Array)).then_some(member.length)
    }

    fn read_bytes(&self, sample: u64, field: usize, into: &mut [u8]) -> Result<()> {
        if field == KEY {
            into.copy_from_slice(self.sample(sample)?.0.as_bytes());
            return Ok(());
        }
        let (member, shard) = self
            .member(sample, field)
            .ok_or_else(|| Error::data(self.locate(sample), "the field is missing"))?;
        self.shelf.with(shard as usize, |object| object.read_at(member.offset, into))?
    }

    fn object_count(&self) -> u32 {
        self.shelf.len() as u32
    }

    fn object(&self, number: u32) -> Option<(&Arc<dyn Source>, Cow<'_, str>)> {
        Some((self.shelf.source(), self.shelf.name(number as usize).into()))
    }

    fn extents(&self, sample: u64, fields: &FieldSet, out: &mut Vec<Extent>) {
        let Ok((_, members, shard)) = self.sample(sample) else { return };
        for member in members.iter().filter(|m| fields.has(usize::from(m.field))) {
            out.push(Extent { object: shard, range: member.offset..member.offset + member.length });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::format::conformance;
    use crate::source::{LocalSource, MemorySource};

    #[test]
    fn names_split_as_webdatasets_regular_expression_does() {
        for (name, expected) in [
            ("a.b/c.d.jpg", Some(("a.b/c", "d.jpg"))),
            (".hidden.jpg", None),
            ("a/.x.jpg", Some(("a/", "x.jpg"))),
            ("a.b/.x.jpg", None),
            ("a/b/.x", Some(("a/b/", "x"))),
            ("noext", None),
            ("dir.v1/file", None),
            ("a..jpg", Some(("a", ".jpg"))),
            ("a.", Some(("a", ""))),
            ("./a.jpg", Some(("./a", "jpg"))),
            ("/.x", Some(("/", "x"))),
        ] {
            assert_eq!(split_name(name), expected, "{name}");
        }
    }

    /// `testdata/webdataset/names.py` asked webdataset itself.
    #[test]
    fn names_split_as_webdataset_splits_them() {
        let text = include_str!("../../../../testdata/webdataset/names.json");
        let golden: Vec<(String, Option<String>, Option<String>)> = serde_json::from_str(text).unwrap();
        for (name, key, suffix) in &golden {
            assert_eq!(split_name(name), key.as_deref().zip(suffix.as_deref()), "{name}");
        }
    }

    #[test]
    fn meta_names_are_webdatasets() {
        for (name, meta) in
            [("__meta__", true), ("__a__/b.jpg", true), ("x/__a__", false), ("__a.jpg", false), ("__", true)]
        {
            assert_eq!(is_meta(name), meta, "{name}");
        }
    }

    /// A ustar header as Python's tarfile writes it.
    fn header(name: &str, size: usize) -> [u8; 512] {
        let mut block = [0; 512];
        block[..name.len()].copy_from_slice(name.as_bytes());
        block[124..135].copy_from_slice(format!("{size:011o}").as_bytes());
        block[156] = b'0';
        block[257..263].copy_from_slice(b"ustar\0");
        block[148..156].copy_from_slice(b"        ");
        let sum: u32 = block.iter().map(|b| u32::from(*b)).sum();
        block[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
        block
    }

    fn add(tar: &mut Vec<u8>, name: &str, bytes: &[u8]) {
        tar.extend_from_slice(&header(name, bytes.len()));
        tar.extend_from_slice(bytes);
        tar.resize(tar.len().next_multiple_of(512), 0);
    }

    struct Tar;

    impl conformance::Subject for Tar {
        fn write(&self, folder: &Path, images: &[(String, Vec<u8>)]) {
            let mut tar = Vec::new();
            for (name, bytes) in images {
                add(&mut tar, &format!("{name}.jpg"), bytes);
                add(&mut tar, &format!("{name}.cls"), b"3");
            }
            tar.resize(tar.len() + 1024, 0);
            fs::write(folder.join("a.tar"), tar).unwrap();
        }

        fn open(&self, folder: &Path) -> Result<Arc<dyn Format>> {
            open(&Target::Folder(Arc::new(LocalSource::new(folder))), &ReadingOptions::default())
        }

        fn protection(&self) -> conformance::Protection {
            conformance::Protection::Structure
        }
    }

    #[test]
    fn conforms() {
        conformance::check(&Tar);
    }

    fn open_bytes(tar: Vec<u8>) -> Result<WebDataset> {
        WebDataset::open(Arc::new(MemorySource::new([("a.tar", tar)])), vec!["a.tar".to_owned()])
    }

    #[test]
    fn a_missing_end_is_a_note_and_a_cut_member_an_error() {
        let mut tar = Vec::new();
        add(&mut tar, "a.jpg", b"x");
        let open = open_bytes(tar.clone()).unwrap();
        assert_eq!((open.len(), open.problems().len()), (1, 1));
        let message = open_bytes(tar[..512].to_vec()).unwrap_err().to_string();
        assert!(message.contains("a.tar") && message.contains("truncated"), "{message}");
        let mut bad = tar.clone();
        add(&mut bad, "b.jpg", b"y");
        bad[1024] ^= 1;
        let message = open_bytes(bad).unwrap_err().to_string();
        assert!(message.contains("byte 1024"), "{message}");
    }

    #[test]
    fn the_same_suffix_twice_is_refused() {
        let mut tar = Vec::new();
        add(&mut tar, "a.jpg", b"x");
        add(&mut tar, "a.JPG", b"y");
        assert!(open_bytes(tar).unwrap_err().to_string().contains("twice"));
    }

    #[test]
    fn base_256_sizes_are_read() {
        let mut tar = Vec::new();
        add(&mut tar, "a.jpg", b"xyz");
        tar[124..136].copy_from_slice(&[0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3]);
        tar[148..156].copy_from_slice(b"        ");
        let sum: u32 = tar[..512].iter().map(|b| u32::from(*b)).sum();
        tar[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
        assert_eq!(open_bytes(tar).unwrap().byte_length(0, 1), Some(3));
    }
}
