//! `Cutout`, `CoarseDropout`, `GridMask`: fill boxes with a colour.

use feedline_pixels::{Boxes, Effect, Region, Size, WholeOp};
use serde::{Deserialize, Serialize};

use crate::random::Draw;
use crate::transform::action::Act;
use crate::transform::fuse::Fusion;
use crate::transform::op::{Op, check_p, check_range, half};
use crate::transform::params::{Params, Place};

/// Fills one square of fixed size inside the image, as in FFCV.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cutout {
    /// Side of the square.
    pub crop_size: u32,
    /// Colour of the square.
    #[serde(default)]
    pub fill: [u8; 3],
}

impl Op for Cutout {
    fn check(&self) -> Result<(), String> {
        if (1..=1 << 16).contains(&self.crop_size) {
            return Ok(());
        }
        Err(format!("crop_size must be between 1 and 65536, not {}", self.crop_size))
    }

    fn draw(&self, place: &Place, into: &mut Params) -> Result<(), String> {
        let (size, mut draw) = (into.size(), place.draw());
        let (width, height) = (self.crop_size.min(size.width), self.crop_size.min(size.height));
        into.push(Holes { boxes: vec![anywhere(size, width, height, &mut draw)], fill: self.fill });
        Ok(())
    }
}

/// Left, top, width, height.
type Hole = [u32; 4];

fn anywhere(size: Size, width: u32, height: u32, draw: &mut Draw) -> Hole {
    let y = draw.below(u64::from(size.height - height) + 1) as u32;
    let x = draw.below(u64::from(size.width - width) + 1) as u32;
    [x, y, width, height]
}

/// Fills several boxes, with probability `p`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CoarseDropout {
    /// Smallest and largest number of boxes.
    #[serde(default = "default_count")]
    pub num_holes_range: (u32, u32),
    /// Smallest and largest height: shares of the image's up to 1, else pixels.
    #[serde(default = "default_side")]
    pub hole_height_range: (f64, f64),
    /// The same for the width.
    #[serde(default = "default_side")]
    pub hole_width_range: (f64, f64),
    /// Colour of the boxes.
    #[serde(default)]
    pub fill: [u8; 3],
    /// Probability.
    #[serde(default = "half")]
    pub p: f64,
}

fn default_count() -> (u32, u32) {
    (1, 2)
}

fn default_side() -> (f64, f64) {
    (0.1, 0.2)
}

/// Largest number of boxes; more are a mistake.
const MOST_HOLES: u32 = 10_000;

impl Op for CoarseDropout {
    fn check(&self) -> Result<(), String> {
        let (low, high) = self.num_holes_range;
        if low == 0 || low > high || high > MOST_HOLES {
            return Err(format!("num_holes_range must be between 1 and {MOST_HOLES}, not ({low}, {high})"));
        }
        check_range("hole_height_range", self.hole_height_range, (0.0, 65536.0))?;
        check_range("hole_width_range", self.hole_width_range, (0.0, 65536.0))?;
        check_p(self.p)
    }

    fn draw(&self, place: &Place, into: &mut Params) -> Result<(), String> {
        let (size, mut draw) = (into.size(), place.draw());
        if !draw.chance(self.p) {
            return Ok(());
        }
        let (low, high) = self.num_holes_range;
        let count = low + draw.below(u64::from(high - low) + 1) as u32;
        let side = |range: (f64, f64), of: u32, draw: &mut Draw| {
            let drawn = if range.1 <= 1.0 {
                draw.between(range.0, range.1) * f64::from(of)
            } else {
                let (low, high) = (range.0 as u64, range.1 as u64);
                (low + draw.below(high.saturating_sub(low) + 1)) as f64
            };
            (drawn as u32).clamp(1, of)
        };
        let mut boxes = Vec::with_capacity(count as usize);
        for _ in 0..count {
            let height = side(self.hole_height_range, size.height, &mut draw);
            let width = side(self.hole_width_range, size.width, &mut draw);
            boxes.push(anywhere(size, width, height, &mut draw));
        }
        into.push(Holes { boxes, fill: self.fill });
        Ok(())
    }
}

