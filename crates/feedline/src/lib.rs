//! feedline feeds training: it turns stored samples into batches of tensors.
//!
//! ```text
//! Source ──► Format ──► Order ──► read ──► decode ──► transform ──► batch ──► loader
//! bytes by   sample →   position  when     bytes →    crop, flip,   memory    threads,
//! range      fields     → sample  bytes    pixels     normalise     with an   in-order
//!            values               come                              owner     delivery
//! ```

mod batch;
mod dataset;
mod decode;
mod encode;
mod error;
mod format;
mod loader;
mod order;
mod owned;
mod random;
mod read;
mod sample;
mod source;
mod spec;
mod transform;

pub use batch::{Batch, Column, ColumnSpec, Layout, Meaning, PoolStats, Slab};
pub use dataset::{CopyStatus, Dataset, DatasetSpec, OpenOptions, open};
pub use encode::{PackSettings, StoredImage, decode_image, is_image};
pub use error::{Error, Location, Result, Stage};
pub use format::{
    ConvertOptions, ConvertReport, Damage, EncodedImage, Format, ImageEncoder, ImageInput, KeepImages,
    OnPackError, PackOptions, PackPlan, PackReport, PackWriter, ProbeImage, Progress, ReadingOptions,
    Skipped, VerifyReport, commit_pack, convert, convert_into, convert_targets, format_names, pack,
    pack_into, plan_pack, verify, write_part,
};
pub use loader::{Epoch, Loader, MemoryStats, Next, StageSeconds, Stats, mix};
pub use order::{Identity, STATE_VERSION, State};
pub use owned::{OwnedValue, Sample};
pub use sample::{
    DType, Extent, FieldSet, FieldSpec, Fingerprint, ImageEncoding, ImageMeta, Kind, MAX_DIMENSIONS,
    MAX_FIELDS, SampleBuffer, Schema, Value,
};
pub use source::{
    CacheReport, CachedEntry, CachedSource, Destination, DiskCache, Entry, Held, Listing, LocalSource,
    MemorySource, Object, RemoteSource, Seen, Sink, Source, Storage, Target, Ticket, resolve,
};
pub use spec::{
    DecodeMode, FieldTransforms, ImageDType, LoaderOptions, MemoryFormat, OnError, Sampler, Shuffle,
};
pub use transform::{CropMethod, Interpolation, Transform};
