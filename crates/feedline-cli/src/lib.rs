//! The `feedline` command: `pack`, `convert`, `merge`, `inspect`, `view`, `verify`, `index`, `bench`, `cache`, `doctor` and `demo`.
//!
//! [`run`] is the whole interface: the binary calls it, and so does `python -m feedline`. One implementation, one help
//! text. Standard output is for data (tables, or one JSON document with `--json`); messages and progress go to standard
//! error.

mod args;
mod bench;
mod cache;
mod compare;
mod convert;
mod data;
mod demo;
mod doctor;
mod failure;
mod help;
mod index;
mod inspect;
mod interrupt;
mod machine;
mod manifest;
mod merge;
mod pack;
mod page_cache;
mod progress;
mod report;
mod split;
mod tasks;
mod terminal;
mod units;
mod verify;
mod view;
mod words;

use std::ffi::OsString;

use clap::Parser;

use args::{Arguments, Command};
pub use data::{Locate, locate_with};
use failure::Failure;
use report::Output;

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitCode {
    /// Success.
    Ok,
    /// Something is wrong with the data, or they cannot be read or written.
    Data,
    /// The command line is wrong.
    Usage,
    /// Interrupted by Ctrl-C.
    Interrupted,
}

impl ExitCode {
    /// The exit code for the shell.
    pub fn code(self) -> u8 {
        match self {
            ExitCode::Ok => 0,
            ExitCode::Data => 1,
            ExitCode::Usage => 2,
            ExitCode::Interrupted => 130,
        }
    }
}

impl From<ExitCode> for std::process::ExitCode {
    fn from(code: ExitCode) -> Self {
        code.code().into()
    }
}

/// Runs the command line `args`, the program's name first, and returns how it ended. Prints to the process's standard
/// output and standard error; never ends the process itself, except on a second Ctrl-C.
pub fn run<I, T>(args: I) -> ExitCode
where
    I: IntoIterator<Item = T>,
    T: Into<OsString> + Clone,
{
    let command = match Arguments::try_parse_from(args) {
        Ok(arguments) => arguments.command,
        Err(message) => {
            // Help and version are not mistakes; neither is a reader that went away (`| head`).
            let _ = message.print();
            return if message.use_stderr() { ExitCode::Usage } else { ExitCode::Ok };
        }
    };
    let mut output = Output::new(command.wants_json());
    match dispatch(&command, &mut output) {
        Ok(code) => code,
        Err(failure) => {
            output.failure(&failure);
            failure.exit_code()
        }
    }
}

fn dispatch(command: &Command, output: &mut Output) -> Result<ExitCode, Failure> {
    match command {
        Command::Pack(args) => pack::run(args, output),
        Command::Convert(args) => convert::run(args, output),
        Command::Merge(args) => merge::run(args, output),
        Command::Inspect(args) => inspect::run(args, output),
        Command::Verify(args) => verify::run(args, output),
        Command::Index(args) => index::run(args, output),
        Command::Bench(args) => bench::run(args, output),
        Command::Cache(args) => cache::run(args, output),
        Command::Doctor(args) => doctor::run(args, output),
        Command::Demo(args) => demo::run(args, output),
        Command::View(args) => view::run(args, output),
        Command::Completions(args) => Ok(help::completions(args.shell)),
        Command::Man => Ok(help::manual()),
    }
}
