//! An S3 bucket in memory that accepts any key (a folder on disk cannot hold `x/`, `a//b` or `..`) and records its
//! requests. Signatures are not checked; a rule may refuse requests.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::head::HttpHead;
use crate::proxy::Request;

/// An answer instead of the object: a status line (`401 Unauthorized`) and further headers.
pub type Refusal = (&'static str, Vec<(&'static str, String)>);

type Rule = Box<dyn FnMut(&Request) -> Option<Refusal> + Send>;

/// A running server with one bucket, called `bucket`; web clients see its keys below `/bucket/`.
pub struct Bucket {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    objects: Mutex<BTreeMap<String, Vec<u8>>>,
    asked: Mutex<Vec<Request>>,
    rule: Mutex<Rule>,
    stopped: AtomicBool,
}

impl fmt::Debug for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bucket").field("address", &self.address).finish_non_exhaustive()
    }
}

/// Keys per page of a listing.
const PAGE: usize = 1000;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Bucket {
    /// A bucket with these objects.
    pub fn new<'a>(objects: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("loopback has a free port");
        let address = listener.local_addr().expect("a bound socket has an address");
        let objects = objects.into_iter().map(|(key, bytes)| (key.to_owned(), bytes.to_vec())).collect();
        let shared = Arc::new(Shared {
            objects: Mutex::new(objects),
            asked: Mutex::default(),
            rule: Mutex::new(Box::new(|_| None)),
            stopped: AtomicBool::new(false),
        });
        let serving = shared.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if serving.stopped.load(Ordering::Relaxed) {
                    return;
                }
                let shared = serving.clone();
                std::thread::spawn(move || drop(shared.serve(&client)));
            }
        });
        Bucket { address, shared }
    }

    /// Stores an object.
    pub fn put(&self, key: &str, bytes: &[u8]) {
        lock(&self.shared.objects).insert(key.to_owned(), bytes.to_vec());
    }

    /// Sets the rule that refuses requests from now on.
    pub fn set(&self, rule: impl FnMut(&Request) -> Option<Refusal> + Send + 'static) {
        *lock(&self.shared.rule) = Box::new(rule);
    }

    /// All requests so far.
    pub fn asked(&self) -> Vec<Request> {
        lock(&self.shared.asked).clone()
    }

    /// The address it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its root: `http://127.0.0.1:port`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

impl Drop for Bucket {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::Relaxed);
        // Wakes the thread that waits for connections.
        let _ = TcpStream::connect(self.address);
    }
}

/// An answer: status line, headers and body.
struct Answer(&'static str, Vec<(&'static str, String)>, Vec<u8>);

