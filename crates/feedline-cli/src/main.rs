//! The `feedline` command; everything is in the library, which Python calls too.

fn main() -> std::process::ExitCode {
    feedline_cli::run(std::env::args_os()).into()
}
