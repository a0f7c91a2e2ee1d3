//! A proxy between a client and a server on loopback that understands just enough http to break it.

use std::fmt;
use std::io::{self, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::head::HttpHead;

/// What to do to one answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    None,
    /// Delay the answer by this many milliseconds.
    Delay(u64),
    /// Pass on this many bytes per second.
    Throttle(u64),
    /// Close the connection properly after this many bytes of the body.
    Truncate(u64),
    /// Reset the connection after this many bytes of the body.
    Reset(u64),
    /// Flip a bit of this byte of the body.
    Corrupt(u64),
    /// `500 Internal Server Error`.
    ServerError,
    /// `503 Service Unavailable`, SlowDown.
    SlowDown,
    /// `403 Forbidden`, ExpiredToken.
    Expired,
    /// `403 Forbidden`, AccessDenied.
    Denied,
    /// `404 Not Found`, NoSuchKey.
    Missing,
    /// `301 Moved Permanently` without a location, as S3 answers in the wrong region.
    WrongRegion,
    /// Another ETag and modification time, as if the object had been replaced.
    OtherVersion,
    /// Send nothing after this many bytes of the body, and keep the connection open.
    Stall(u64),
}

/// A request.
#[derive(Clone, Debug)]
pub struct Request {
    /// Number of requests before it.
    pub number: u64,
    /// `GET`, `HEAD`, `PUT`, …
    pub method: String,
    /// Path and query.
    pub path: String,
    /// Value of the range header.
    pub range: Option<String>,
    /// All headers.
    pub headers: Vec<(String, String)>,
}

impl Request {
    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }
}

type Rule = Box<dyn FnMut(&Request) -> Fault + Send>;

/// A proxy in front of a server. A rule decides for every request what to do with the answer.
pub struct FaultProxy {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    upstream: SocketAddr,
    rule: Mutex<Rule>,
    counts: Counts,
    stopped: AtomicBool,
}

/// Counts of what passed through.
#[derive(Debug, Default)]
pub struct Counts {
    requests: AtomicU64,
    faults: AtomicU64,
    bytes: AtomicU64,
}

impl Counts {
    /// Number of requests so far.
    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// Number of answers that were changed.
    pub fn faults(&self) -> u64 {
        self.faults.load(Ordering::Relaxed)
    }

    /// Number of bytes of bodies passed on.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for FaultProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultProxy").field("address", &self.address).finish_non_exhaustive()
    }
}

impl FaultProxy {
    /// A proxy in front of `upstream` that changes nothing yet.
    pub fn new(upstream: SocketAddr) -> Self {
        FaultProxy::at(upstream, 0)
    }

    /// The same, on a given port.
    pub fn at(upstream: SocketAddr, port: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", port)).expect("loopback has a free port");
        let address = listener.local_addr().expect("a bound socket has an address");
        let shared = Arc::new(Shared {
            upstream,
            rule: Mutex::new(Box::new(|_| Fault::None)),
            counts: Counts::default(),
            stopped: AtomicBool::new(false),
        });
        let serving = shared.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if serving.stopped.load(Ordering::Relaxed) {
                    return;
                }
                let shared = serving.clone();
                std::thread::spawn(move || shared.serve(client));
            }
        });
        FaultProxy { address, shared }
    }

    /// Its root: `http://127.0.0.1:port`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The address it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sets the rule from now on.
    pub fn set(&self, rule: impl FnMut(&Request) -> Fault + Send + 'static) {
        *self.shared.rule.lock().unwrap_or_else(PoisonError::into_inner) = Box::new(rule);
    }

    /// Counts so far.
    pub fn counts(&self) -> &Counts {
        &self.shared.counts
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::Relaxed);
        // Wakes the thread that waits for connections.
        let _ = TcpStream::connect(self.address);
    }
}

/// A rule that draws faults at random: the same ones for the same seed and order of requests.
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
    /// One answer in this many gets a fault.
    one_in: u64,
    faults: Vec<Fault>,
}

impl Random {
    /// Gives one answer in `one_in` a fault.
    pub fn new(seed: u64, one_in: u64, faults: &[Fault]) -> Self {
        Random { state: seed ^ 0x9e37_79b9_7f4a_7c15, one_in, faults: faults.to_vec() }
    }

    /// The next fault.
    pub fn draw(&mut self) -> Fault {
        if !self.next().is_multiple_of(self.one_in) {
            return Fault::None;
        }
        let at = self.next() % self.faults.len() as u64;
        self.faults[at as usize]
    }

