//! `plain-download THREADS PART_BYTES`: the simplest possible parallel downloader, as a baseline for others.
//!
//! Reads lines `http://host:port/path?query LENGTH` from standard input, fetches all of them in ranges of
//! `PART_BYTES` over one kept-alive connection per thread, discards the bytes, and prints bytes, seconds and CPU
//! seconds. No retries, no checks beyond lengths, no order.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

struct Part {
    host: String,
    path: String,
    start: u64,
    end: u64,
}

fn main() {
    let number = |n: usize| std::env::args().nth(n).and_then(|text| text.parse::<u64>().ok());
    let (Some(threads), Some(part_bytes)) = (number(1), number(2)) else {
        panic!("usage: plain-download THREADS PART_BYTES < urls");
    };
    let parts: Vec<Part> =
        std::io::stdin().lines().flat_map(|line| parts(&line.expect("text"), part_bytes)).collect();
    let (next, bytes, begun) = (AtomicUsize::new(0), AtomicU64::new(0), Instant::now());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let mut line = None;
                while let Some(part) = parts.get(next.fetch_add(1, Ordering::Relaxed)) {
                    bytes.fetch_add(fetch(&mut line, part), Ordering::Relaxed);
                }
            });
        }
    });
    let seconds = begun.elapsed().as_secs_f64();
    let mut out = std::io::stdout();
    writeln!(out, "{} {seconds} {}", bytes.into_inner(), cpu_seconds()).expect("somebody listens");
}

fn parts(line: &str, part_bytes: u64) -> Vec<Part> {
    let (url, length) = line.rsplit_once(' ').expect("a url and a length");
    let length: u64 = length.parse().expect("a length");
    let (host, path) = url.strip_prefix("http://").and_then(|u| u.split_once('/')).expect("a plain http url");
    (0..length.div_ceil(part_bytes))
        .map(|n| Part {
            host: host.to_owned(),
            path: format!("/{path}"),
            start: n * part_bytes,
            end: ((n + 1) * part_bytes).min(length),
        })
        .collect()
}

fn fetch(line: &mut Option<BufReader<TcpStream>>, part: &Part) -> u64 {
    let reader = line.get_or_insert_with(|| {
        let stream = TcpStream::connect(&part.host).expect("the server listens");
        stream.set_nodelay(true).expect("a socket");
        BufReader::with_capacity(256 << 10, stream)
    });
    let request = format!(
        "GET {} HTTP/1.1\r\nHost: {}\r\nRange: bytes={}-{}\r\n\r\n",
        part.path,
        part.host,
        part.start,
        part.end - 1
    );
    reader.get_mut().write_all(request.as_bytes()).expect("the server reads");
    let length = read_head(reader);
    assert_eq!(length, part.end - part.start, "the whole range comes");
    let mut buffer = vec![0; length as usize];
    reader.read_exact(&mut buffer).expect("the body comes");
    std::hint::black_box(&buffer);
    length
}

fn read_head(reader: &mut BufReader<TcpStream>) -> u64 {
    let (mut status, mut length) = (String::new(), 0);
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).expect("an answer");
        let header = header.trim_end();
        if status.is_empty() {
            header.clone_into(&mut status);
        }
        if let Some((name, value)) = header.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().expect("a length");
        }
        if header.is_empty() {
            break;
        }
    }
    assert!(status.contains(" 206 "), "{status}");
    length
}

/// User and system seconds of this process, from the kernel's table (in hundredths).
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks: u64 =
        after_name.split_whitespace().skip(11).take(2).filter_map(|t| t.parse::<u64>().ok()).sum();
    ticks as f64 / 100.0
}
