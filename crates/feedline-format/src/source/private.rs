//! Files that only their owner can read: mode 0600, in folders of mode 0700. Cached data may be secret even if their
//! addresses are not.

use std::fs::{self, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Makes a folder and its missing parents.
pub(crate) fn make_folder(folder: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// Options for making a file.
pub(crate) fn new_file() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).create(true).mode(0o600);
    options
}

/// Whether a cached file belongs to this user or to root. In a shared folder, anybody else could have put other bytes
/// there.
pub fn is_own(found: &Metadata) -> bool {
    let me = rustix::process::geteuid().as_raw();
    found.is_file() && [me, 0].contains(&found.uid())
}
