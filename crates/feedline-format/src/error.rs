//! What can go wrong, and where. Every error has its place (uri, shard, sample, field, offset) as fields, so that
//! Python, the command line and a log can each format it in their own way.

mod secret;

use std::fmt;
use std::sync::Arc;

pub use secret::redacted;

/// `Result` with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Where in the data something happened. Parts that are `None` are unknown or do not apply.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Location {
    /// The data set, as the user named it.
    pub uri: String,
    /// The file or object inside it.
    pub shard: Option<String>,
    /// The sample's index in the data set that was asked for it, as in `batch["index"]`.
    pub sample: Option<u64>,
    /// The sample's index in the data set it comes from. Differs from `sample` behind a selection or a concatenation.
    pub source_sample: Option<u64>,
    /// The field of the sample.
    pub field: Option<String>,
    /// Byte offset in the shard (or, for a decoding error, in the field's bytes).
    pub offset: Option<u64>,
}

impl Location {
    /// A place known only by the data set's uri.
    pub fn new(uri: impl Into<String>) -> Self {
        Location { uri: without_secrets(uri), ..Location::default() }
    }

    /// Adds the file or object.
    pub fn with_shard(mut self, shard: impl Into<String>) -> Self {
        self.shard = Some(without_secrets(shard));
        self
    }

    /// Adds the sample.
    pub fn with_sample(mut self, sample: u64) -> Self {
        self.sample = Some(sample);
        self
    }

    /// Sets `sample` to the index in an outer data set. The index in the inner one is kept as `source_sample`.
    #[must_use]
    pub fn seen_as(mut self, sample: u64) -> Self {
        self.source_sample = self.source_sample.or(self.sample).or(Some(sample));
        self.sample = Some(sample);
        self
    }

    /// Adds the field.
    pub fn with_field(mut self, field: impl Into<String>) -> Self {
        self.field = Some(field.into());
        self
    }

    /// Adds the byte offset.
    pub fn with_offset(mut self, offset: u64) -> Self {
        self.offset = Some(offset);
        self
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.shard {
            Some(shard) if shard.starts_with(&self.uri) => write!(f, "{shard}")?,
            Some(shard) => write!(f, "{} [{shard}]", self.uri)?,
            None => write!(f, "{}", self.uri)?,
        }
        if let Some(sample) = self.sample {
            write!(f, ", sample {sample}")?;
            if let Some(own) = self.source_sample.filter(|own| *own != sample) {
                write!(f, " ({own} of its source)")?;
            }
        }
        if let Some(field) = &self.field {
            write!(f, ", field '{field}'")?;
        }
        if let Some(offset) = self.offset {
            write!(f, ", byte {offset}")?;
        }
        Ok(())
    }
}

/// The stage in which a sample failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Stage {
    /// Reading the bytes.
    Read,
    /// Decoding the bytes into values.
    Decode,
    /// Transforming the values.
    Transform,
    /// Putting the values into a batch.
    Batch,
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Stage::Read => "read",
            Stage::Decode => "decode",
            Stage::Transform => "transform",
            Stage::Batch => "batch",
        })
    }
}

/// The kind of a data error. Code decides by this, never by the text of the message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum DataCause {
    /// The bytes break the rules of their format; they may have been damaged in transfer.
    #[default]
    Content,
    /// No format, or more than one, recognises the data.
    Unrecognised,
    /// Another process is writing to the same place.
    Busy,
    /// The destination already contains something that would have to be replaced.
    Occupied,
}

/// How to make a loader use less memory.
const MEMORY_HINT: &str =
    "a smaller batch_size, prefetch=1, memory_budget=..., or a Resize or crop in transforms";

