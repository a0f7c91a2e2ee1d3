//! `Pad`.

use feedline_pixels::{Border, Size, WholeOp, Window};
use serde::{Deserialize, Serialize};

use super::crop::Crop;
use crate::transform::action::Act;
use crate::transform::fuse::Fusion;
use crate::transform::op::{Form, Op};
use crate::transform::params::{Params, Place};

/// Content of added pixels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PaddingMode {
    /// One colour.
    #[default]
    Constant,
    /// The outermost pixel.
    Edge,
    /// Mirrored, without repeating the outermost pixel.
    Reflect,
    /// Mirrored, the outermost pixel included.
    Symmetric,
}

impl PaddingMode {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
    pub(super) fn is_constant(&self) -> bool {
        *self == PaddingMode::Constant
    }
}

/// Adds pixels on the left, top, right and bottom.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pad {
    /// Number of pixels on each side.
    pub padding: (u32, u32, u32, u32),
    /// Colour of the added pixels.
    #[serde(default)]
    pub fill: [u8; 3],
    /// Content of the added pixels.
    #[serde(default, skip_serializing_if = "PaddingMode::is_constant")]
    pub padding_mode: PaddingMode,
}

impl Op for Pad {
    fn check(&self) -> Result<(), String> {
        check_padding(self.padding)
    }

    fn output(&self, before: Form) -> Result<Form, String> {
        Ok(Form { size: before.size.map(|size| padded(size, self.padding)), ..before })
    }

    fn draw(&self, _place: &Place, into: &mut Params) -> Result<(), String> {
        push(into, self.padding, self.padding_mode, self.fill)
    }
}

pub(super) fn check_padding((left, top, right, bottom): (u32, u32, u32, u32)) -> Result<(), String> {
    if [left, top, right, bottom].iter().all(|side| *side <= 1 << 16) {
        return Ok(());
    }
    Err("padding must be between 0 and 65536".to_owned())
}

fn padded(size: Size, (left, top, right, bottom): (u32, u32, u32, u32)) -> Size {
    let longer = |side: u32, one: u32, other: u32| side.saturating_add(one).saturating_add(other);
    Size::new(longer(size.width, left, right), longer(size.height, top, bottom))
}

/// Adds the action for this padding, if there is any.
pub(super) fn push(
    into: &mut Params,
    padding: (u32, u32, u32, u32),
    mode: PaddingMode,
    fill: [u8; 3],
) -> Result<(), String> {
    let (left, top, right, bottom) = padding;
    if padding == (0, 0, 0, 0) {
        return Ok(());
    }
    let size = padded(into.size(), padding);
    let border = match mode {
        PaddingMode::Constant => {
            let window = Window::new(-(left as i32), -(top as i32), size.width, size.height);
            into.push(Crop::window(window, fill));
            return Ok(());
        }
        PaddingMode::Edge => BorderName::Edge,
        PaddingMode::Reflect => BorderName::Reflect,
        PaddingMode::Symmetric => BorderName::Symmetric,
    };
    let action = PadBorder { padding: [left, top, right, bottom], border };
    action.check(into.size())?;
    into.push(action);
    Ok(())
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum BorderName {
    Edge,
    Reflect,
    Symmetric,
}

/// Added pixels that continue the image.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PadBorder {
    /// Left, top, right, bottom.
    padding: [u32; 4],
    border: BorderName,
}

impl Act for PadBorder {
    fn check(&self, before: Size) -> Result<(), String> {
        let [left, top, right, bottom] = self.padding;
        check_padding((left, top, right, bottom))?;
        // As in NumPy and torchvision, a mirror shows the image once.
        let (wide, high) = (left.max(right), top.max(bottom));
        let spare = u32::from(self.border == BorderName::Reflect);
        if self.border != BorderName::Edge && (wide + spare > before.width || high + spare > before.height) {
            return Err(format!(
                "padding {:?} is wider than the image of {}x{} (height x width) that it mirrors",
                self.padding, before.height, before.width
            ));
        }
        Ok(())
    }

    fn output(&self, before: Size) -> Size {
        let [left, top, right, bottom] = self.padding;
        padded(before, (left, top, right, bottom))
    }

    fn plan(&self, fusion: &mut Fusion<'_>) {
        let border = match self.border {
            BorderName::Edge => Border::Edge,
            BorderName::Reflect => Border::Reflect,
            BorderName::Symmetric => Border::Symmetric,
        };
        let size = self.output(fusion.size());
        fusion.whole_placed(WholeOp::Pad(self.padding, border), size);
    }
}
