//! Packets of H.264 that no other frame builds on. They need not be decoded unless they are wanted: in a video with
//! B-frames that saves a third of the frames between the key frame and the first wanted one.

use crate::index::Codec;

/// Whether a packet can be left out without any change to other frames. False if it is not known. `config` is the
/// track's description.
pub(crate) fn is_disposable(codec: Codec, config: &[u8], packet: &[u8]) -> bool {
    // The description says how many bytes the length of a unit takes.
    let (Codec::H264, [1, _, _, _, sizes, ..]) = (codec, config) else { return false };
    let width = usize::from(sizes & 3) + 1;
    let mut slices = 0;
    let mut rest = packet;
    while !rest.is_empty() {
        let Some((unit, after)) = first_unit(rest, width) else { return false };
        match unit.first().map(|head| (head & 31, head >> 5 & 3)) {
            // Slices that nothing refers to.
            Some((1..=5, 0)) => slices += 1,
            // Messages, delimiters and filling.
            Some((6 | 9 | 12, _)) => {}
            _ => return false,
        }
        rest = after;
    }
    slices > 0
}

/// The first unit and what follows it.
fn first_unit(bytes: &[u8], width: usize) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_at_checked(width)?;
    let length = length.iter().fold(0usize, |length, byte| length << 8 | usize::from(*byte));
    rest.split_at_checked(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: &[u8] = &[1, 100, 0, 31, 0xff];

    fn left_out(packet: &[u8]) -> bool {
        is_disposable(Codec::H264, CONFIG, packet)
    }

    #[test]
    fn only_slices_without_references_are_disposable() {
        assert!(left_out(&[0, 0, 0, 2, 0x01, 9]));
        assert!(left_out(&[0, 0, 0, 1, 0x06, 0, 0, 0, 2, 0x01, 9, 0, 0, 0, 1, 0x01]), "a message before");
        assert!(!left_out(&[0, 0, 0, 2, 0x41, 9]), "others refer to it");
        assert!(!left_out(&[0, 0, 0, 2, 0x01, 9, 0, 0, 0, 1, 0x41]), "to its second slice");
        assert!(!left_out(&[0, 0, 0, 2, 0x01, 9, 0, 0, 0, 1, 0x67]), "a parameter set");
        assert!(!left_out(&[0, 0, 0, 3, 0x01, 9]), "cut off");
        assert!(!left_out(&[]), "nothing");
    }

    #[test]
    fn other_codecs_and_descriptions_are_never_disposable() {
        assert!(!is_disposable(Codec::H264, &[], &[0, 0, 0, 2, 0x01, 9]));
        assert!(!is_disposable(Codec::Hevc, CONFIG, &[0, 0, 0, 2, 0x01, 9]));
    }
}
