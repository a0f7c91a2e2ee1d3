//! Reads a whole pack and lists all damage.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use feedline_pixels::checksum;
use feedline_pixels::pieces::PieceTable;

use super::destination::is_part;
use super::digest::Digest;

use super::layout::{MAX_COLUMNS, Row, at, columns_of};
use super::manifest::{MANIFEST_NAME, Manifest, PartEntry, part_name};
use super::reader::{Pack, PartIndex, read_manifest, read_part};
use crate::error::Result;
use crate::format::parts::{Meter, Progress, run_parts};
use crate::sample::{FieldSpec, Kind};
use crate::source::{LocalSource, Object, Source};

/// One piece of damage in a pack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The file, relative to the pack.
    pub file: String,
    /// The sample's index in the pack, if one sample is concerned.
    pub sample: Option<u64>,
    /// The field of the sample.
    pub field: Option<String>,
    /// Offset in the file, if known.
    pub offset: Option<u64>,
    /// What is wrong.
    pub reason: String,
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.file)?;
        if let Some(sample) = self.sample {
            write!(f, ", sample {sample}")?;
        }
        if let Some(field) = &self.field {
            write!(f, ", field '{field}'")?;
        }
        if let Some(offset) = self.offset {
            write!(f, ", byte {offset}")?;
        }
        write!(f, ": {}", self.reason)
    }
}

/// Result of [`verify`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VerifyReport {
    /// Number of samples checked.
    pub samples: u64,
    /// Number of bytes read.
    pub bytes: u64,
    /// All damage, sorted by file and place. Empty if the pack is intact.
    pub damage: Vec<Damage>,
}

impl VerifyReport {
    /// Whether nothing is broken.
    pub fn is_intact(&self) -> bool {
        self.damage.is_empty()
    }
}

/// Checks every byte of the pack in the folder `path` with `workers` threads (0: all cores). Returns an error only if
/// there is no pack or its manifest cannot be read; any other damage is in the report.
pub fn verify(path: impl AsRef<Path>, workers: usize, progress: &dyn Progress) -> Result<VerifyReport> {
    let source: Arc<dyn Source> = Arc::new(LocalSource::new(path.as_ref()));
    let manifest = read_manifest(&*source)?;
    let pack = Pack::open(source.clone())?;
    let meter = Meter::new(progress, manifest.samples);
    let damage: Mutex<Vec<(usize, Damage)>> = Mutex::new(Vec::new());
    let note = |part: usize, d: Damage| {
        damage.lock().unwrap_or_else(PoisonError::into_inner).push((part, d));
    };
    run_parts(manifest.parts.len() as u64, workers, |part| {
        let checker = PartCheck { pack: &pack, source: &*source, part: part as usize, meter: &meter };
        checker.run(&|d| note(part as usize, d))
    })?;
    for extra in extra_files(&*source, &manifest)? {
        note(usize::MAX, damaged(extra, "the manifest does not list this part"));
    }
    if manifest.content().0 != manifest.fingerprint {
        let reason = "the fingerprint does not match schema and parts";
        note(usize::MAX, damaged(MANIFEST_NAME.to_owned(), reason));
    }
    let mut found = damage.into_inner().unwrap_or_else(PoisonError::into_inner);
    found.sort_by_key(|(part, d)| (*part, d.sample));
    let (samples, bytes) = meter.counts();
    Ok(VerifyReport { samples, bytes, damage: found.into_iter().map(|(_, d)| d).collect() })
}

fn damaged(file: String, reason: impl Into<String>) -> Damage {
    Damage { file, sample: None, field: None, offset: None, reason: reason.into() }
}

fn extra_files(source: &dyn Source, manifest: &Manifest) -> Result<Vec<String>> {
    let known: BTreeSet<String> = (0..manifest.parts.len() as u64).map(part_name).collect();
    let mut names = source.children("")?;
    names.retain(|n| is_part(n) && !known.contains(n));
    names.sort();
    Ok(names)
}

