//! A plain http client that receives bytes directly into their final memory.
//!
//! A general http client reads into its own buffer, from which bytes must be copied once more. With a fast server
//! that copy is a quarter of the work. This client only gets objects over `http://`; any answer that is not plain (a
//! redirect, a body without a length) is left to the general client.

use std::collections::HashMap;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::{Buf, Bytes, BytesMut};
use http_body::{Body, Frame, SizeHint};
use object_store::HeaderMap;
use object_store::client::{HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpResponseBody};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::landing::{Landing, Room};

/// How long unused connections are kept for the next request.
const IDLE: Duration = Duration::from_secs(30);

/// Maximum length of an answer's head.
const MOST_HEAD: usize = 64 << 10;

/// Size of the pieces in which bytes without a landing buffer are received, through memory that is reused.
const PIECE: usize = 256 << 10;

/// Connections of one process to web servers.
#[derive(Debug)]
pub(super) struct Direct {
    idle: Arc<Pool>,
    /// Headers of every request.
    headers: HeaderMap,
    connect: Duration,
    /// Set when an answer was not plain: the general client then makes all requests.
    unfit: AtomicBool,
}

/// Unused connections, by server.
#[derive(Debug, Default)]
struct Pool(Mutex<HashMap<String, Vec<(TcpStream, Instant)>>>);

impl Pool {
    fn take(&self, server: &str) -> Option<TcpStream> {
        let mut pool = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let free = pool.get_mut(server)?;
        // The connection used last is the most likely to be still open.
        let (stream, since) = free.pop()?;
        if since.elapsed() < IDLE {
            return Some(stream);
        }
        free.clear();
        None
    }

    fn put(&self, server: &str, stream: TcpStream) {
        let mut pool = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        pool.entry(server.to_owned()).or_default().push((stream, Instant::now()));
    }
}

fn failed(kind: HttpErrorKind, error: io::Error) -> HttpError {
    HttpError::new(kind, error)
}

fn malformed(reason: &'static str) -> HttpError {
    failed(HttpErrorKind::Request, io::Error::new(io::ErrorKind::InvalidData, reason))
}

/// The head of an answer.
#[derive(Debug)]
struct ResponseHead {
    status: u16,
    headers: HashMap<String, String>,
}

impl ResponseHead {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(bytes).ok()?;
        let mut lines = text.split("\r\n");
        let status = lines.next()?.strip_prefix("HTTP/1.")?.split(' ').nth(1)?.parse().ok()?;
        let header = |line: &str| {
            let (name, value) = line.split_once(':')?;
            Some((name.trim().to_ascii_lowercase(), value.trim().to_owned()))
        };
        Some(ResponseHead { status, headers: lines.filter_map(header).collect() })
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    /// The body's length; `None` if the answer is not plain.
    fn plain_length(&self) -> Option<u64> {
        let plain = !(300..400).contains(&self.status) && self.get("transfer-encoding").is_none();
        self.get("content-length").filter(|_| plain)?.parse().ok()
    }
}

impl Direct {
    pub(super) fn new(headers: HeaderMap, connect: Duration) -> Self {
        Direct { idle: Arc::default(), headers, connect, unfit: AtomicBool::new(false) }
    }

    /// Sends a request. `None` if the general client must do it.
    pub(super) async fn get(&self, request: &HttpRequest) -> Result<Option<HttpResponse>, HttpError> {
        let authority = request.uri().authority().map(ToString::to_string);
        let Some(server) = authority.filter(|_| !self.unfit.load(Ordering::Relaxed)) else {
            return Ok(None);
        };
        let text = self.text(request, &server);
        // A connection that was kept may have been closed meanwhile.
        if let Some(mut stream) = self.idle.take(&server)
            && let Ok((head, rest)) = exchange(&mut stream, &text).await
        {
            return self.answer(request, server, stream, &head, rest);
        }
        let mut stream = self.connect(&server).await?;
        let (head, rest) = exchange(&mut stream, &text).await?;
        self.answer(request, server, stream, &head, rest)
    }

