//! Drawn parameters: concrete and complete.

use feedline_pixels::{Channels, Size};
use serde::{Deserialize, Serialize};

use super::colour::Opposed;
use super::fuse::Fusion;
use super::op::{Op, check_side};
use super::ops::Normalize;
use super::{Action, Boxes, Mover, Program};
use crate::random::Draw;

/// Separates draws for transforms from all other uses of the seed.
const PURPOSE: u64 = 0x7472_616e_7366; // "transf"

/// Version of the written form of parameters.
const VERSION: u32 = 1;

/// Key of a sample's random parameters.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SampleKey {
    pub(crate) seed: u64,
    pub(crate) epoch: u64,
    pub(crate) sample: u64,
}

/// Place of a draw in a view's list of transforms: the position, and the positions in nested lists.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    parts: [u64; 16],
    used: usize,
    /// Number of the crop, if there are several; not part of the key.
    copy: u32,
}

impl Place {
    /// Position `at` of view `view`'s list.
    pub(crate) fn new(key: SampleKey, at: u64, view: u64) -> Self {
        let mut parts = [0; 16];
        parts[..6].copy_from_slice(&[PURPOSE, key.seed, key.epoch, key.sample, at, view]);
        Place { parts, used: 6, copy: 0 }
    }

    /// The same place for crop number `copy` of several.
    pub(crate) fn of_copy(self, copy: u32) -> Self {
        Place { copy, ..self }
    }

    /// Position `at` of another view's list, for the same sample.
    pub(crate) fn of_view(&self, view: u64, at: u64) -> Self {
        let mut place = *self;
        (place.parts[4], place.parts[5], place.used) = (at, view, 6);
        place
    }

    /// Number of the crop, if there are several.
    pub(crate) fn copy(&self) -> u32 {
        self.copy
    }

    /// The epoch.
    pub(crate) fn epoch(&self) -> u64 {
        self.parts[2]
    }

    /// The sample's index.
    pub(crate) fn sample(&self) -> u64 {
        self.parts[3]
    }

    /// Position `at` of a list that is nested here. Lists are checked not to be deeper than the key allows.
    pub(crate) fn inside(&self, at: usize) -> Self {
        let mut place = *self;
        place.parts[place.used] = at as u64;
        place.used += 1;
        place
    }

    /// The random numbers of this place.
    pub(crate) fn draw(&self) -> Draw {
        Draw::new(&self.parts[..self.used])
    }
}

/// The same number with at most 15 digits, so that it survives JSON to the last bit.
pub(crate) fn tidy(value: f64) -> f64 {
    let whole_digits = value.abs().max(1.0).log10() as usize + 1;
    format!("{value:.*}", 15usize.saturating_sub(whole_digits).min(12)).parse().unwrap_or(value)
}

/// The actions drawn for one sample, and the size after them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Params {
    image: Size,
    size: Size,
    actions: Vec<Action>,
    /// Set once the image is normalised.
    normalize: Option<Normalize>,
    /// Set if colours become opponent channels in the end.
    opposed: Option<Opposed>,
    channels: Channels,
    /// The sample's boxes (left, top, right, bottom in pixels of the image), if they are known.
    boxes: Option<Vec<[f64; 4]>>,
}

impl Default for Params {
    fn default() -> Self {
        let size = Size::new(1, 1);
        Params {
            image: size,
            size,
            actions: Vec::new(),
            normalize: None,
            opposed: None,
            channels: Channels::Rgb,
            boxes: None,
        }
    }
}

impl Params {
    /// Clears everything and starts with an image of this size, whose result has these channels.
    pub(crate) fn begin(&mut self, image: Size, channels: Channels) {
        (self.image, self.size, self.channels) = (image, image, channels);
        self.actions.clear();
        self.normalize = None;
        self.opposed = None;
    }

    /// Sets the sample's boxes, for the draws that look at them. They stay until they are set again.
    pub(crate) fn know_boxes(&mut self, boxes: Option<Vec<[f64; 4]>>) {
        self.boxes = boxes;
    }

    /// The numbers and corners of the boxes that are left after all actions so far.
    pub(crate) fn boxes(&self) -> Result<Vec<(u32, [f64; 4])>, String> {
        let Some(boxes) = &self.boxes else {
            return Err("needs the sample's boxes: a target T.Boxes, or boxes= in T.apply".to_owned());
        };
        let mut program = Program::default();
        self.plan(self.image, &mut program);
        let rules = Boxes { min_size: 0.0, ..Boxes::default() };
        let kept = Mover::default().boxes(&program, self.image, &rules, boxes).map_err(|e| e.to_string())?;
        Ok(kept.iter().map(|kept| (kept.number as u32, kept.corners)).collect())
    }