    fn next(&mut self) -> u64 {
        // splitmix64.
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

impl Shared {
    fn serve(&self, client: TcpStream) {
        let _ = client.set_nodelay(true);
        let Ok(reading) = client.try_clone() else { return };
        let mut reading = BufReader::new(reading);
        while let Ok(Some(head)) = HttpHead::read(&mut reading) {
            match self.exchange(head, &mut reading, &client) {
                Ok(true) => {}
                Ok(false) | Err(_) => return,
            }
        }
    }

    /// Handles one request and its answer; returns whether the connection stays open.
    fn exchange(&self, mut head: HttpHead, body: &mut impl Read, client: &TcpStream) -> io::Result<bool> {
        let fault = self.judge(&head);
        let mut upstream = TcpStream::connect(self.upstream)?;
        upstream.set_nodelay(true)?;
        let only_head = head.first.starts_with("HEAD ");
        head.set("Connection", "close".to_owned());
        head.write(&mut upstream)?;
        io::copy(&mut body.take(head.length()), &mut upstream)?;
        if let Some((status, code)) = refusal(fault) {
            return refuse(client, only_head, status, code);
        }
        let mut answer = BufReader::new(upstream);
        let Some(mut head) = HttpHead::read(&mut answer)? else { return Ok(false) };
        head.headers.retain(|(name, _)| !name.eq_ignore_ascii_case("connection"));
        let chunked = head.get("transfer-encoding").is_some();
        match fault {
            Fault::Delay(milliseconds) => std::thread::sleep(Duration::from_millis(milliseconds)),
            Fault::OtherVersion => {
                head.set("ETag", "\"another-version\"".to_owned());
                head.set("Last-Modified", "Tue, 01 Jan 2030 00:00:00 GMT".to_owned());
            }
            _ => {}
        }
        let mut client = client;
        let length = if only_head { 0 } else { head.length() };
        if chunked {
            // This body ends with the connection, so the client's connection must be closed too.
            head.set("Connection", "close".to_owned());
            head.write(&mut client)?;
            io::copy(&mut answer, &mut client)?;
            client.shutdown(Shutdown::Both)?;
            return Ok(false);
        }
        head.write(&mut client)?;
        self.pass(fault, &mut answer, client, length)
    }

    fn judge(&self, head: &HttpHead) -> Fault {
        let mut words = head.first.split_whitespace();
        let request = Request {
            number: self.counts.requests.fetch_add(1, Ordering::Relaxed),
            method: words.next().unwrap_or_default().to_owned(),
            path: words.next().unwrap_or_default().to_owned(),
            range: head.get("range").map(str::to_owned),
            headers: head.headers.clone(),
        };
        let fault = (self.rule.lock().unwrap_or_else(PoisonError::into_inner))(&request);
        if fault != Fault::None {
            self.counts.faults.fetch_add(1, Ordering::Relaxed);
        }
        fault
    }

    /// Passes the body on, with the fault; returns whether the connection stays open.
    fn pass(
        &self,
        fault: Fault,
        answer: &mut impl Read,
        mut client: &TcpStream,
        length: u64,
    ) -> io::Result<bool> {
        let mut buffer = vec![0; 128 << 10];
        let mut passed = 0;
        while passed < length {
            let limit = match fault {
                Fault::Truncate(at) | Fault::Reset(at) | Fault::Stall(at) => at.min(length),
                _ => length,
            };
            if passed >= limit {
                return self.stop(fault, client);
            }
            let room = (limit - passed).min(buffer.len() as u64) as usize;
            let count = answer.read(&mut buffer[..room])?;
            if count == 0 {
                return Ok(false);
            }
            if let Fault::Corrupt(at) = fault
                && (passed..passed + count as u64).contains(&at)
            {
                buffer[(at - passed) as usize] ^= 0x10;
            }
            client.write_all(&buffer[..count])?;
            passed += count as u64;
            self.counts.bytes.fetch_add(count as u64, Ordering::Relaxed);
            if let Fault::Throttle(rate) = fault {
                std::thread::sleep(Duration::from_secs_f64(count as f64 / rate.max(1) as f64));
            }
        }
        Ok(true)
    }

    /// Ends an answer that is not to arrive whole.
    fn stop(&self, fault: Fault, client: &TcpStream) -> io::Result<bool> {
        match fault {
            Fault::Stall(_) => {
                // Until the client closes the connection or the proxy is dropped.
                client.set_read_timeout(Some(Duration::from_millis(50)))?;
                let mut byte = [0];
                while !self.stopped.load(Ordering::Relaxed) {
                    match client.peek(&mut byte) {
                        Ok(0) => break,
                        Err(e) if e.kind() != io::ErrorKind::WouldBlock => break,
                        _ => std::thread::sleep(Duration::from_millis(20)),
                    }
                }
            }
            // Closed without lingering (our caller drops the socket), the kernel sends RST instead of FIN.
            Fault::Reset(_) => rustix::net::sockopt::set_socket_linger(client, Some(Duration::ZERO))?,
            _ => client.shutdown(Shutdown::Both)?,
        }
        Ok(false)
    }
}

fn refusal(fault: Fault) -> Option<(&'static str, &'static str)> {
    match fault {
        Fault::ServerError => Some(("500 Internal Server Error", "InternalError")),
        Fault::SlowDown => Some(("503 Service Unavailable", "SlowDown")),
        Fault::Expired => Some(("403 Forbidden", "ExpiredToken")),
        Fault::Denied => Some(("403 Forbidden", "AccessDenied")),
        Fault::Missing => Some(("404 Not Found", "NoSuchKey")),
        Fault::WrongRegion => Some(("301 Moved Permanently", "PermanentRedirect")),
        _ => None,
    }
}

fn refuse(mut client: &TcpStream, only_head: bool, status: &str, code: &str) -> io::Result<bool> {
    let body = format!(
        "<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>as the test asked</Message></Error>"
    );
    let length = body.len();
    let head =
        format!("HTTP/1.1 {status}\r\nContent-Type: application/xml\r\nContent-Length: {length}\r\n\r\n");
    client.write_all(head.as_bytes())?;
    if !only_head {
        client.write_all(body.as_bytes())?;
    }
    Ok(true)
}
