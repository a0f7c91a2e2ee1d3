//! TARGETS: masks, boxes and keypoints that move with an image of the same sample. One drawn program serves all of
//! them; each uses the part that moves pixels. `render/labels` moves masks, this folder moves points and boxes.

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
    /// The image field it moves with; if `None`, the only one that is not a target.
    #[serde(default)]
    pub of: Option<String>,
    /// Kind of target.
    pub role: Role,
}

/// Kind of a target.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "lowercase", deny_unknown_fields)]
pub enum Role {
    /// A number per pixel, or several such planes. Never blended.
    Mask {
        /// The number where there is no image.
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

/// Format of boxes, and which are dropped.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Boxes {
    /// Meaning of the four numbers.
    #[serde(default)]
    pub format: BoxFormat,
    /// Whether the numbers are shares of width and height.
    #[serde(default)]
    pub normalized: bool,
    /// Fields with one value per box; values of dropped boxes are removed.
    #[serde(default)]
    pub labels: Vec<String>,
    /// Whether boxes are cut at the image's edges.
    #[serde(default = "yes")]
    pub clip: bool,
    /// Boxes with a side shorter than this, in pixels, are dropped.
    #[serde(default = "one")]
    pub min_size: f64,
    /// Boxes of which a smaller share remains are dropped.
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

/// Meaning of a box's four numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BoxFormat {
    /// Left, top, right, bottom.
    #[default]
    Xyxy,
    /// Left, top, width, height.
    Xywh,
    /// Centre, width, height.
    Cxcywh,
}

impl Role {
    /// Checks the settings; the error is the reason.
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
                    Err(format!("fill {fill} does not fit in {}", dtype.name()))
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

/// Whether a draw of these transforms looks at the sample's boxes.
pub(crate) fn needs_boxes(transforms: &[Transform]) -> bool {
    let plain = serde_json::to_value(transforms).unwrap_or_default();
    names_op(&plain, "RandomIoUCrop")
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

/// Whether a pass moves pixels.
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

/// The passes of a program that move pixels.
pub(crate) fn moving(program: &Program) -> impl Iterator<Item = &Segment> {
    program.segments.iter().filter(|segment| moves(segment))
}
