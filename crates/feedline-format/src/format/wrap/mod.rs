//! FORMATS THAT WRAP FORMATS: other names, a selection of samples, several sets in a row, other class numbers, a
//! local copy, windows over arrays. None of them stores bytes.
//!
//! Each forwards every method of [`Format`](super::Format), [`Index`](super::Index) and [`Extents`](super::Extents).
//! The lint below makes a forgotten one an error, because a default method would silently give a wrong answer.
#![deny(clippy::missing_trait_methods)]

/// Methods of [`Format`](super::Format) for a wrapper that is named, and has problems, like the format in its field.
macro_rules! forward_description {
    ($inner:ident) => {
        fn name(&self) -> &'static str {
            self.$inner.name()
        }

        fn problems(&self) -> &[crate::error::Error] {
            self.$inner.problems()
        }

        fn warnings(&self) -> &[crate::error::Error] {
            self.$inner.warnings()
        }
    };
}

/// Methods of [`Extents`](super::Extents) for a wrapper that has the objects of the format in its field.
macro_rules! forward_objects {
    ($inner:ident) => {
        fn object_count(&self) -> u32 {
            self.$inner.object_count()
        }

        fn object(
            &self,
            number: u32,
        ) -> Option<(&std::sync::Arc<dyn crate::source::Source>, std::borrow::Cow<'_, str>)> {
            self.$inner.object(number)
        }

        fn seen(&self, number: u32) -> Option<crate::source::Seen> {
            self.$inner.seen(number)
        }
    };
}

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
