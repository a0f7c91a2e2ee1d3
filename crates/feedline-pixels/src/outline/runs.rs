//! Run lengths: pixels are counted down the columns, from left to right; runs of 0 and of 1 alternate, 0 first.

use super::check_plane;
use crate::{Error, Result, Size};

/// Sets the pixels of every second run to 1; others keep their values.
pub fn fill_runs(runs: &[u64], size: Size, plane: &mut [u8]) -> Result<()> {
    check_plane(size, plane)?;
    let (height, width, area) = (size.height as usize, size.width as usize, size.area());
    let mut start = 0u64;
    for (number, run) in runs.iter().enumerate() {
        let end = start.saturating_add(*run);
        if end > area {
            return Err(Error::Misuse(format!("run lengths of {end} pixels for an image of {area}")));
        }
        if number % 2 == 1 {
            for at in start as usize..end as usize {
                plane[at % height * width + at / height] = 1;
            }
        }
        start = end;
    }
    if start < area {
        return Err(Error::Misuse(format!("run lengths of {start} pixels for an image of {area}")));
    }
    Ok(())
}

/// Run lengths from COCO's text: five bits per character, the lowest first; a sixth says that more follow. From the
/// third on, a number is the difference to the one before the last.
pub fn unpack_runs(text: &[u8]) -> Result<Vec<u64>> {
    let wrong = |at: usize| Error::Misuse(format!("run lengths: character {at} is not one of COCO's text"));
    let mut runs: Vec<u64> = Vec::new();
    let (mut value, mut bits) = (0i64, 0u32);
    for (at, character) in text.iter().enumerate() {
        let six = character.checked_sub(48).filter(|six| *six < 64).ok_or_else(|| wrong(at))?;
        if bits > 40 {
            return Err(wrong(at));
        }
        value |= i64::from(six & 31) << bits;
        bits += 5;
        if six & 32 != 0 {
            continue;
        }
        if six & 16 != 0 {
            value |= -1 << bits;
        }
        let before = if runs.len() > 2 { runs[runs.len() - 2] as i64 } else { 0 };
        runs.push(u64::try_from(before + value).map_err(|_| wrong(at))?);
        (value, bits) = (0, 0);
    }
    if bits > 0 { Err(wrong(text.len())) } else { Ok(runs) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_go_down_the_columns() {
        let mut plane = [0; 6];
        fill_runs(&[1, 3, 2], Size::new(3, 2), &mut plane).unwrap();
        assert_eq!(plane, [0, 1, 0, 1, 1, 0]);
        for wrong in [vec![7], vec![1, 3], vec![1, u64::MAX, 2]] {
            assert!(fill_runs(&wrong, Size::new(3, 2), &mut plane).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn texts_are_read_or_refused() {
        assert_eq!(unpack_runs(b"6").unwrap(), [6]);
        assert_eq!(unpack_runs(b"").unwrap(), [0; 0]);
        for wrong in [&b"\x01"[..], b"o", b"ooooooooooooooo0", b"6N", b"\xff"] {
            assert!(unpack_runs(wrong).is_err(), "{wrong:?}");
        }
    }
}
