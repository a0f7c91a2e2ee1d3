//! What is kept on this machine is its owner's: files of mode 0600 in folders of mode 0700. Data may be secret even where
//! addresses are not.

use std::fs::{self, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Makes a folder and those above it that are missing.
pub(crate) fn make_folder(folder: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// How to make a file.
pub(crate) fn new_file() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).create(true).mode(0o600);
    options
}

/// Whether a file that was kept is this user's, or the administrator's. In a folder that several share, anybody else
/// could have put other bytes there.
pub fn is_own(found: &Metadata) -> bool {
    let me = rustix::process::geteuid().as_raw();
    found.is_file() && [me, 0].contains(&found.uid())
}
