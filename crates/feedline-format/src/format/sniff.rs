//! Detects images by their first bytes, for containers that have a type for bytes but none for images. Compares endings of
//! names.

/// Whether `name` ends in `ending`, in capital or small letters.
pub(super) fn has_ending(name: &str, ending: &str) -> bool {
    let start = name.len().wrapping_sub(ending.len());
    name.get(start..).is_some_and(|end| end.eq_ignore_ascii_case(ending))
}

/// Whether `bytes` begin like an image file that can be decoded.
pub(super) fn is_image(bytes: &[u8]) -> bool {
    let begins = |magic: &[u8]| bytes.starts_with(magic);
    let at = |offset: usize, magic: &[u8]| bytes.get(offset..offset + magic.len()) == Some(magic);
    begins(&[0xff, 0xd8, 0xff])
        || begins(b"\x89PNG\r\n\x1a\n")
        || begins(b"GIF87a")
        || begins(b"GIF89a")
        || (begins(b"RIFF") && at(8, b"WEBP"))
        || begins(b"II*\0")
        || begins(b"MM\0*")
        || (at(4, b"ftyp") && (at(8, b"avif") || at(8, b"avis")))
        || begins(b"\0\0\0\x0cjP  \r\n\x87\n")
        || begins(&[0xff, 0x4f, 0xff, 0x51])
        || is_bitmap(bytes)
}

/// Two letters are not enough: the header must also be consistent.
fn is_bitmap(bytes: &[u8]) -> bool {
    let Some(header) = bytes.get(..18) else { return false };
    let info = u32::from_le_bytes([header[14], header[15], header[16], header[17]]);
    header.starts_with(b"BM") && header[6..10] == [0; 4] && matches!(info, 12 | 40 | 52 | 56 | 64 | 108 | 124)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_recognised_and_text_is_not() {
        for name in ["1.bmp", "1.png", "1.tiff", "animated.gif", "lossy.webp", "os2.bmp"] {
            let path = format!("{}/../../testdata/images/{name}", env!("CARGO_MANIFEST_DIR"));
            assert!(is_image(&std::fs::read(path).unwrap()), "{name}");
        }
        for other in [&b""[..], b"BM is a word of two letters", b"RIFF....WAVE", b"II", b"\xff\xd8"] {
            assert!(!is_image(other), "{other:?}");
        }
    }
}
