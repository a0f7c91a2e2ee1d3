//! Levels and dictionary keys: runs of equal numbers and bit-packed groups of eight, mixed.

/// The rows' slots from the levels at the beginning of a first-version page, and the offset of its values. `None` if
/// every row has a value.
pub(super) fn first(content: &[u8], most: i16, rows: usize) -> Result<(Option<Vec<u32>>, usize), String> {
    if most == 0 {
        return Ok((None, 0));
    }
    let length = content.get(..4).ok_or("levels are cut off")?;
    let length = u32::from_le_bytes(length.try_into().expect("four bytes")) as usize;
    let end =
        length.checked_add(4).filter(|end| *end <= content.len()).ok_or("levels reach past the page")?;
    Ok((second(&content[4..end], most, rows)?, end))
}

/// The rows' slots from the levels of a page.
pub(super) fn second(levels: &[u8], most: i16, rows: usize) -> Result<Option<Vec<u32>>, String> {
    if most == 0 {
        return Ok(None);
    }
    let most = most.unsigned_abs();
    let width = 16 - most.leading_zeros();
    // The usual case: all rows have a value, in one run.
    if let Some((Run::Equal { value, count }, _)) = run(levels, width)
        && value == u32::from(most)
        && count >= rows
    {
        return Ok(None);
    }
    let mut slots = Vec::new();
    let mut next = 0;
    each(levels, width, rows, |level| {
        let present = level == u32::from(most);
        slots.push(if present { next } else { u32::MAX });
        next += u32::from(present);
    })?;
    Ok(Some(slots))
}

/// `count` keys: a byte with their width, then runs.
pub(super) fn keys(bytes: &[u8], count: usize) -> Result<Vec<u32>, String> {
    if count == 0 {
        return Ok(Vec::new());
    }
    let (width, runs) = bytes.split_first().ok_or("keys are cut off")?;
    if *width > 32 {
        return Err(format!("keys of {width} bits"));
    }
    let mut keys = Vec::new();
    each(runs, u32::from(*width), count, |key| keys.push(key))?;
    Ok(keys)
}

enum Run<'a> {
    Equal { value: u32, count: usize },
    Packed { bytes: &'a [u8], count: usize },
}

/// The next run and its number of bytes.
fn run(bytes: &[u8], width: u32) -> Option<(Run<'_>, usize)> {
    let (mut head, mut at) = (0u64, 0);
    loop {
        let byte = *bytes.get(at)?;
        head |= u64::from(byte & 127) << (7 * at);
        at += 1;
        if byte & 128 == 0 {
            break;
        }
        if at == 5 {
            return None;
        }
    }
    let count = usize::try_from(head >> 1).ok()?;
    if head & 1 == 0 {
        let size = width.div_ceil(8) as usize;
        let value =
            bytes.get(at..at + size)?.iter().rev().fold(0, |value, byte| value << 8 | u32::from(*byte));
        return Some((Run::Equal { value, count }, at + size));
    }
    // Some writers leave out the end of the last group.
    let size = count.checked_mul(width as usize)?.min(bytes.len() - at);
    Some((Run::Packed { bytes: &bytes[at..at + size], count: count.checked_mul(8)? }, at + size))
}

/// Calls `visit` with the first `count` numbers.
fn each(mut bytes: &[u8], width: u32, count: usize, mut visit: impl FnMut(u32)) -> Result<(), String> {
    let mut left = count;
    while left > 0 {
        let (run, size) = run(bytes, width).ok_or("numbers are cut off")?;
        match run {
            Run::Equal { value, count } => {
                let now = count.min(left);
                if now == 0 {
                    return Err("an empty run".to_owned());
                }
                (0..now).for_each(|_| visit(value));
                left -= now;
            }
            Run::Packed { bytes, count } => {
                let now = count.min(left);
                if now == 0 || (now * width as usize).div_ceil(8) > bytes.len() {
                    return Err("packed numbers are cut off".to_owned());
                }
                (0..now).for_each(|n| visit(packed(bytes, width as usize, n)));
                left -= now;
            }
        }
        bytes = &bytes[size..];
    }
    Ok(())
}

fn packed(bytes: &[u8], width: usize, number: usize) -> u32 {
    let (bit, mut value) = (number * width, 0u64);
    let (from, to) = (bit / 8, (bit + width).div_ceil(8));
    for (place, byte) in bytes[from..to].iter().enumerate() {
        value |= u64::from(*byte) << (8 * place);
    }
    (value >> (bit % 8) & ((1 << width) - 1)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_and_packed_groups_are_read() {
        // The example of Parquet's specification: 0..8 in three bits.
        let packed = [3, 0b1000_1000, 0b1100_0110, 0b1111_1010];
        let mut keys_ = Vec::new();
        each(&packed, 3, 8, |key| keys_.push(key)).unwrap();
        assert_eq!(keys_, [0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(
            keys(&[3, 10, 6, 3, 0b1000_1000, 0b1100_0110, 0b1111_1010], 7).unwrap(),
            [6, 6, 6, 6, 6, 0, 1]
        );
        assert_eq!(keys(&[0, 8], 4).unwrap(), [0; 4]);
    }

    #[test]
    fn slots_count_rows_with_a_value() {
        assert_eq!(second(&[6, 1], 1, 3).unwrap(), None);
        let slots = second(&[2, 1, 2, 0, 4, 1], 1, 4).unwrap().unwrap();
        assert_eq!(slots, [0, u32::MAX, 1, 2]);
        assert_eq!(first(&[2, 0, 0, 0, 8, 2, 9], 2, 4).unwrap(), (None, 6));
    }

    #[test]
    fn nonsense_is_refused() {
        for bytes in [&[][..], &[0], &[0xff; 9], &[3], &[0, 0, 0, 0]] {
            assert!(second(bytes, 1, 1000).is_err() && first(bytes, 1, 1000).is_err(), "{bytes:?}");
            assert!(keys(bytes, 1000).is_err() || bytes == [0, 0, 0, 0], "{bytes:?}");
        }
        assert!(keys(&[33, 2, 0, 0, 0, 0, 0], 1).is_err());
    }
}
