//! `feedline-test-servers FOLDER`: S3 and plain http over a folder, until standard input ends. Prints their addresses,
//! the key and the secret, one per line, for tests that are not written in Rust.

use std::io::{Read, Write};

use feedline_servers::{ACCESS_KEY, SECRET_KEY, Server};

fn main() -> std::io::Result<()> {
    let folder = std::env::args_os().nth(1).ok_or_else(|| std::io::Error::other("which folder?"))?;
    let (s3, http) = (Server::s3(folder.as_ref()), Server::http(folder.as_ref()));
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}\n{}\n{ACCESS_KEY}\n{SECRET_KEY}", s3.url(), http.url())?;
    out.flush()?;
    // Whoever started this holds the other end: its death ends this too.
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}
