//! Square patches of an image in another order.

mod scalar;

use crate::{Error, ImageMut, ImageRef, Result};

/// The order of the patches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Patches {
    /// Side of a patch in pixels.
    pub side: u32,
    /// Patch `i` of the result, row by row, is patch `order[i]` of the image.
    pub order: Vec<u32>,
}

/// Writes the patches in their new order; the rest at the right and at the bottom is not changed.
pub(crate) fn shuffle(patches: &Patches, from: ImageRef<'_>, to: &mut ImageMut<'_>) -> Result<()> {
    let side = patches.side.max(1);
    let across = from.size.width / side;
    let count = u64::from(across) * u64::from(from.size.height / side);
    let inside = patches.order.iter().all(|piece| u64::from(*piece) < count);
    if patches.order.len() as u64 != count || !inside {
        return Err(Error::Misuse(format!("{} patches where there are {count}", patches.order.len())));
    }
    for y in 0..from.size.height {
        to.row_mut(y).copy_from_slice(from.row(y));
    }
    for (at, piece) in patches.order.iter().enumerate() {
        let place = |number: u32| (number % across * side, number / across * side);
        scalar::copy(from, place(*piece), to, place(at as u32), side);
    }
    Ok(())
}
