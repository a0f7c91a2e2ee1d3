//! Errors of audio files.

/// Why audio cannot be decoded or processed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file is not audio that is known here.
    #[error("not audio of a known kind (wav, flac, mp3, aac, ogg vorbis, alac): {0}")]
    Unknown(String),
    /// The file is damaged or ends early.
    #[error("{0}")]
    Malformed(String),
    /// Memory could not be allocated.
    #[error("no memory for {bytes} bytes of audio")]
    OutOfMemory {
        /// How much was asked for.
        bytes: u64,
    },
}

/// Result of this crate's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Appends `count` zeros; a failed allocation is an error.
pub(crate) fn zeros(into: &mut Vec<f32>, count: usize) -> Result<()> {
    into.try_reserve(count).map_err(|_| Error::OutOfMemory { bytes: 4 * count as u64 })?;
    into.resize(into.len() + count, 0.0);
    Ok(())
}
