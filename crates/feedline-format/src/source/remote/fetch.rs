//! Fetches bytes of one object: resumed after an interruption, never mixed from two versions.

use std::ops::Range;
use std::sync::atomic::Ordering;
use std::time::Instant;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::future::{Either, select};
use futures_util::stream::{self, BoxStream};
use object_store::path::Path;
use object_store::{GetOptions, GetRange, GetResult, ObjectMeta, ObjectStore};

use super::connection::{Connection, RetryTimer};
use super::fault::{Fault, Kind, RequestError};
use super::landing::Landing;
use super::store::Opened;
use crate::error::{Location, Result};
use crate::sample::Fingerprint;
use crate::source::{changed, to_usize};

/// State of an object when it was first seen: every later answer must agree with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ObjectVersion {
    pub(super) size: u64,
    tag: Tag,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Tag {
    /// From the store.
    FromStore { etag: Option<String>, modified: i64 },
    /// The number made from it.
    Version(u64),
    /// Not known yet: the first answer sets it.
    Any,
}

impl ObjectVersion {
    /// The object's state according to the store.
    pub(super) fn of(meta: &ObjectMeta) -> Self {
        ObjectVersion {
            size: meta.size,
            tag: Tag::FromStore { etag: meta.e_tag.clone(), modified: meta.last_modified.timestamp() },
        }
    }

    /// The object's state according to an earlier listing, or to an index that knows only the length (version 0).
    pub(super) fn seen(size: u64, version: u64) -> Self {
        ObjectVersion { size, tag: if version == 0 { Tag::Any } else { Tag::Version(version) } }
    }

    /// A number that changes with the object: made from its ETag, or from its time if some listing lacks ETags.
    /// `None` if neither is known.
    pub(super) fn version(&self, by_time: bool) -> Option<u64> {
        match &self.tag {
            Tag::Any => None,
            Tag::Version(version) => Some(*version),
            Tag::FromStore { etag: Some(etag), .. } if !by_time => Some(etag_version(etag)),
            Tag::FromStore { modified, .. } => Some(time_version(*modified)),
        }
    }

    /// Whether the store sent an ETag.
    pub(super) fn is_tagged(&self) -> bool {
        self.etag().is_some()
    }

    fn etag(&self) -> Option<&str> {
        match &self.tag {
            Tag::FromStore { etag, .. } => etag.as_deref(),
            Tag::Version(_) | Tag::Any => None,
        }
    }

    /// Whether both are the same version of an object. Some stores send the ETag in answers to reads but not in
    /// listings: then the time decides.
    pub(super) fn agrees(&self, other: &ObjectVersion) -> bool {
        let same = match (&self.tag, &other.tag) {
            (Tag::Any, _) | (_, Tag::Any) => true,
            (Tag::FromStore { etag: Some(one), .. }, Tag::FromStore { etag: Some(two), .. }) => one == two,
            (Tag::FromStore { modified: one, .. }, Tag::FromStore { modified: two, .. }) => one == two,
            (Tag::Version(one), Tag::Version(two)) => one == two,
            (Tag::Version(version), Tag::FromStore { etag, modified })
            | (Tag::FromStore { etag, modified }, Tag::Version(version)) => {
                etag.as_deref().is_some_and(|etag| etag_version(etag) == *version)
                    || time_version(*modified) == *version
            }
        };
        same && self.size == other.size
    }
}

fn etag_version(etag: &str) -> u64 {
    let plain = etag.trim_start_matches("W/").trim_matches('"');
    digest(&[b"etag", plain.as_bytes()])
}

fn time_version(seconds: i64) -> u64 {
    digest(&[b"time", &seconds.to_le_bytes()])
}

fn digest(pieces: &[&[u8]]) -> u64 {
    let Fingerprint(bytes) = Fingerprint::of(pieces.iter().copied());
    u64::from_le_bytes(bytes[..8].try_into().expect("a fingerprint has sixteen bytes"))
}

/// One range of one object.
#[derive(Clone, Debug)]
pub(super) struct RangeRequest {
    pub(super) path: Path,
    pub(super) place: Location,
    pub(super) range: Range<u64>,
    /// The expected state of the object; `None` accepts any.
    pub(super) known: Option<ObjectVersion>,
    /// The memory for the bytes, if they are kept.
    pub(super) landing: Option<Landing>,
}

