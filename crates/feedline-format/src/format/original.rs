//! Restores image files that a pack stores in another form.

use feedline_pixels::{Decoder, dct};

use crate::sample::{ImageEncoding, ImageMeta, SampleBuffer, Value};

/// The JPEG file, byte for byte, of an image that is stored as `compact`; `None` for images stored in any other way.
pub fn original_file(bytes: &[u8], meta: ImageMeta) -> Option<Result<Vec<u8>, String>> {
    let compact = meta.encoding == ImageEncoding::Compact;
    compact.then(|| dct::compact::original(bytes, Decoder::DEFAULT_MAX_PIXELS).map_err(|e| e.to_string()))
}

/// Replaces images by their original files where that is possible.
pub(crate) fn restore_files(buffer: &mut SampleBuffer) -> Result<(), String> {
    for field in 0..buffer.values().len() {
        let Value::Image { bytes, meta, .. } = buffer.value(field) else { continue };
        let meta = *meta;
        if let Some(file) = original_file(buffer.bytes(bytes), meta) {
            let bytes = buffer.append(&file?);
            let meta = ImageMeta { encoding: ImageEncoding::Jpeg, ..meta };
            buffer.set(field, Value::Image { index: bytes.end..bytes.end, bytes, meta });
        }
    }
    Ok(())
}
