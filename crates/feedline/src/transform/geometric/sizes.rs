//! `ScaleJitter`, `RandomShortestSize`, `RandomResize`, `Letterbox`: sizes that depend on the image or are random.

use feedline_pixels::{Size, Window};
use serde::{Deserialize, Serialize};

use super::crop::Crop;
use super::resize::Resized;
use super::{boxes, of_size};
use crate::transform::Interpolation;
use crate::transform::op::{Form, Op, check_range, check_size};
use crate::transform::params::{Params, Place};

fn unsized_form(before: Form) -> Form {
    Form { size: None, ..before }
}

/// Resizes to the largest size that fits `target_size`, times a random factor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScaleJitter {
    /// Width and height to fit, in torchvision's order.
    pub target_size: (u32, u32),
    /// Smallest and largest factor.
    #[serde(default = "default_scale")]
    pub scale_range: (f64, f64),
    /// Filter.
    #[serde(default)]
    pub interpolation: Interpolation,
}

fn default_scale() -> (f64, f64) {
    (0.1, 2.0)
}

impl Op for ScaleJitter {
    fn check(&self) -> Result<(), String> {
        check_range("scale_range", self.scale_range, (1e-6, 1e3))?;
        check_size(self.target_size)
    }

    fn output(&self, before: Form) -> Result<Form, String> {
        Ok(unsized_form(before))
    }

    fn draw(&self, place: &Place, into: &mut Params) -> Result<(), String> {
        let (size, (width, height)) = (into.size(), self.target_size);
        let factor = place.draw().between(self.scale_range.0, self.scale_range.1);
        let fits = (f64::from(height) / f64::from(size.height)).min(f64::from(width) / f64::from(size.width));
        into.push(Resized::new(boxes::scaled(size, fits * factor), self.interpolation));
        Ok(())
    }
}

/// Resizes the shorter side to one of several lengths, while the longer one stays within `max_size`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RandomShortestSize {
    /// Lengths to choose from.
    pub min_size: Vec<u32>,
    /// Longest side.
    #[serde(default)]
    pub max_size: Option<u32>,
    /// Filter.
    #[serde(default)]
    pub interpolation: Interpolation,
}

impl Op for RandomShortestSize {
    fn check(&self) -> Result<(), String> {
        if self.min_size.is_empty() {
            return Err("min_size must be at least one length".to_owned());
        }
        self.min_size.iter().chain(&self.max_size).try_for_each(|side| check_size((*side, *side)))
    }

    fn output(&self, before: Form) -> Result<Form, String> {
        Ok(unsized_form(before))
    }

    fn draw(&self, place: &Place, into: &mut Params) -> Result<(), String> {
        let size = into.size();
        let shorter = self.min_size[place.draw().below(self.min_size.len() as u64) as usize];
        let (short, long) = (size.width.min(size.height), size.width.max(size.height));
        let wanted = f64::from(shorter) / f64::from(short);
        let most = self.max_size.map_or(f64::INFINITY, |side| f64::from(side) / f64::from(long));
        into.push(Resized::new(boxes::scaled(size, wanted.min(most)), self.interpolation));
        Ok(())
    }
}

/// Resizes the shorter side to a random length between two.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RandomResize {
    /// Smallest length.
    pub min_size: u32,
    /// Lengths are below this.
    pub max_size: u32,
    /// Filter.
    #[serde(default)]
    pub interpolation: Interpolation,
}

impl Op for RandomResize {
    fn check(&self) -> Result<(), String> {
        if self.min_size >= self.max_size {
            return Err(format!("min_size ({}) must be below max_size ({})", self.min_size, self.max_size));
        }
        check_size((self.min_size, self.max_size))
    }

    fn output(&self, before: Form) -> Result<Form, String> {
        Ok(unsized_form(before))
    }

    fn draw(&self, place: &Place, into: &mut Params) -> Result<(), String> {
        let shorter = self.min_size + place.draw().below(u64::from(self.max_size - self.min_size)) as u32;
        into.push(Resized::new(boxes::shorter_side(into.size(), shorter, None), self.interpolation));
        Ok(())
    }
}

/// Fits the whole image into `size`, with bars on both sides of the rest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Letterbox {
    /// Result's height and width.
    pub size: (u32, u32),
    /// Colour of the bars.
    #[serde(default = "grey")]
    pub fill: [u8; 3],
    /// Filter.
    #[serde(default)]
    pub interpolation: Interpolation,
    /// Whether to enlarge smaller images.
    #[serde(default = "yes")]
    pub enlarge: bool,
}

fn grey() -> [u8; 3] {
    [114; 3]
}

fn yes() -> bool {
    true
}

impl Op for Letterbox {
    fn check(&self) -> Result<(), String> {
        check_size(self.size)
    }

    fn output(&self, before: Form) -> Result<Form, String> {
        Ok(of_size(before, self.size))
    }

    fn draw(&self, _place: &Place, into: &mut Params) -> Result<(), String> {
        let (size, (height, width)) = (into.size(), self.size);
        let fits = (f64::from(height) / f64::from(size.height)).min(f64::from(width) / f64::from(size.width));
        let factor = if self.enlarge { fits } else { fits.min(1.0) };
        let side =
            |side: u32, most: u32| ((f64::from(side) * factor).round_ties_even() as u32).clamp(1, most);
        let inner = Size::new(side(size.width, width), side(size.height, height));
        into.push(Resized::new(inner, self.interpolation));
        let corner = |inner: u32, outer: u32| -(((outer - inner) / 2) as i32);
        let window = Window::new(corner(inner.width, width), corner(inner.height, height), width, height);
        into.push(Crop::window(window, self.fill));
        Ok(())
    }
}