    async fn connect(&self, server: &str) -> Result<TcpStream, HttpError> {
        let with_port = if server.rsplit(']').next().is_some_and(|end| end.contains(':')) {
            server.to_owned()
        } else {
            format!("{server}:80")
        };
        let connecting = tokio::time::timeout(self.connect, TcpStream::connect(with_port));
        let late = |_| io::Error::new(io::ErrorKind::TimedOut, "tcp connect error: no answer in time");
        let stream = connecting.await.map_err(late).and_then(|connected| connected);
        let stream = stream.map_err(|error| failed(HttpErrorKind::Connect, error))?;
        stream.set_nodelay(true).map_err(|error| failed(HttpErrorKind::Connect, error))?;
        Ok(stream)
    }

    fn text(&self, request: &HttpRequest, server: &str) -> Vec<u8> {
        let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
        let mut text = format!("GET {path} HTTP/1.1\r\n").into_bytes();
        if !request.headers().contains_key("host") {
            text.extend_from_slice(format!("host: {server}\r\n").as_bytes());
        }
        let general = self.headers.iter().filter(|(name, _)| !request.headers().contains_key(*name));
        for (name, value) in request.headers().iter().chain(general) {
            text.extend_from_slice(name.as_str().as_bytes());
            text.extend_from_slice(b": ");
            text.extend_from_slice(value.as_bytes());
            text.extend_from_slice(b"\r\n");
        }
        text.extend_from_slice(b"\r\n");
        text
    }

    fn answer(
        &self,
        request: &HttpRequest,
        server: String,
        stream: TcpStream,
        head: &ResponseHead,
        mut first: Bytes,
    ) -> Result<Option<HttpResponse>, HttpError> {
        let Some(length) = head.plain_length() else {
            self.unfit.store(true, Ordering::Relaxed);
            return Ok(None);
        };
        // The text of an error answer must not be written among the bytes of an object.
        let landing = request.extensions().get::<Landing>().filter(|_| head.status == 206).cloned();
        let room = landing.and_then(|landing| Some((landing.take(length as usize)?, landing)));
        let (room, landing) = room.map_or_else(Default::default, |(room, landing)| (room, Some(landing)));
        let keep = !head.get("connection").is_some_and(|word| word.eq_ignore_ascii_case("close"));
        let pool = keep.then(|| (self.idle.clone(), server));
        // What comes after the body is nobody's.
        first.truncate(usize::try_from(length).unwrap_or(usize::MAX));
        let (stream, reported) = (Some(stream), Instant::now());
        let body =
            Incoming { stream, pool, left: length, first, room, landing, reported, has_unreported: false };
        let mut answer = HttpResponse::new(HttpResponseBody::new(body));
        *answer.status_mut() =
            head.status.try_into().map_err(|_| malformed("an invalid status in the answer"))?;
        *answer.headers_mut() =
            HeaderMap::try_from(&head.headers).map_err(|_| malformed("an invalid header in the answer"))?;
        Ok(Some(answer))
    }
}

/// Sends a request and reads the head of the answer. The second value is the part of the body that came with it.
async fn exchange(stream: &mut TcpStream, text: &[u8]) -> Result<(ResponseHead, Bytes), HttpError> {
    let broken = |error| failed(HttpErrorKind::Interrupted, error);
    stream.write_all(text).await.map_err(broken)?;
    let mut read = BytesMut::with_capacity(4096);
    loop {
        let end = read.windows(4).position(|four| four == b"\r\n\r\n");
        if let Some(end) = end {
            let head = read.split_to(end + 4);
            let head =
                ResponseHead::parse(&head[..end]).ok_or_else(|| malformed("the answer is not http"))?;
            return Ok((head, read.freeze()));
        }
        if read.len() > MOST_HEAD {
            return Err(malformed("the head of the answer has no end"));
        }
        if stream.read_buf(&mut read).await.map_err(broken)? == 0 {
            let reason = "the connection was closed before an answer came";
            return Err(broken(io::Error::new(io::ErrorKind::UnexpectedEof, reason)));
        }
    }
}

