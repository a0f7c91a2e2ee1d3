//! What can go wrong, and where. Every error names the place (uri, shard, sample, field, offset) as fields, so that
//! Python, the command line and a log can each say it in their own way.

mod secret;

use std::fmt;
use std::sync::Arc;

pub use secret::shown;

/// `Result` with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Where in the data something happened. Empty parts are unknown or do not apply.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Location {
    /// The data set, as the user named it.
    pub uri: String,
    /// The file or object inside it.
    pub shard: Option<String>,
    /// The sample's index in the data set that was asked for it: what `batch["index"]` shows.
    pub sample: Option<u64>,
    /// Its index in the data set it comes from; another one behind a selection or in a row of several sets.
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

    /// The same, inside this file or object.
    pub fn with_shard(mut self, shard: impl Into<String>) -> Self {
        self.shard = Some(without_secrets(shard));
        self
    }

    /// The same, at this sample.
    pub fn with_sample(mut self, sample: u64) -> Self {
        self.sample = Some(sample);
        self
    }

    /// The same for a data set in which the sample has index `sample`, whatever number its source gives it.
    #[must_use]
    pub fn seen_as(mut self, sample: u64) -> Self {
        self.source_sample = self.source_sample.or(self.sample).or(Some(sample));
        self.sample = Some(sample);
        self
    }

    /// The same, in this field.
    pub fn with_field(mut self, field: impl Into<String>) -> Self {
        self.field = Some(field.into());
        self
    }

    /// The same, at this byte.
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

/// The step of the flow in which a sample failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Stage {
    /// Getting the bytes.
    Read,
    /// Making values of the bytes.
    Decode,
    /// Changing the values.
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

/// What kind of trouble data make. Decisions are taken from this, never from an error's words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum DataCause {
    /// The bytes are not what their format demands; they may have been damaged on the way.
    #[default]
    Content,
    /// No format, or more than one, recognises what is there.
    Unrecognised,
    /// Another process is writing there.
    Busy,
    /// There is something at the destination that would have to be replaced.
    Occupied,
}

/// What eases a loader's need of memory.
const MEMORY_HINT: &str =
    "a smaller batch_size, prefetch=1, memory_budget=..., or a Resize or crop in transforms";

