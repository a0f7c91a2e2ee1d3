//! Encoded image bytes → pixels → tensor rows.
//!
//! This crate holds the mechanism and none of the policy: it gets slices and numbers, touches no file, starts no
//! thread, draws no random number, and gives the same bytes for the same input on every CPU. The engine (crate
//! `feedline`) draws the crop box; this crate decodes that box, resizes it and writes the finished row.

mod cpu;
pub mod dct;
mod decode;
mod error;
mod geometry;
pub mod jpeg;
mod normalize;
mod orient;
mod render;
mod resize;
pub mod turbo;
mod view;
pub mod yuv;

pub use cpu::CpuLevel;
pub use decode::{Codec, Decoder, Header, probe, sniff};
pub use error::{Error, Result};
pub use geometry::{Geometry, Window};
pub use normalize::{Dtype, Finish, Normalise, TensorLayout};
pub use orient::Orientation;
pub use render::{Renderer, Rendering};
pub use resize::Filter;
pub use view::{ImageMut, ImageRef, PixelLayout, Region, Size};
