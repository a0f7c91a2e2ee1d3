//! The members of a tar file: ustar, PAX, GNU long names, base-256 numbers. Only headers are read.

use std::ops::Range;
use std::time::{Duration, Instant};

use crate::source::Object;

const BLOCK: u64 = 512;
/// Bytes read at once: `most` for many small members in a row, `least` after a jump; in between it grows fourfold
/// with every read. Members larger than `skip_over` are skipped without reading them.
const FAST_STORAGE: Reach = Reach { least: 1024, most: 256 * 1024, skip_over: 32 * 1024 };
/// The same for objects that answer slowly (a bucket takes tens of milliseconds per request, in which megabytes
/// arrive).
const SLOW_STORAGE: Reach = Reach { least: 256 * 1024, most: 8 << 20, skip_over: 2 << 20 };
/// A slower answer comes from a remote source. A disk that has to move its head is faster.
const SLOW_READ: Duration = Duration::from_millis(15);
/// Maximum length of a name or PAX record list; GNU tar and libarchive never write more.
const MAX_EXTENSION: u64 = 1 << 20;
/// Zeros after an end mark are checked in pieces of this size.
const ZEROS: usize = 64 * 1024;

struct Reach {
    least: u64,
    most: u64,
    skip_over: u64,
}

/// A regular file in a tar, or another name for one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) name: String,
    /// Empty for a hard link.
    pub(super) data: Range<u64>,
    /// Name of the earlier member that a hard link refers to.
    pub(super) link: Option<String>,
    /// Whether it is the first member after an end mark, in a tar that was appended to another.
    pub(super) appended: bool,
}

/// What is wrong with a tar, and at which offset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TarFault {
    pub(super) offset: u64,
    pub(super) reason: String,
    /// Whether the fault is two members of the same name in one sample.
    pub(super) twice: bool,
}

fn fault(offset: u64, reason: impl Into<String>) -> TarFault {
    TarFault { offset, reason: reason.into(), twice: false }
}

/// The source of a tar's bytes. Offsets of successive calls only increase.
pub(super) trait TarBytes {
    /// The bytes at `offset`: `length` of them, or fewer if the tar ends there.
    fn peek(&mut self, offset: u64, length: usize) -> Result<&[u8], String>;

    /// Whether there are bytes up to `end`. Bytes before `end` are not requested again.
    fn reaches(&mut self, end: u64) -> Result<bool, String>;
}

impl<B: TarBytes> TarBytes for &mut B {
    fn peek(&mut self, offset: u64, length: usize) -> Result<&[u8], String> {
        (**self).peek(offset, length)
    }

    fn reaches(&mut self, end: u64) -> Result<bool, String> {
        (**self).reaches(end)
    }
}

/// Walks over the members of a tar.
pub(super) struct TarReader<B> {
    bytes: B,
    position: u64,
    /// Offsets of the header and the end of the last member, which is not known to be complete yet.
    unchecked: Option<(u64, u64)>,
    global: Extension,
    /// Whether the file ends without the two blocks of zeros that close a tar.
    pub(super) unterminated: bool,
    /// Number of members that are not files: symbolic links, devices, pipes; folders are not counted.
    pub(super) special: u64,
    /// Offset of bytes after the end mark that are not another tar.
    pub(super) trailing: Option<u64>,
    appended: bool,
    /// Whether the last header is the first after an end mark: earlier global headers do not apply to it.
    in_new_tar: bool,
    done: bool,
}

/// What extended headers before a member say about it.
#[derive(Debug, Default, Clone)]
struct Extension {
    path: Option<String>,
    link: Option<String>,
    size: Option<u64>,
    sparse: bool,
}

/// Whether these are the first bytes of a tar: a header with the right checksum.
pub(super) fn is_header(block: &[u8]) -> bool {
    block.len() >= BLOCK as usize && checksum_matches(block)
}

impl<B: TarBytes> TarReader<B> {
    pub(super) fn new(bytes: B) -> Self {
        TarReader::starting_at(bytes, 0)
    }

    /// Starts at the header at `position`.
    pub(super) fn starting_at(bytes: B, position: u64) -> Self {
        TarReader {
            bytes,
            position,
            unchecked: None,
            global: Extension::default(),
            unterminated: false,
            special: 0,
            trailing: None,
            appended: false,
            in_new_tar: false,
            done: false,
        }
    }

