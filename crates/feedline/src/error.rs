//! What can go wrong, and where. Every error names the place (uri, shard, sample, field, offset) as fields, so that
//! Python, the command line and a log can each say it in their own way.

use std::fmt;
use std::sync::Arc;

/// `Result` with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Where in the data something happened. Empty parts are unknown or do not apply.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Location {
    /// The data set, as the user named it.
    pub uri: String,
    /// The file or object inside it.
    pub shard: Option<String>,
    /// The sample's index in the data set.
    pub sample: Option<u64>,
    /// The field of the sample.
    pub field: Option<String>,
    /// Byte offset in the shard (or, for a decoding error, in the field's bytes).
    pub offset: Option<u64>,
}

impl Location {
    /// A place known only by the data set's uri.
    pub fn new(uri: impl Into<String>) -> Self {
        Location { uri: uri.into(), ..Location::default() }
    }

    /// The same, inside this file or object.
    pub fn with_shard(mut self, shard: impl Into<String>) -> Self {
        self.shard = Some(shard.into());
        self
    }

    /// The same, at this sample.
    pub fn with_sample(mut self, sample: u64) -> Self {
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
        Error::Storage { action, location: Box::new(location), source: Arc::new(source) }
    }

    /// Data that break their format's rules.
    pub fn data(location: Location, reason: impl Into<String>) -> Self {
        Error::Data { location: Box::new(location), reason: reason.into(), hint: String::new() }
    }

    /// The same, with advice.
    pub fn with_hint(mut self, advice: impl Into<String>) -> Self {
        if let Error::Data { hint, .. } = &mut self {
            *hint = advice.into();
        }
        self
    }

    /// A bad sample.
    pub fn sample(location: Location, stage: Stage, reason: impl fmt::Display) -> Self {
        Error::Sample { location: Box::new(location), stage, reason: reason.to_string() }
    }

    /// The same failure as one of a sample: `place` says which, the error's own place (file, offset) goes before it.
    pub(crate) fn of_sample(self, mut place: Location, stage: Stage) -> Self {
        let reason = match &self {
            Error::Sample { .. } => return self,
            Error::Data { reason, hint, .. } => format!("{reason}{}", hint_line(hint)),
            Error::Storage { action, source, .. } => format!("{action}: {source}"),
            other => other.to_string(),
        };
        if let Some(own) = self.location() {
            place.shard = own.shard.clone().or(place.shard);
            place.field = own.field.clone().or(place.field);
            place.offset = own.offset.or(place.offset);
        }
        Error::sample(place, stage, reason)
    }

    /// A setting that cannot be.
    pub fn option(knob: impl Into<String>, reason: impl Into<String>) -> Self {
        Error::Option { knob: knob.into(), reason: reason.into() }
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
    fn hint_stands_on_its_own_line() {
        let error = Error::data(Location::new("x"), "empty").with_hint("write it again");
        assert_eq!(error.to_string(), "x: empty\nhint: write it again");
    }
}
