//! feedline feeds training: it turns stored samples into batches of tensors.
//!
//! ```text
//! Source ──► Format ──► Order ──► read ──► transform ──► render ──► batch ──► loader
//! bytes by   sample →   position  when     what to      decode,    memory    threads,
//! range      fields     → sample  bytes    do, drawn    run it     with an   in-order
//!            values               come     beforehand              owner     delivery
//! ```
//!
//! [`open`] detects what a path or an address contains and returns a [`Dataset`]: samples by number. A [`Loader`] reads
//! it in an order that depends only on seed and epoch, decodes and augments on its own threads, and hands over a
//! [`Batch`] at a time. [`pack`] writes a data set in feedline's own format, which loads fastest.
//!
//! ```
//! use feedline::field::{FieldSpec, Schema};
//! use feedline::format::PackWriter;
//! use feedline::owned::OwnedValue;
//! use feedline::{Kind, Loader, LoaderOptions, PackSettings, Sample, Shuffle};
//!
//! # fn main() -> feedline::Result<()> {
//! # let folder = std::env::temp_dir().join(format!("feedline-doc-{}", std::process::id()));
//! // A small data set: a number and a text per sample.
//! let schema =
//!     Schema { fields: vec![FieldSpec::new("label", Kind::Int), FieldSpec::new("text", Kind::Text)], classes: None };
//! let mut writer = PackWriter::create(&folder, schema, PackSettings::default().options()?)?;
//! for number in 0..10 {
//!     let text = OwnedValue::Text(format!("sample {number}"));
//!     writer.push(&Sample::new([("label", OwnedValue::Int(number)), ("text", text)]))?;
//! }
//! writer.finish()?;
//!
//! // Batches of four, in a new random order every epoch.
//! let dataset = feedline::open(folder.display().to_string())?;
//! let options = LoaderOptions::default().with_batch_size(4).with_shuffle(Shuffle::Full).with_seed(7);
//! let loader = Loader::new(dataset, options)?;
//! let mut seen = 0;
//! for batch in loader.epoch(0)? {
//!     let batch = batch?;
//!     let labels = batch.column("label").and_then(|column| column.as_i64()).expect("integers");
//!     assert_eq!(labels.len(), batch.rows());
//!     seen += batch.rows();
//! }
//! assert_eq!(seen, 10);
//! # std::fs::remove_dir_all(&folder).ok();
//! # Ok(())
//! # }
//! ```
//!
//! The root has what most programs need; the rest is in the modules, one for each stage. Nothing here is `async`.
//! Inside an asynchronous program, call feedline from a thread that may block, such as tokio's `spawn_blocking`;
//! waiting never uses the program's own runtime.
//!
//! # Cargo features
//!
//! All but the last line are on by default. With `default-features = false`, packs, image folders, tables (CSV, JSON
//! lines), JPEG, PNG, BMP, QOI and the portable maps are left; anything else is refused by name.
//!
//! | features | what they bring |
//! |---|---|
//! | `remote` | S3 and its kin, Google Cloud Storage, Azure, http(s) |
//! | `array-record`, `arrow`, `beton`, `hdf5`, `litdata`, `lmdb`, `mds`, `npy`, `parquet`, `recordio`, `slipcache`, `tbl`, `tfrecord`, `webdataset`, `zarr`, `zip` | formats of other systems |
//! | `audio`, `video` | files of audio; video by FFmpeg's libraries, if they are found at run time |
//! | `avif`, `gif`, `jpeg-2000`, `jpeg-xl`, `tiff`, `webp` | image codecs |
//! | `ndarray` | columns as `ndarray` views |

pub mod apply;
pub mod batch;
pub mod dataset;
pub mod encode;
pub mod loader;
pub mod order;
mod random;
mod read;
mod render;
pub mod spec;
pub mod transform;
pub mod video;

// Sources and formats are in a crate of their own; their modules have the same paths here.
pub use feedline_format::{error, field, format, owned, sample, source};

pub use batch::{Batch, Column};
pub use dataset::{Dataset, OpenOptions, open};
pub use encode::{PackCheck, PackSettings, VideoEncoding};
pub use error::{Error, Result};
pub use field::{DType, Kind};
pub use format::pack;
pub use loader::{Epoch, Loader};
pub use owned::Sample;
pub use spec::{DecodeMode, IndexMode, LoaderOptions, OnError, ReadAhead, Sampler, Shuffle};
pub use transform::Transform;
