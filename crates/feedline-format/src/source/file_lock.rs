//! Locks on files, between processes of one machine.

use std::fs::File;
use std::ops::Deref;

use rustix::fs::{FlockOperation, flock};

/// A file whose lock is released when this is dropped. Closing the file would not be enough: a child that was forked
/// meanwhile has the same open file and would hold its lock for as long as it lives.
#[derive(Debug)]
pub(crate) struct LockedFile {
    file: File,
    process: u32,
}

impl LockedFile {
    /// Takes over a file that is already locked.
    pub(crate) fn new(file: File) -> Self {
        LockedFile { file, process: std::process::id() }
    }

    /// Locks the file. If another process holds the lock, the file is returned with the error.
    pub(crate) fn try_lock(file: File) -> Result<Self, (File, rustix::io::Errno)> {
        LockedFile::try_to(file, FlockOperation::NonBlockingLockExclusive)
    }

    /// Takes a shared lock: several processes may hold it, but none may hold the exclusive one.
    pub(crate) fn try_share(file: File) -> Result<Self, (File, rustix::io::Errno)> {
        LockedFile::try_to(file, FlockOperation::NonBlockingLockShared)
    }

    fn try_to(file: File, operation: FlockOperation) -> Result<Self, (File, rustix::io::Errno)> {
        match flock(&file, operation) {
            Ok(()) => Ok(LockedFile::new(file)),
            Err(error) => Err((file, error)),
        }
    }
}

impl Deref for LockedFile {
    type Target = File;

    fn deref(&self) -> &File {
        &self.file
    }
}

impl Drop for LockedFile {
    fn drop(&mut self) {
        // In a child, the lock still belongs to the parent.
        if self.process == std::process::id() {
            let _ = flock(&self.file, FlockOperation::Unlock);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duplicate_of_the_open_file_does_not_hold_the_lock() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let open = || File::open(file.path()).unwrap();
        let held = LockedFile::try_lock(open()).unwrap();
        // A forked child has the file like this.
        let childs = held.try_clone().unwrap();
        assert!(LockedFile::try_lock(open()).is_err());
        drop(held);
        assert!(LockedFile::try_lock(open()).is_ok());
        drop(childs);
    }
}