/// Anything feedline can fail with. Cheap to clone: the same failure may be both raised and listed in a report.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system or a store refused: missing, no permission, full disk, broken connection.
    #[error("{action} {location}: {source}")]
    Storage {
        /// What was being done, as a participle: `reading`, `renaming`.
        action: &'static str,
        /// Where.
        location: Box<Location>,
        /// The system's own word.
        source: Arc<std::io::Error>,
    },
    /// The data are not what their format demands.
    #[error("{location}: {reason}{}", hint_line(.hint))]
    Data {
        /// Where.
        location: Box<Location>,
        /// What is wrong.
        reason: String,
        /// What to do about it; may be empty.
        hint: String,
        /// What kind of trouble it is, for code that must decide.
        cause: DataCause,
    },
    /// One sample could not be made into its place in the batch.
    #[error("{location}: cannot {stage} sample: {reason}")]
    Sample {
        /// Which one.
        location: Box<Location>,
        /// In which step.
        stage: Stage,
        /// Why.
        reason: String,
    },
    /// More bad samples than the user allows.
    #[error("{reason}; the last one: {last}")]
    TooManyBadSamples {
        /// Which limit was passed.
        reason: String,
        /// The failure that passed it.
        last: Box<Error>,
    },
    /// A setting that cannot be, alone or with the others.
    #[error("{knob}: {reason}")]
    Option {
        /// The setting's name.
        knob: String,
        /// Why not, and what would do.
        reason: String,
    },
    /// The system has no memory left. Never a property of a sample: it is raised whatever `on_error` says.
    #[error("out of memory: {bytes} bytes for {purpose} are not to be had\nhint: {MEMORY_HINT}")]
    OutOfMemory {
        /// How many were asked for; 0 where a library did not say.
        bytes: u64,
        /// What for.
        purpose: String,
    },
    /// A saved state that does not fit this loader.
    #[error("saved state does not fit: {0}")]
    State(String),
    /// No batch within the time the user set.
    #[error("no batch within {seconds} s; {doing}")]
    Timeout {
        /// The limit.
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
        let source = match shown(&words) {
            std::borrow::Cow::Borrowed(_) => source,
            std::borrow::Cow::Owned(words) => std::io::Error::new(source.kind(), words),
        };
        Error::Storage { action, location: Box::new(location), source: Arc::new(source) }
    }

    /// Data that break their format's rules.
    pub fn data(location: Location, reason: impl Into<String>) -> Self {
        let (location, reason) = (Box::new(location), without_secrets(reason));
        Error::Data { location, reason, hint: String::new(), cause: DataCause::Content }
    }

    /// The same, with advice.
    pub fn with_hint(mut self, advice: impl Into<String>) -> Self {
        if let Error::Data { hint, .. } = &mut self {
            *hint = advice.into();
        }
        self
    }

    /// The same, of another kind of trouble.
    pub fn with_cause(mut self, kind: DataCause) -> Self {
        if let Error::Data { cause, .. } = &mut self {
            *cause = kind;
        }
        self
    }

    /// What kind of trouble data make; `None` for other errors.
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

    /// The same failure as one of a sample: `place` says which, the error's own place (file, offset) goes before it.
    /// Storage that fails is not the sample's fault and stays what it is, with the sample named; so does a read that was
    /// given up.
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

    /// The same for a file that holds one sample and nothing else: if it is gone or may not be read, that is this
    /// sample's fault. Anything else (a broken disk, a server that does not answer) is the storage's.
    pub(crate) fn of_own_file(self) -> Self {
        use std::io::ErrorKind;
        let Error::Storage { action, location, source } = &self else { return self };
        let own = match source.kind() {
            ErrorKind::NotFound
            | ErrorKind::UnexpectedEof
            | ErrorKind::IsADirectory
            | ErrorKind::NotADirectory => true,
            // A store that refuses refuses everything; only the local system forbids single files.
            ErrorKind::PermissionDenied => source.raw_os_error().is_some(),
            _ => false,
        };
        if own { Error::data((**location).clone(), format!("{action}: {source}")) } else { self }
    }

    /// Whether a sample is to blame, and leaving it out would help: not a storage that fails, memory that
    /// ends, nor a read given up.
    pub fn blames_sample(&self) -> bool {
        !matches!(self, Error::Storage { .. } | Error::OutOfMemory { .. } | Error::Closed(_))
    }

    /// The same, where the data set in which it happened calls the sample `sample`.
    pub fn seen_as(mut self, sample: u64) -> Self {
        if let Error::Storage { location, .. }
        | Error::Data { location, .. }
        | Error::Sample { location, .. } = &mut self
        {
            **location = std::mem::take(&mut **location).seen_as(sample);
        }
        self
    }

    /// Memory that was not to be had.
    pub fn out_of_memory(bytes: u64, purpose: impl Into<String>) -> Self {
        Error::OutOfMemory { bytes, purpose: purpose.into() }
    }

    /// A setting that cannot be.
    pub fn option(knob: impl Into<String>, reason: impl Into<String>) -> Self {
        Error::Option { knob: knob.into(), reason: without_secrets(reason) }
    }

    /// Whether something was not there.
    pub(crate) fn is_not_found(&self) -> bool {
        matches!(self, Error::Storage { source, .. } if source.kind() == std::io::ErrorKind::NotFound)
    }

    /// Where it happened, if it has a place.
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
    match shown(&text) {
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
    fn a_place_has_the_number_that_was_asked_for_and_the_sources_own() {
        let place = Location::new("/data").with_sample(17).seen_as(3);
        assert_eq!((place.sample, place.source_sample), (Some(3), Some(17)));
        assert_eq!(place.to_string(), "/data, sample 3 (17 of its source)");
        assert_eq!(place.seen_as(3).to_string(), "/data, sample 3 (17 of its source)");
        assert_eq!(Location::new("/data").with_sample(3).seen_as(3).to_string(), "/data, sample 3");
    }

    #[test]
    fn a_missing_file_is_its_samples_fault_and_a_broken_disk_is_not() {
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
    fn hint_stands_on_its_own_line() {
        let error = Error::data(Location::new("x"), "empty").with_hint("write it again");
        assert_eq!(error.to_string(), "x: empty\nhint: write it again");
    }
}
