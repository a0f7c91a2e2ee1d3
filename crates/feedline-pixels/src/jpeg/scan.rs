//! Entropy-coded bytes without their stuffing: `FF 00` becomes `FF`, and any marker ends a piece.
//!
//! The bit reader loads eight bytes at a time and must not check each. So the bytes it needs are copied once into
//! scratch memory, which costs about 1 % of a decode: runs without `FF` are copied in words, and there is one `FF` in
//! 300 bytes.

use super::huffman::REACH;

/// Number of zero bytes after each piece, so that a reader need not check for its end. A reader runs up to eight bytes
/// ahead.
pub(crate) const PADDING: usize = REACH + 8;

/// Appends `from` to `to` up to the first marker, and then [`PADDING`]. Returns how many bytes of `from` were read; if
/// that is less than its length, there is a marker. `stuffed` is called for every `FF` that was followed by a zero,
/// with its position in `to`.
pub(crate) fn unstuff(from: &[u8], to: &mut Vec<u8>, mut stuffed: impl FnMut(usize)) -> usize {
    to.reserve(from.len() + PADDING);
    let mut at = 0;
    let end = loop {
        let run = run_without_ff(&from[at..]);
        to.extend_from_slice(&from[at..at + run]);
        at += run;
        match from.get(at..) {
            Some([0xFF, 0x00, ..]) => {
                stuffed(to.len());
                to.push(0xFF);
                at += 2;
            }
            // The piece may be cut between the two bytes; the second is never read as data.
            Some([0xFF]) => {
                to.push(0xFF);
                break at + 1;
            }
            _ => break at,
        }
    };
    to.extend_from_slice(&[0; PADDING]);
    end
}

/// Position of the marker that ends a scan: the first that is no restart marker. `None` if there is none, or one that no
/// file has there.
pub(crate) fn marker_from(data: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        at += run_without_ff(data.get(at..)?);
        match data.get(at + 1)? {
            // Stuffing, or a restart marker.
            0x00 | 0xD0..=0xD7 => at += 2,
            // Markers may be preceded by any number of these.
            0xFF => at += 1,
            0xC0.. => return Some(at),
            _ => return None,
        }
    }
}

/// Number of bytes before the first `FF`.
fn run_without_ff(bytes: &[u8]) -> usize {
    const STEP: usize = 32;
    let mut at = 0;
    for chunk in bytes.chunks_exact(STEP) {
        // Written so that the compiler uses one vector comparison.
        if chunk.iter().fold(0, |seen, &byte| seen | u8::from(byte == 0xFF)) != 0 {
            break;
        }
        at += STEP;
    }
    at + bytes[at..].iter().position(|&byte| byte == 0xFF).unwrap_or(bytes.len() - at)
}

/// Whether there is an end-of-image marker in or after the entropy-coded data. Pillow treats a file without one as
/// truncated, and so do we, whatever part of it is requested.
pub(crate) fn has_end(data: &[u8]) -> bool {
    data.windows(2).rev().any(|pair| pair == [0xFF, 0xD9])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(from: &[u8]) -> (Vec<u8>, usize, Vec<usize>) {
        let (mut to, mut stuffed) = (Vec::new(), Vec::new());
        let end = unstuff(from, &mut to, |at| stuffed.push(at));
        to.truncate(to.len() - PADDING);
        (to, end, stuffed)
    }

    #[test]
    fn removes_stuffing_and_stops_at_markers() {
        assert_eq!(plain(&[1, 0xFF, 0, 2, 0xFF, 0xD9, 3]), (vec![1, 0xFF, 2], 4, vec![1]));
        assert_eq!(plain(&[]), (vec![], 0, vec![]));
        assert_eq!(plain(&[0xFF]), (vec![0xFF], 1, vec![]));
        assert_eq!(plain(&[0xFF, 0xFF, 0]), (vec![], 0, vec![]));
        let mut long = vec![7; 100];
        long[70] = 0xFF;
        long[71] = 0;
        let (bytes, end, stuffed) = plain(&long);
        assert_eq!((bytes.len(), end, stuffed), (99, 100, vec![70]));
    }

    #[test]
    fn finds_the_marker_after_a_scan() {
        assert_eq!(marker_from(&[1, 0xFF, 0, 2, 0xFF, 0xD3, 3, 0xFF, 0xFF, 0xC4]), Some(8));
        assert_eq!(marker_from(&[1, 2, 0xFF]), None);
        assert_eq!(marker_from(&[1, 0xFF, 0x02, 0xFF, 0xD9]), None);
        assert_eq!(marker_from(&[]), None);
    }

    #[test]
    fn finds_the_end() {
        assert!(has_end(&[1, 0xFF, 0xD9]));
        assert!(has_end(&[0xFF, 0xD9, 5, 5]));
        assert!(!has_end(&[1, 0xFF]));
    }
}
