//! `feedline.json`: makes a folder of parts a pack. Small, readable JSON with its own checksum.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::digest::Digest;
use super::layout::{MAJOR, MINOR, PartHeader, Trailer, check_major};
use crate::sample::{FieldSpec, Fingerprint, ImageEncoding, MAX_FIELDS, Schema};

/// The manifest's name in the pack's folder.
pub(super) const MANIFEST_NAME: &str = "feedline.json";
/// Maximum number of skipped samples that are listed; all are counted.
pub(super) const MAX_LISTED: usize = 10_000;

/// Maximum number of samples of a pack.
const MOST_SAMPLES: u64 = (1 << 40) - 1;
/// Maximum number of samples of a part, whatever its length: equal samples without bytes of their own take no space.
const MOST_EMPTY: u64 = 1 << 28;

/// The name of part `part`.
pub(super) fn part_name(part: u64) -> String {
    format!("part-{part:06}.fl")
}

/// A part's entry in the manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PartEntry {
    pub(super) samples: u64,
    pub(super) bytes: u64,
    pub(super) index_offset: u64,
    pub(super) index_length: u64,
    pub(super) index_crc32c: u32,
    #[serde(with = "hex16")]
    pub(super) digest: [u8; 16],
    /// Content of the part's own header, if it differs from the manifest's plan and the part's position.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) written_as: Option<WrittenAs>,
}

/// The plan under which a part was written before it was added to this pack, and its number there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct WrittenAs {
    #[serde(with = "hex16")]
    pub(super) plan: [u8; 16],
    pub(super) part: u64,
}

impl PartEntry {
    pub(super) fn new(trailer: &Trailer, bytes: u64) -> Self {
        PartEntry {
            samples: trailer.samples,
            bytes,
            index_offset: trailer.index_offset,
            index_length: trailer.index_length,
            index_crc32c: trailer.index_crc,
            digest: trailer.digest,
            written_as: None,
        }
    }

    /// The expected header of this part, the `part`-th of a pack of `plan`.
    pub(super) fn header(&self, plan: [u8; 16], part: u64) -> PartHeader {
        self.written_as.map_or(PartHeader { part, plan }, |own| PartHeader { part: own.part, plan: own.plan })
    }

    /// Byte range of the index in the part.
    pub(super) fn index_range(&self) -> Range<u64> {
        self.index_offset..self.index_offset.saturating_add(self.index_length)
    }

    pub(super) fn trailer(&self) -> Trailer {
        Trailer {
            index_offset: self.index_offset,
            index_length: self.index_length,
            samples: self.samples,
            digest: self.digest,
            index_crc: self.index_crc32c,
        }
    }
}

/// A sample that was skipped, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skipped {
    /// Its index in the source.
    pub sample: u64,
    /// Why it could not be read or encoded.
    pub reason: String,
}

/// The whole manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Manifest {
    #[serde(with = "hex16")]
    pub(super) fingerprint: [u8; 16],
    #[serde(with = "hex16")]
    pub(super) plan: [u8; 16],
    pub(super) image: String,
    pub(super) samples: u64,
    pub(super) schema: Schema,
    #[serde(default)]
    pub(super) skipped_count: u64,
    #[serde(default)]
    pub(super) skipped: Vec<Skipped>,
    pub(super) parts: Vec<PartEntry>,
}

#[derive(Serialize, Deserialize)]
struct Envelope {
    feedline_pack: [u16; 2],
    crc32c: String,
}

impl Manifest {
    pub(super) fn new(plan: [u8; 16], image: &str, schema: &Schema, parts: Vec<PartEntry>) -> Self {
        let mut manifest = Manifest {
            fingerprint: [0; 16],
            plan,
            image: image.to_owned(),
            samples: parts.iter().map(|p| p.samples).sum(),
            schema: schema.clone(),
            skipped_count: 0,
            skipped: Vec::new(),
            parts,
        };
        manifest.fingerprint = manifest.content().0;
        manifest
    }

    /// The fingerprint computed from schema and parts.
    pub(super) fn content(&self) -> Fingerprint {
        let mut digest = Digest::default();
        for part in &self.parts {
            digest.append(Digest::from_bytes(part.digest), part.samples);
        }
        digest.fingerprint(&schema_text(&self.schema.fields), self.samples)
    }

