//! Concrete operations on an image, without randomness: the content of [`Params`](super::Params).

use feedline_pixels::Size;
use serde::{Deserialize, Serialize};

use super::fuse::Fusion;
use super::ops::*;

/// A concrete operation: its numbers are fixed.
pub(crate) trait Act {
    /// Whether it can be applied to an image of this size. Drawn actions always can; actions read from JSON may not.
    fn check(&self, _before: Size) -> Result<(), String> {
        Ok(())
    }

    /// The size of the result.
    fn output(&self, before: Size) -> Size {
        before
    }

    /// Adds the action to a program.
    fn plan(&self, fusion: &mut Fusion<'_>);
}

macro_rules! list_of_actions {
    ($($(#[$attribute:meta])* $name:ident,)*) => {
        /// One action.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(tag = "do")]
        pub(crate) enum Action {
            $($(#[$attribute])* $name($name),)*
        }

        impl Action {
            fn act(&self) -> &dyn Act {
                match self {
                    $(Action::$name(action) => action,)*
                }
            }
        }

        $(impl From<$name> for Action {
            fn from(action: $name) -> Self {
                Action::$name(action)
            }
        })*
    };
}

list_of_actions! {
    Crop,
    #[serde(rename = "Resize")]
    Resized,
    HorizontalFlip,
    VerticalFlip,
    #[serde(rename = "Pad")]
    PadBorder,
    #[serde(rename = "Warp")]
    Warped,
    Brightness, Contrast, Saturation, Hue, Gray, Invert, Posterize, Solarize, Equalize, Autocontrast, Sharpness,
    PermuteChannels,
    #[serde(rename = "GaussianBlur")]
    Blur,
    Erase,
    #[serde(rename = "Sample")]
    Sampled,
    #[serde(rename = "Mix")]
    Mixed,
    #[serde(rename = "Scene")]
    Composed,
    #[serde(rename = "Blend")]
    Blended,
    ShufflePatches, Gamma, SolarizeAdd, TwistHsv, TwistYiq, ShiftChannels, EqualizeTiles, BoxBlur, Smear, Disc,
    AddNoise, Sprinkle, Recompress, Holes, Grid, KeepBoxes,
}

impl Action {
    /// Whether it can be applied to an image of this size.
    pub(crate) fn check(&self, before: Size) -> Result<(), String> {
        self.act().check(before)
    }

    /// The size of the result.
    pub(crate) fn output(&self, before: Size) -> Size {
        self.act().output(before)
    }

    /// Adds the action to a program.
    pub(super) fn plan(&self, fusion: &mut Fusion<'_>) {
        self.act().plan(fusion);
    }
}
