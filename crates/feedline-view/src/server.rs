//! Sockets, limits, and who may ask.
//!
//! Other web pages must not be able to ask, not even where a name of theirs leads to this machine: the `Host` must be the
//! loopback address (DNS rebinding), and every question brings the token, in a cookie that only this page sends
//! (`SameSite=Strict`) or in the address. Work is done by a few threads, whoever many ask.

use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{self, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::sync::{Semaphore, oneshot};

use crate::Site;
use crate::answer::{Answer, Page};
use crate::query::Query;

/// Threads that read and decode.
const WORKERS: usize = 4;

/// Connections at once; who comes later waits for one to end.
const CONNECTIONS: usize = 128;

/// So long a browser may take for the lines of its question.
const HEADER_WITHIN: Duration = Duration::from_secs(10);

/// The longest question, with all its headers.
const MOST_QUESTION: usize = 64 << 10;

/// The most that another rank may send.
const MOST_BODY: usize = 1 << 20;

/// Nothing but what this server gives: no scripts in data, no other hosts, no frames.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; media-src 'self'; \
                      connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// A running server. Dropping it ends it.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    token: String,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
    process: u32,
}

impl Server {
    /// Starts it on `port` of the loopback address; 0 for any that is free.
    pub fn start(site: Site, port: u16) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
        listener.set_nonblocking(true)?;
        let (address, token) = (listener.local_addr()?, token()?);
        let (stop, stopped) = oneshot::channel();
        let guard = Arc::new(Guard { page: Page::new(site), token: token.clone(), port: address.port() });
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(WORKERS)
            .thread_name("feedline-view")
            .build()?;
        let serve = move || {
            runtime.block_on(accept(listener, guard, stopped));
            runtime.shutdown_background();
        };
        let thread = std::thread::Builder::new().name("feedline-view".to_owned()).spawn(serve)?;
        let process = std::process::id();
        Ok(Server { address, token, stop: Some(stop), thread: Some(thread), process })
    }

    /// What to open in a browser.
    pub fn url(&self) -> String {
        format!("http://{}/?token={}", self.address, self.token)
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.address.port()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            // After a fork the thread exists only in the parent.
            std::mem::forget((self.stop.take(), self.thread.take()));
            return;
        }
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// 128 random bits.
fn token() -> io::Result<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(format!("{:032x}", u128::from_be_bytes(bytes)))
}

