//! An object's bytes one after the other, for decoders that only take `Read`.

use std::io::{self, Read};
use std::ops::Range;
use std::sync::Arc;

use crate::source::Object;

/// Bytes asked of the object at a time.
const WINDOW: usize = 64 * 1024;

/// A range of an object as a stream. Small reads are answered from a window.
#[derive(Debug)]
pub(super) struct Stream {
    object: Arc<dyn Object>,
    rest: Range<u64>,
    window: Vec<u8>,
    at: usize,
}

impl Stream {
    /// The bytes of `range`, cut at the object's end.
    pub(super) fn new(object: Arc<dyn Object>, range: Range<u64>) -> Self {
        let end = range.end.min(object.size());
        Stream { object, rest: range.start.min(end)..end, window: Vec::new(), at: 0 }
    }

    fn fetch(&mut self, into: &mut [u8]) -> io::Result<()> {
        self.object.read_at(self.rest.start, into).map_err(io::Error::other)?;
        self.rest.start += into.len() as u64;
        Ok(())
    }
}

impl Read for Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.at == self.window.len() {
            let left = usize::try_from(self.rest.end - self.rest.start).unwrap_or(usize::MAX);
            if into.len() >= WINDOW {
                let count = left.min(into.len());
                self.fetch(&mut into[..count])?;
                return Ok(count);
            }
            let mut window = std::mem::take(&mut self.window);
            window.resize(left.min(WINDOW), 0);
            self.fetch(&mut window)?;
            (self.window, self.at) = (window, 0);
        }
        let count = into.len().min(self.window.len() - self.at);
        into[..count].copy_from_slice(&self.window[self.at..self.at + count]);
        self.at += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::{MemorySource, Source};

    #[test]
    fn small_and_large_reads_give_the_same_bytes() {
        let bytes: Vec<u8> = (0..300_000u32).map(|i| (i * 7 / 3) as u8).collect();
        let object = MemorySource::new([("a", bytes.clone())]).open("a").unwrap();
        let mut stream = Stream::new(object.clone(), 10..u64::MAX);
        let mut small = [0; 17];
        stream.read_exact(&mut small).unwrap();
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).unwrap();
        assert_eq!((&small[..], &rest[..]), (&bytes[10..27], &bytes[27..]));
        assert_eq!(Stream::new(object, 500_000..600_000).read(&mut small).unwrap(), 0);
    }
}
