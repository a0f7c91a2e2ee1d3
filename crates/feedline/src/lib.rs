//! feedline feeds training: it turns stored samples into batches of tensors.
//!
//! ```text
//! Source ──► Format ──► Order ──► read ──► decode ──► transform ──► batch ──► loader
//! bytes by   sample →   position  when     bytes →    crop, flip,   memory    threads,
//! range      fields     → sample  bytes    pixels     normalise     with an   in-order
//!            values               come                              owner     delivery
//! ```

mod error;
mod format;
mod sample;
mod source;

pub use error::{Error, Location, Result, Stage};
pub use format::Format;
pub use sample::{
    DType, Extent, FieldSet, FieldSpec, Fingerprint, ImageEncoding, ImageMeta, Kind, MAX_DIMENSIONS,
    SampleBuffer, Schema, Value,
};
pub use source::{Entry, Held, Listing, LocalSource, MemorySource, Object, Source, Target, resolve};
