//! Values that LitData and MDS store alike: plain numbers and bytes, raw pixels after a header of sizes, arrays after
//! a header that differs between the systems.

use super::export::only_ours;
use crate::field::{DType, ImageEncoding, ImageMeta};
use crate::sample::{SampleBuffer, Value};

/// The differences between the two systems.
pub(super) trait PlainSystem {
    /// Its name, for messages.
    const NAME: &'static str;

    /// Records an image before it is written; the error says why it cannot be.
    fn see(&mut self, bytes: &[u8], meta: ImageMeta) -> Result<(), String>;

    /// Writes the element type and shape, which precede an array's elements.
    fn array_head(dtype: DType, shape: &[u64], out: &mut Vec<u8>) -> Result<(), String>;
}

/// Appends a value to `out`; the error says why it cannot be stored.
pub(super) fn encode<S: PlainSystem>(
    value: &Value,
    buffer: &SampleBuffer,
    system: &mut S,
    out: &mut Vec<u8>,
) -> Result<(), String> {
    match value {
        Value::Missing => {
            return Err(format!("the sample lacks it; {} has no missing values", S::NAME));
        }
        Value::Int(number) => out.extend_from_slice(&number.to_le_bytes()),
        Value::Float(number) => out.extend_from_slice(&number.to_le_bytes()),
        Value::Bytes(range) => out.extend_from_slice(buffer.bytes(range)),
        Value::Image { bytes, meta, .. } => {
            let bytes = buffer.bytes(bytes);
            system.see(bytes, *meta)?;
            image_head(*meta, out)?;
            out.extend_from_slice(bytes);
        }
        Value::Array { dtype, dimensions, shape, bytes } => {
            S::array_head(*dtype, &shape[..usize::from(*dimensions)], out)?;
            out.extend_from_slice(buffer.bytes(bytes));
        }
    }
    Ok(())
}

/// Image files need no header; raw pixels have width, height, the length of their mode, and the mode.
fn image_head(meta: ImageMeta, out: &mut Vec<u8>) -> Result<(), String> {
    match meta.encoding {
        ImageEncoding::Rgb => {
            for word in [meta.width, meta.height, 3] {
                out.extend_from_slice(&word.to_le_bytes());
            }
            out.extend_from_slice(b"RGB");
            Ok(())
        }
        file if file.is_file() => Ok(()),
        other => Err(only_ours(other)),
    }
}
