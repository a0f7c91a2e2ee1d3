//! The list of members at the end of a zip file, including zip64. Every number is checked against the file before it
//! is used. Of several members with the same name, the last one counts, as in other readers.

use std::collections::HashMap;

use crate::error::{Error, Location, Result};
use crate::source::Object;

/// The end record without its comment, and the longest comment.
const END: usize = 22;
const LONGEST_COMMENT: usize = 0xffff;
const LOCATOR: usize = 20;
const END_64: usize = 56;
const ENTRY: usize = 46;
/// Before a member's bytes: this many bytes, its name and its extra fields.
pub(super) const LOCAL: usize = 30;
/// Maximum number of output bytes per input byte of deflate.
const MOST_PER_BYTE: u64 = 1032;

/// How a member's bytes are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Method {
    Stored,
    Deflated,
    /// The number of a method that is not supported.
    Other(u16),
}

/// One member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct Member {
    pub(in super::super) name: String,
    pub(in super::super) method: Method,
    pub(in super::super) encrypted: bool,
    pub(in super::super) crc: u32,
    /// Number of bytes in the file.
    pub(in super::super) packed: u64,
    /// Uncompressed number of bytes.
    pub(in super::super) size: u64,
    /// Offset of its header.
    pub(in super::super) header: u64,
    /// Upper bound of the end of its bytes.
    pub(in super::super) end: u64,
}

impl Member {
    /// Why its bytes cannot be read, if so.
    pub(in super::super) fn refusal(&self) -> Option<String> {
        if self.encrypted {
            return Some(format!("'{}' is encrypted, which is not supported", self.name));
        }
        match self.method {
            Method::Other(number) => Some(format!(
                "'{}' is compressed by method {number}; stored and deflated members are read",
                self.name
            )),
            _ => None,
        }
    }
}

/// The members of the zip file `object`, in the order of its list, without folders.
pub(in super::super) fn members(object: &dyn Object, place: &Location) -> Result<Vec<Member>> {
    let wrong = |reason: &str| Error::data(place.clone(), reason.to_owned());
    let directory = find_directory(object, place)?;
    let length = usize::try_from(directory.length).map_err(|_| wrong("the list of members is too long"))?;
    let bytes = object.hold(directory.start..directory.start + length as u64)?;
    let mut members = Vec::new();
    let mut rest = &bytes[..];
    while !rest.is_empty() {
        let (member, used) = entry(rest, &directory)
            .map_err(|reason| wrong(&format!("member {} of the list: {reason}", members.len())))?;
        rest = &rest[used..];
        members.push(member);
    }
    if members.len() as u64 != directory.count {
        return Err(wrong(&format!("{} members are listed, {} expected", members.len(), directory.count)));
    }
    set_ends(&mut members, directory.start);
    let mut latest = HashMap::new();
    for (number, member) in members.iter().enumerate() {
        latest.insert(member.name.clone(), number);
    }
    let mut number = 0..;
    members.retain(|member| {
        let latest = latest[&member.name] == number.next().expect("endless");
        latest && !member.name.ends_with('/')
    });
    Ok(members)
}

/// A member ends at the latest where the next one, or the list, begins.
fn set_ends(members: &mut [Member], list: u64) {
    let mut starts: Vec<u64> = members.iter().map(|member| member.header).collect();
    starts.sort_unstable();
    for member in members {
        let next = starts.partition_point(|start| *start <= member.header);
        member.end = starts.get(next).copied().unwrap_or(list);
    }
}

/// Position of the list of members.
#[derive(Debug)]
struct Directory {
    start: u64,
    length: u64,
    count: u64,
    /// Added to offsets: number of bytes before the zip itself, as in self-extracting programs.
    shift: u64,
}

fn find_directory(object: &dyn Object, place: &Location) -> Result<Directory> {
    let size = object.size();
    let tail = size.min((END + LONGEST_COMMENT + LOCATOR) as u64);
    let bytes = object.hold(size - tail..size)?;
    let end = (0..=bytes.len().saturating_sub(END)).rev().find(|at| is_end(&bytes, *at));
    let end = end.ok_or_else(|| {
        Error::data(place.clone(), "not a zip file: its end is missing")
            .with_hint("a download that was cut off? compare the file's length with the original")
    })?;
    let at = size - tail + end as u64;
    if u16_at(&bytes, end + 4) != 0 && u16_at(&bytes, end + 4) != 0xffff {
        return Err(Error::data(place.clone(), "a part of a zip in several files, which is not supported"));
    }
    let locator = end.checked_sub(LOCATOR).filter(|l| bytes[*l..].starts_with(b"PK\x06\x07"));
    let (length, start, count, before) = match locator {
        Some(locator) => read_end_64(object, u64_at(&bytes, locator + 8), at, place)?,
        None => (
            u64::from(u32_at(&bytes, end + 12)),
            u64::from(u32_at(&bytes, end + 16)),
            u64::from(u16_at(&bytes, end + 10)),
            at,
        ),
    };
    let shift = before.checked_sub(length).and_then(|real| real.checked_sub(start));
    let shift = shift.ok_or_else(|| Error::data(place.clone(), "the list of members is outside the file"))?;
    let start = start + shift;
    Ok(Directory { start, length, count, shift })
}