    /// Notes that colours become opponent channels in the end.
    pub(crate) fn oppose(&mut self, by: Opposed) {
        self.opposed = Some(by);
    }

    /// Notes that the image is normalised from here on.
    pub(crate) fn normalize(&mut self, by: &Normalize) {
        self.normalize = Some(by.clone());
    }

    /// Whether the image is already normalised.
    pub(crate) fn are_floats(&self) -> bool {
        self.normalize.is_some()
    }

    /// Mean and standard deviation, and channels, of the result.
    pub(crate) fn finish(&self) -> (Option<&Normalize>, Channels) {
        (self.normalize.as_ref(), self.channels)
    }

    /// The size after all actions so far.
    pub(crate) fn size(&self) -> Size {
        self.size
    }

    /// Adds an action.
    pub(crate) fn push(&mut self, action: impl Into<Action>) {
        let action = action.into();
        self.size = action.output(self.size);
        self.actions.push(action);
    }

    /// Empty parameters that continue from the current size.
    pub(crate) fn branch(&self) -> Self {
        Params { image: self.size, size: self.size, channels: self.channels, ..Params::default() }
    }

    /// Only the actions.
    pub(crate) fn into_actions(self) -> Vec<Action> {
        self.actions
    }

    /// All actions, first to last.
    #[cfg(test)]
    pub(crate) fn actions(&self) -> &[Action] {
        &self.actions
    }

    /// Plans the passes over an image of this size.
    pub(crate) fn plan(&self, image: Size, program: &mut Program) {
        let mut fusion = Fusion::new(program, image);
        for action in &self.actions {
            action.plan(&mut fusion);
        }
        fusion.finish();
        program.opponent = self.opposed.map(|by| by.kernel());
    }

    /// As JSON.
    pub(crate) fn to_json(&self) -> String {
        let image = (self.image.height, self.image.width);
        let (normalize, channels) = (self.normalize.clone(), self.channels.count());
        let (actions, opposed) = (self.actions.clone(), self.opposed);
        let written = StoredParams { version: VERSION, image, actions, normalize, opposed, channels };
        serde_json::to_string(&written).expect("actions are plain data")
    }

    /// Parses the JSON of [`to_json`](Self::to_json), for an image of this size.
    pub(crate) fn from_json(text: &str, image: Size) -> Result<Self, String> {
        let StoredParams { version, image: (height, width), actions, normalize, opposed, channels } =
            serde_json::from_str(text).map_err(|e| {
                // The position in the text does not help: the text was made from a dict just now.
                let reason = e.to_string();
                format!(
                    "not parameters of transforms: {}",
                    reason.split(" at line ").next().unwrap_or_default()
                )
            })?;
        if version != VERSION {
            return Err(format!("parameters of version {version}; this feedline reads version {VERSION}"));
        }
        if (image.height, image.width) != (height, width) {
            return Err(format!(
                "these parameters were drawn for an image of {height}x{width} (height x width), not {}x{}",
                image.height, image.width
            ));
        }
        let channels = match channels {
            1 => Channels::Grey,
            3 => Channels::Rgb,
            count => match opposed.map(|by| by.channels()).filter(|channels| channels.count() == count) {
                Some(channels) => channels,
                None => return Err(format!("{count} channels; there are 1 or 3")),
            },
        };
        let mut params = Params::default();
        params.begin(image, channels);
        for action in actions {
            action.check(params.size)?;
            params.push(action);
            check_side(params.size)?;
        }
        if let Some(by) = opposed {
            by.check()?;
            if by.channels() != channels || normalize.is_some() {
                return Err("opponent channels stand in the place of colours and of Normalize".to_owned());
            }
            params.oppose(by);
        }
        if let Some(by) = &normalize {
            by.check()?;
            params.normalize(by);
        }
        Ok(params)
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredParams {
    version: u32,
    image: (u32, u32),
    actions: Vec<Action>,
    normalize: Option<Normalize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    opposed: Option<Opposed>,
    channels: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounded_numbers_round_trip_through_json() {
        let mut draw = Draw::new(&[3]);
        for scale in [1e-6, 1.0, 300.0, 1e5, 1e9] {
            for _ in 0..2000 {
                let value = draw.between(-scale, scale);
                let tidied = tidy(value);
                assert!((tidied - value).abs() <= scale.max(1.0) * 1e-12, "{value} {tidied}");
                let text = serde_json::to_string(&tidied).unwrap();
                assert_eq!(serde_json::from_str::<f64>(&text).unwrap(), tidied, "{text}");
            }
        }
        assert_eq!([tidy(0.5), tidy(-7.25), tidy(0.0)], [0.5, -7.25, 0.0]);
    }
}
