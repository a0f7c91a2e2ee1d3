//! A zip file as a source: its members are objects by name, wherever the file itself is stored. The bytes of a whole
//! member are compared with its checksum.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use super::archive::{LOCAL, Member, Method, members, u16_at};
use crate::error::{Error, Location, Result};
use crate::format::bounds;
use crate::source::{
    AheadRead, Entry, HeldBytes, Listing, Object, Seen, Source, Ticket, Traffic, changed, past_end, room_for,
    to_usize,
};

thread_local! {
    /// Scratch for compressed bytes, kept so that reading allocates nothing.
    static PACKED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// An open zip file.
#[derive(Debug)]
pub(in super::super) struct Members {
    shared: Arc<Shared>,
    by_name: HashMap<String, usize>,
}

#[derive(Debug)]
struct Shared {
    source: Arc<dyn Source>,
    /// The zip file's name in it.
    name: String,
    uri: String,
    object: Arc<dyn Object>,
    members: Vec<Member>,
    /// Length of the common folder at the start of each name.
    top: usize,
}

impl Members {
    /// Opens the zip file `name` and reads its list of members; `wanted` selects members.
    pub(in super::super) fn open(
        source: &Arc<dyn Source>,
        name: &str,
        wanted: impl Fn(&str) -> bool,
    ) -> Result<Self> {
        let object = source.open(name)?;
        let place = Location::new(source.uri()).with_shard(name);
        let mut members = members(&*object, &place)?;
        members.retain(|member| wanted(&member.name));
        let (source, name) = (source.clone(), name.to_owned());
        let uri = format!("{}/{name}", source.uri().trim_end_matches('/'));
        let shared = Shared { source, name, uri, object, members, top: 0 };
        Ok(Members::new(shared))
    }

    fn new(shared: Shared) -> Self {
        let number = |(at, member): (usize, &Member)| (member.name[shared.top..].to_owned(), at);
        let by_name = shared.members.iter().enumerate().map(number).collect();
        Members { shared: Arc::new(shared), by_name }
    }

    /// Removes the first `top` bytes of every name.
    pub(super) fn below(self, top: usize) -> Self {
        let uri = match self.shared.members.first() {
            Some(first) if top > 0 => {
                format!("{}/{}", self.shared.uri, first.name[..top].trim_end_matches('/'))
            }
            _ => self.shared.uri.clone(),
        };
        let Shared { source, name, object, members, .. } = &*self.shared;
        let (source, name, object) = (source.clone(), name.clone(), object.clone());
        Members::new(Shared { source, name, uri, object, members: members.clone(), top })
    }

    /// All members.
    pub(in super::super) fn all(&self) -> &[Member] {
        &self.shared.members
    }

    /// Range of an uncompressed member's bytes in the file.
    pub(in super::super) fn place_of(&self, number: usize) -> Result<Range<u64>> {
        let start = self.shared.start(number)?;
        Ok(start..start + self.shared.members[number].packed)
    }

    /// Fills `into`, which has the member's size, with member `number`.
    pub(in super::super) fn read(&self, number: usize, into: &mut [u8]) -> Result<()> {
        self.shared.read(number, into)
    }

    /// The zip file itself: its source, its name there, and the open object.
    pub(in super::super) fn file(&self) -> (&Arc<dyn Source>, &str, &Arc<dyn Object>) {
        (&self.shared.source, &self.shared.name, &self.shared.object)
    }

    fn find(&self, name: &str) -> Result<usize> {
        self.by_name.get(name).copied().ok_or_else(|| {
            let missing = std::io::Error::from(std::io::ErrorKind::NotFound);
            Error::storage("opening", Location::new(&self.shared.uri).with_shard(name), missing)
        })
    }
}

impl Shared {
    fn place(&self, number: usize) -> Location {
        Location::new(&self.uri).with_shard(&self.members[number].name[self.top..])
    }

    fn wrong(&self, number: usize, reason: impl Into<String>) -> Error {
        Error::data(self.place(number).with_offset(self.members[number].header), reason)
    }

    /// Offset of the member's bytes: its own header may have other extra fields than the list.
    fn start(&self, number: usize) -> Result<u64> {
        let member = &self.members[number];
        let mut header = [0; LOCAL];
        self.object.read_at(member.header, &mut header)?;
        if !header.starts_with(b"PK\x03\x04") {
            return Err(self.wrong(number, "the member is not where the list says"));
        }
        let skipped = LOCAL + usize::from(u16_at(&header, 26)) + usize::from(u16_at(&header, 28));
        let start = member.header + skipped as u64;
        if start.checked_add(member.packed).is_none_or(|end| end > member.end) {
            return Err(self.wrong(number, "the member reaches into the next one"));
        }
        Ok(start)
    }

    fn read(&self, number: usize, into: &mut [u8]) -> Result<()> {
        let member = &self.members[number];
        if let Some(reason) = member.refusal() {
            return Err(self.wrong(number, reason));
        }
        let start = self.start(number)?;
        if member.method == Method::Stored {
            self.object.read_at(start, into)?;
        } else {
            let length = to_usize(member.packed, &self.uri, &member.name)?;
            PACKED.with_borrow_mut(|packed| {
                if packed.len() < length {
                    packed.resize(length, 0);
                }
                self.object.read_at(start, &mut packed[..length])?;
                inflate(&packed[..length], into).map_err(|reason| self.wrong(number, reason))
            })?;
        }
        if crc32fast::hash(into) == member.crc {
            return Ok(());
        }
        Err(self.wrong(number, "the bytes do not match their checksum: the file is damaged"))
    }
}

/// Inflates to exactly the length of `into`.
fn inflate(packed: &[u8], into: &mut [u8]) -> Result<(), String> {
    let mut state = flate2::Decompress::new(false);
    let done = state
        .decompress(packed, into, flate2::FlushDecompress::Finish)
        .map_err(|e| format!("cannot be inflated: {e}"))?;
    if done == flate2::Status::StreamEnd && state.total_out() == into.len() as u64 {
        return Ok(());
    }
    Err(format!("{} bytes came out, {} expected", state.total_out(), into.len()))
}

/// A number that distinguishes a member from another one of the same name.
fn version(member: &Member) -> u64 {
    u64::from(member.crc) << 1 | 1
}

impl Source for Members {
    fn uri(&self) -> &str {
        &self.shared.uri
    }

    fn list(&self, prefix: &str) -> Result<Listing> {
        let folder = prefix.trim_end_matches('/');
        let inside =
            |name: &str| folder.is_empty() || name.strip_prefix(folder).is_some_and(|r| r.starts_with('/'));
        let named = self.shared.members.iter().map(|member| (&member.name[self.shared.top..], member));
        let entry = |(name, member): (&str, &Member)| Entry {
            name: name.to_owned(),
            size: member.size,
            version: version(member),
        };
        let entries = named.filter(|(name, _)| inside(name)).map(entry).collect();
        Ok(Listing { entries, problems: Vec::new() })
    }

    fn exists(&self, name: &str) -> Result<bool> {
        Ok(self.by_name.contains_key(name))
    }

    fn is_remote(&self) -> bool {
        self.shared.source.is_remote()
    }

    fn warnings(&self) -> Vec<String> {
        self.shared.source.warnings()
    }

    fn traffic(&self) -> Traffic {
        self.shared.source.traffic()
    }

    fn largest_request(&self) -> u64 {
        self.shared.source.largest_request()
    }

    fn is_near(&self) -> bool {
        self.shared.source.is_near()
    }

    /// Fetches the whole member with its header, whatever the range: compressed bytes cannot be read from the middle.
    fn prefetch(&self, name: &str, _range: Range<u64>, _seen: Option<Seen>) -> Option<Ticket> {
        let member = &self.shared.members[*self.by_name.get(name)?];
        let object = &self.shared.object;
        let seen = Seen { size: object.size(), version: object.version() };
        self.shared.source.prefetch(&self.shared.name, member.header..member.end, Some(seen))
    }

    /// The same bytes.
    fn read_ahead(&self, name: &str, _range: Range<u64>, _seen: Option<Seen>) -> Option<AheadRead> {
        let member = &self.shared.members[*self.by_name.get(name)?];
        let object = &self.shared.object;
        let seen = Seen { size: object.size(), version: object.version() };
        self.shared.source.read_ahead(&self.shared.name, member.header..member.end, Some(seen))
    }

    fn opening_finished(&self) {
        self.shared.source.opening_finished();
    }

    fn open(&self, name: &str) -> Result<Arc<dyn Object>> {
        Ok(Arc::new(MemberObject { shared: self.shared.clone(), number: self.find(name)? }))
    }

    fn read_unchanged(&self, name: &str, expected: u64, into: &mut [u8]) -> Result<()> {
        let number = self.find(name)?;
        let member = &self.shared.members[number];
        if member.size != into.len() as u64 || version(member) != expected {
            return Err(changed(self.shared.place(number), into.len() as u64, member.size));
        }
        self.shared.read(number, into)
    }
}

#[derive(Debug)]
struct MemberObject {
    shared: Arc<Shared>,
    number: usize,
}

impl Object for MemberObject {
    fn size(&self) -> u64 {
        self.shared.members[self.number].size
    }

    fn version(&self) -> u64 {
        version(&self.shared.members[self.number])
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        let range = offset..offset.saturating_add(into.len() as u64);
        into.copy_from_slice(&self.hold(range)?);
        Ok(())
    }

    fn hold(&self, range: Range<u64>) -> Result<HeldBytes> {
        if range.start > range.end || range.end > self.size() {
            return Err(past_end(self.shared.place(self.number), &range, self.size()));
        }
        let member = &self.shared.members[self.number];
        bounds::check_announced(member.packed, member.size)
            .map_err(|reason| self.shared.wrong(self.number, reason))?;
        let mut whole = room_for(member.size, &self.shared.uri, &member.name)?;
        self.shared.read(self.number, &mut whole)?;
        whole.truncate(range.end as usize);
        Ok(HeldBytes::Owned(whole.split_off(range.start as usize).into()))
    }
}
