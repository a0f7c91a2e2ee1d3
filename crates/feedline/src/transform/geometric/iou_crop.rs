//! `RandomIoUCrop`: a crop that looks at the sample's boxes, as SSD was trained.

use feedline_pixels::Window;
use serde::{Deserialize, Serialize};

use super::Crop;
use crate::random::Draw;
use crate::transform::action::Act;
use crate::transform::fuse::Fusion;
use crate::transform::op::{Form, Op, check_range};
use crate::transform::params::{Params, Place};

/// How often an overlap is chosen again. One of the usual seven ends the search at once.
const ROUNDS: u32 = 1000;

/// Crops so that the middle of a box lies inside and one box overlaps the crop by a random share; boxes whose middle lies
/// outside are dropped.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RandomIoUCrop {
    /// Smallest share of a side.
    #[serde(default = "default_least")]
    pub min_scale: f64,
    /// Largest share of a side.
    #[serde(default = "one")]
    pub max_scale: f64,
    /// Smallest ratio of width to height.
    #[serde(default = "half")]
    pub min_aspect_ratio: f64,
    /// Largest ratio.
    #[serde(default = "two")]
    pub max_aspect_ratio: f64,
    /// Overlaps to choose from; 1 or more leaves the image as it is.
    #[serde(default = "default_options")]
    pub sampler_options: Vec<f64>,
    /// Crops that are tried for an overlap.
    #[serde(default = "forty")]
    pub trials: u32,
}

fn default_least() -> f64 {
    0.3
}

fn one() -> f64 {
    1.0
}

fn half() -> f64 {
    0.5
}

fn two() -> f64 {
    2.0
}

fn default_options() -> Vec<f64> {
    vec![0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0]
}

fn forty() -> u32 {
    40
}

impl Op for RandomIoUCrop {
    fn check(&self) -> Result<(), String> {
        check_range("min_scale and max_scale", (self.min_scale, self.max_scale), (1e-3, 1.0))?;
        let ratios = (self.min_aspect_ratio, self.max_aspect_ratio);
        check_range("min_aspect_ratio and max_aspect_ratio", ratios, (1e-3, 1e3))?;
        if self.sampler_options.is_empty() {
            return Err("sampler_options must be at least one overlap".to_owned());
        }
        self.sampler_options
            .iter()
            .try_for_each(|overlap| check_range("sampler_options", (*overlap, *overlap), (0.0, 1e6)))?;
        if !(1..=10_000).contains(&self.trials) {
            return Err(format!("trials must be between 1 and 10000, not {}", self.trials));
        }
        Ok(())
    }

    fn output(&self, before: Form) -> Result<Form, String> {
        Ok(Form { size: None, ..before })
    }

    fn draw(&self, place: &Place, into: &mut Params) -> Result<(), String> {
        let boxes = into.boxes()?;
        // Without a box no crop would ever do.
        if boxes.is_empty() {
            return Ok(());
        }
        let mut draw = place.draw();
        for _ in 0..ROUNDS {
            let overlap = self.sampler_options[draw.below(self.sampler_options.len() as u64) as usize];
            if overlap >= 1.0 {
                return Ok(());
            }
            let found = (0..self.trials).find_map(|_| self.tried(overlap, &boxes, into, &mut draw));
            if let Some((window, kept)) = found {
                into.push(Crop::window(window, [0; 3]));
                into.push(KeepBoxes { boxes: kept });
                return Ok(());
            }
        }
        Ok(())
    }
}

impl RandomIoUCrop {
    /// A random crop and the boxes that stay, if it will do.
    fn tried(
        &self,
        overlap: f64,
        boxes: &[(u32, [f64; 4])],
        into: &Params,
        draw: &mut Draw,
    ) -> Option<(Window, Vec<u32>)> {
        let size = into.size();
        let mut side =
            |length: u32| (f64::from(length) * draw.between(self.min_scale, self.max_scale)) as u32;
        let (width, height) = (side(size.width), side(size.height));
        let ratio = f64::from(width) / f64::from(height);
        if width == 0 || height == 0 || !(self.min_aspect_ratio..=self.max_aspect_ratio).contains(&ratio) {
            return None;
        }
        let mut start = |room: u32| (f64::from(room) * draw.unit()) as i32;
        let (left, top) = (start(size.width - width), start(size.height - height));
        let crop = Window::new(left, top, width, height);
        let inside: Vec<_> = boxes.iter().filter(|(_, corners)| holds_middle(crop, *corners)).collect();
        let best = inside.iter().map(|(_, corners)| shared(crop, *corners)).reduce(f64::max)?;
        (best >= overlap).then(|| (crop, inside.iter().map(|(number, _)| *number).collect()))
    }
}

fn edges(crop: Window) -> [f64; 4] {
    let (left, top) = (f64::from(crop.x), f64::from(crop.y));
    [left, top, left + f64::from(crop.width), top + f64::from(crop.height)]
}

fn holds_middle(crop: Window, [a, b, c, d]: [f64; 4]) -> bool {
    let [left, top, right, bottom] = edges(crop);
    let (x, y) = (f64::midpoint(a, c), f64::midpoint(b, d));
    left < x && x < right && top < y && y < bottom
}

/// The area of both over the area of either.
fn shared(crop: Window, [a, b, c, d]: [f64; 4]) -> f64 {
    let [left, top, right, bottom] = edges(crop);
    let (width, height) = (c.min(right) - a.max(left), d.min(bottom) - b.max(top));
    let both = width.max(0.0) * height.max(0.0);
    let either = (c - a) * (d - b) + (right - left) * (bottom - top) - both;
    if either > 0.0 { both / either } else { 0.0 }
}

/// Boxes, by their numbers in the sample, that stay; the others are dropped.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct KeepBoxes {
    boxes: Vec<u32>,
}

impl Act for KeepBoxes {
    fn plan(&self, fusion: &mut Fusion<'_>) {
        fusion.keep_boxes(&self.boxes);
    }
}
