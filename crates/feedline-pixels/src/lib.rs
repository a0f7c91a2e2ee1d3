//! Encoded image bytes → pixels → tensor rows.
//!
//! This crate is mechanism without policy: it takes slices and numbers, opens no file, starts no thread and draws no
//! random number (noise is a function of the given seed). The same input gives the same bytes on every CPU. The engine
//! (crate `feedline`) draws the crop box; this crate decodes that box, resizes it and writes the finished row.

mod blend;
mod blur;
mod box_blur;
pub mod checksum;
mod clahe;
mod colour;
mod cpu;
pub mod dct;
mod decode;
mod effect;
mod error;
mod exif;
mod filter2d;
mod geometry;
mod histogram;
pub mod jpeg;
mod mask;
mod mixture;
mod nearest;
mod noise;
mod normalize;
mod opponent;
mod orient;
mod outline;
mod patches;
pub mod pieces;
mod point;
mod recompress;
mod render;
mod resize;
mod room;
mod sample;
mod sharpen;
mod spectrum;
pub mod turbo;
mod view;
mod warp;
mod whole;
pub mod yuv;

pub use blend::{RowForm, blend_pair, copy_box, copy_marked, exchange_boxes};
pub use blur::Gaussian;
pub use clahe::Clahe;
pub use colour::{RowOp, Table};
pub use cpu::CpuLevel;
pub use decode::{Codec, Decoder, ImageHeader, Mode, check_amount, probe, select_page, sniff};
pub use effect::{Effect, Overlay};
pub use error::{Error, Result};
pub use filter2d::Kernel;
pub use geometry::{Geometry, Window};
pub use mask::{Background, Boxes, Fade, Scene};
pub use mixture::Mixture;
pub use nearest::{LabelType, Nearest, widen_labels};
pub use noise::{GaussianNoise, SaltAndPepper};
pub use normalize::{Dtype, Finish, Normalise, TensorLayout};
pub use opponent::{Opponent, OpponentRunner};
pub use orient::Orientation;
pub use outline::{PolygonFiller, Vertex, fill_runs, unpack_runs};
pub use patches::Patches;
pub use point::Point;
pub use render::{Renderer, Rendering};
pub use resize::{Filter, append_rgbx, resample_wide};
pub use room::{fit, reserve};
pub use sample::{Outside, Places, Sample, elastic_offsets};
pub use view::{Channels, ImageMut, ImageRef, Number, PixelLayout, Region, Size};
pub use warp::{Map, Warp, WarpFilter};
pub use whole::{Border, WholeOp, WholeRunner};
