//! Inflates zstd with limits.

use std::io::Read;

use crate::format::bounds;

/// First bytes of a zstd frame.
pub(super) const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Inflates to exactly `length` bytes. Memory is allocated as bytes come out, so a false length costs none.
pub(super) fn inflate(frame: &[u8], length: u64) -> Result<Vec<u8>, String> {
    bounds::check_announced(frame.len() as u64, length)?;
    let mut out = Vec::new();
    let decoder = zstd::Decoder::with_buffer(frame).map_err(|e| e.to_string())?;
    // One byte more than expected shows that there is more.
    decoder.take(length.saturating_add(1)).read_to_end(&mut out).map_err(|e| format!("zstd: {e}"))?;
    if out.len() as u64 != length {
        return Err(format!("inflates to {} {} bytes, not {length}", more(out.len(), length), out.len()));
    }
    Ok(out)
}

fn more(found: usize, expected: u64) -> &'static str {
    if found as u64 > expected { "at least" } else { "only" }
}

/// Appends the inflated frame, at most `limit` bytes.
pub(super) fn inflate_up_to(frame: &[u8], limit: u64, out: &mut Vec<u8>) -> Result<(), String> {
    let decoder = zstd::Decoder::with_buffer(frame).map_err(|e| e.to_string())?;
    let most = bounds::most_unpacked(frame.len() as u64);
    let room = limit.min(most).saturating_add(1);
    let found = decoder.take(room).read_to_end(out).map_err(|e| format!("zstd: {e}"))? as u64;
    match found {
        _ if found > most => Err(bounds::refusal(frame.len() as u64)),
        _ if found > limit => Err(format!("inflates to more than {limit} bytes")),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inflating_stops_at_the_announced_length() {
        let frame = zstd::encode_all(&vec![7; 100_000][..], 3).unwrap();
        assert_eq!(inflate(&frame, 100_000).unwrap(), vec![7; 100_000]);
        for length in [0, 99_999, 100_001, u64::MAX] {
            assert!(inflate(&frame, length).is_err(), "{length}");
        }
        assert!((0..frame.len()).all(|n| inflate(&frame[..n], 100_000).is_err()));
        let mut out = vec![1];
        inflate_up_to(&frame, 100_000, &mut out).unwrap();
        assert_eq!(out.len(), 100_001);
        assert!(inflate_up_to(&frame, 99_999, &mut out).is_err());
    }
}
