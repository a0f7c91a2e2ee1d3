//! WHAT MOVES WITH AN IMAGE: masks, boxes and keypoints of the same sample. One drawn program serves all of them; each
//! takes of it what moves pixels and leaves the rest. Masks are moved by `render/labels`, points and boxes here.

mod boxes;
mod points;

use serde::{Deserialize, Serialize};

use super::{Program, Segment, Transform};
use crate::field::DType;
use feedline_pixels::{Effect, Geometry, WholeOp};

pub(crate) use boxes::{read_boxes, write_box};
pub(crate) use points::Mover;

/// A field that moves with an image.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Target {
    /// The image field it moves with; the only one that is no target if `None`.
    #[serde(default)]
    pub of: Option<String>,
    /// What it holds.
    pub role: Role,
}

/// What a target holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "lowercase", deny_unknown_fields)]
pub enum Role {
    /// A number per pixel, or several such planes. Never blended.
    Mask {
        /// The number where the image shows nothing.
        #[serde(default)]
        fill: i64,
        /// Type of the result: int64, int32 or uint8.
        #[serde(default = "int64")]
        dtype: DType,
    },
    /// Four numbers per object.
    Boxes(Boxes),
    /// Two numbers per point, or three with visibility.
    Keypoints {},
}

fn int64() -> DType {
    DType::I64
}

fn yes() -> bool {
    true
}

fn one() -> f64 {
    1.0
}

/// How boxes are written, and which are dropped.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Boxes {
    /// What the four numbers are.
    #[serde(default)]
    pub format: BoxFormat,
    /// Whether they are shares of width and height.
    #[serde(default)]
    pub normalized: bool,
    /// Fields with one value per box; they lose the values of boxes that are dropped.
    #[serde(default)]
    pub labels: Vec<String>,
    /// Whether boxes are cut at the image's edges.
    #[serde(default = "yes")]
    pub clip: bool,
    /// Boxes with a shorter side than this, in pixels, are dropped.
    #[serde(default = "one")]
    pub min_size: f64,
    /// Boxes of which a smaller share is left are dropped.
    #[serde(default)]
    pub min_visibility: f64,
}

impl Default for Boxes {
    fn default() -> Self {
        Boxes {
            format: BoxFormat::Xyxy,
            normalized: false,
            labels: Vec::new(),
            clip: true,
            min_size: 1.0,
            min_visibility: 0.0,
        }
    }
}

/// What a box's four numbers are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BoxFormat {
    /// Left, top, right, bottom.
    #[default]
    Xyxy,
    /// Left, top, width, height.
    Xywh,
    /// Middle, width, height.
    Cxcywh,
}

impl Role {
    /// Whether the settings make sense; the error is the reason.
    pub(crate) fn check(&self) -> Result<(), String> {
        match self {
            Role::Mask { fill, dtype } => {
                let (low, high) = match dtype {
                    DType::I64 => (i64::MIN, i64::MAX),
                    DType::I32 => (i64::from(i32::MIN), i64::from(i32::MAX)),
                    DType::U8 => (0, 255),
                    other => {
                        return Err(format!("dtype must be int64, int32 or uint8, not {}", other.name()));
                    }
                };
                if (low..=high).contains(fill) {
                    Ok(())
                } else {
                    Err(format!("fill {fill} is no {}", dtype.name()))
                }
            }
            Role::Boxes(boxes) => {
                if !(0.0..=1.0).contains(&boxes.min_visibility) {
                    return Err(format!(
                        "min_visibility must be between 0 and 1, not {}",
                        boxes.min_visibility
                    ));
                }
                if boxes.min_size.is_nan() || boxes.min_size < 0.0 {
                    return Err(format!("min_size must be at least 0, not {}", boxes.min_size));
                }
                Ok(())
            }
            Role::Keypoints {} => Ok(()),
        }
    }
}

/// Why targets cannot follow these transforms, if they cannot.
pub(crate) fn refusal(transforms: &[Transform], copies: u32) -> Option<String> {
    if copies > 1 {
        return Some(
            "FiveCrop and TenCrop make several images of one; targets have no place in them".to_owned(),
        );
    }
    let plain = serde_json::to_value(transforms).unwrap_or_default();
    names_op(&plain, "AugMix").then(|| {
        "AugMix blends several warped copies of the image; there is no one place where targets would be"
            .to_owned()
    })
}

fn names_op(value: &serde_json::Value, name: &str) -> bool {
    match value {
        serde_json::Value::Array(all) => all.iter().any(|each| names_op(each, name)),
        serde_json::Value::Object(all) => {
            all.get("op").is_some_and(|op| op == name) || all.values().any(|each| names_op(each, name))
        }
        _ => false,
    }
}

/// Whether a pass puts pixels at other places.
pub(crate) fn moves(segment: &Segment) -> bool {
    match segment {
        Segment::Resample { geometry, .. } => *geometry != Geometry::identity(geometry.image),
        Segment::Warp(_) | Segment::Whole(WholeOp::Pad(..)) => true,
        Segment::Whole(WholeOp::Effect(effect)) => {
            matches!(**effect, Effect::Sample(_) | Effect::Patches(_) | Effect::Scene(_))
        }
        Segment::Whole(_) | Segment::Rows(_) | Segment::Mix { .. } => false,
    }
}

/// The passes of a program that put pixels at other places.
pub(crate) fn moving(program: &Program) -> impl Iterator<Item = &Segment> {
    program.segments.iter().filter(|segment| moves(segment))
}
