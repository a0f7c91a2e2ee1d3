//! Small data sets and the binary.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use feedline_pixels::{Size, turbo};
use serde_json::Value;
use tempfile::TempDir;

/// A temporary folder with data sets in it.
pub(crate) struct Place {
    folder: TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        Place { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Images in two class folders, `cat` and `dog`.
    pub(crate) fn pictures(&self, count: u32) -> PathBuf {
        let folder = self.path("pictures");
        for number in 0..count {
            let class = folder.join(if number % 2 == 0 { "cat" } else { "dog" });
            std::fs::create_dir_all(&class).unwrap();
            std::fs::write(class.join(format!("{number:05}.jpg")), picture(number)).unwrap();
        }
        folder
    }

    /// Those images as a pack, several parts.
    pub(crate) fn pack(&self, count: u32) -> PathBuf {
        let (pictures, pack) = (self.pictures(count), self.path("pack"));
        run(&["pack", text(&pictures), text(&pack), "--part-bytes", "8K", "--quiet"]).success();
        pack
    }
}

/// A JPEG that differs with its number.
pub(crate) fn picture(number: u32) -> Vec<u8> {
    let size = Size::new(40 + number % 17, 30 + number % 11);
    let pixel = |n: u32| (n.wrapping_mul(2654435761).wrapping_add(number * 977) >> 13) as u8;
    let pixels: Vec<u8> = (0..size.width * size.height * 3).map(pixel).collect();
    turbo::encode(&pixels, &turbo::Encoding::baseline(size, 3, 85, (2, 2))).unwrap()
}

pub(crate) fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// The binary, to be given arguments.
pub(crate) fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_feedline"));
    command.stdin(Stdio::null()).env_remove("FEEDLINE_CPU");
    command
}

/// Runs the binary to its end.
pub(crate) fn run(args: &[&str]) -> Finished {
    finish(command().args(args))
}

/// Runs any command to its end.
pub(crate) fn finish(command: &mut Command) -> Finished {
    Finished(command.output().unwrap())
}

/// What a finished run left.
#[derive(Debug)]
pub(crate) struct Finished(pub(crate) Output);

impl Finished {
    pub(crate) fn stdout(&self) -> String {
        String::from_utf8(self.0.stdout.clone()).unwrap()
    }

    pub(crate) fn stderr(&self) -> String {
        String::from_utf8(self.0.stderr.clone()).unwrap()
    }

    pub(crate) fn code(&self) -> i32 {
        self.0.status.code().unwrap_or(-1)
    }

    #[track_caller]
    pub(crate) fn success(self) -> Self {
        assert_eq!(self.code(), 0, "{self:?}");
        self
    }

    /// Ended with this exit code and a message that has all of these in it.
    #[track_caller]
    pub(crate) fn fails(self, code: i32, words: &[&str]) -> Self {
        assert_eq!(self.code(), code, "{self:?}");
        let stderr = self.stderr();
        assert!(!stderr.contains("panicked"), "{stderr}");
        for word in words {
            assert!(stderr.contains(word), "'{word}' is not in: {stderr}");
        }
        self
    }

    /// Standard output as the one JSON document it must be.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.0.stdout).unwrap_or_else(|e| panic!("{e}: {}", self.stdout()))
    }
}
