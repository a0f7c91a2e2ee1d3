//! Why a command failed: what is printed after `error:`, and the exit code.

use std::io::ErrorKind;

use feedline::Error;

use crate::{ExitCode, words};

/// Why a command failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// An error of the engine.
    Engine {
        /// The engine's error.
        error: Error,
        /// Advice of the command line, if it is better than the engine's.
        advice: Option<&'static str>,
    },
    /// The command line asks for something impossible.
    Usage {
        /// The reason.
        reason: String,
        /// What to do instead; may be empty.
        hint: String,
    },
    /// Interrupted by Ctrl-C.
    Interrupted {
        /// What was stopped, and its progress.
        reason: String,
        /// How to resume; may be empty.
        hint: String,
    },
}

impl Failure {
    /// The engine's error with the command line's advice.
    pub(crate) fn advised(error: Error, advice: &'static str) -> Self {
        Failure::Engine { error, advice: Some(advice) }
    }

    /// A mistake on the command line.
    pub(crate) fn usage(reason: impl Into<String>, hint: impl Into<String>) -> Self {
        Failure::Usage { reason: reason.into(), hint: hint.into() }
    }

    /// Stopped by Ctrl-C.
    pub(crate) fn interrupted(reason: impl Into<String>, hint: impl Into<String>) -> Self {
        Failure::Interrupted { reason: reason.into(), hint: hint.into() }
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        match self {
            Failure::Engine { error: Error::Option { .. }, .. } | Failure::Usage { .. } => ExitCode::Usage,
            Failure::Engine { .. } => ExitCode::Data,
            Failure::Interrupted { .. } => ExitCode::Interrupted,
        }
    }

    /// What happened, without advice.
    pub(crate) fn message(&self) -> String {
        match self {
            Failure::Engine { error, .. } => words::knob(split_hint(&error.to_string()).0),
            Failure::Usage { reason, .. } | Failure::Interrupted { reason, .. } => reason.clone(),
        }
    }

    /// What to do about it, if known.
    pub(crate) fn hint(&self) -> Option<String> {
        let text = match self {
            Failure::Engine { advice: Some(advice), .. } => (*advice).to_owned(),
            Failure::Engine { error, .. } => words::translate(&engine_hint(error)?),
            Failure::Usage { hint, .. } | Failure::Interrupted { hint, .. } => hint.clone(),
        };
        (!text.is_empty()).then_some(text)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure::Engine { error, advice: None }
    }
}

/// The message and its `hint:` line, if it has one.
pub(crate) fn split_hint(text: &str) -> (&str, Option<&str>) {
    match text.split_once("\nhint: ") {
        Some((message, hint)) => (message, Some(hint)),
        None => (text, None),
    }
}

fn engine_hint(error: &Error) -> Option<String> {
    if let Some(hint) = split_hint(&error.to_string()).1 {
        return Some(hint.to_owned());
    }
    let Error::Storage { source, .. } = error else { return None };
    Some(match source.kind() {
        ErrorKind::NotFound => "check the path; patterns such as '*.tar' need quotes".to_owned(),
        ErrorKind::PermissionDenied => "you lack the permission; see 'ls -ld' of the path".to_owned(),
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            "free some disk space, then run the same command again; finished work is kept".to_owned()
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use feedline::error::Location;

    #[test]
    fn wrong_settings_and_bad_data_have_different_exit_codes() {
        assert_eq!(Failure::from(Error::option("x", "no")).exit_code(), ExitCode::Usage);
        assert_eq!(Failure::from(Error::data(Location::new("x"), "no")).exit_code(), ExitCode::Data);
    }

    #[test]
    fn hints_have_a_line_of_their_own() {
        let failure = Failure::from(Error::data(Location::new("x"), "empty").with_hint("fill it"));
        assert_eq!((failure.message().as_str(), failure.hint().as_deref()), ("x: empty", Some("fill it")));
        let missing = Error::storage("opening", Location::new("x"), ErrorKind::NotFound.into());
        assert!(Failure::from(missing).hint().is_some());
    }
}
