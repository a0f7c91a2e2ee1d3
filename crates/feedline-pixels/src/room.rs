//! Memory whose size comes from a file: allocation may fail, but never aborts.

use crate::{Error, Result};

/// Makes `buffer` exactly `length` elements long. Their content is unspecified: earlier content or `fill`.
pub fn fit<T: Clone>(buffer: &mut Vec<T>, length: usize, fill: T) -> Result<()> {
    if buffer.capacity() < length {
        // The old content is not needed: freeing it first halves the peak and saves the copy.
        *buffer = Vec::new();
        buffer.try_reserve_exact(length).map_err(|_| Error::out_of_memory::<T>(length))?;
    }
    buffer.resize(length, fill);
    Ok(())
}

/// Reserves memory for `more` elements after the content of `buffer`.
pub fn reserve<T>(buffer: &mut Vec<T>, more: usize) -> Result<()> {
    buffer.try_reserve(more).map_err(|_| Error::out_of_memory::<T>(more))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_large_a_size_is_an_error() {
        let mut buffer = vec![1u8];
        let error = fit(&mut buffer, isize::MAX as usize, 0).unwrap_err();
        assert_eq!(error, Error::OutOfMemory { bytes: isize::MAX as u64 });
        assert!(matches!(fit(&mut vec![0u64], usize::MAX, 0), Err(Error::OutOfMemory { .. })));
        assert!(reserve(&mut buffer, usize::MAX).is_err());
        fit(&mut buffer, 3, 7).unwrap();
        assert_eq!(buffer, [7; 3]);
    }
}