impl Shared {
    fn serve(&self, mut client: &TcpStream) -> io::Result<()> {
        client.set_nodelay(true)?;
        let mut reading = BufReader::new(client.try_clone()?);
        loop {
            let head = match HttpHead::read(&mut reading) {
                Ok(Some(head)) => head,
                Ok(None) => return Ok(()),
                // Web servers answer like this to what is not http.
                Err(_) => return client.write_all(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"),
            };
            let mut body = Vec::new();
            reading.by_ref().take(head.length()).read_to_end(&mut body)?;
            let mut words = head.first.split_whitespace().map(str::to_owned);
            let request = Request {
                number: lock(&self.asked).len() as u64,
                method: words.next().unwrap_or_default(),
                path: words.next().unwrap_or_default(),
                range: head.get("range").map(str::to_owned),
                headers: head.headers,
            };
            lock(&self.asked).push(request.clone());
            let refused = lock(&self.rule)(&request);
            let Answer(status, headers, body) = match refused {
                Some((status, headers)) => Answer(status, headers, Vec::new()),
                None => self.answer(&request, body),
            };
            let mut text = format!("HTTP/1.1 {status}\r\n");
            for (name, value) in &headers {
                text.extend([name, ": ", value, "\r\n"]);
            }
            client.write_all(format!("{text}Content-Length: {}\r\n\r\n", body.len()).as_bytes())?;
            if request.method != "HEAD" {
                client.write_all(&body)?;
            }
        }
    }

    fn answer(&self, request: &Request, body: Vec<u8>) -> Answer {
        let (path, query) = request.path.split_once('?').unwrap_or((&request.path, ""));
        let query: BTreeMap<String, String> = query
            .split('&')
            .filter_map(|pair| pair.split_once('='))
            .map(|(name, value)| (name.to_owned(), decoded(value)))
            .collect();
        let path = decoded(path);
        let key = path.strip_prefix("/bucket").unwrap_or(&path);
        let key = key.strip_prefix('/').unwrap_or(key);
        match request.method.as_str() {
            "GET" if query.contains_key("list-type") => self.list(&query),
            "GET" | "HEAD" => self.get(request, key),
            "PUT" => {
                let tag = etag(&body);
                lock(&self.objects).insert(key.to_owned(), body);
                Answer("200 OK", vec![("ETag", tag)], Vec::new())
            }
            "DELETE" => {
                lock(&self.objects).remove(key);
                Answer("204 No Content", Vec::new(), Vec::new())
            }
            "POST" if request.path.ends_with("?delete") => self.delete(&String::from_utf8_lossy(&body)),
            _ => Answer("501 Not Implemented", Vec::new(), Vec::new()),
        }
    }

    /// Removes several objects at once; keys with escaped characters are not removed.
    fn delete(&self, body: &str) -> Answer {
        let keys = body.split("<Key>").skip(1).filter_map(|rest| rest.split("</Key>").next());
        let mut done = String::new();
        for key in keys {
            lock(&self.objects).remove(key);
            done.push_str("<Deleted><Key>");
            done.push_str(key);
            done.push_str("</Key></Deleted>");
        }
        let body = format!("<?xml version=\"1.0\"?><DeleteResult>{done}</DeleteResult>");
        Answer("200 OK", vec![("Content-Type", "application/xml".to_owned())], body.into_bytes())
    }

    fn get(&self, request: &Request, key: &str) -> Answer {
        let objects = lock(&self.objects);
        let Some(bytes) = objects.get(key) else {
            let body = b"<Error><Code>NoSuchKey</Code></Error>".to_vec();
            return Answer("404 Not Found", Vec::new(), body);
        };
        let tag = etag(bytes);
        if request.header("if-match").is_some_and(|wanted| wanted != tag) {
            return Answer("412 Precondition Failed", Vec::new(), Vec::new());
        }
        let mut headers = vec![
            ("ETag", tag),
            ("Last-Modified", "Thu, 01 Jan 2026 00:00:00 GMT".to_owned()),
            ("Accept-Ranges", "bytes".to_owned()),
        ];
        let range = request.range.as_deref().and_then(|range| range.strip_prefix("bytes=")?.split_once('-'));
        let Some((start, end)) = range else { return Answer("200 OK", headers, bytes.clone()) };
        let start: usize = start.parse().unwrap_or(0);
        let end = end.parse().map_or(bytes.len(), |last: usize| (last + 1).min(bytes.len()));
        if start >= end {
            return Answer("416 Range Not Satisfiable", Vec::new(), Vec::new());
        }
        headers.push(("Content-Range", format!("bytes {start}-{}/{}", end - 1, bytes.len())));
        Answer("206 Partial Content", headers, bytes[start..end].to_vec())
    }

    fn list(&self, query: &BTreeMap<String, String>) -> Answer {
        let text = |name: &str| query.get(name).map_or("", String::as_str);
        let (prefix, after) = (text("prefix"), text("continuation-token").max(text("start-after")));
        let (mut contents, mut folders, mut last) = (String::new(), BTreeSet::new(), None);
        let objects = lock(&self.objects);
        let below = objects.iter().filter(|(key, _)| key.starts_with(prefix) && key.as_str() > after);
        let mut below = below.peekable();
        let mut count = 0;
        while let Some((key, bytes)) = below.next() {
            let rest = &key[prefix.len()..];
            match rest.find('/').filter(|_| !text("delimiter").is_empty()) {
                Some(end) => {
                    folders.insert(format!("{prefix}{}", &rest[..=end]));
                }
                None => contents += &entry(key, bytes),
            }
            count += 1;
            if count == PAGE && below.peek().is_some() {
                last = Some(key);
                break;
            }
        }
        let folder =
            |name: &String| format!("<CommonPrefixes><Prefix>{}</Prefix></CommonPrefixes>", escaped(name));
        let folders: String = folders.iter().map(folder).collect();
        let token = last.map_or_else(String::new, |key| {
            format!("<NextContinuationToken>{}</NextContinuationToken>", escaped(key))
        });
        let body = format!(
            "<?xml version=\"1.0\"?><ListBucketResult><Name>bucket</Name><Prefix>{}</Prefix>\
             {token}{contents}{folders}</ListBucketResult>",
            escaped(prefix)
        );
        Answer("200 OK", vec![("Content-Type", "application/xml".to_owned())], body.into_bytes())
    }
}

fn entry(key: &str, bytes: &[u8]) -> String {
    format!(
        "<Contents><Key>{}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified><ETag>{}</ETag>\
         <Size>{}</Size></Contents>",
        escaped(key),
        escaped(&etag(bytes)),
        bytes.len()
    )
}

fn etag(bytes: &[u8]) -> String {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    format!("\"{:016x}\"", hasher.finish())
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Decodes percent signs and plus.
fn decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let (mut plain, mut at) = (Vec::with_capacity(bytes.len()), 0);
    while at < bytes.len() {
        let hex = bytes.get(at + 1..at + 3).and_then(|two| std::str::from_utf8(two).ok());
        match (bytes[at], hex.and_then(|two| u8::from_str_radix(two, 16).ok())) {
            (b'%', Some(byte)) => {
                plain.push(byte);
                at += 2;
            }
            (b'+', _) => plain.push(b' '),
            (byte, _) => plain.push(byte),
        }
        at += 1;
    }
    String::from_utf8_lossy(&plain).into_owned()
}
