//! Completions and the manual page, from the same table of flags as `--help`.

use std::io::{self, Write};

use clap::CommandFactory;

use crate::ExitCode;
use crate::args::Arguments;

/// Prints what `shell` needs to complete this command.
pub(crate) fn completions(shell: clap_complete::Shell) -> ExitCode {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "feedline", &mut text);
    print(&text)
}

/// Prints the manual page: the command, then each of its commands.
pub(crate) fn manual() -> ExitCode {
    let mut command = Arguments::command();
    command.build();
    let mut text = Vec::new();
    let mut written = clap_mangen::Man::new(command.clone()).render(&mut text);
    for part in command.get_subcommands().filter(|part| part.get_name() != "help") {
        let man = clap_mangen::Man::new(part.clone());
        written = written
            .and_then(|()| writeln!(text, ".SH \"FEEDLINE {}\"", part.get_name().to_uppercase()))
            .and_then(|()| man.render_synopsis_section(&mut text))
            .and_then(|()| man.render_description_section(&mut text))
            .and_then(|()| man.render_options_section(&mut text));
    }
    debug_assert!(written.is_ok(), "into memory");
    print(&text)
}

/// A reader that goes away (`| head`) is not a mistake.
fn print(text: &[u8]) -> ExitCode {
    let _ = io::stdout().lock().write_all(text);
    ExitCode::Ok
}