    /// The next regular file, or `None` at the end. Whether a member is complete is checked when the next one is
    /// requested: a compressed tar can only be read forwards, and [`peek`](Self::peek) comes first.
    pub(super) fn next_member(&mut self) -> Result<Option<Member>, TarFault> {
        self.check_last()?;
        let mut extension = self.global.clone();
        while !self.done {
            let Some(header) = self.header()? else { break };
            let at = self.position;
            if std::mem::take(&mut self.in_new_tar) {
                extension = Extension::default();
            }
            let size = extension.size.filter(|_| !is_extension(header.kind)).unwrap_or(header.size);
            let data = extent(at, size, header.kind)?;
            self.position = next_block(&data).ok_or_else(|| fault(at, "a member's size is out of range"))?;
            match header.kind {
                b'L' => extension.path = Some(text_of(trim_nul(&self.content(&data)?))),
                b'x' => read_pax(&self.content(&data)?, data.start, &mut extension)?,
                b'g' => {
                    let content = self.content(&data)?;
                    read_pax(&content, data.start, &mut self.global)?;
                    read_pax(&content, data.start, &mut extension)?;
                }
                b'S' => return Err(fault(at, "a sparse member, which is not supported")),
                b'0' | b'\0' | b'7' => {
                    if extension.sparse {
                        return Err(fault(at, "a sparse member, which is not supported"));
                    }
                    self.unchecked = Some((at, data.end));
                    let name = extension.path.take().unwrap_or(header.name);
                    // Before ustar, a folder was a file whose name ends in a slash.
                    if !(header.kind == b'\0' && name.ends_with('/')) {
                        return Ok(Some(self.member(name, data, None)));
                    }
                    self.check_last()?;
                    extension = self.global.clone();
                }
                b'1' => {
                    let name = extension.path.take().unwrap_or(header.name);
                    let link = extension.link.take().unwrap_or(header.link);
                    return Ok(Some(self.member(name, data, Some(link))));
                }
                b'K' => extension.link = Some(text_of(trim_nul(&self.content(&data)?))),
                kind => {
                    self.special += u64::from(matches!(kind, b'2' | b'3' | b'4' | b'6'));
                    extension = self.global.clone();
                }
            }
        }
        Ok(None)
    }

    fn member(&mut self, name: String, data: Range<u64>, link: Option<String>) -> Member {
        Member { name, data, link, appended: std::mem::take(&mut self.appended) }
    }

    /// The first bytes of the member that [`next_member`](Self::next_member) just returned.
    pub(super) fn peek(&mut self, member: &Member, length: usize) -> Result<&[u8], TarFault> {
        self.bytes.peek(member.data.start, length).map_err(|reason| fault(member.data.start, reason))
    }

    /// Returns the source of the bytes.
    pub(super) fn into_bytes(self) -> B {
        self.bytes
    }

    fn check_last(&mut self) -> Result<(), TarFault> {
        let Some((at, end)) = self.unchecked.take() else { return Ok(()) };
        if self.bytes.reaches(end).map_err(|reason| fault(at, reason))? {
            return Ok(());
        }
        let size = end - at - BLOCK;
        Err(fault(at, format!("truncated: a member of {size} bytes starts here, but the file ends before")))
    }

    fn content(&mut self, data: &Range<u64>) -> Result<Vec<u8>, TarFault> {
        let length = data.end - data.start;
        if length > MAX_EXTENSION {
            return Err(fault(data.start, format!("an extended header of {length} bytes")));
        }
        let found = self.bytes.peek(data.start, length as usize).map_err(|r| fault(data.start, r))?;
        if found.len() as u64 != length {
            return Err(fault(data.start, "truncated: the file ends inside an extended header"));
        }
        Ok(found.to_vec())
    }

    /// The header at the current position; `None` at the end of the archive.
    fn header(&mut self) -> Result<Option<TarHeader>, TarFault> {
        let mut at = self.position;
        let mut block = self.bytes.peek(at, BLOCK as usize).map_err(|reason| fault(at, reason))?;
        if block.len() == BLOCK as usize && is_zero(block) {
            let Some(next) = self.after_end(at)? else {
                self.done = true;
                return Ok(None);
            };
            at = next;
            block = self.bytes.peek(at, BLOCK as usize).map_err(|reason| fault(at, reason))?;
        }
        if block.is_empty() {
            self.unterminated = true;
            self.done = true;
            return Ok(None);
        }
        if block.len() < BLOCK as usize {
            return Err(fault(at, format!("truncated: {} bytes are too few for a header", block.len())));
        }
        if !checksum_matches(block) {
            return Err(fault(at, "not a tar header: the checksum does not match"));
        }
        TarHeader::parse(block).map(Some).map_err(|reason| fault(at, reason))
    }