    /// Version 1.1 added parts of several plans, 1.2 added compact images, 1.3 tables of pieces, which pixels and
    /// coefficients have; all other packs are written as version 1.0.
    fn minor(&self) -> u16 {
        if ImageEncoding::ALL.iter().any(|way| !way.is_file() && self.image.contains(way.name())) {
            return 3;
        }
        if self.parts.iter().any(|part| part.written_as.is_some()) { 1 } else { MINOR }
    }

    /// The file's bytes: a first line with the version and the checksum of everything after it, then the rest.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let body = serde_json::to_string(self).expect("a manifest is plain data");
        // One part per line, for people and for diff.
        let body =
            body.replace("\"parts\":[{", "\"parts\":[\n{").replace("},{\"samples\"", "},\n{\"samples\"");
        let rest = format!("{}\n", &body[1..]);
        let crc = crc32c::crc32c(rest.as_bytes());
        let minor = self.minor();
        let mut bytes =
            format!("{{\"feedline_pack\":[{MAJOR},{minor}],\"crc32c\":\"{crc:08x}\",\n").into_bytes();
        bytes.extend_from_slice(rest.as_bytes());
        bytes
    }

    /// Parses and checks the file.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, String> {
        let newline = bytes.iter().position(|b| *b == b'\n').ok_or("the manifest is truncated")?;
        let (first, rest) = (&bytes[..newline], &bytes[newline + 1..]);
        let first = first.strip_suffix(b",").ok_or("the manifest's first line is damaged")?;
        let first = [first, b"}"].concat();
        let envelope: Envelope = serde_json::from_slice(&first)
            .map_err(|e| format!("the manifest's first line is damaged: {e}"))?;
        check_major(envelope.feedline_pack[0])?;
        if envelope.crc32c != format!("{:08x}", crc32c::crc32c(rest)) {
            return Err("the manifest's checksum does not match: it is truncated or damaged".to_owned());
        }
        let body = [b"{", rest].concat();
        let manifest: Manifest =
            serde_json::from_slice(&body).map_err(|e| format!("the manifest cannot be understood: {e}"))?;
        manifest.check()?;
        Ok(manifest)
    }

    fn check(&self) -> Result<(), String> {
        check_fields(&self.schema.fields)?;
        let sum = self.parts.iter().try_fold(0u64, |sum, part| sum.checked_add(part.samples));
        if sum != Some(self.samples) {
            return Err("the parts' samples do not add up".to_owned());
        }
        if self.samples > MOST_SAMPLES
            || self.parts.iter().any(|part| part.samples > part.bytes.max(MOST_EMPTY))
        {
            return Err(format!("{} samples do not fit in its parts", self.samples));
        }
        let misplaced = self.parts.iter().position(|part| !part.trailer().fits(part.bytes));
        match misplaced {
            Some(part) => Err(format!("the index of {} is outside the part", part_name(part as u64))),
            None => Ok(()),
        }
    }
}

/// Returns an error if these cannot be the fields of a pack.
pub(super) fn check_fields(fields: &[FieldSpec]) -> Result<(), String> {
    if fields.is_empty() || fields.len() > MAX_FIELDS {
        return Err(format!("a pack has 1 to {MAX_FIELDS} fields, not {}", fields.len()));
    }
    for (at, field) in fields.iter().enumerate() {
        if fields[..at].iter().any(|f| f.name == field.name) {
            return Err(format!("two fields are called '{}'", field.name));
        }
    }
    Ok(())
}

/// The fields in the form of each part's schema section; the fingerprint hashes the same text.
pub(super) fn schema_text(fields: &[FieldSpec]) -> Vec<u8> {
    serde_json::to_vec(fields).expect("fields are plain data")
}

/// Sixteen bytes as 32 hex digits.
pub(super) mod hex16 {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    use crate::sample::Fingerprint;

    pub(in super::super) fn serialize<S: Serializer>(
        bytes: &[u8; 16],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&Fingerprint(*bytes).to_hex())
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<[u8; 16], D::Error> {
        let text = String::deserialize(deserializer)?;
        parse(&text).ok_or_else(|| D::Error::custom("32 hex digits expected"))
    }

    fn parse(text: &str) -> Option<[u8; 16]> {
        let mut bytes = [0; 16];
        if text.len() != 32 || !text.is_ascii() {
            return None;
        }
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[at * 2..at * 2 + 2], 16).ok()?;
        }
        Some(bytes)
    }
}
