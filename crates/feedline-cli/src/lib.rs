//! Skeleton.

use std::process::ExitCode;

/// Runs the command line.
pub fn run(_args: impl IntoIterator<Item = String>) -> ExitCode {
    ExitCode::from(2)
}

/// As [`run`], with the exit code as a number.
pub fn run_code(args: impl IntoIterator<Item = String>) -> u8 {
    let _ = run(args);
    2
}
