//! `ArrayWindow`: cuts windows out of n-d arrays: crops of volumes, stretches of recordings. It is used in the list of an
//! array field.

use serde::{Deserialize, Serialize};

use super::op::{Form, Op};
use super::params::{Params, Place};
use crate::random::Draw;
use crate::sample::MAX_DIMENSIONS;

/// Where a window lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ArrayPolicy {
    /// Anywhere, drawn for every sample and epoch.
    #[default]
    Random,
    /// In the middle.
    Center,
    /// At the beginning of every dimension.
    Start,
    /// All windows side by side, `stride` apart; the last ones of a dimension reach its end.
    Grid,
}

/// What a window has past the end of its array.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ArrayPad {
    /// Zeros, behind the array's own elements.
    #[default]
    Zeros,
    /// The sample is bad.
    Error,
}

/// Windows of an array.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArrayWindow {
    /// Elements in each dimension; `None` takes the whole dimension.
    pub size: Vec<Option<u64>>,
    /// Where it lies.
    #[serde(default)]
    pub policy: ArrayPolicy,
    /// With `grid`: elements from one window to the next in each dimension; the size if `None`.
    #[serde(default)]
    pub stride: Option<Vec<u64>>,
    /// What is past the end.
    #[serde(default)]
    pub pad: ArrayPad,
}

/// Most windows of one array.
const MOST_WINDOWS: u64 = 1 << 20;

impl ArrayWindow {
    /// The shape of a window, if it is the same for every sample.
    pub(crate) fn shape(&self) -> Option<Vec<u64>> {
        if self.policy == ArrayPolicy::Grid {
            return None;
        }
        self.size.iter().copied().collect()
    }

    /// Whether a sample has one window.
    pub(crate) fn is_one(&self) -> bool {
        self.policy != ArrayPolicy::Grid
    }

    /// Shape of the windows of an array of this shape, and where each of them begins; the error is the reason.
    pub(crate) fn place(&self, shape: &[u64], draw: &mut Draw) -> Result<(Vec<u64>, Vec<Vec<u64>>), String> {
        if shape.len() != self.size.len() {
            return Err(format!("an array of {} dimensions, a window of {}", shape.len(), self.size.len()));
        }
        let window: Vec<u64> =
            self.size.iter().zip(shape).map(|(size, side)| size.unwrap_or(*side)).collect();
        if self.pad == ArrayPad::Error && window.iter().zip(shape).any(|(size, side)| size > side) {
            return Err(format!("an array of {shape:?}, a window of {window:?}; pad='zeros' fills it up"));
        }
        if self.policy == ArrayPolicy::Grid {
            let starts = self.grid(shape, &window)?;
            return Ok((window, starts));
        }
        let start = shape.iter().zip(&window).map(|(side, size)| {
            let room = side.saturating_sub(*size);
            match self.policy {
                ArrayPolicy::Random => draw.below(room + 1),
                ArrayPolicy::Center => room / 2,
                ArrayPolicy::Start | ArrayPolicy::Grid => 0,
            }
        });
        let start = start.collect();
        Ok((window, vec![start]))
    }

    /// The beginnings of all windows, the last dimension fastest.
    fn grid(&self, shape: &[u64], window: &[u64]) -> Result<Vec<Vec<u64>>, String> {
        let mut all: Vec<Vec<u64>> = vec![Vec::new()];
        for (at, (side, size)) in shape.iter().zip(window).enumerate() {
            let stride = self.stride.as_ref().map_or(*size, |stride| stride[at]).max(1);
            let room = side.saturating_sub(*size);
            let count = room.div_ceil(stride) + 1;
            if (all.len() as u64).saturating_mul(count) > MOST_WINDOWS {
                return Err(format!("more than {MOST_WINDOWS} windows"));
            }
            let starts = || (0..count).map(|number| number.saturating_mul(stride).min(room));
            let longer = |before: &Vec<u64>| {
                starts().map(|start| [before.as_slice(), &[start]].concat()).collect::<Vec<_>>()
            };
            all = all.iter().flat_map(longer).collect();
        }
        Ok(all)
    }
}

