//! Objects given by their outlines, as COCO's annotations have them: a JSON list with, per object, a list of polygons
//! or run lengths.

use feedline_pixels::{PolygonFiller, Size, Vertex, fill_runs, fit, unpack_runs};
use serde::Deserialize;

/// One object. Without polygons it has no pixel.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
pub(crate) enum Outline {
    /// Corners as x, y, x, y, …; the object is all polygons together.
    Polygons(Vec<Vec<f64>>),
    /// Run lengths down the columns of an image of this height and width.
    Runs { size: (u32, u32), counts: Counts },
}

/// Run lengths as numbers, or as COCO's text.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
pub(crate) enum Counts {
    Numbers(Vec<u64>),
    Text(String),
}

/// Reads the outlines of a sample's objects.
pub(crate) fn read_outlines(json: &[u8]) -> Result<Vec<Outline>, String> {
    serde_json::from_slice(json)
        .map_err(|error| format!("not a list of COCO's polygons or run lengths: {error}"))
}

impl Outline {
    /// Draws the object, one byte per pixel, 1 inside and 0 outside.
    pub(crate) fn draw(
        &self,
        filler: &mut PolygonFiller,
        image: Size,
        plane: &mut Vec<u8>,
    ) -> Result<(), String> {
        plane.clear();
        fit(plane, image.area() as usize, 0).map_err(|error| error.to_string())?;
        match self {
            Outline::Polygons(polygons) => polygons.iter().try_for_each(|numbers| {
                filler.fill(&corners(numbers)?, image, plane).map_err(|e| e.to_string())
            }),
            Outline::Runs { size: (height, width), counts } => {
                if Size::new(*width, *height) != image {
                    let Size { width: w, height: h } = image;
                    return Err(format!("run lengths of {height}x{width} for an image of {h}x{w}"));
                }
                let drawn = match counts {
                    Counts::Numbers(runs) => fill_runs(runs, image, plane),
                    Counts::Text(text) => {
                        unpack_runs(text.as_bytes()).and_then(|runs| fill_runs(&runs, image, plane))
                    }
                };
                drawn.map_err(|error| error.to_string())
            }
        }
    }
}

fn corners(numbers: &[f64]) -> Result<Vec<Vertex>, String> {
    if !numbers.len().is_multiple_of(2) {
        return Err(format!("a polygon of {} numbers: corners have two each", numbers.len()));
    }
    Ok(numbers.as_chunks::<2>().0.iter().map(|[x, y]| (*x, *y)).collect())
}