    /// The offset of another tar after the zeros that begin at `at` (`cat a.tar b.tar`), if there is one.
    fn after_end(&mut self, mut at: u64) -> Result<Option<u64>, TarFault> {
        loop {
            let piece = self.bytes.peek(at, ZEROS).map_err(|reason| fault(at, reason))?;
            if piece.is_empty() {
                return Ok(None);
            }
            if let Some(found) = piece.iter().position(|b| *b != 0) {
                at += found as u64 / BLOCK * BLOCK;
                break;
            }
            at += piece.len() as u64;
        }
        let block = self.bytes.peek(at, BLOCK as usize).map_err(|reason| fault(at, reason))?;
        if !is_header(block) {
            self.trailing = Some(at);
            return Ok(None);
        }
        (self.position, self.global) = (at, Extension::default());
        (self.appended, self.in_new_tar) = (true, true);
        Ok(Some(at))
    }
}

/// Range of the data of the member with a header at `at`. Links, devices and folders have none, whatever their size
/// field says, as in Python's tarfile.
fn extent(at: u64, size: u64, kind: u8) -> Result<Range<u64>, TarFault> {
    let start = at + BLOCK;
    let size = if matches!(kind, b'1'..=b'6') { 0 } else { size };
    // Half of the range of `u64` stays free, so that adding a header or padding later cannot overflow.
    let end = start.checked_add(size).filter(|end| *end <= u64::MAX / 2);
    Ok(start..end.ok_or_else(|| fault(at, "truncated: a member's size is out of range"))?)
}

/// An object's bytes through a window that is read ahead while members are small.
pub(super) struct Window<'a> {
    object: &'a dyn Object,
    bytes: Vec<u8>,
    start: u64,
    /// Size of the last read.
    ahead: u64,
    is_slow: bool,
}

impl<'a> Window<'a> {
    pub(super) fn new(object: &'a dyn Object) -> Self {
        Window { object, bytes: Vec::new(), start: 0, ahead: FAST_STORAGE.most, is_slow: false }
    }

    fn fill(&mut self, offset: u64, length: u64) -> Result<(), String> {
        let reach = if self.is_slow { SLOW_STORAGE } else { FAST_STORAGE };
        // After a jump past the window, members are large, and reading ahead would read all of them.
        let nearby = offset < self.start + self.bytes.len() as u64 + reach.skip_over;
        self.ahead = if nearby { (self.ahead * 4).clamp(reach.least, reach.most) } else { reach.least };
        let size = self.ahead.max(length).min(self.object.size() - offset);
        self.bytes.resize(size as usize, 0);
        self.start = offset;
        let begun = Instant::now();
        let read = self.object.read_at(offset, &mut self.bytes).map_err(|e| e.to_string());
        self.is_slow |= begun.elapsed() > SLOW_READ;
        read
    }
}

impl TarBytes for Window<'_> {
    fn peek(&mut self, offset: u64, length: usize) -> Result<&[u8], String> {
        let length = (length as u64).min(self.object.size().saturating_sub(offset));
        if length == 0 {
            return Ok(&[]);
        }
        let inside = offset >= self.start && offset + length <= self.start + self.bytes.len() as u64;
        if !inside {
            self.fill(offset, length)?;
        }
        let start = (offset - self.start) as usize;
        Ok(&self.bytes[start..start + length as usize])
    }

    fn reaches(&mut self, end: u64) -> Result<bool, String> {
        Ok(end <= self.object.size())
    }
}

fn is_extension(kind: u8) -> bool {
    matches!(kind, b'L' | b'K' | b'x' | b'g')
}

fn next_block(data: &Range<u64>) -> Option<u64> {
    data.end.checked_add(BLOCK - 1).map(|n| n / BLOCK * BLOCK)
}

fn is_zero(block: &[u8]) -> bool {
    block[0] == 0 && block.iter().all(|b| *b == 0)
}

struct TarHeader {
    name: String,
    link: String,
    size: u64,
    kind: u8,
}

impl TarHeader {
    fn parse(block: &[u8]) -> Result<Self, String> {
        let kind = block[156];
        let mut name = text_of(trim_nul(&block[..100]));
        let prefix = trim_nul(&block[345..500]);
        if &block[257..263] == b"ustar\0" && !prefix.is_empty() && !is_extension(kind) {
            name = format!("{}/{name}", text_of(prefix));
        }
        let size = number(&block[124..136]).ok_or("the member's size is not a number")?;
        Ok(TarHeader { name, link: text_of(trim_nul(&block[157..257])), size, kind })
    }
}

fn checksum_matches(block: &[u8]) -> bool {
    let Some(stored) = number(&block[148..156]).and_then(|n| i64::try_from(n).ok()) else { return false };
    // The checksum's own eight bytes count as spaces.
    let spaces = 8 * i64::from(b' ');
    let sum = |bytes: &[u8]| i64::from(bytes.iter().map(|b| u32::from(*b)).sum::<u32>());
    let block = &block[..BLOCK as usize];
    if stored == sum(block) - sum(&block[148..156]) + spaces {
        return true;
    }
    // Some old tars added signed bytes.
    let signed = |bytes: &[u8]| i64::from(bytes.iter().map(|b| i32::from(*b as i8)).sum::<i32>());
    stored == signed(block) - signed(&block[148..156]) + spaces
}

