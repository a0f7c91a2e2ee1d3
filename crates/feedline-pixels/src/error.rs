//! Errors of encoded pixels.

/// `Result` with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why bytes could not be decoded. The engine adds the file and the sample.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The first bytes match no known image format.
    #[error("not an image: {0}")]
    UnknownFormat(String),
    /// A known format, but a variant that no decoder here supports.
    #[error("unsupported {codec}: {reason}")]
    Unsupported {
        /// Short codec name, for example `jpeg`.
        codec: &'static str,
        /// What is not supported.
        reason: String,
    },
    /// The bytes violate their format.
    #[error("corrupt {codec} at byte {offset}: {reason}")]
    Corrupt {
        /// Short codec name, for example `jpeg`.
        codec: &'static str,
        /// Offset in the encoded bytes, as exactly as the decoder can tell.
        offset: u64,
        /// What is wrong there.
        reason: String,
    },
    /// The bytes end before the image is complete.
    #[error("truncated {codec}: {reason}")]
    Truncated {
        /// Short codec name, for example `jpeg`.
        codec: &'static str,
        /// How much could be decoded.
        reason: String,
    },
    /// Decoding would need more memory than the limit allows (a decompression bomb, or a truly huge image).
    #[error("image of {width}x{height} pixels is over the limit of {limit} pixels")]
    TooLarge {
        /// Declared width.
        width: u32,
        /// Declared height.
        height: u32,
        /// The limit.
        limit: u64,
    },
    /// The system has no more memory.
    #[error("out of memory: {bytes} bytes could not be allocated")]
    OutOfMemory {
        /// Number of bytes requested.
        bytes: u64,
    },
    /// The caller passed something impossible: a region that is empty or outside, an output buffer that is too short.
    #[error("{0}")]
    Misuse(String),
}

impl Error {
    pub(crate) fn out_of_memory<T>(elements: usize) -> Self {
        Error::OutOfMemory { bytes: (elements as u64).saturating_mul(size_of::<T>() as u64) }
    }
}
