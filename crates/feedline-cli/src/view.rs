//! `feedline view`: serves a page until Ctrl-C.

use std::time::Duration;

use feedline::error::Location;
use feedline_view::{Live, Server, Site};

use crate::args::ViewArgs;
use crate::failure::Failure;
use crate::report::{Output, message};
use crate::{ExitCode, data, interrupt};

/// How often we look whether Ctrl-C was pressed.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Runs the command.
pub(crate) fn run(args: &ViewArgs, output: &mut Output) -> Result<ExitCode, Failure> {
    let open = |path: &String| data::open(std::slice::from_ref(path), &args.open);
    let sets = args.paths.iter().map(open).collect::<feedline::Result<Vec<_>>>()?;
    let place = || Location::new(format!("port {}", args.port));
    let server = Server::start(Site { sets, live: Live::default() }, args.port)
        .map_err(|e| feedline::Error::storage("listening on", place(), e))?;
    interrupt::watch();
    output.line(server.url());
    message("Ctrl-C ends it.");
    if !args.no_open {
        browse(&server.url());
    }
    while !interrupt::asked() {
        std::thread::sleep(LOOK_EVERY);
    }
    Ok(ExitCode::Ok)
}

/// Opens the address in a browser, where there is a desktop to show one.
fn browse(url: &str) {
    let desktop = ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|name| std::env::var_os(name).is_some());
    let program = match (cfg!(target_os = "macos"), desktop) {
        (true, _) => "open",
        (false, true) => "xdg-open",
        (false, false) => return,
    };
    use std::process::{Command, Stdio};
    let quiet = || Stdio::null();
    let _ = Command::new(program).arg(url).stdin(quiet()).stdout(quiet()).stderr(quiet()).spawn();
}