/// An octal number ended by a space or zero, or a base-256 number with the top bit set.
fn number(field: &[u8]) -> Option<u64> {
    if field[0] & 0x80 != 0 {
        // 0xff starts a negative number, which cannot be a size.
        if field[0] != 0x80 {
            return None;
        }
        return field[1..].iter().try_fold(0u64, |n, b| n.checked_mul(256)?.checked_add(u64::from(*b)));
    }
    let text = trim_nul(field);
    let text = std::str::from_utf8(text).ok()?.trim();
    if text.is_empty() { Some(0) } else { u64::from_str_radix(text, 8).ok() }
}

fn trim_nul(bytes: &[u8]) -> &[u8] {
    &bytes[..bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len())]
}

fn text_of(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// PAX records: `length key=value
/// `; the length includes its own digits.
fn read_pax(mut records: &[u8], offset: u64, into: &mut Extension) -> Result<(), TarFault> {
    while !records.is_empty() && records[0] != 0 {
        let bad = || fault(offset, "a damaged PAX header");
        let space = records.iter().position(|b| *b == b' ').ok_or_else(bad)?;
        let length = std::str::from_utf8(&records[..space]).ok().and_then(|t| t.parse::<usize>().ok());
        let length = length.filter(|n| *n > space + 1 && *n <= records.len()).ok_or_else(bad)?;
        let record = records[space + 1..length].strip_suffix(b"\n").ok_or_else(bad)?;
        let equals = record.iter().position(|b| *b == b'=').ok_or_else(bad)?;
        let (key, value) = (&record[..equals], &record[equals + 1..]);
        match key {
            b"path" => into.path = Some(text_of(value)),
            b"linkpath" => into.link = Some(text_of(value)),
            b"size" => {
                let size = std::str::from_utf8(value).ok().and_then(|t| t.trim().parse().ok());
                into.size = Some(size.ok_or_else(bad)?);
            }
            _ if key.starts_with(b"GNU.sparse.") => into.sparse = true,
            _ => {}
        }
        records = &records[length..];
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::source::{MemorySource, Source};

    /// A header with the right checksum, whatever else it contains.
    fn sealed(mut block: Vec<u8>) -> Vec<u8> {
        block.resize(BLOCK as usize, 0);
        block[148..156].copy_from_slice(b"        ");
        let sum: u32 = block.iter().map(|b| u32::from(*b)).sum();
        block[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
        block
    }

    fn walk(bytes: Vec<u8>) -> Result<Vec<Member>, TarFault> {
        let size = bytes.len() as u64;
        let object = MemorySource::new([("a", bytes)]).open("a").unwrap();
        let mut reader = TarReader::new(Window::new(&*object));
        let mut members = Vec::new();
        while let Some(member) = reader.next_member()? {
            members.push(member);
        }
        assert!(members.iter().all(|m| m.data.start <= m.data.end && m.data.end <= size));
        Ok(members)
    }

    proptest! {
        #[test]
        fn random_headers_never_panic(
            blocks in prop::collection::vec((prop::collection::vec(any::<u8>(), 512), prop::sample::select(b"0\0xgLK157S".to_vec()), any::<u64>(), any::<bool>()), 1..6),
        ) {
            let mut bytes = Vec::new();
            for (mut block, kind, size, plain) in blocks {
                block[156] = kind;
                if plain {
                    block[124..136].copy_from_slice(format!("{:011o}\0", size % 2000).as_bytes());
                }
                bytes.extend(sealed(block));
            }
            let _ = walk(bytes);
        }

        #[test]
        fn pax_records_never_panic(records in prop::collection::vec(any::<u8>(), 0..64), digits in 0usize..100, key in "(path|size|x)") {
            let _ = read_pax(&records, 0, &mut Extension::default());
            let mut half_right = format!("{digits} {key}=").into_bytes();
            half_right.extend(records);
            let _ = read_pax(&half_right, 0, &mut Extension::default());
        }
    }

    #[test]
    fn pax_names_and_sizes_override_the_header() {
        let mut extension = Extension::default();
        read_pax("15 path=a/\u{e9}.x\n10 size=7\n".as_bytes(), 0, &mut extension).unwrap();
        assert_eq!((extension.path.as_deref(), extension.size), (Some("a/\u{e9}.x"), Some(7)));
        assert!(read_pax(b"99 path=a\n", 0, &mut extension).is_err());
    }
}
