//! FORMATS MADE OF FORMATS: other names, a selection of samples, several sets in a row, other class numbers, a local
//! copy. None copies a byte.
//!
//! Each forwards every method of [`Format`](super::Format), [`Index`](super::Index) and [`Extents`](super::Extents); the
//! lint below makes a forgotten one an error, since a default would be a wrong answer in silence.
#![deny(clippy::missing_trait_methods)]

mod concatenated;
mod copied;
mod relabelled;
mod renamed;
mod selected;
#[cfg(test)]
mod tests;

pub use concatenated::Concatenated;
pub use copied::{Copied, LocalCopy};
pub use relabelled::Relabelled;
pub use renamed::Renamed;
pub use selected::Selected;
