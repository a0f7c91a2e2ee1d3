//! Memory into which the bytes of a range are received, and in which they stay. Bytes that arrive another way (over
//! TLS) are copied there.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::{Bytes, BytesMut};

/// A buffer that is lent to the receiver. Pieces are split off its front; the rest is given back.
#[derive(Clone, Debug)]
pub(super) struct Landing {
    buffer: Arc<Mutex<Option<BytesMut>>>,
    /// Its range of addresses.
    place: Range<usize>,
}

impl Landing {
    pub(super) fn new(buffer: BytesMut) -> Self {
        let start = buffer.as_ptr().addr();
        Landing { place: start..start + buffer.capacity(), buffer: Arc::new(Mutex::new(Some(buffer))) }
    }

    /// Takes the buffer, if it is not lent and `length` bytes fit.
    pub(super) fn take(&self, length: usize) -> Option<BytesMut> {
        let mut buffer = self.buffer.lock().unwrap_or_else(PoisonError::into_inner);
        buffer.take_if(|buffer| buffer.capacity() - buffer.len() >= length)
    }

    /// Gives the rest of the buffer back.
    pub(super) fn give_back(&self, buffer: BytesMut) {
        *self.buffer.lock().unwrap_or_else(PoisonError::into_inner) = Some(buffer);
    }

    /// Returns the same bytes in this memory, or in memory of their own if there is no room, and the number of bytes
    /// copied.
    pub(super) fn hold(&self, piece: Bytes) -> (Bytes, usize) {
        if self.place.contains(&piece.as_ptr().addr()) {
            return (piece, 0);
        }
        let length = piece.len();
        let Some(mut buffer) = self.take(length) else { return (Bytes::copy_from_slice(&piece), length) };
        buffer.extend_from_slice(&piece);
        let held = buffer.split().freeze();
        self.give_back(buffer);
        (held, length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_it_stay_and_others_are_copied_into_it() {
        let landing = Landing::new(BytesMut::with_capacity(100));
        let mut buffer = landing.take(100).unwrap();
        assert!(landing.take(1).is_none(), "it is lent");
        buffer.extend_from_slice(b"first");
        let first = buffer.split().freeze();
        landing.give_back(buffer);
        assert_eq!(landing.hold(first.clone()), (first.clone(), 0));
        let (second, copied) = landing.hold(Bytes::from_static(b"second"));
        assert_eq!((&second[..], copied), (&b"second"[..], 6));
        assert_eq!(second.as_ptr().addr(), first.as_ptr().addr() + 5);
        let (large, copied) = landing.hold(Bytes::from(vec![7; 1000]));
        assert_eq!((large.len(), copied), (1000, 1000));
        let mut rest = landing.take(0).unwrap();
        assert!(!rest.try_reclaim(100), "pieces are in use");
        drop((first, second));
        assert!(rest.try_reclaim(100));
    }
}
