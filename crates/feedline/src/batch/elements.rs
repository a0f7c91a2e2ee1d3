//! A column's elements as Rust number types.
#![expect(unsafe_code, reason = "bytes of a known element type are read as that type")]

use super::Column;
use crate::field::DType;

macro_rules! views {
    ($($(#[$doc:meta])* $name:ident: $type:ty = $dtype:ident;)+) => {
        impl Column {
            $($(#[$doc])*
            pub fn $name(&self) -> Option<&[$type]> {
                if self.dtype != DType::$dtype || cfg!(target_endian = "big") {
                    return None;
                }
                // SAFETY: every bit pattern is a number of this type.
                let (before, elements, after) = unsafe { self.bytes().align_to::<$type>() };
                (before.is_empty() && after.is_empty()).then_some(elements)
            })+
        }
    };
}

views! {
    /// All elements, if they are `float32`.
    as_f32: f32 = F32;
    /// All elements, if they are `float64`.
    as_f64: f64 = F64;
    /// All elements, if they are `int64`.
    as_i64: i64 = I64;
    /// All elements, if they are `int32`.
    as_i32: i32 = I32;
    /// All elements, if they are `uint16`.
    as_u16: u16 = U16;
    /// All elements, if they are `uint8`: pixels, or the bytes of texts and undecoded images.
    as_u8: u8 = U8;
}

impl Column {
    /// The text of row `row`, if the column holds text or JSON.
    pub fn text(&self, row: usize) -> Option<&str> {
        let is_text = matches!(self.meaning, crate::field::Meaning::Text | crate::field::Meaning::Json);
        is_text.then(|| std::str::from_utf8(self.row(row)).ok()).flatten()
    }
}

#[cfg(feature = "ndarray")]
mod views {
    use ndarray::{ArrayViewD, IxDyn};

    use super::Column;

    macro_rules! arrays {
        ($($(#[$doc:meta])* $name:ident: $type:ty = $elements:ident;)+) => {
            impl Column {
                $($(#[$doc])*
                pub fn $name(&self) -> Option<ArrayViewD<'_, $type>> {
                    let shape: Vec<usize> = self.shape.iter().map(|side| *side as usize).collect();
                    ArrayViewD::from_shape(IxDyn(&shape), self.$elements()?).ok()
                })+
            }
        };
    }

    arrays! {
        /// The column as an array of `float32`, without a copy; for a ragged column, all elements in one dimension.
        array_f32: f32 = as_f32;
        /// The column as an array of `int64`, without a copy.
        array_i64: i64 = as_i64;
        /// The column as an array of `uint8`, without a copy.
        array_u8: u8 = as_u8;
    }
}
