//! What can be wrong with encoded pixels.

/// `Result` with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why bytes did not become pixels. The engine adds which file and sample it was.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The first bytes are those of no image format we know.
    #[error("not an image: {0}")]
    UnknownFormat(String),
    /// A known format, but a kind of it that no decoder here covers.
    #[error("unsupported {codec}: {reason}")]
    Unsupported {
        /// Short codec name, for example `jpeg`.
        codec: &'static str,
        /// What is not covered.
        reason: String,
    },
    /// The bytes break the rules of their format.
    #[error("corrupt {codec} at byte {offset}: {reason}")]
    Corrupt {
        /// Short codec name, for example `jpeg`.
        codec: &'static str,
        /// Where in the encoded bytes, as near as the decoder can tell.
        offset: u64,
        /// What is wrong there.
        reason: String,
    },
    /// The bytes end before the image does.
    #[error("truncated {codec}: {reason}")]
    Truncated {
        /// Short codec name, for example `jpeg`.
        codec: &'static str,
        /// How far it got.
        reason: String,
    },
    /// Decoding would need more memory than the limit allows (a decompression bomb, or a truly huge image).
    #[error("image of {width}x{height} pixels is over the limit of {limit} pixels")]
    TooLarge {
        /// Declared width.
        width: u32,
        /// Declared height.
        height: u32,
        /// The limit in force.
        limit: u64,
    },
    /// The system has no memory left for this.
    #[error("out of memory: {bytes} bytes are not to be had")]
    OutOfMemory {
        /// How many were asked for.
        bytes: u64,
    },
    /// The caller asked for something that cannot be: an empty or outlying region, a short output buffer.
    #[error("{0}")]
    Misuse(String),
}

impl Error {
    pub(crate) fn out_of_memory<T>(elements: usize) -> Self {
        Error::OutOfMemory { bytes: (elements as u64).saturating_mul(size_of::<T>() as u64) }
    }
}