/// A body that is being received.
#[derive(Debug)]
struct Incoming {
    /// Returned to the pool when the whole body has arrived.
    stream: Option<TcpStream>,
    pool: Option<(Arc<Pool>, String)>,
    /// Bytes that were not handed on yet.
    left: u64,
    /// The part of the body that came with the head.
    first: Bytes,
    room: Room,
    landing: Option<Landing>,
    /// When something was last handed on, and whether anything came since.
    reported: Instant,
    has_unreported: bool,
}

/// Whoever waits for a body hears of it so often while bytes come, even if too few to be handed on: a slow body is no stall.
const REPORT_EVERY: Duration = Duration::from_millis(50);

impl Incoming {
    fn poll_piece(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
        if self.landing.is_none() && !self.first.is_empty() {
            return Poll::Ready(Ok(std::mem::take(&mut self.first)));
        }
        loop {
            match self.receive() {
                Ok(0) => {
                    let reason = "unexpected end of file: the connection ended in the middle of a body";
                    return Poll::Ready(Err(io::Error::new(io::ErrorKind::UnexpectedEof, reason)));
                }
                Ok(_) => {
                    self.has_unreported = true;
                    if let Some(piece) = self.room.ready(self.room.waiting() as u64 == self.left) {
                        self.note_report();
                        return Poll::Ready(Ok(piece));
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if self.has_unreported && self.reported.elapsed() >= REPORT_EVERY {
                        self.note_report();
                        return Poll::Ready(Ok(Bytes::new()));
                    }
                    let Some(stream) = &self.stream else { return Poll::Ready(Err(error)) };
                    ready!(stream.poll_read_ready(context))?;
                }
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }

    /// A few more bytes, if there are any; 0 if the connection ended.
    fn receive(&mut self) -> io::Result<usize> {
        let most = self.left as usize - self.room.waiting();
        if !self.first.is_empty() {
            let added = self.room.add(&self.first);
            self.first.advance(added);
            return Ok(added);
        }
        if self.landing.is_none() {
            self.room.make_room(most.min(PIECE));
        }
        match &self.stream {
            Some(stream) => self.room.receive(stream, most),
            None => Ok(0),
        }
    }

    fn note_report(&mut self) {
        (self.reported, self.has_unreported) = (Instant::now(), false);
    }
}

impl Body for Incoming {
    type Data = Bytes;
    type Error = HttpError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, HttpError>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        let piece = match ready!(self.poll_piece(context)) {
            Ok(piece) => piece,
            Err(error) => {
                self.stream = None;
                self.left = 0;
                return Poll::Ready(Some(Err(failed(HttpErrorKind::Interrupted, error))));
            }
        };
        self.left -= piece.len() as u64;
        if self.left == 0
            && let (Some(stream), Some((pool, server))) = (self.stream.take(), self.pool.take())
        {
            pool.put(&server, stream);
        }
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        if let Some(landing) = &self.landing {
            landing.give_back(std::mem::take(&mut self.room));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn response_heads_are_parsed_or_refused() {
        let head = ResponseHead::parse(b"HTTP/1.1 206 Partial Content\r\nContent-Length: 5\r\nETag: \"a:b\"")
            .unwrap();
        assert_eq!((head.status, head.plain_length(), head.get("etag")), (206, Some(5), Some("\"a:b\"")));
        for (text, length) in [
            (&b"HTTP/1.1 302 Found\r\nContent-Length: 5"[..], None),
            (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 5", None),
            (b"HTTP/1.1 200 OK", None),
            (b"HTTP/1.0 404 No\r\ncontent-length:0", Some(0)),
        ] {
            assert_eq!(ResponseHead::parse(text).unwrap().plain_length(), length);
        }
        for text in [&b"\xff\xfe"[..], b"", b"HTTP/2 200", b"HTTP/1.1", b"HTTP/1.1 x y"] {
            assert!(ResponseHead::parse(text).is_none(), "{text:?}");
        }
    }
}
