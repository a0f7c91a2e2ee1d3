//! DALI's index files (`wds2idx`): a text file beside the tar, with a line for each sample: `suffix offset size name`
//! for each member. With names (version 1.2) it contains all that a scan would find, so the tar's headers need not be
//! read.
//!
//! It is checked as far as possible without reading everything: members must follow each other without gaps up to the
//! tar's end mark. The headers in a gap (long names, folders) are read, and so are some others. An index that fails
//! is reported and not used. Version 1.1 has no names, and so no keys: the headers must be read, and the index is
//! ignored.

use super::index::{Grouping, MemberUse};
use super::names::{is_meta, split_name};
use super::tar::{Member, TarReader, Window};
use crate::error::{Error, Location};
use crate::source::{Object, Source};

const BLOCK: u64 = 512;
/// A larger index costs more than the scan it saves.
const MAX_BYTES: u64 = 1 << 30;
/// Approximate number of members whose headers are compared with the index.
const COMPARED: usize = 16;

/// One member, as listed in the index.
#[derive(Debug, PartialEq, Eq)]
struct Listed<'a> {
    offset: u64,
    size: u64,
    name: &'a str,
}

/// The members of the tar `name` from its index file. `None` if there is no index (or one without names), an error if
/// it does not fit the tar.
pub(super) fn members(source: &dyn Source, name: &str, tar: &dyn Object) -> Option<Result<Grouping, Error>> {
    let beside = format!("{}.idx", name.get(..name.len().checked_sub(4)?)?);
    if !name.to_ascii_lowercase().ends_with(".tar") || !source.exists(&beside).ok()? {
        return None;
    }
    let object = source.open(&beside).ok()?;
    if object.size() > MAX_BYTES {
        return None;
    }
    let mut bytes = vec![0; object.size() as usize];
    object.read_at(0, &mut bytes).ok()?;
    let text = std::str::from_utf8(&bytes).ok()?;
    let first = text.lines().next()?;
    if !first.starts_with("v1.2 ") {
        return None;
    }
    Some(take(text, tar).map_err(|reason| {
        let reason = format!("the index does not fit its tar, which was scanned instead: {reason}");
        Error::data(Location::new(source.uri()).with_shard(beside), reason)
            .with_hint("make it again with wds2idx, or remove it")
    }))
}

fn take(text: &str, tar: &dyn Object) -> Result<Grouping, String> {
    let mut lines = text.lines();
    let count: u64 = lines.next().and_then(|l| l[5..].trim().parse().ok()).ok_or("no number of samples")?;
    let mut grouping = Grouping::default();
    let mut position = 0;
    let mut number = 0usize;
    let every = (text.len() / 64 / COMPARED).max(1);
    let mut window = Window::new(tar);
    for line in lines {
        for listed in parse(line)? {
            let gap = listed.offset.checked_sub(BLOCK).filter(|at| *at >= position);
            let header = gap.ok_or_else(|| format!("'{}' is inside the member before it", listed.name))?;
            if header != position || number.is_multiple_of(every) {
                compare(&mut window, position, &listed)?;
            }
            number += 1;
            let end = listed.offset.checked_add(listed.size).filter(|end| *end <= tar.size());
            position = end.ok_or("a member reaches past the end")?.next_multiple_of(BLOCK);
            if grouping.add(listed.name, listed.offset, listed.size)? == MemberUse::Skipped {
                return Err(format!("'{}' belongs to no sample", listed.name));
            }
        }
    }
    if grouping.samples() != count {
        return Err(format!("{} samples are listed, {count} announced", grouping.samples()));
    }
    ends(&mut window, position)?;
    Ok(grouping)
}

/// Parses groups of `suffix offset size name`. A name with a space makes the line unreadable, for DALI too.
fn parse(line: &str) -> Result<Vec<Listed<'_>>, String> {
    let mut found = Vec::new();
    let mut words = line.split(' ');
    while let Some(suffix) = words.next().filter(|word| !word.is_empty()) {
        let mut number = || words.next().and_then(|word| word.parse::<u64>().ok());
        let (Some(offset), Some(size)) = (number(), number()) else {
            return Err(format!("'{line}' is not a list of suffix, offset, size, name"));
        };
        let name = words.next().ok_or_else(|| format!("'{line}' lacks a name"))?;
        if !name.ends_with(suffix) {
            return Err(format!("'{name}' does not end in '{suffix}'"));
        }
        found.push(Listed { offset, size, name });
    }
    Ok(found)
}

/// Reads the tar's headers from `position` to the listed member: there must be no other member in between.
fn compare(tar: &mut Window<'_>, position: u64, listed: &Listed<'_>) -> Result<(), String> {
    let mut reader = TarReader::starting_at(tar, position);
    loop {
        let member = reader.next_member().map_err(|f| format!("at byte {}: {}", f.offset, f.reason))?;
        let member = member.ok_or_else(|| format!("'{}' is not in the tar", listed.name))?;
        check_simple(&member)?;
        if member.data.start == listed.offset {
            let length = member.data.end - member.data.start;
            let same = member.name == listed.name && length == listed.size;
            let found = || format!("'{}' of {length} bytes is at byte {}", member.name, listed.offset);
            return if same { Ok(()) } else { Err(found()) };
        }
        if !is_meta(&member.name) && split_name(&member.name).is_some() {
            return Err(format!("'{}' is in the tar but not in the index", member.name));
        }
    }
}

/// Refuses what such an index cannot list: links, and appended tars.
fn check_simple(member: &Member) -> Result<(), String> {
    match member {
        Member { link: Some(_), .. } => Err(format!("'{}' is a hard link", member.name)),
        Member { appended: true, .. } => Err("another tar follows the first one's end mark".to_owned()),
        _ => Ok(()),
    }
}

/// Checks that no member comes after the last listed one.
fn ends(tar: &mut Window<'_>, position: u64) -> Result<(), String> {
    let mut reader = TarReader::starting_at(tar, position);
    while let Some(member) = reader.next_member().map_err(|f| f.reason)? {
        check_simple(&member)?;
        if !is_meta(&member.name) && split_name(&member.name).is_some() {
            return Err(format!("'{}' is in the tar but not in the index", member.name));
        }
    }
    if reader.unterminated {
        return Err("the tar has no end mark".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_as_members() {
        let listed = |offset, size, name| Listed { offset, size, name };
        assert_eq!(
            parse("cls 512 2 a/b.cls jpg 1536 166535 a/b.jpg").unwrap(),
            [listed(512, 2, "a/b.cls"), listed(1536, 166_535, "a/b.jpg")]
        );
        assert!(parse("cls 512 2").is_err());
        assert!(parse("cls 512 x a.cls").is_err());
        assert!(parse("cls 512 2 a.jpg").is_err());
    }
}