async fn accept(listener: TcpListener, guard: Arc<Guard>, mut stopped: oneshot::Receiver<()>) {
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
    let (places, work) = (Arc::new(Semaphore::new(CONNECTIONS)), Arc::new(Semaphore::new(WORKERS)));
    loop {
        let Ok(place) = places.clone().acquire_owned().await else { return };
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = &mut stopped => return,
        };
        let Ok((stream, _)) = accepted else {
            // Too many open files, most likely: others must close some first.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let (guard, work) = (guard.clone(), work.clone());
        tokio::spawn(async move {
            let _place = place;
            let service = service_fn(move |request| answer(guard.clone(), work.clone(), request));
            let mut http = hyper::server::conn::http1::Builder::new();
            http.timer(TokioTimer::new()).header_read_timeout(HEADER_WITHIN).max_buf_size(MOST_QUESTION);
            // A browser that goes away is no mistake of anybody's.
            let _ = http.serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

async fn answer(
    guard: Arc<Guard>,
    work: Arc<Semaphore>,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (parts, body) = request.into_parts();
    if let Some(refused) = guard.refuse(&parts) {
        return Ok(guard.dress(refused, false));
    }
    let query = Query::new(parts.uri.query().unwrap_or(""));
    let brought = query.get("token").is_some();
    let sent = match (&parts.method, body) {
        (&Method::POST, body) => match Limited::new(body, MOST_BODY).collect().await {
            Ok(body) => Some(body.to_bytes()),
            Err(_) => return Ok(guard.dress(Answer::error(413, "too much"), false)),
        },
        _ => None,
    };
    let known = parts.headers.get(header::IF_NONE_MATCH).and_then(|tag| tag.to_str().ok()).map(str::to_owned);
    let Ok(turn) = work.acquire_owned().await else {
        return Ok(guard.dress(Answer::error(503, "ending"), false));
    };
    let (asked, path) = (guard.clone(), parts.uri.path().to_owned());
    let done = tokio::task::spawn_blocking(move || {
        let _turn = turn;
        asked.page.answer(&path, &query, sent.as_deref(), known.as_deref())
    });
    let made = done.await.unwrap_or_else(|_| Answer::error(500, "internal error, please report it"));
    Ok(guard.dress(made, brought))
}

#[derive(Debug)]
struct Guard {
    page: Page,
    token: String,
    port: u16,
}

impl Guard {
    /// Why a question is not answered, if it is not.
    fn refuse(&self, parts: &hyper::http::request::Parts) -> Option<Answer> {
        let host = parts.headers.get(header::HOST).and_then(|host| host.to_str().ok());
        let own = [format!("127.0.0.1:{}", self.port), format!("localhost:{}", self.port)];
        if !host.is_some_and(|host| own.iter().any(|known| known == host)) {
            return Some(Answer::error(403, "this page is for this machine alone"));
        }
        if ![Method::GET, Method::HEAD, Method::POST].contains(&parts.method) {
            return Some(Answer::error(405, "no such method"));
        }
        if parts.method == Method::POST && parts.uri.path() != "/api/live" {
            return Some(Answer::error(405, "only asked for"));
        }
        if !self.knows_token(parts) {
            return Some(Answer::error(
                401,
                "the token is missing or wrong: open the address that feedline printed",
            ));
        }
        None
    }

    fn knows_token(&self, parts: &hyper::http::request::Parts) -> bool {
        let query = Query::new(parts.uri.query().unwrap_or(""));
        if let Some(token) = query.get("token") {
            return same(token, &self.token);
        }
        let cookies = parts.headers.get_all(header::COOKIE).iter().filter_map(|cookie| cookie.to_str().ok());
        let name = format!("feedline-{}", self.port);
        cookies
            .flat_map(|text| text.split("; "))
            .filter_map(|pair| pair.split_once('='))
            .any(|(cookie, value)| cookie == name && same(value, &self.token))
    }

    fn dress(&self, answer: Answer, brought: bool) -> Response<Full<Bytes>> {
        let mut response = Response::new(Full::new(Bytes::from(answer.body)));
        *response.status_mut() =
            StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let headers = response.headers_mut();
        let text = HeaderValue::from_static;
        headers.insert(header::CONTENT_TYPE, text(answer.kind));
        headers.insert(header::CONTENT_SECURITY_POLICY, text(POLICY));
        headers.insert(header::X_CONTENT_TYPE_OPTIONS, text("nosniff"));
        headers.insert(header::REFERRER_POLICY, text("no-referrer"));
        headers.insert("cross-origin-resource-policy", text("same-origin"));
        headers.insert("cross-origin-opener-policy", text("same-origin"));
        let keep = if answer.tag.is_some() { "private, max-age=86400" } else { "no-store" };
        headers.insert(header::CACHE_CONTROL, text(keep));
        if let Some(tag) = answer.tag.and_then(|tag| HeaderValue::from_str(&tag).ok()) {
            headers.insert(header::ETAG, tag);
        }
        let cookie = format!("feedline-{}={}; Path=/; HttpOnly; SameSite=Strict", self.port, self.token);
        if let Some(cookie) = HeaderValue::from_str(&cookie).ok().filter(|_| brought) {
            headers.insert(header::SET_COOKIE, cookie);
        }
        response
    }
}

/// Takes as long whatever is wrong.
fn same(one: &str, other: &str) -> bool {
    one.len() == other.len() && one.bytes().zip(other.bytes()).fold(0, |all, (a, b)| all | (a ^ b)) == 0
}