/// Every error of feedline. Cheap to clone: the same failure may be both raised and listed in a report.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system or a store refused: missing, no permission, full disk, broken connection.
    #[error("{action} {location}: {source}")]
    Storage {
        /// What was being done, as a participle: `reading`, `renaming`.
        action: &'static str,
        /// Where it happened.
        location: Box<Location>,
        /// The system's own error.
        source: Arc<std::io::Error>,
    },
    /// The data break the rules of their format.
    #[error("{location}: {reason}{}", hint_line(.hint))]
    Data {
        /// Where it happened.
        location: Box<Location>,
        /// What is wrong.
        reason: String,
        /// What to do about it; may be empty.
        hint: String,
        /// The kind of the error, for code that must decide.
        cause: DataCause,
    },
    /// One sample could not be read, decoded, transformed or put into its batch.
    #[error("{location}: cannot {stage} sample: {reason}")]
    Sample {
        /// Which sample.
        location: Box<Location>,
        /// In which stage.
        stage: Stage,
        /// Why.
        reason: String,
    },
    /// More bad samples than the user allows.
    #[error("{reason}; the last one: {last}")]
    TooManyBadSamples {
        /// Which limit was exceeded.
        reason: String,
        /// The failure that exceeded it.
        last: Box<Error>,
    },
    /// An option that is not valid, alone or together with the others.
    #[error("{knob}: {reason}")]
    Option {
        /// Name of the option.
        knob: String,
        /// Why it is not valid, and what would be.
        reason: String,
    },
    /// The system has no memory left. Never the fault of a sample: it is raised whatever `on_error` says.
    #[error("out of memory: {bytes} bytes for {purpose} could not be allocated\nhint: {MEMORY_HINT}")]
    OutOfMemory {
        /// Number of bytes that were requested; 0 if a library did not say.
        bytes: u64,
        /// What the memory was for.
        purpose: String,
    },
    /// A saved state that belongs to another loader or other data.
    #[error("saved state does not fit: {0}")]
    State(String),
    /// No batch arrived within the user's timeout.
    #[error("no batch within {seconds} s; {doing}")]
    Timeout {
        /// The timeout.
        seconds: f64,
        /// What the loader was waiting for.
        doing: String,
    },
    /// The loader or iterator was closed, or belongs to another process.
    #[error("{0}")]
    Closed(String),
}

impl Error {
    /// A failed system call at a place.
    pub fn storage(action: &'static str, location: Location, source: std::io::Error) -> Self {
        let words = source.to_string();
        let source = match redacted(&words) {
            std::borrow::Cow::Borrowed(_) => source,
            std::borrow::Cow::Owned(words) => std::io::Error::new(source.kind(), words),
        };
        Error::Storage { action, location: Box::new(location), source: Arc::new(source) }
    }

    /// Data that break the rules of their format.
    pub fn data(location: Location, reason: impl Into<String>) -> Self {
        let (location, reason) = (Box::new(location), without_secrets(reason));
        Error::Data { location, reason, hint: String::new(), cause: DataCause::Content }
    }

    /// Adds a hint.
    pub fn with_hint(mut self, advice: impl Into<String>) -> Self {
        if let Error::Data { hint, .. } = &mut self {
            *hint = advice.into();
        }
        self
    }

    /// Sets the kind of a data error.
    pub fn with_cause(mut self, kind: DataCause) -> Self {
        if let Error::Data { cause, .. } = &mut self {
            *cause = kind;
        }
        self
    }

    /// The kind of a data error; `None` for other errors.
    pub fn cause(&self) -> Option<DataCause> {
        match self {
            Error::Data { cause, .. } => Some(*cause),
            _ => None,
        }
    }

    /// A bad sample.
    pub fn sample(location: Location, stage: Stage, reason: impl fmt::Display) -> Self {
        Error::Sample { location: Box::new(location), stage, reason: without_secrets(reason.to_string()) }
    }

    /// Turns the error into one of a sample. `place` says which sample; the error's own shard, field and offset are kept.
    /// A storage error is not the sample's fault: it stays a storage error, with the sample named. Lack of memory and a
    /// cancelled read stay as they are.
    pub fn of_sample(mut self, mut place: Location, stage: Stage) -> Self {
        let reason = match &mut self {
            Error::Storage { location, .. } | Error::Sample { location, .. } => {
                (location.sample, location.source_sample) = (place.sample, place.source_sample);
                return self;
            }
            Error::Closed(_) | Error::OutOfMemory { .. } => return self,
            Error::Data { reason, hint, .. } => format!("{reason}{}", hint_line(hint)),
            other => other.to_string(),
        };
        if let Some(own) = self.location() {
            place.shard = own.shard.clone().or(place.shard);
            place.field = own.field.clone().or(place.field);
            place.offset = own.offset.or(place.offset);
        }
        Error::sample(place, stage, reason)
    }