impl Connection {
    /// Asks the store for an object's state; `None` if it does not exist.
    pub(super) async fn head(&self, path: &Path, place: Location) -> Result<Option<ObjectVersion>> {
        let mut timer = RetryTimer::new(self, "opening", place, None);
        let mut head = true;
        loop {
            let (opened, begun) = (self.opened(), Instant::now());
            let range = (!head).then_some(GetRange::Bounded(0..1));
            let options = GetOptions { head, range, ..GetOptions::default() };
            match tokio::time::timeout(self.transfer().stall, opened.in_turn().get_opts(path, options)).await
            {
                Ok(Ok(got)) => {
                    self.answered(begun.elapsed());
                    return Ok(Some(ObjectVersion::of(&got.meta)));
                }
                Ok(Err(object_store::Error::NotFound { .. })) => return Ok(None),
                // An answer to HEAD has no body with the reason, and an expired token is worth a retry.
                Ok(Err(error)) if head && Fault::new(&error).kind == Kind::Denied => head = false,
                Ok(Err(error)) => timer.wait_after_error(&error, 0).await?,
                Err(_) => timer.wait_after_stall(0).await?,
            }
        }
    }

    /// Passes the bytes of a range to `sink`, in order, each once, in pieces as they arrive, with their version.
    pub(super) async fn fetch(
        &self,
        request: RangeRequest,
        mut sink: impl FnMut(&ObjectVersion, Bytes) + Send,
    ) -> Result<()> {
        let wanted = request.range.end - request.range.start;
        let mut timer = RetryTimer::new(
            self,
            "reading",
            request.place.clone(),
            request.known.as_ref().map(|known| known.size),
        );
        let (mut received, mut known) = (0, request.known.clone());
        while received < wanted {
            let left = request.range.start + received..request.range.end;
            if let Err(failure) = self.attempt(&request, left, &mut known, &mut received, &mut sink).await {
                timer.wait_or_give_up(failure, received).await?;
            }
        }
        Ok(())
    }

    /// One request. The bytes that arrive are counted and passed on, however the request ends.
    async fn attempt(
        &self,
        request: &RangeRequest,
        range: Range<u64>,
        known: &mut Option<ObjectVersion>,
        received: &mut u64,
        sink: &mut (impl FnMut(&ObjectVersion, Bytes) + Send),
    ) -> Result<(), RequestError> {
        let (opened, begun) = (self.opened(), Instant::now());
        self.counts.requests.fetch_add(1, Ordering::Relaxed);
        let stall = self.transfer().stall;
        let mut options = GetOptions {
            range: Some(GetRange::Bounded(range.clone())),
            if_match: known.as_ref().and_then(ObjectVersion::etag).map(str::to_owned),
            ..GetOptions::default()
        };
        if let Some(landing) = &request.landing {
            options.extensions.insert(landing.clone());
        }
        let answer = tokio::time::timeout(stall, self.ask(&opened, &request.path, options)).await;
        let got = match answer.map_err(|_| RequestError::Stalled(stall))? {
            Ok(got) => got,
            Err(object_store::Error::Precondition { .. }) => {
                return Err(RequestError::Changed(known.as_ref().map_or(0, |known| known.size)));
            }
            Err(error) => return Err(refused(&error, known.as_ref(), &range)),
        };
        self.answered(begun.elapsed());
        let now = ObjectVersion::of(&got.meta);
        if known.as_ref().is_some_and(|before| !before.agrees(&now)) {
            return Err(RequestError::Changed(now.size));
        }
        // From now on the ETag is known and sent with requests.
        *known = Some(now.clone());
        self.drain(got.into_stream(), &now, range, received, sink).await
    }

    async fn drain(
        &self,
        mut body: BoxStream<'static, object_store::Result<Bytes>>,
        known: &ObjectVersion,
        range: Range<u64>,
        received: &mut u64,
        sink: &mut (impl FnMut(&ObjectVersion, Bytes) + Send),
    ) -> Result<(), RequestError> {
        let stall = self.transfer().stall;
        let wanted = range.end - range.start;
        let mut here = 0;
        while here < wanted {
            match tokio::time::timeout(stall, body.next()).await.map_err(|_| RequestError::Stalled(stall))? {
                Some(Ok(mut piece)) => {
                    let length = (piece.len() as u64).min(wanted - here);
                    piece.truncate(length as usize);
                    sink(known, piece);
                    here += length;
                    *received += length;
                    self.counts.bytes.fetch_add(length, Ordering::Relaxed);
                }
                Some(Err(error)) => {
                    let fault = Fault::new(&error);
                    return Err(RequestError::Refused(Fault { kind: Kind::Passing, ..fault }));
                }
                None => return Err(RequestError::Cut { received: here, wanted }),
            }
        }
        Ok(())
    }

