//! The action of operations that sample pixels as torch does: the tensor version of warps, lenses, elastic fields.

use feedline_pixels::{Effect, Map, Outside, Places, Sample, Size, WarpFilter, WholeOp};
use serde::{Deserialize, Serialize};

use super::warp::{STAYS, check_tensor_interpolation, exact};
use crate::transform::Interpolation;
use crate::transform::action::Act;
use crate::transform::fuse::Fusion;
use crate::transform::op::check_size;

/// Content outside the image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PadMode {
    /// Black.
    #[default]
    Zeros,
    /// The outermost pixel.
    Border,
    /// The image, mirrored at its edges.
    Reflection,
}

/// Source places of the pixels.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", deny_unknown_fields)]
pub(crate) enum SourcePixels {
    /// Six coefficients of an affine map, or eight of a perspective.
    Map {
        #[serde(with = "exact")]
        coefficients: Vec<f64>,
    },
    Lens {
        distortion: f64,
        shift: (f64, f64),
    },
    Elastic {
        alpha: (f32, f32),
        sigma: (f32, f32),
        seed: u64,
    },
}

/// Samples every pixel at another place, blended and rounded as in torch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Sampled {
    pub(super) whence: SourcePixels,
    pub(super) height: u32,
    pub(super) width: u32,
    pub(super) interpolation: Interpolation,
    pub(super) outside: PadMode,
    /// Colour outside if `outside` is zeros.
    pub(super) fill: [u8; 3],
}

impl Act for Sampled {
    fn check(&self, _before: Size) -> Result<(), String> {
        if let SourcePixels::Map { coefficients } = &self.whence
            && !matches!(coefficients.len(), 6 | 8)
        {
            return Err(format!("a warp has 6 or 8 coefficients, not {}", coefficients.len()));
        }
        if let SourcePixels::Elastic { sigma: (x, y), alpha: (a, b), .. } = self.whence {
            check_elastic((f64::from(a), f64::from(b)), (f64::from(x), f64::from(y)))?;
        }
        check_tensor_interpolation(self.interpolation)?;
        check_size((self.height, self.width))
    }

    fn output(&self, _before: Size) -> Size {
        Size::new(self.width, self.height)
    }

    fn plan(&self, fusion: &mut Fusion<'_>) {
        let places = match &self.whence {
            SourcePixels::Map { coefficients } => Places::Map(map(coefficients)),
            SourcePixels::Lens { distortion, shift } => {
                Places::Lens { distortion: *distortion, shift: *shift }
            }
            SourcePixels::Elastic { alpha, sigma, seed } => {
                Places::Elastic { alpha: *alpha, sigma: *sigma, seed: *seed }
            }
        };
        let filter = match self.interpolation {
            Interpolation::Nearest => WarpFilter::Nearest,
            _ => WarpFilter::Bilinear,
        };
        let outside = match self.outside {
            PadMode::Zeros => Outside::Fill(self.fill),
            PadMode::Border => Outside::Edge,
            PadMode::Reflection => Outside::Reflect,
        };
        let output = Size::new(self.width, self.height);
        if places == Places::Map(Map::Affine(STAYS)) && output == fusion.size() {
            return;
        }
        let sample = Sample { places, output, filter, outside };
        fusion.whole_placed(WholeOp::Effect(Box::new(Effect::Sample(sample))), output);
    }
}

/// Six or eight coefficients as a map; their number is checked where they are read.
pub(super) fn map(coefficients: &[f64]) -> Map {
    match *coefficients {
        [a, b, c, d, e, f] => Map::Affine([a, b, c, d, e, f]),
        [a, b, c, d, e, f, g, h] => Map::Perspective([a, b, c, d, e, f, g, h]),
        _ => unreachable!("the number is checked where it is read"),
    }
}

/// Larger values would need kernels wider than any image.
const SMOOTHEST: f64 = 200.0;

pub(super) fn check_elastic(alpha: (f64, f64), sigma: (f64, f64)) -> Result<(), String> {
    let good = |value: f64, most: f64| (0.0..=most).contains(&value);
    if !good(alpha.0, 1e6) || !good(alpha.1, 1e6) {
        return Err(format!("alpha must be numbers of at least 0, not {alpha:?}"));
    }
    if !good(sigma.0, SMOOTHEST) || !good(sigma.1, SMOOTHEST) {
        return Err(format!("sigma must be numbers between 0 and {SMOOTHEST}, not {sigma:?}"));
    }
    Ok(())
}