/// Whether this is an end record whose comment ends with the file.
fn is_end(bytes: &[u8], at: usize) -> bool {
    bytes.get(at..at + END).is_some_and(|record| {
        record.starts_with(b"PK\x05\x06") && at + END + usize::from(u16_at(record, 20)) == bytes.len()
    })
}

/// The 64-bit end record: length, start and number of entries of the list, and the record's offset.
fn read_end_64(
    object: &dyn Object,
    in_locator: u64,
    end: u64,
    place: &Location,
) -> Result<(u64, u64, u64, u64)> {
    // Directly before its locator, or at the offset in the locator if it has extra data.
    let usual = end.checked_sub((LOCATOR + END_64) as u64);
    for at in usual.into_iter().chain([in_locator]) {
        if at.checked_add(END_64 as u64).is_none_or(|stop| stop > object.size()) {
            continue;
        }
        let record = object.hold(at..at + END_64 as u64)?;
        if record.starts_with(b"PK\x06\x06") {
            return Ok((u64_at(&record, 40), u64_at(&record, 48), u64_at(&record, 32), at));
        }
    }
    Err(Error::data(place.clone(), "the 64-bit end record is missing"))
}

/// One entry of the list, and its length.
fn entry(bytes: &[u8], directory: &Directory) -> Result<(Member, usize), String> {
    let fixed = bytes.get(..ENTRY).filter(|e| e.starts_with(b"PK\x01\x02")).ok_or("the entry is damaged")?;
    let length = |at| usize::from(u16_at(fixed, at));
    let (name, extra, comment) = (length(28), length(30), length(32));
    let used = ENTRY + name + extra + comment;
    if bytes.len() < used {
        return Err("the entry is truncated".to_owned());
    }
    let flags = u16_at(fixed, 8);
    let name = text(&bytes[ENTRY..ENTRY + name]);
    let mut numbers = [20, 24, 42].map(|at| u64::from(u32_at(fixed, at)));
    let [packed, size, header] = &mut numbers;
    widen(&bytes[used - comment - extra..used - comment], [size, packed, header])?;
    let [packed, size, header] = numbers;
    let inside = |at: &u64| at.checked_add(LOCAL as u64).is_some_and(|end| end <= directory.start);
    let header = header.checked_add(directory.shift).filter(inside);
    let header = header.ok_or_else(|| format!("'{name}' begins outside the file"))?;
    let method = match u16_at(fixed, 10) {
        0 => Method::Stored,
        8 => Method::Deflated,
        other => Method::Other(other),
    };
    let most = match method {
        Method::Stored => packed,
        _ => packed.saturating_mul(MOST_PER_BYTE),
    };
    let encrypted = flags & 1 == 1;
    let fits = packed <= directory.start - header && (size <= most || encrypted);
    if !fits || (method == Method::Stored && size != packed && !encrypted) {
        return Err(format!("'{name}' cannot have {size} bytes in {packed}"));
    }
    let crc = u32_at(fixed, 16);
    Ok((Member { name, method, encrypted, crc, packed, size, header, end: 0 }, used))
}

/// Numbers that do not fit in 32 bits are in an extra field, in this order.
fn widen(mut extra: &[u8], numbers: [&mut u64; 3]) -> Result<(), String> {
    let mut wide: &[u8] = &[];
    while extra.len() >= 4 {
        let length = usize::from(u16_at(extra, 2));
        let content = extra.get(4..4 + length).ok_or("an extra field is truncated")?;
        if u16_at(extra, 0) == 1 {
            wide = content;
        }
        extra = &extra[4 + length..];
    }
    for number in numbers {
        if *number == u64::from(u32::MAX) && !wide.is_empty() {
            let (first, rest) = wide.split_first_chunk().ok_or("the 64-bit numbers are truncated")?;
            *number = u64::from_le_bytes(*first);
            wide = rest;
        }
    }
    Ok(())
}

/// Names are UTF-8; old programs used code page 437.
fn text(bytes: &[u8]) -> String {
    const UPPER: &str = "ÇüéâäàåçêëèïîìÄÅÉæÆôöòûùÿÖÜ¢£¥₧ƒáíóúñÑªº¿⌐¬½¼¡«»░▒▓│┤╡╢╖╕╣║╗╝╜╛┐└┴┬├─┼╞╟╚╔╩╦╠═╬╧╨╤╥╙╘╒╓╫╪┘┌█▄▌▐▀αßΓπΣσµτΦΘΩδ∞φε∩≡±≥≤⌠⌡÷≈°∙·√ⁿ²■\u{a0}";
    let letter = |byte: &u8| match byte.checked_sub(128) {
        None => char::from(*byte),
        Some(upper) => UPPER.chars().nth(usize::from(upper)).unwrap_or('?'),
    };
    let utf8 = std::str::from_utf8(bytes).map(str::to_owned);
    let plain = utf8.unwrap_or_else(|_| bytes.iter().map(letter).collect());
    plain.replace('\\', "/")
}

pub(super) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from(u16_at(bytes, at)) | u32::from(u16_at(bytes, at + 2)) << 16
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}
