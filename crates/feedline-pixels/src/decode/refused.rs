//! Formats that are recognised by their first bytes but not decoded, so that errors can name them.

/// Name of the format, and why it is refused.
pub(super) fn known(bytes: &[u8]) -> Option<(&'static str, String)> {
    let none = |name: &'static str| (name, format!("this build has no {name} decoder"));
    match bytes {
        [0xFF, 0x0A, ..] | [0, 0, 0, 12, b'J', b'X', b'L', b' ', ..] => Some(none("JPEG XL")),
        [0, 0, 0, 12, b'j', b'P', b' ' | 0x1A, b' ' | 0x1A, ..] | [0xFF, 0x4F, 0xFF, 0x51, ..] => {
            Some(none("JPEG 2000"))
        }
        [b'8', b'B', b'P', b'S', ..] => Some(none("Photoshop")),
        [b'v', b'/', b'1', 0x01, ..] => Some(none("OpenEXR")),
        [b'D', b'D', b'S', b' ', ..] => Some(none("DirectDraw surface")),
        [0, 0, 1 | 2, 0, ..] => Some(none("icon")),
        [b'%', b'P', b'D', b'F', ..] => Some(("PDF", "a document is not an image".to_owned())),
        [_, _, _, _, b'f', b't', b'y', b'p', ..] => iso_media(bytes),
        _ if starts_like_svg(bytes) => {
            Some(("SVG", "drawings are not decoded; render them to pixels first".to_owned()))
        }
        _ => None,
    }
}

/// ISO media files; their brands identify the content.
fn iso_media(bytes: &[u8]) -> Option<(&'static str, String)> {
    let brands = brands(bytes)?;
    let has = |names: &[&[u8; 4]]| brands.iter().any(|brand| names.contains(&brand));
    if has(&[b"heic", b"heix", b"hevc", b"hevx", b"heim", b"heis"]) {
        let reason = "the codec inside, HEVC, is covered by patents; convert it to JPEG or AVIF";
        return Some(("HEIC", reason.to_owned()));
    }
    has(&[b"mif1", b"msf1"]).then(|| ("HEIF", "this build has no HEIF decoder".to_owned()))
}

/// Names of what an ISO media file contains.
fn brands(bytes: &[u8]) -> Option<&[[u8; 4]]> {
    let length = u32::from_be_bytes(*bytes.first_chunk()?) as usize;
    Some(bytes.get(8..length.min(bytes.len()))?.as_chunks().0)
}

/// Whether an ISO media file is AVIF: an image, or a sequence of them.
pub(super) fn is_avif(bytes: &[u8]) -> bool {
    brands(bytes).is_some_and(|brands| brands.iter().any(|brand| matches!(brand, b"avif" | b"avis")))
}

fn starts_like_svg(bytes: &[u8]) -> bool {
    let start = &bytes[..bytes.len().min(256)];
    start.windows(4).any(|window| window == b"<svg")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_formats_have_names() {
        let name = |bytes: &[u8]| known(bytes).map(|(name, _)| name);
        assert!(is_avif(b"\0\0\0\x1cftypmif1\0\0\0\0mif1avifmiaf"));
        assert!(!is_avif(b"\0\0\0\x18ftypheic\0\0\0\0mif1heic"));
        assert_eq!(name(b"\0\0\0\x18ftypheic\0\0\0\0mif1heic"), Some("HEIC"));
        assert_eq!(name(b"\0\0\0\x0cJXL \r\n\x87\n"), Some("JPEG XL"));
        assert_eq!(name(b"\0\0\0\x0cjP  \r\n\x87\n"), Some("JPEG 2000"));
        assert_eq!(name(b"<?xml version='1.0'?><svg xmlns='x'/>"), Some("SVG"));
        assert_eq!(name(b"<html>"), None);
        assert_eq!(name(b"\0\0\0\0ftyp"), None);
    }
}