struct PartCheck<'a> {
    pack: &'a Pack,
    source: &'a dyn Source,
    part: usize,
    meter: &'a Meter<'a>,
}

impl PartCheck<'_> {
    fn run(&self, note: &dyn Fn(Damage)) -> Result<()> {
        let manifest = self.pack.manifest();
        let (entry, name) = (&manifest.parts[self.part], part_name(self.part as u64));
        let kinds: Vec<Kind> = manifest.schema.fields.iter().map(|f| f.kind).collect();
        let object = match self.source.open(&name) {
            Ok(object) => object,
            Err(error) => {
                note(damaged(name, error.to_string()));
                return Ok(());
            }
        };
        if object.size() != entry.bytes {
            let reason = format!("{} bytes long, {} are promised", object.size(), entry.bytes);
            note(Damage { offset: Some(object.size().min(entry.bytes)), ..damaged(name.clone(), reason) });
        }
        match read_part(&*object, entry.header(manifest.plan, self.part as u64), &kinds) {
            Ok((found, index)) => {
                if (PartEntry { written_as: entry.written_as, ..found }) != *entry {
                    note(damaged(name, "the trailer differs from the manifest"));
                }
                self.samples(&*object, &index, note)
            }
            Err(reason) => {
                note(damaged(name.clone(), format!("{reason}; its samples cannot all be checked")));
                // The index may still be where the manifest says.
                match self.pack.part(self.part) {
                    Ok(index) => self.samples(&*object, index, note),
                    Err(_) => Ok(()),
                }
            }
        }
    }

    fn samples(&self, object: &dyn Object, index: &PartIndex, note: &dyn Fn(Damage)) -> Result<()> {
        let manifest = self.pack.manifest();
        let name = part_name(self.part as u64);
        let first: u64 = manifest.parts[..self.part].iter().map(|p| p.samples).sum();
        let fields = &manifest.schema.fields;
        let (mut digest, mut end) = (Digest::default(), 0);
        let (mut bytes, mut rows, mut pieces) = (Vec::new(), Vec::new(), Vec::new());
        for row in 0..index.index.samples as usize {
            let start = index.index.starts.get(&index.bytes, row);
            let broken = |field: Option<usize>, offset: u64, reason: String| {
                note(Damage {
                    sample: Some(first + row as u64),
                    field: field.map(|f| fields[f].name.clone()),
                    offset: Some(offset),
                    ..damaged(name.clone(), reason)
                });
            };
            if start < end {
                broken(None, start, "overlaps the sample before it".to_owned());
            }
            pieces.clear();
            fields.iter().enumerate().for_each(|(n, f)| list_pieces(index, n, f, row, &mut pieces));
            fields.iter().enumerate().for_each(|(n, f)| list_video_index(index, n, f, row, &mut pieces));
            let length = check_pieces(object, start, &pieces, &mut bytes, &broken);
            end = start.saturating_add(length);
            rows.clear();
            rows.extend(fields.iter().enumerate().map(|(n, f)| row_of(index, n, f, row)));
            digest.push(fields, &rows);
            self.meter.add(1, length)?;
        }
        if digest.to_bytes() != manifest.parts[self.part].digest {
            note(damaged(name, "the digest does not match its samples"));
        }
        Ok(())
    }
}

/// A range of bytes of one field, with its stored checksum.
struct Piece {
    field: usize,
    length: u64,
    crc: u64,
    name: &'static str,
}

fn list_pieces(index: &PartIndex, field: usize, spec: &FieldSpec, row: usize, out: &mut Vec<Piece>) {
    let get = |column| index.get(field, column, row);
    if spec.kind.carrier().has_bytes() && get(at::LENGTH) > 0 {
        out.push(Piece { field, length: get(at::LENGTH), crc: get(at::CRC), name: "bytes" });
    }
    if spec.kind == Kind::Image && get(at::SEEK_LENGTH) > 0 {
        out.push(Piece { field, length: get(at::SEEK_LENGTH), crc: get(at::SEEK_CRC), name: "seek index" });
    }
}