impl Op for ArrayWindow {
    fn check(&self) -> Result<(), String> {
        let sides = self.size.len();
        if !(1..=MAX_DIMENSIONS).contains(&sides) {
            return Err(format!("{sides} dimensions; 1 to {MAX_DIMENSIONS}"));
        }
        let all = self.size.iter().try_fold(1u64, |all, side| all.checked_mul(side.unwrap_or(1)));
        if self.size.contains(&Some(0)) || all.is_none_or(|all| all > 1 << 40) {
            return Err(format!("a window of {:?}", self.size));
        }
        match &self.stride {
            Some(_) if self.policy != ArrayPolicy::Grid => Err("stride is for policy='grid'".to_owned()),
            Some(stride) if stride.len() != sides || stride.contains(&0) => {
                Err(format!("a stride of {stride:?} for a window of {sides} dimensions"))
            }
            _ => Ok(()),
        }
    }

    fn output(&self, _before: Form) -> Result<Form, String> {
        Err("is for a field of arrays, not for images".to_owned())
    }

    fn draw(&self, _place: &Place, _into: &mut Params) -> Result<(), String> {
        Err("is not for images".to_owned())
    }
}

/// Copies a window of an array of elements of `element` bytes into `out`, which is zero; what is outside the array stays so.
pub(crate) fn copy_window(
    array: (&[u8], &[u64]),
    (window, start): (&[u64], &[u64]),
    element: usize,
    out: &mut [u8],
) {
    let (bytes, shape) = array;
    let Some((side, inner)) = shape.split_first() else {
        out.copy_from_slice(bytes);
        return;
    };
    let (Some((size, sizes)), Some((first, starts))) = (window.split_first(), start.split_first()) else {
        return;
    };
    let step = inner.iter().product::<u64>() as usize * element;
    let room = sizes.iter().product::<u64>() as usize * element;
    let count = side.saturating_sub(*first).min(*size) as usize;
    if step == 0 || room == 0 {
        return;
    }
    let from = &bytes[*first as usize * step..(*first as usize + count) * step];
    if inner == sizes {
        // Rows are whole: one copy.
        out[..from.len()].copy_from_slice(from);
        return;
    }
    for (from, out) in from.chunks_exact(step).zip(out.chunks_exact_mut(room)) {
        copy_window((from, inner), (sizes, starts), element, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(size: &[u64], policy: ArrayPolicy) -> ArrayWindow {
        let size = size.iter().map(|side| Some(*side)).collect();
        ArrayWindow { size, policy, stride: None, pad: ArrayPad::Zeros }
    }

    fn starts(window: &ArrayWindow, shape: &[u64]) -> Vec<Vec<u64>> {
        window.place(shape, &mut Draw::new(&[1])).unwrap().1
    }

    #[test]
    fn windows_lie_where_the_policy_says() {
        assert_eq!(starts(&window(&[2, 3], ArrayPolicy::Start), &[5, 5]), [[0, 0]]);
        assert_eq!(starts(&window(&[2, 3], ArrayPolicy::Center), &[5, 5]), [[1, 1]]);
        assert_eq!(starts(&window(&[2, 9], ArrayPolicy::Center), &[5, 5]), [[1, 0]]);
        let grid = window(&[2, 5], ArrayPolicy::Grid);
        assert_eq!(starts(&grid, &[5, 5]), [[0, 0], [2, 0], [3, 0]]);
        let half = ArrayWindow { stride: Some(vec![1, 5]), ..grid };
        assert_eq!(starts(&half, &[3, 5]), [[0, 0], [1, 0]]);
        assert!(half.place(&[3], &mut Draw::new(&[1])).is_err());
    }

    #[test]
    fn windows_are_copied_and_filled_up() {
        let bytes: Vec<u8> = (0..24).collect(); // 2 x 3 x 4
        let mut out = [0; 8];
        copy_window((&bytes, &[2, 3, 4]), (&[2, 2, 2], &[0, 1, 2]), 1, &mut out);
        assert_eq!(out, [6, 7, 10, 11, 18, 19, 22, 23]);
        let mut out = [0; 6];
        copy_window((&bytes, &[2, 3, 4]), (&[1, 2, 3], &[1, 2, 2]), 1, &mut out);
        assert_eq!(out, [22, 23, 0, 0, 0, 0]);
        let mut out = [0; 8];
        copy_window((&bytes[..8], &[2, 2]), (&[2, 2], &[0, 0]), 2, &mut out);
        assert_eq!(out, bytes[..8]);
    }
}
