//! Servers for tests, on loopback: S3 (the `s3s-fs` crate, over a folder), plain http with ranges (`tower-http`, over
//! a folder), a [`FaultProxy`] in front of either that delays, throttles, cuts, corrupts and refuses answers, and a
//! [`Bucket`] in memory that accepts any key.
//!
//! Everything stops when the value is dropped.

mod bucket;
mod head;
mod proxy;
mod storage;
mod tls;

use std::net::{SocketAddr, TcpListener};
use std::path::Path;

use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use s3s::auth::SimpleAuth;
use s3s::service::S3ServiceBuilder;
use tokio::runtime::Runtime;

pub use bucket::{Bucket, Refusal};
pub use proxy::{Counts, Fault, FaultProxy, Random, Request};
pub use tls::Certificate;

/// The key that [`Server::s3`] accepts.
pub const ACCESS_KEY: &str = "feedline-test-key";
/// The secret that belongs to it.
pub const SECRET_KEY: &str = "feedline-test-secret";

/// A running server.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    runtime: Option<Runtime>,
}

impl Server {
    /// S3 over `folder`: each sub-folder is a bucket.
    pub fn s3(folder: &Path) -> Server {
        Server::s3_at(folder, 0)
    }

    /// The same, on a given port.
    pub fn s3_at(folder: &Path, port: u16) -> Server {
        Server::start_s3(port, S3ServiceBuilder::new(files(folder)))
    }

    /// The same, with bodies sent in large pieces: for benchmarks.
    pub fn s3_in_large_pieces(folder: &Path) -> Server {
        let storage = storage::Storage { folder: folder.to_owned(), files: files(folder) };
        Server::start_s3(0, S3ServiceBuilder::new(storage))
    }

    fn start_s3(port: u16, mut builder: S3ServiceBuilder) -> Server {
        builder.set_auth(SimpleAuth::from_single(ACCESS_KEY, SECRET_KEY));
        let service = builder.build();
        Server::start(port, move |socket| {
            let service = service.clone();
            async move {
                let served =
                    Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(socket), service).await;
                drop(served);
            }
        })
    }

    /// Plain http over `folder`, with range requests.
    pub fn http(folder: &Path) -> Server {
        Server::http_at(folder, 0)
    }

    /// The same, on a given port.
    pub fn http_at(folder: &Path, port: u16) -> Server {
        let files = tower_http::services::ServeDir::new(folder);
        Server::start(port, move |socket| {
            let service = TowerToHyperService::new(files.clone());
            async move {
                let served =
                    Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(socket), service).await;
                drop(served);
            }
        })
    }

    /// TLS in front of the server at `upstream`, with a certificate for 127.0.0.1 and localhost.
    pub fn tls(upstream: SocketAddr, certificate: Certificate) -> Server {
        let acceptor = certificate.acceptor();
        Server::start(0, move |socket| {
            let acceptor = acceptor.clone();
            async move {
                let Ok(mut client) = acceptor.accept(socket).await else { return };
                let Ok(mut server) = tokio::net::TcpStream::connect(upstream).await else { return };
                let passed = tokio::io::copy_bidirectional(&mut client, &mut server).await;
                drop(passed);
            }
        })
    }

    fn start<Served>(port: u16, serve: impl Fn(tokio::net::TcpStream) -> Served + Send + 'static) -> Server
    where
        Served: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind(("127.0.0.1", port)).expect("loopback has a free port");
        let address = listener.local_addr().expect("a bound socket has an address");
        listener.set_nonblocking(true).expect("sockets can be non-blocking");
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("test-server")
            .enable_all()
            .build()
            .expect("threads can be started");
        runtime.spawn(async move {
            let listener = tokio::net::TcpListener::from_std(listener).expect("inside a runtime");
            while let Ok((socket, _)) = listener.accept().await {
                let _ = socket.set_nodelay(true);
                tokio::spawn(serve(socket));
            }
        });
        Server { address, runtime: Some(runtime) }
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

fn files(folder: &Path) -> s3s_fs::FileSystem {
    s3s_fs::FileSystem::new(folder).expect("the folder exists")
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
