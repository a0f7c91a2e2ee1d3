//! Gives the reader a file's bytes, and takes storage errors out of it again.

use std::io;
use std::sync::Arc;

use hdf5_reader::{Storage, StorageBuffer};

use super::super::open_objects::OpenObjects;
use super::super::quiet;
use crate::error::{Error, Location, Result};

/// One file of the open objects, as storage for the reader.
pub(super) struct OpenFile {
    pub(super) open_objects: Arc<OpenObjects>,
    pub(super) number: usize,
}

impl Storage for OpenFile {
    fn len(&self) -> u64 {
        self.open_objects.length(self.number)
    }

    fn read_range(&self, offset: u64, len: usize) -> hdf5_reader::error::Result<StorageBuffer> {
        let fits = offset.checked_add(len as u64).is_some_and(|end| end <= self.len());
        if !fits {
            return Err(hdf5_reader::error::Error::OffsetOutOfBounds(offset));
        }
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(len).map_err(io::Error::other)?;
        bytes.resize(len, 0);
        let read = self.open_objects.with(self.number, |object| object.read_at(offset, &mut bytes));
        read.and_then(|read| read).map_err(io::Error::other)?;
        Ok(StorageBuffer::from_vec(bytes))
    }
}

/// Runs the reader. Its error, or a panic in it, becomes an error at `place`. A failed read keeps its own error:
/// failing storage is not the file's fault.
pub(super) fn reading<T>(
    place: &Location,
    work: impl FnOnce() -> hdf5_reader::error::Result<T>,
) -> Result<T> {
    match quiet::catch(work) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(reader_error(place, &error)),
        Err(()) => {
            Err(Error::data(place.clone(), "the file is damaged in a way that its reader did not expect"))
        }
    }
}

fn reader_error(place: &Location, error: &hdf5_reader::error::Error) -> Error {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(one) = cause {
        if let Some(ours) = one.downcast_ref::<io::Error>().and_then(io::Error::get_ref)
            && let Some(ours) = ours.downcast_ref::<Error>()
        {
            return ours.clone();
        }
        cause = one.source();
    }
    Error::data(place.clone(), error.to_string())
}