/// Indexes of videos are behind all fields.
fn list_video_index(index: &PartIndex, field: usize, spec: &FieldSpec, row: usize, out: &mut Vec<Piece>) {
    let get = |column| index.get(field, column, row);
    if spec.kind == Kind::Video && get(at::VIDEO_INDEX_LENGTH) > 0 {
        let (length, crc) = (get(at::VIDEO_INDEX_LENGTH), get(at::VIDEO_INDEX_CRC));
        out.push(Piece { field, length, crc, name: "index" });
    }
}

/// Reads a sample's consecutive pieces from `start` on and compares their checksums. Returns their total length.
fn check_pieces(
    object: &dyn Object,
    start: u64,
    pieces: &[Piece],
    bytes: &mut Vec<u8>,
    broken: &dyn Fn(Option<usize>, u64, String),
) -> u64 {
    let length = pieces.iter().fold(0u64, |sum, piece| sum.saturating_add(piece.length));
    // With one read if possible; piece by piece only to find the damaged one.
    let whole = read(object, start, length, bytes).is_ok();
    let (mut position, mut intact) = (start, whole);
    for piece in pieces {
        let found = if whole {
            let at = (position - start) as usize;
            Ok(checksum::crc32c(&bytes[at..at + piece.length as usize]))
        } else {
            read(object, position, piece.length, bytes).map(|()| checksum::crc32c(bytes))
        };
        intact &= found.as_ref().is_ok_and(|crc| u64::from(*crc) == piece.crc);
        match found {
            Ok(crc) if u64::from(crc) == piece.crc => {}
            Ok(crc) => {
                let reason =
                    format!("the checksum of its {} is {crc:08x}, stored is {:08x}", piece.name, piece.crc);
                broken(Some(piece.field), position, reason);
            }
            Err(reason) => broken(Some(piece.field), position, format!("its {}: {reason}", piece.name)),
        }
        position = position.saturating_add(piece.length);
    }
    if intact {
        check_tables(pieces, start, bytes, broken);
    }
    length
}

/// Compares the images of a sample with the tables of pieces that are stored as their seek indexes.
fn check_tables(pieces: &[Piece], start: u64, bytes: &[u8], broken: &dyn Fn(Option<usize>, u64, String)) {
    let mut at = 0;
    for (number, piece) in pieces.iter().enumerate() {
        let (image, rest) = bytes[at..].split_at(piece.length as usize);
        let index = pieces.get(number + 1).filter(|next| next.field == piece.field);
        let index = index.map_or(&[][..], |next| &rest[..next.length as usize]);
        let wrong = PieceTable::parse(index, piece.length).and_then(|table| {
            let of = |n: usize| table.piece(n).start as usize..table.piece(n).end as usize;
            (0..table.count()).find(|n| table.checksum(*n) != checksum::crc32c(&image[of(*n)])).map(of)
        });
        if let Some(wrong) = wrong {
            let reason =
                format!("its bytes {} to {} do not match its table of pieces", wrong.start, wrong.end);
            broken(Some(piece.field), start + (at + wrong.start) as u64, reason);
        }
        at += piece.length as usize;
    }
}

/// Reads `length` bytes; never allocates more than the file has.
fn read(object: &dyn Object, offset: u64, length: u64, bytes: &mut Vec<u8>) -> Result<(), String> {
    if offset.checked_add(length).is_none_or(|end| end > object.size()) {
        return Err("reaches past the end of the part".to_owned());
    }
    bytes.resize(length as usize, 0);
    object.read_at(offset, bytes).map_err(|e| e.to_string())
}

fn row_of(index: &PartIndex, field: usize, spec: &FieldSpec, row: usize) -> Row {
    let mut values = [0; MAX_COLUMNS];
    for (column, value) in columns_of(spec.kind).iter().enumerate().map(|(n, _)| n).zip(&mut values) {
        *value = index.get(field, column, row);
    }
    values
}
