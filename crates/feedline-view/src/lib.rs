//! A local web page: a data set's samples, what augmentation does to them, and how a running loader fares.
//!
//! ```text
//! server   sockets, limits, who may ask          page/   what the browser runs; built in, nothing from elsewhere
//! answer   a question's words → its answer       query   the words of a question
//! images   samples as JPEG and PNG               sheet   everything about one sample
//! jobs     filters and summaries, in threads     play    n draws of one image; pipeline: a list as people write it
//! live     statistics of running loaders         report  the same page in one file
//! ```
//!
//! The server listens on the loopback address only, answers nobody who does not bring the token, and reads nothing but
//! the data sets it was given: questions name samples by number, never files.

mod answer;
mod exif;
mod images;
mod jobs;
mod live;
mod pipeline;
mod play;
mod query;
mod recording;
mod report;
mod server;
mod sheet;

use feedline::Dataset;

pub use images::{jpeg, thumbnail};
pub use live::Live;
pub use pipeline::{from_text, to_python};
pub use report::report;
pub use server::Server;

/// What a page shows.
#[derive(Debug, Default)]
pub struct Site {
    /// Data sets; with two, the page compares them.
    pub sets: Vec<Dataset>,
    /// Running loaders.
    pub live: Live,
}