    /// Sends a request, and a second one if the answer takes unusually long; the first answer is used.
    async fn ask(
        &self,
        opened: &Opened,
        path: &Path,
        options: GetOptions,
    ) -> object_store::Result<GetResult> {
        let first = Box::pin(opened.in_turn().get_opts(path, options.clone()));
        let Some(after) = self.hedge_after() else { return first.await };
        let first = match select(first, Box::pin(tokio::time::sleep(after))).await {
            Either::Left((answer, _)) => return answer,
            Either::Right(((), first)) => first,
        };
        let second = Box::pin(opened.in_turn().get_opts(path, options));
        match select(first, second).await {
            Either::Left((Ok(got), _)) | Either::Right((Ok(got), _)) => Ok(got),
            Either::Left((Err(_), second)) => second.await,
            Either::Right((Err(_), first)) => first.await,
        }
    }

    /// Fills `into` (not empty) with the bytes from the start of `request`, large ranges in parallel parts. All bytes
    /// are of one version, which is returned.
    pub(super) async fn fill(&self, request: RangeRequest, into: &mut [u8]) -> Result<ObjectVersion> {
        let (part, parallel) = (self.transfer().part_size, self.transfer().parallel_parts);
        let (start, place) = (request.range.start, request.place.clone());
        let parts = into.chunks_mut(part as usize).enumerate().map(|(number, room)| {
            let from = start + number as u64 * part;
            let request = RangeRequest { range: from..from + room.len() as u64, ..request.clone() };
            async move {
                let (mut at, mut first_known) = (0, None);
                self.fetch(request, |known, piece| {
                    room[at..at + piece.len()].copy_from_slice(&piece);
                    at += piece.len();
                    first_known.get_or_insert_with(|| known.clone());
                })
                .await?;
                Ok(first_known.expect("parts are not empty"))
            }
        });
        let mut running = stream::iter(parts).buffer_unordered(parallel);
        let mut first: Option<ObjectVersion> = None;
        while let Some(done) = running.next().await {
            let known: ObjectVersion = done?;
            let first = first.get_or_insert_with(|| known.clone());
            if !first.agrees(&known) {
                return Err(changed(place, first.size, known.size));
            }
        }
        Ok(first.expect("there is a part"))
    }

    /// Reads a whole object, without asking for its length first.
    pub(super) async fn whole(
        &self,
        path: &Path,
        place: Location,
        into: &mut Vec<u8>,
    ) -> Result<ObjectVersion> {
        let mut timer = RetryTimer::new(self, "reading", place.clone(), None);
        loop {
            let (opened, begun) = (self.opened(), Instant::now());
            let stall = self.transfer().stall;
            let got = match tokio::time::timeout(stall, self.ask(&opened, path, GetOptions::default())).await
            {
                Ok(Ok(got)) => got,
                Ok(Err(error)) => {
                    timer.wait_after_error(&error, 0).await?;
                    continue;
                }
                Err(_) => {
                    timer.wait_after_stall(0).await?;
                    continue;
                }
            };
            self.answered(begun.elapsed());
            let known = ObjectVersion::of(&got.meta);
            into.clear();
            let size = to_usize(known.size, &place.uri, path.as_ref())?;
            if known.size > self.transfer().part_size {
                // A long object: several connections are faster than this one.
                drop(got);
                into.resize(size, 0);
                let range = 0..known.size;
                let request =
                    RangeRequest { path: path.clone(), place, range, known: Some(known), landing: None };
                return self.fill(request, into).await;
            }
            into.reserve_exact(size);
            let (mut received, mut sink) =
                (0, |_: &ObjectVersion, piece: Bytes| into.extend_from_slice(&piece));
            match self.drain(got.into_stream(), &known, 0..known.size, &mut received, &mut sink).await {
                Ok(()) => return Ok(known),
                Err(failure) => timer.wait_or_give_up(failure, received).await?,
            }
        }
    }
}

/// If the server says that a range does not exist, the object became shorter.
fn refused(error: &object_store::Error, known: Option<&ObjectVersion>, range: &Range<u64>) -> RequestError {
    let fault = Fault::new(error);
    let past_end = fault.words.contains("status code: 416") || fault.words.contains("InvalidRange");
    match known {
        Some(known) if past_end && range.end <= known.size => RequestError::Changed(range.start),
        _ => RequestError::Refused(fault),
    }
}
