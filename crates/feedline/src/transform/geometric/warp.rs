//! The action of everything that rotates, shears or bends.

use feedline_pixels::{Map, Size, Warp, WarpFilter};
use serde::{Deserialize, Serialize};

use super::sampled::{PadMode, Sampled, SourcePixels, map};
use crate::transform::action::Act;
use crate::transform::fuse::Fusion;
use crate::transform::op::check_size;
use crate::transform::{Action, Interpolation, Like};

/// Samples every pixel at another place: `coefficients` are six for an affine map or eight for a perspective, from the
/// result's coordinates to the image's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Warped {
    #[serde(with = "exact")]
    pub(super) coefficients: Vec<f64>,
    pub(super) height: u32,
    pub(super) width: u32,
    pub(super) interpolation: Interpolation,
    pub(super) fill: [u8; 3],
}

/// Numbers as text: as JSON numbers the last bit could change, and a rotation's centre pixel is exactly on an
/// edge. Plain numbers are read as well.
pub(super) mod exact {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Written {
        Number(f64),
        Text(String),
    }

    pub(in super::super) fn serialize<S: Serializer>(
        numbers: &[f64],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        numbers.iter().map(|number| format!("{number:?}")).collect::<Vec<_>>().serialize(serializer)
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<f64>, D::Error> {
        let number = |written| match written {
            Written::Number(number) => Ok(number),
            Written::Text(text) => text.parse().map_err(serde::de::Error::custom),
        };
        Vec::<Written>::deserialize(deserializer)?.into_iter().map(number).collect()
    }
}

/// The map that leaves every pixel where it is.
pub(super) const STAYS: [f64; 6] = [1.0, 0.0, 0.0, 0.0, 1.0, 0.0];

/// Only these are supported for warps.
pub(super) fn check_interpolation(interpolation: Interpolation) -> Result<(), String> {
    match interpolation {
        Interpolation::Nearest | Interpolation::Bilinear | Interpolation::Bicubic => Ok(()),
        other => {
            Err(format!("interpolation must be nearest, bilinear or bicubic here, not {other:?}")
                .to_lowercase())
        }
    }
}

/// Only these are supported for warps that follow torch's rule.
pub(super) fn check_tensor_interpolation(interpolation: Interpolation) -> Result<(), String> {
    match interpolation {
        Interpolation::Nearest | Interpolation::Bilinear => Ok(()),
        other => Err(format!("interpolation must be nearest or bilinear here, not {other:?}").to_lowercase()),
    }
}

/// Only these are supported with this `like`.
pub(super) fn check_dialect(interpolation: Interpolation, like: Like) -> Result<(), String> {
    match like {
        Like::Pil => check_interpolation(interpolation),
        Like::Tensor => check_tensor_interpolation(interpolation),
    }
}

impl Warped {
    /// The same map, with the pixels of PIL images or tensors.
    pub(in crate::transform) fn like(self, like: Like) -> Action {
        if like == Like::Pil {
            return self.into();
        }
        let Warped { coefficients, height, width, interpolation, fill } = self;
        let whence = SourcePixels::Map { coefficients };
        Sampled { whence, height, width, interpolation, outside: PadMode::Zeros, fill }.into()
    }
}

impl Act for Warped {
    fn check(&self, _before: Size) -> Result<(), String> {
        if !matches!(self.coefficients.len(), 6 | 8) {
            return Err(format!("a warp has 6 or 8 coefficients, not {}", self.coefficients.len()));
        }
        check_interpolation(self.interpolation)?;
        check_size((self.height, self.width))
    }

    fn output(&self, _before: Size) -> Size {
        Size::new(self.width, self.height)
    }

    fn plan(&self, fusion: &mut Fusion<'_>) {
        let map = map(&self.coefficients);
        let filter = match self.interpolation {
            Interpolation::Nearest => WarpFilter::Nearest,
            Interpolation::Bicubic => WarpFilter::Bicubic,
            _ => WarpFilter::Bilinear,
        };
        let output = Size::new(self.width, self.height);
        if map == Map::Affine(STAYS) && output == fusion.size() {
            return;
        }
        fusion.warp(Warp { map, output, filter, fill: self.fill });
    }
}
