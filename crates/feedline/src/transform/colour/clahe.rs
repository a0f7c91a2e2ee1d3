//! `CLAHE`.

use feedline_pixels::{Clahe, Effect, Size, WholeOp};
use serde::{Deserialize, Serialize};

use crate::transform::action::Act;
use crate::transform::fuse::Fusion;
use crate::transform::op::{Op, check_p, check_range, half};
use crate::transform::params::{Params, Place, tidy};

/// Contrast-limited adaptive histogram equalisation of the lightness, with probability `p`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CLAHE {
    /// Smallest and largest contrast limit.
    #[serde(default = "default_limit")]
    pub clip_limit: (f64, f64),
    /// Number of tiles down and across.
    #[serde(default = "eight")]
    pub tile_grid_size: (u32, u32),
    /// Probability.
    #[serde(default = "half")]
    pub p: f64,
}

fn default_limit() -> (f64, f64) {
    (1.0, 4.0)
}

fn eight() -> (u32, u32) {
    (8, 8)
}

fn check_tiles((down, across): (u32, u32)) -> Result<(), String> {
    if (1..=256).contains(&down) && (1..=256).contains(&across) {
        return Ok(());
    }
    Err(format!("tile_grid_size must be between 1 and 256, not ({down}, {across})"))
}

impl Op for CLAHE {
    fn check(&self) -> Result<(), String> {
        check_range("clip_limit", self.clip_limit, (0.0, 1e6))?;
        check_tiles(self.tile_grid_size)?;
        check_p(self.p)
    }

    fn draw(&self, place: &Place, into: &mut Params) -> Result<(), String> {
        let mut draw = place.draw();
        if draw.chance(self.p) {
            let clip_limit = tidy(draw.between(self.clip_limit.0, self.clip_limit.1));
            into.push(EqualizeTiles { clip_limit, tile_grid_size: self.tile_grid_size });
        }
        Ok(())
    }
}

/// Adaptive equalisation.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct EqualizeTiles {
    clip_limit: f64,
    tile_grid_size: (u32, u32),
}

impl Act for EqualizeTiles {
    fn check(&self, _before: Size) -> Result<(), String> {
        check_range("clip_limit", (self.clip_limit, self.clip_limit), (0.0, 1e6))?;
        check_tiles(self.tile_grid_size)
    }

    fn plan(&self, fusion: &mut Fusion<'_>) {
        let (down, across) = self.tile_grid_size;
        let clahe = Clahe { clip_limit: self.clip_limit as f32, tiles: (across, down) };
        fusion.whole_placed(WholeOp::Effect(Box::new(Effect::Clahe(clahe))), fusion.size());
    }
}
