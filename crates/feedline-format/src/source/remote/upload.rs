//! Uploads local files as objects: small ones in one request, larger ones in parts, each retried on its own.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use futures_util::stream::{self, StreamExt, TryStreamExt};
use object_store::multipart::{MultipartStore, PartId};
use object_store::path::Path;
use object_store::{ObjectStoreExt, PutPayload};

use super::connection::{Connection, RetryTimer};
use super::{RemoteSource, Scheme};
use crate::error::{Error, Location, Result};
use crate::source::{Sink, to_usize};

/// Stores accept parts of 5 MiB and more; all but the last must have the same size.
const PART_BYTES: u64 = 8 << 20;
/// Maximum number of parts that stores accept.
const MOST_PARTS: u64 = 10_000;
/// Number of parts uploaded at once. A file takes at most this many times [`PART_BYTES`] of memory.
const AT_ONCE: usize = 4;
/// Maximum time for a part. The answer comes only when all of it has arrived, and nothing shows the progress.
const PART_TIME: Duration = Duration::from_secs(120);

impl Sink for RemoteSource {
    fn put(&self, name: &str, file: &std::path::Path) -> Result<()> {
        if self.address.scheme == Scheme::Http {
            let reason = format!("{}: a web server cannot be written to", self.uri);
            return Err(Error::option("destination", reason));
        }
        let connection = self.link.connection()?;
        let upload = Upload::new(&connection, self.path(name)?, self.place(name), file)?;
        connection.wait(upload.run())
    }

    fn remove(&self, name: &str) -> Result<()> {
        let (connection, path) = (self.link.connection()?, self.path(name)?);
        connection.wait(remove(&connection, &path, self.place(name)))
    }
}

async fn remove(connection: &Connection, path: &Path, place: Location) -> Result<()> {
    let mut timer = RetryTimer::new(connection, "removing", place, None);
    loop {
        let opened = connection.opened();
        match tokio::time::timeout(connection.transfer().stall, opened.store.delete(path)).await {
            Ok(Ok(()) | Err(object_store::Error::NotFound { .. })) => return Ok(()),
            Ok(Err(error)) => timer.wait_after_error(&error, 0).await?,
            Err(_) => timer.wait_after_stall(0).await?,
        }
    }
}

/// One file that is being uploaded.
struct Upload<'a> {
    connection: &'a Connection,
    path: Path,
    place: Location,
    file: File,
    size: u64,
    part_bytes: u64,
}

impl<'a> Upload<'a> {
    fn new(connection: &'a Connection, path: Path, place: Location, file: &std::path::Path) -> Result<Self> {
        let failed = |e| Error::storage("opening", Location::new(file.display().to_string()), e);
        let opened = File::open(file).map_err(failed)?;
        let size = opened.metadata().map_err(failed)?.len();
        let part_bytes = PART_BYTES.max(size.div_ceil(MOST_PARTS));
        Ok(Upload { connection, path, place, file: opened, size, part_bytes })
    }

    async fn run(&self) -> Result<()> {
        let opened = self.connection.opened();
        match &opened.parts {
            Some(store) if self.size > self.part_bytes => self.in_parts(&**store).await,
            _ => self.whole().await,
        }
    }

    fn payload(&self, start: u64, end: u64) -> Result<PutPayload> {
        let mut bytes = vec![0; to_usize(end - start, &self.place.uri, self.path.as_ref())?];
        let failed = |e| Error::storage("reading the local copy of", self.place.clone(), e);
        self.file.read_exact_at(&mut bytes, start).map_err(failed)?;
        Ok(bytes.into())
    }

    async fn whole(&self) -> Result<()> {
        let payload = self.payload(0, self.size)?;
        let mut timer = RetryTimer::new(self.connection, "writing", self.place.clone(), None);
        loop {
            let opened = self.connection.opened();
            match tokio::time::timeout(PART_TIME, opened.store.put(&self.path, payload.clone())).await {
                Ok(Ok(_)) => return Ok(()),
                Ok(Err(error)) => timer.wait_after_error(&error, 0).await?,
                Err(_) => timer.wait_after_stall(0).await?,
            }
        }
    }

    async fn in_parts(&self, store: &dyn MultipartStore) -> Result<()> {
        let mut timer = RetryTimer::new(self.connection, "writing", self.place.clone(), None);
        let id = loop {
            match tokio::time::timeout(PART_TIME, store.create_multipart(&self.path)).await {
                Ok(Ok(id)) => break id,
                Ok(Err(error)) => timer.wait_after_error(&error, 0).await?,
                Err(_) => timer.wait_after_stall(0).await?,
            }
        };
        let sent = self.send_parts(store, &id).await;
        if sent.is_err() {
            // Parts of an upload that is never completed cost money until they are removed.
            let _ = store.abort_multipart(&self.path, &id).await;
        }
        sent
    }

    async fn send_parts(&self, store: &dyn MultipartStore, id: &String) -> Result<()> {
        let count = self.size.div_ceil(self.part_bytes);
        let parts = (0..count).map(|number| self.send_part(store, id, number));
        let parts: Vec<PartId> = stream::iter(parts).buffered(AT_ONCE).try_collect().await?;
        let mut timer = RetryTimer::new(self.connection, "writing", self.place.clone(), None);
        loop {
            match tokio::time::timeout(PART_TIME, store.complete_multipart(&self.path, id, parts.clone()))
                .await
            {
                Ok(Ok(_)) => return Ok(()),
                Ok(Err(error)) => timer.wait_after_error(&error, 0).await?,
                Err(_) => timer.wait_after_stall(0).await?,
            }
        }
    }

    async fn send_part(&self, store: &dyn MultipartStore, id: &String, number: u64) -> Result<PartId> {
        let start = number * self.part_bytes;
        let payload = self.payload(start, (start + self.part_bytes).min(self.size))?;
        let mut timer = RetryTimer::new(self.connection, "writing", self.place.clone(), None);
        loop {
            let put = store.put_part(&self.path, id, number as usize, payload.clone());
            match tokio::time::timeout(PART_TIME, put).await {
                Ok(Ok(part)) => return Ok(part),
                Ok(Err(error)) => timer.wait_after_error(&error, 0).await?,
                Err(_) => timer.wait_after_stall(0).await?,
            }
        }
    }
}
