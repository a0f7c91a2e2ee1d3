//! Errors of video files.

/// Why a video cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The container or the codec is not known here.
    #[error("{0}")]
    Unsupported(String),
    /// The file is damaged or ends early.
    #[error("{0}")]
    Malformed(String),
    /// No decoder for the codec is there.
    #[error("{0}")]
    NoDecoder(String),
    /// A packet is needed that the caller did not read: [`Index::needed`](crate::Index::needed) was too few.
    #[error("packet {packet} was not read")]
    NotRead {
        /// Its number.
        packet: u32,
    },
    /// Memory could not be allocated.
    #[error("no memory for {bytes} bytes of video")]
    OutOfMemory {
        /// How much was asked for.
        bytes: u64,
    },
}

/// Result of this crate's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of a damaged file.
pub(crate) fn malformed(reason: impl Into<String>) -> Error {
    Error::Malformed(reason.into())
}
