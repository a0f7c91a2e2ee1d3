//! Finds the orientation in EXIF (a small TIFF structure) or else in XMP, as Pillow's `getexif` does.

use crate::Orientation;

const ORIENTATION: u16 = 0x0112;

/// Orientation from an EXIF block, with or without the prefix `Exif\0\0`. `None` if the tag is missing or the block
/// is invalid: bad metadata never prevents decoding. A tag that holds no number is present, and means upright.
pub(crate) fn orientation(block: &[u8]) -> Option<Orientation> {
    let tiff = block.strip_prefix(b"Exif\0\0").unwrap_or(block);
    let reader = Reader::new(tiff)?;
    let entry = reader.find(ORIENTATION)?;
    let (kind, count) = (reader.u16(entry + 2)?, reader.u32(entry + 4)?);
    let width = match kind {
        1 | 2 | 6 | 7 => 1,
        3 | 8 => 2,
        4 | 9 | 11 | 13 => 4,
        5 | 10 | 12 | 16 => 8,
        _ => return None,
    };
    // Of several values, the first counts; more than fit here are elsewhere, all of them or none.
    let length = (count as usize).checked_mul(width).filter(|length| *length > 0)?;
    let at = if length <= 4 { entry + 8 } else { reader.u32(entry + 8)? as usize };
    tiff.get(at..at.checked_add(length)?)?;
    Some(Orientation::from_exif(reader.number(kind, at)?))
}

/// Orientation from an XMP packet: the digit after `tiff:Orientation="` or `tiff:Orientation>`.
pub(crate) fn xmp_orientation(packet: &[u8]) -> Option<Orientation> {
    const NAME: &[u8] = b"tiff:Orientation";
    let at = packet.windows(NAME.len()).position(|window| window == NAME)? + NAME.len();
    let rest = &packet[at..];
    let value = rest.strip_prefix(b"=\"").or_else(|| rest.strip_prefix(b">"))?;
    let digit = value.first()?.checked_sub(b'0').filter(|digit| *digit < 10)?;
    Some(Orientation::from_exif(u32::from(digit)))
}

/// Reads the first directory of a TIFF structure.
pub(crate) struct Reader<'a> {
    tiff: &'a [u8],
    big_endian: bool,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(tiff: &'a [u8]) -> Option<Self> {
        let big_endian = match tiff.get(..4)? {
            b"II*\0" => false,
            b"MM\0*" => true,
            _ => return None,
        };
        Some(Reader { tiff, big_endian })
    }

    /// Offset of this tag's entry: two bytes each for tag and type, four for the count, four for the value.
    pub(crate) fn find(&self, tag: u16) -> Option<usize> {
        let directory = self.u32(4)? as usize;
        let entries = usize::from(self.u16(directory)?);
        (0..entries).map(|index| directory + 2 + index * 12).find(|at| self.u16(*at) == Some(tag))
    }

    pub(crate) fn u16(&self, at: usize) -> Option<u16> {
        let bytes = self.tiff.get(at..at.checked_add(2)?)?.try_into().ok()?;
        Some(if self.big_endian { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) })
    }

    /// The number of a type at this place; 0 if it is negative, has a fraction, or if the type is text or bytes, which
    /// Pillow does not take for a number.
    fn number(&self, kind: u16, at: usize) -> Option<u32> {
        Some(match kind {
            3 | 8 => u32::from(self.u16(at)?),
            6 => u32::from(*self.tiff.get(at)?),
            4 | 9 | 13 => self.u32(at)?,
            11 => whole(f64::from(f32::from_bits(self.u32(at)?))),
            5 | 10 => whole(f64::from(self.u32(at)?) / f64::from(self.u32(at + 4)?)),
            12 => whole(f64::from_bits(self.u64(at)?)),
            16 => u32::try_from(self.u64(at)?).unwrap_or(0),
            _ => 0,
        })
    }

    fn u64(&self, at: usize) -> Option<u64> {
        let (first, second) = (u64::from(self.u32(at)?), u64::from(self.u32(at + 4)?));
        Some(if self.big_endian { first << 32 | second } else { second << 32 | first })
    }

    fn u32(&self, at: usize) -> Option<u32> {
        let bytes = self.tiff.get(at..at.checked_add(4)?)?.try_into().ok()?;
        Some(if self.big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) })
    }
}

/// A number without a fraction, else 0.
fn whole(number: f64) -> u32 {
    if number.fract() == 0.0 { number as u32 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(big_endian: bool, value: u16) -> Vec<u8> {
        let two = |n: u16| if big_endian { n.to_be_bytes() } else { n.to_le_bytes() };
        let four = |n: u32| if big_endian { n.to_be_bytes() } else { n.to_le_bytes() };
        let mut bytes = if big_endian { b"MM\0*".to_vec() } else { b"II*\0".to_vec() };
        bytes.extend(four(8));
        bytes.extend(two(2));
        bytes.extend([two(0x010F), two(2)].concat());
        bytes.extend([four(3), four(0)].concat());
        bytes.extend([two(ORIENTATION), two(3)].concat());
        bytes.extend(four(1));
        bytes.extend([two(value), [0, 0]].concat());
        bytes
    }

    #[test]
    fn the_orientation_tag_is_found() {
        for big_endian in [false, true] {
            let bytes = block(big_endian, 6);
            assert_eq!(orientation(&bytes), Some(Orientation::Turn90));
            assert_eq!(
                orientation(&[b"Exif\0\0".to_vec(), bytes.clone()].concat()),
                Some(Orientation::Turn90)
            );
            let mut several = bytes.clone();
            several[if big_endian { 29 } else { 26 }] = 2;
            assert_eq!(orientation(&several), Some(Orientation::Turn90));
            several[if big_endian { 29 } else { 26 }] = 16;
            assert_eq!(orientation(&several), None);
            // If the block is cut anywhere, the tag is missing, and nothing panics.
            for length in 0..bytes.len() - 2 {
                assert_eq!(orientation(&bytes[..length]), None);
            }
        }
    }

    #[test]
    fn xmp_packets_are_read() {
        assert_eq!(xmp_orientation(br#"<x tiff:Orientation="8"/>"#), Some(Orientation::Turn270));
        assert_eq!(xmp_orientation(b"<tiff:Orientation>3</tiff:Orientation>"), Some(Orientation::Turn180));
        assert_eq!(xmp_orientation(b"tiff:Orientation"), None);
    }
}
