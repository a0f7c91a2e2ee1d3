//! ONE DESCRIPTION OF A FIELD: what it contains ([`Kind`]), what its elements are ([`DType`]), how an image's bytes
//! are stored ([`ImageEncoding`]), in which order a tensor's dimensions are ([`MemoryFormat`]) and what it is for
//! ([`Role`]).
//!
//! Each is one table with all its names, sizes, codes and spellings. Packs, exporters, the command line, Python and
//! the kernels use these tables and repeat nothing. A new kind is a file in `kind/` and a line in its table.

mod dtype;
mod encoding;
mod kind;
mod layout;
mod role;
mod spec;

pub use dtype::DType;
pub use encoding::{ImageEncoding, ImageMeta};
pub use kind::{Carrier, Kind, Meaning};
pub use layout::MemoryFormat;
pub use role::Role;
pub use spec::{FieldSpec, Schema};

/// Reads and writes a type of this folder as its name. The error for an unknown name lists the known ones.
macro_rules! spelled_by_name {
    ($type:ident, $what:literal) => {
        impl From<$type> for &'static str {
            fn from(value: $type) -> Self {
                value.name()
            }
        }

        impl TryFrom<String> for $type {
            type Error = String;

            fn try_from(name: String) -> Result<Self, String> {
                $type::from_name(&name).ok_or_else(|| {
                    let names: Vec<&str> = $type::ALL.iter().map(|one| one.name()).collect();
                    format!("'{name}' is not a known {}; use one of {}", $what, names.join(", "))
                })
            }
        }

        impl $type {
            /// The value with this name.
            pub fn from_name(name: &str) -> Option<Self> {
                $type::ALL.into_iter().find(|one| one.name() == name)
            }
        }
    };
}
use spelled_by_name;
