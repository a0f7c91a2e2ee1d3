//! Limits on how large a compressed piece may become. A file of a few megabytes can be made to unpack to terabytes;
//! such a file must not use that much memory and time.

/// Up to this size any ratio is allowed: label volumes of zeros really are compressed a thousand to one.
const FREE: u64 = if cfg!(test) { 128 << 20 } else { 1 << 30 };
/// Beyond it, a piece may have at most this many times its packed size.
const RATIO: u64 = 200;

/// Maximum number of bytes that `packed` bytes may unpack to.
pub(super) fn most_unpacked(packed: u64) -> u64 {
    FREE.max(packed.saturating_mul(RATIO))
}

/// Refuses an announced length above the limit.
pub(super) fn check_announced(packed: u64, announced: u64) -> Result<(), String> {
    if announced <= most_unpacked(packed) { Ok(()) } else { Err(refusal(packed)) }
}

/// Reads everything that a decoder gives, up to `most` bytes.
pub(super) fn unpacked(decoder: impl std::io::Read, most: u64) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let read =
        std::io::Read::read_to_end(&mut std::io::Read::take(decoder, most.saturating_add(1)), &mut bytes);
    read.map_err(|error| error.to_string())?;
    if bytes.len() as u64 > most {
        return Err(format!("it unpacks to more than the {most} bytes expected"));
    }
    Ok(bytes)
}

/// Unpacks gzip, up to what so many bytes can sensibly hold.
pub(super) fn gunzip(bytes: &[u8]) -> Result<Vec<u8>, String> {
    let mut plain = Vec::new();
    let most = most_unpacked(bytes.len() as u64);
    let mut reader = std::io::Read::take(flate2::read::MultiGzDecoder::new(bytes), most + 1);
    let read = std::io::Read::read_to_end(&mut reader, &mut plain);
    read.map_err(|e| format!("not readable as gzip: {e}"))?;
    if plain.len() as u64 > most {
        return Err(refusal(bytes.len() as u64));
    }
    Ok(plain)
}

/// The error text for a piece that unpacks to more than it may.
pub(super) fn refusal(packed: u64) -> String {
    let most = most_unpacked(packed);
    format!(
        "{packed} bytes that unpack to more than {most} are refused (at most 1 GiB, or {RATIO} times as much)"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_large_pieces_must_keep_the_ratio() {
        assert_eq!((most_unpacked(0), most_unpacked(1 << 30)), (FREE, 200 << 30));
        assert_eq!(most_unpacked(u64::MAX), u64::MAX);
        assert!(check_announced(10, FREE).is_ok() && check_announced(10, FREE + 1).is_err());
    }
}
