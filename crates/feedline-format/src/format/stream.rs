//! An object's bytes as a stream, for decoders that only accept `Read`.

use std::io::{self, Read};
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use crate::error::{Error, Result};
use crate::source::{HeldBytes, Object};

/// Bytes read from the object at a time.
const WINDOW: usize = 64 * 1024;

/// The storage's own error, if it made a decoder fail: the data are then not at fault.
pub(super) fn unread(error: &io::Error) -> Option<Error> {
    let own = error.get_ref()?.downcast_ref::<Error>()?;
    (!own.blames_sample()).then(|| own.clone())
}

/// An object that remembers why it could not be read, because decoders lose the error.
#[derive(Debug)]
pub(super) struct ErrorRecorder {
    object: Arc<dyn Object>,
    failed: OnceLock<Error>,
}

impl ErrorRecorder {
    pub(super) fn new(object: Arc<dyn Object>) -> Arc<Self> {
        Arc::new(ErrorRecorder { object, failed: OnceLock::new() })
    }

    /// The storage's own error, if there was one.
    pub(super) fn unread(&self) -> Option<Error> {
        self.failed.get().cloned()
    }
}

impl Object for ErrorRecorder {
    fn size(&self) -> u64 {
        self.object.size()
    }

    fn version(&self) -> u64 {
        self.object.version()
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        self.object.read_at(offset, into).inspect_err(|error| {
            if !error.blames_sample() {
                let _ = self.failed.set(error.clone());
            }
        })
    }

    fn hold(&self, range: Range<u64>) -> Result<HeldBytes> {
        self.object.hold(range)
    }
}

/// A range of an object as a stream. Small reads are served from a window.
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
    use crate::error::Location;
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

    /// An object on a broken disk.
    #[derive(Debug)]
    struct Broken;

    impl Object for Broken {
        fn size(&self) -> u64 {
            1 << 20
        }

        fn read_at(&self, _: u64, _: &mut [u8]) -> Result<()> {
            Err(Error::storage("reading", Location::new("x"), io::Error::from_raw_os_error(5)))
        }

        fn hold(&self, _: Range<u64>) -> Result<HeldBytes> {
            unreachable!("nobody holds it")
        }
    }

    #[test]
    fn a_broken_disk_is_not_taken_for_bad_data() {
        let is_storage = |error: Option<Error>| match error {
            Some(Error::Storage { source, .. }) => source.raw_os_error() == Some(5),
            _ => false,
        };
        let mut inflating = flate2::read::MultiGzDecoder::new(Stream::new(Arc::new(Broken), 0..100));
        assert!(is_storage(unread(&inflating.read_to_end(&mut Vec::new()).unwrap_err())));
        let mut bad_data = flate2::read::MultiGzDecoder::new(&b"this is not gzip at all"[..]);
        assert!(unread(&bad_data.read_to_end(&mut Vec::new()).unwrap_err()).is_none());
        let remembering = ErrorRecorder::new(Arc::new(Broken));
        assert!(remembering.unread().is_none());
        assert!(remembering.read_at(0, &mut [0; 4]).is_err() && is_storage(remembering.unread()));
    }
}
