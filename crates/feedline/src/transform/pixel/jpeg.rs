//! `JPEG`.

use feedline_pixels::{Effect, Size, WholeOp};
use serde::{Deserialize, Serialize};

use crate::transform::action::Act;
use crate::transform::fuse::Fusion;
use crate::transform::op::Op;
use crate::transform::params::{Params, Place};

/// Compresses and decompresses with a random quality.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JPEG {
    /// Lowest and highest quality, 1 to 100.
    pub quality: (u32, u32),
}

fn check_quality((low, high): (u32, u32)) -> Result<(), String> {
    if low >= 1 && low <= high && high <= 100 {
        return Ok(());
    }
    Err(format!("quality must be (low, high) between 1 and 100, not ({low}, {high})"))
}

impl Op for JPEG {
    fn check(&self) -> Result<(), String> {
        check_quality(self.quality)
    }

    fn draw(&self, place: &Place, into: &mut Params) -> Result<(), String> {
        let (low, high) = self.quality;
        into.push(Recompress { quality: low + place.draw().below(u64::from(high - low) + 1) as u32 });
        Ok(())
    }
}

/// JPEG compression and decompression.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Recompress {
    quality: u32,
}

impl Act for Recompress {
    fn check(&self, _before: Size) -> Result<(), String> {
        check_quality((self.quality, self.quality))
    }

    fn plan(&self, fusion: &mut Fusion<'_>) {
        let effect = Effect::Recompress(self.quality as u8);
        fusion.whole_placed(WholeOp::Effect(Box::new(effect)), fusion.size());
    }
}
