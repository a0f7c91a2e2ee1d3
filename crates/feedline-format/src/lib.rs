//! The lower half of feedline: where bytes are stored ([`source`]) and how samples are laid out ([`mod@format`]),
//! with the types both halves share: [`field`] (what a field is), [`sample`] (one sample's values), [`error`] (what
//! went wrong, and where).
//!
//! Users depend on the crate `feedline`, which re-exports what they need. This crate is separate because it is large,
//! has nothing to do with pixels, batches or threads, and is built once while the engine above it changes.

// What formats share has no user in a build without them.
#![cfg_attr(not(feature = "full"), allow(dead_code, unused_imports))]

/// Writes the `with_…` setters of an options struct. Such structs are `#[non_exhaustive]`, so a new option breaks no
/// caller.
#[doc(hidden)]
#[macro_export]
macro_rules! setters {
    ($options:ident: $($(#[$doc:meta])* $setter:ident: $field:ident = $type:ty;)*) => {
        impl $options {
            $($(#[$doc])*
            #[must_use]
            pub fn $setter(mut self, value: $type) -> Self {
                self.$field = value.into();
                self
            })*
        }
    };
}

pub mod error;
pub mod field;
pub mod format;
pub mod owned;
pub mod sample;
pub mod source;
