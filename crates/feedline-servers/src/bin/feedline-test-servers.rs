//! `feedline-test-servers FOLDER [--delay-ms N] [--log] [--large-pieces]`: serves a folder over S3 and plain http
//! until standard input ends. Prints the addresses, the key and the secret, one per line, for tests and benchmarks
//! that are not written in Rust. `--delay-ms` delays every answer of S3, `--log` prints every S3 request to standard
//! error, `--large-pieces` makes S3 send bodies 256 KiB at a time.

use std::io::{Read, Write};
use std::time::Instant;

use feedline_servers::{ACCESS_KEY, Fault, FaultProxy, SECRET_KEY, Server};

fn main() -> std::io::Result<()> {
    let folder = std::env::args_os().nth(1).ok_or_else(|| std::io::Error::other("which folder?"))?;
    let said = |option: &str| std::env::args().any(|argument| argument == option);
    let s3 = if said("--large-pieces") { Server::s3_in_large_pieces } else { Server::s3 };
    let (s3, http) = (s3(folder.as_ref()), Server::http(folder.as_ref()));
    let delay: Option<u64> =
        std::env::args().skip_while(|a| a != "--delay-ms").nth(1).and_then(|n| n.parse().ok());
    let log = said("--log");
    let begun = Instant::now();
    let slow = (log || delay.is_some()).then(|| {
        let proxy = FaultProxy::new(s3.address());
        proxy.set(move |request| {
            if log {
                let (after, range) = (begun.elapsed().as_secs_f64(), request.range.as_deref());
                let (method, path, range) = (&request.method, &request.path, range.unwrap_or("whole"));
                // The reader of standard error may be gone.
                let _ = writeln!(std::io::stderr(), "{after:.4} {method} {path} {range}");
            }
            delay.map_or(Fault::None, Fault::Delay)
        });
        proxy
    });
    let mut out = std::io::stdout().lock();
    let s3_url = slow.as_ref().map_or_else(|| s3.url(), FaultProxy::url);
    writeln!(out, "{s3_url}\n{}\n{ACCESS_KEY}\n{SECRET_KEY}", http.url())?;
    out.flush()?;
    // The parent process holds the other end: when it dies, this ends too.
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}
