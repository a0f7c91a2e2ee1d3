//! FORMATS THAT WRAP FORMATS: other names, a selection of samples, several sets in a row, other class numbers, a
//! local copy, windows over arrays. None of them stores bytes.
//!
//! Each forwards every method of [`Format`](super::Format), [`Index`](super::Index) and [`Extents`](super::Extents).
//! The lint below makes a forgotten one an error, because a default method would silently give a wrong answer.
#![deny(clippy::missing_trait_methods)]

mod concatenated;
mod copied;
mod relabelled;
mod renamed;
mod selected;
#[cfg(test)]
mod tests;
mod windowed;

pub use concatenated::Concatenated;
pub use copied::{Copied, LocalCopy};
pub use relabelled::Relabelled;
pub use renamed::Renamed;
pub use selected::Selected;
pub use windowed::{Windowed, Windows};
