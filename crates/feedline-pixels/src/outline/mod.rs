//! Objects drawn by their outlines: polygons, and run lengths down the columns, both with the pixels that COCO's own
//! tools give.

mod polygon;
mod runs;

pub use polygon::{PolygonFiller, Vertex};
pub use runs::{fill_runs, unpack_runs};

use crate::{Error, Result, Size};

/// Checks that a plane has one byte per pixel.
fn check_plane(size: Size, plane: &[u8]) -> Result<()> {
    if plane.len() as u64 == size.area() {
        return Ok(());
    }
    Err(Error::Misuse(format!("a plane of {} bytes for {} pixels", plane.len(), size.area())))
}