    /// Blames the sample if its own file is missing or may not be read. For files that contain exactly one sample.
    /// Any other error (a broken disk, a server that does not answer) stays a storage error.
    pub(crate) fn of_own_file(self) -> Self {
        use std::io::ErrorKind;
        let Error::Storage { action, location, source } = &self else { return self };
        let own = match source.kind() {
            ErrorKind::NotFound
            | ErrorKind::UnexpectedEof
            | ErrorKind::IsADirectory
            | ErrorKind::NotADirectory => true,
            // A remote store that denies access denies it for everything; only the local system does so for single
            // files.
            ErrorKind::PermissionDenied => source.raw_os_error().is_some(),
            _ => false,
        };
        if own { Error::data((**location).clone(), format!("{action}: {source}")) } else { self }
    }

    /// Whether the sample is at fault and skipping it would help. Not so for failing storage, lack of memory or a
    /// cancelled read.
    pub fn blames_sample(&self) -> bool {
        !matches!(self, Error::Storage { .. } | Error::OutOfMemory { .. } | Error::Closed(_))
    }

    /// Names the sample by its index in an outer data set.
    pub fn seen_as(mut self, sample: u64) -> Self {
        if let Error::Storage { location, .. }
        | Error::Data { location, .. }
        | Error::Sample { location, .. } = &mut self
        {
            **location = std::mem::take(&mut **location).seen_as(sample);
        }
        self
    }

    /// Memory that could not be allocated.
    pub fn out_of_memory(bytes: u64, purpose: impl Into<String>) -> Self {
        Error::OutOfMemory { bytes, purpose: purpose.into() }
    }

    /// An option that is not valid.
    pub fn option(knob: impl Into<String>, reason: impl Into<String>) -> Self {
        Error::Option { knob: knob.into(), reason: without_secrets(reason) }
    }

    /// Whether a file or object was missing.
    pub(crate) fn is_not_found(&self) -> bool {
        matches!(self, Error::Storage { source, .. } if source.kind() == std::io::ErrorKind::NotFound)
    }

    /// Where it happened, if the error has a place.
    pub fn location(&self) -> Option<&Location> {
        match self {
            Error::Storage { location, .. }
            | Error::Data { location, .. }
            | Error::Sample { location, .. } => Some(location),
            Error::TooManyBadSamples { last, .. } => last.location(),
            _ => None,
        }
    }
}

fn without_secrets(text: impl Into<String>) -> String {
    let text = text.into();
    match redacted(&text) {
        std::borrow::Cow::Borrowed(_) => text,
        std::borrow::Cow::Owned(without) => without,
    }
}

fn hint_line(hint: &str) -> String {
    if hint.is_empty() { String::new() } else { format!("\nhint: {hint}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn location_names_every_part_it_has() {
        let place =
            Location::new("/data").with_shard("a.tar").with_sample(7).with_field("jpg").with_offset(512);
        assert_eq!(place.to_string(), "/data [a.tar], sample 7, field 'jpg', byte 512");
    }

    #[test]
    fn a_location_has_the_requested_number_and_the_sources_own() {
        let place = Location::new("/data").with_sample(17).seen_as(3);
        assert_eq!((place.sample, place.source_sample), (Some(3), Some(17)));
        assert_eq!(place.to_string(), "/data, sample 3 (17 of its source)");
        assert_eq!(place.seen_as(3).to_string(), "/data, sample 3 (17 of its source)");
        assert_eq!(Location::new("/data").with_sample(3).seen_as(3).to_string(), "/data, sample 3");
    }

    #[test]
    fn a_missing_file_is_a_bad_sample_and_a_broken_disk_is_not() {
        let failed =
            |code| Error::storage("reading", Location::new("x"), std::io::Error::from_raw_os_error(code));
        let place = || Location::new("/data").with_sample(17).seen_as(3);
        for code in [2, 13] {
            let error = failed(code).of_own_file().of_sample(place(), Stage::Read);
            assert!(error.blames_sample() && matches!(error, Error::Sample { .. }), "{error}");
        }
        for code in [5, 116, 110] {
            let error = failed(code).of_own_file().of_sample(place(), Stage::Read);
            let Error::Storage { source, location, .. } = &error else { panic!("{error}") };
            assert_eq!((source.raw_os_error(), location.sample), (Some(code), Some(3)));
            assert!(!error.blames_sample());
        }
    }

    #[test]
    fn a_hint_has_its_own_line() {
        let error = Error::data(Location::new("x"), "empty").with_hint("write it again");
        assert_eq!(error.to_string(), "x: empty\nhint: write it again");
    }
}
