//! Caffe's `Datum`: a protobuf message of sizes, bytes, label, and whether the bytes are an image file.

use std::ops::Range;

/// The parts of the message that are used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Datum {
    channels: u64,
    height: u64,
    width: u64,
    /// Range of the bytes in the message.
    pub(super) data: Range<usize>,
    pub(super) label: i64,
    pub(super) encoded: bool,
}

impl Datum {
    /// Parses the message; `None` if the bytes are something else.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let (mut datum, mut at, mut has_data) = (Datum::default(), 0, false);
        while at < bytes.len() {
            let tag = number(bytes, &mut at)?;
            match (tag >> 3, tag & 7) {
                (which @ (1 | 2 | 3 | 5 | 7), 0) => {
                    let value = number(bytes, &mut at)?;
                    match which {
                        1 => datum.channels = value,
                        2 => datum.height = value,
                        3 => datum.width = value,
                        5 => datum.label = i64::from(value as u32 as i32),
                        _ => datum.encoded = value != 0,
                    }
                }
                (4, 2) => {
                    datum.data = run(bytes, &mut at)?;
                    has_data = true;
                }
                // Floats instead of bytes, packed or one by one, are not supported.
                _ => return None,
            }
        }
        has_data.then_some(datum)
    }

    /// Channels, height and width, if the bytes are that many pixels.
    pub(super) fn shape(&self) -> Option<[u64; 3]> {
        let count = self.channels.checked_mul(self.height)?.checked_mul(self.width)?;
        (count == self.data.len() as u64 && count > 0).then_some([self.channels, self.height, self.width])
    }
}

fn number(bytes: &[u8], at: &mut usize) -> Option<u64> {
    let mut value = 0u64;
    for shift in 0..10 {
        let byte = *bytes.get(*at)?;
        *at += 1;
        value |= u64::from(byte & 127) << (7 * shift).min(63);
        if byte & 128 == 0 {
            return Some(value);
        }
    }
    None
}

fn run(bytes: &[u8], at: &mut usize) -> Option<Range<usize>> {
    let length = usize::try_from(number(bytes, at)?).ok()?;
    let end = at.checked_add(length).filter(|end| *end <= bytes.len())?;
    let start = std::mem::replace(at, end);
    Some(start..end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_datum_messages_are_read() {
        let message = [&b"\x08\x03\x10\x01\x18\x02\x22\x06abcdef\x28"[..], &[0xff; 9], &[1]].concat();
        let datum = Datum::parse(&message).unwrap();
        assert_eq!((datum.shape(), datum.label, datum.encoded), (Some([3, 1, 2]), -1, false));
        assert_eq!(&message[datum.data.clone()], b"abcdef");
        assert!((0..message.len()).all(|n| Datum::parse(&message[..n]).is_none_or(|d| d != datum)));
        for other in [&b""[..], b"\xff\xd8\xff\xe0", b"\x22\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", b"text"]
        {
            assert_eq!(Datum::parse(other), None, "{other:?}");
        }
    }
}
