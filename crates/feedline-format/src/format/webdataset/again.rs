//! Joins samples whose key occurs again after other keys. webdataset makes a sample of each run of neighbours with
//! the same key. If a folder was packed in the order a disk lists it (`tar cf x.tar .`), that splits samples. Runs of
//! one key without a common suffix belong together; with a common suffix they are different samples that have the
//! same key.

use std::collections::HashMap;

use super::index::{MEMBER, SAMPLE};

/// The tables of an index, with runs joined.
pub(super) struct JoinedTables {
    pub(super) samples: Vec<u8>,
    pub(super) members: Vec<u8>,
    pub(super) keys: Vec<u8>,
    /// Number of runs that were joined to an earlier sample, and of runs that had a suffix in common with all earlier
    /// ones.
    pub(super) runs: u64,
    pub(super) repeated: u64,
}

/// The runs of an index: key and members of each.
fn runs<'a>(
    samples: &'a [u8],
    members: &'a [u8],
    keys: &'a [u8],
) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
    let half = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().expect("four bytes")) as usize;
    let (mut key, mut member) = (0, 0);
    samples.chunks_exact(SAMPLE).map(move |ends| {
        let (key_end, member_end) = (half(&ends[..4]), half(&ends[4..]));
        let run = (&keys[key..key_end], &members[member * MEMBER..member_end * MEMBER]);
        (key, member) = (key_end, member_end);
        run
    })
}

fn suffix(entry: &[u8]) -> u16 {
    u16::from_le_bytes([entry[0], entry[1]]) & 0x7fff
}

/// Offset of each member's entry, by its key and suffix; of several, the last.
pub(super) fn places(samples: &[u8], members: &[u8], keys: &[u8]) -> HashMap<(Vec<u8>, u16), usize> {
    let mut found = HashMap::new();
    let mut at = 0;
    for (key, entries) in runs(samples, members, keys) {
        for entry in entries.chunks_exact(MEMBER) {
            found.insert((key.to_vec(), suffix(entry)), at);
            at += MEMBER;
        }
    }
    found
}

/// Joins the runs; `None` if no key occurs twice.
pub(super) fn join(samples: &[u8], members: &[u8], keys: &[u8]) -> Option<JoinedTables> {
    // Most shards are sorted by key: then comparing neighbours is enough.
    let all = || runs(samples, members, keys).map(|(key, _)| key);
    if all().zip(all().skip(1)).all(|(one, next)| one < next) {
        return None;
    }
    let mut latest: HashMap<&[u8], usize> = HashMap::new();
    let mut found: Vec<(&[u8], Vec<&[u8]>)> = Vec::new();
    let (mut joined, mut repeated) = (0, 0);
    for (key, entries) in runs(samples, members, keys) {
        if let Some(at) = latest.get(key) {
            let there = &mut found[*at].1;
            if !shares_suffix(there, entries) {
                there.push(entries);
                joined += 1;
                continue;
            }
            repeated += 1;
        }
        latest.insert(key, found.len());
        found.push((key, vec![entries]));
    }
    if joined + repeated == 0 {
        return None;
    }
    let (samples, members, keys) = tables(&found);
    Some(JoinedTables { samples, members, keys, runs: joined, repeated })
}

fn shares_suffix(there: &[&[u8]], entries: &[u8]) -> bool {
    let has =
        |wanted: u16| there.iter().flat_map(|run| run.chunks_exact(MEMBER)).any(|e| suffix(e) == wanted);
    entries.chunks_exact(MEMBER).any(|entry| has(suffix(entry)))
}

fn tables(found: &[(&[u8], Vec<&[u8]>)]) -> (Vec<u8>, Vec<u8>, Vec<u8>) {
    let (mut samples, mut members, mut keys) = (Vec::new(), Vec::new(), Vec::new());
    for (key, runs) in found {
        keys.extend_from_slice(key);
        for run in runs {
            members.extend_from_slice(run);
        }
        // Not longer than before, so it fits.
        samples.extend_from_slice(&(keys.len() as u32).to_le_bytes());
        samples.extend_from_slice(&((members.len() / MEMBER) as u32).to_le_bytes());
    }
    (samples, members, keys)
}