/// Fills a grid of squares, with probability `p`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GridMask {
    /// Smallest and largest distance between squares, as a share of the shorter side.
    #[serde(default = "default_distance")]
    pub d: (f64, f64),
    /// The share of that distance that is kept.
    #[serde(default = "default_ratio")]
    pub ratio: f64,
    /// Colour of the squares.
    #[serde(default)]
    pub fill: [u8; 3],
    /// Probability.
    #[serde(default = "half")]
    pub p: f64,
}

fn default_distance() -> (f64, f64) {
    (0.5, 0.5)
}

fn default_ratio() -> f64 {
    0.6
}

impl Op for GridMask {
    fn check(&self) -> Result<(), String> {
        check_range("d", self.d, (1e-3, 1.0))?;
        check_range("ratio", (self.ratio, self.ratio), (0.0, 1.0))?;
        check_p(self.p)
    }

    fn draw(&self, place: &Place, into: &mut Params) -> Result<(), String> {
        let (size, mut draw) = (into.size(), place.draw());
        if !draw.chance(self.p) {
            return Ok(());
        }
        let shorter = f64::from(size.width.min(size.height));
        let unit = ((draw.between(self.d.0, self.d.1) * shorter).round_ties_even() as u32).max(2);
        let hole = ((f64::from(unit) * (1.0 - self.ratio)).round_ties_even() as u32).min(unit);
        let left = draw.below(u64::from(unit)) as u32;
        let top = draw.below(u64::from(unit)) as u32;
        if hole > 0 {
            into.push(Grid { unit, hole, left, top, fill: self.fill });
        }
        Ok(())
    }
}

/// Boxes of one colour: left, top, width, height.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Holes {
    boxes: Vec<Hole>,
    fill: [u8; 3],
}

fn push(fusion: &mut Fusion<'_>, regions: Vec<Region>, fill: [u8; 3]) {
    let effect = Effect::Boxes(Boxes { regions, fill });
    fusion.whole_placed(WholeOp::Effect(Box::new(effect)), fusion.size());
}

impl Act for Holes {
    fn check(&self, before: Size) -> Result<(), String> {
        let region = |[x, y, width, height]: Hole| Region::new(x, y, width, height);
        self.boxes.iter().try_for_each(|b| region(*b).check_inside(before).map_err(|e| e.to_string()))
    }

    fn plan(&self, fusion: &mut Fusion<'_>) {
        let regions = self.boxes.iter().map(|[x, y, w, h]| Region::new(*x, *y, *w, *h)).collect();
        push(fusion, regions, self.fill);
    }
}

/// A square of side `hole` in every `unit` by `unit`; the first cell begins `left` and `top` pixels before the image.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Grid {
    unit: u32,
    hole: u32,
    left: u32,
    top: u32,
    fill: [u8; 3],
}

impl Grid {
    /// Starts and lengths of squares along a side of this length.
    fn along(&self, offset: u32, length: u32) -> Vec<(u32, u32)> {
        let mut all = Vec::new();
        let mut start = -i64::from(offset);
        while start < i64::from(length) {
            let (from, to) = (start.max(0), (start + i64::from(self.hole)).min(i64::from(length)));
            if to > from {
                all.push((from as u32, (to - from) as u32));
            }
            start += i64::from(self.unit);
        }
        all
    }
}

impl Act for Grid {
    fn check(&self, _before: Size) -> Result<(), String> {
        let cell = self.unit.max(1);
        if self.unit >= 2 && self.hole <= self.unit && self.left < cell && self.top < cell {
            return Ok(());
        }
        Err(format!("a grid of squares of {} in cells of {} is not possible", self.hole, self.unit))
    }

    fn plan(&self, fusion: &mut Fusion<'_>) {
        let Size { width, height } = fusion.size();
        let columns = self.along(self.left, width);
        let rows = self.along(self.top, height);
        let row = |(y, h): &(u32, u32)| {
            columns.iter().map(|(x, w)| Region::new(*x, *y, *w, *h)).collect::<Vec<_>>()
        };
        push(fusion, rows.iter().flat_map(row).collect(), self.fill);
    }
}
