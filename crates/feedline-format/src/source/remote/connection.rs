//! One process's connection to a store, and how long it retries.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use futures_util::future::{Either, select};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

use super::address::Address;
use super::fault::{Attempts, Fault, RequestError};
use super::options::{Hedge, Options, Transfer};
use super::runtime;
use super::staged::Stage;
use super::store::{self, Opened};
use crate::error::{Error, Location, Result};
use crate::source::wanted::cancel_flag;
use crate::source::{Traffic, add_wait};

/// Number of recent times to the first byte that are kept, for `hedge_after="auto"`.
const REMEMBERED: usize = 128;

/// Minimum number of times from which the slowest twentieth can be estimated.
const ENOUGH: usize = 20;

/// How often a waiting thread checks whether it was cancelled.
pub(super) const CHECK_EVERY: Duration = Duration::from_millis(50);

/// The first pause between attempts; it doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(15);

/// After this many bytes since the last failure, the number of attempts is counted from 0 again.
const PROGRESS: u64 = 1 << 20;

/// A store that has ever answered within this time is near.
const NEAR: Duration = Duration::from_millis(3);

/// What a slot stands for where the store is near: all 64 are 8 MiB on their way, 2.8 GB/s at 3 ms.
const SLOT_BYTES: usize = 128 << 10;

/// The most slots that one request takes.
const MOST_SLOTS: usize = 8;

/// What one process needs to send requests to a store.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) process: u32,
    pub(super) runtime: Handle,
    pub(super) stage: Stage,
    address: Address,
    options: Options,
    /// Replaced when credentials are renewed.
    opened: Mutex<Arc<Opened>>,
    /// Whether the store has ever answered.
    reached: AtomicBool,
    first_bytes: Mutex<VecDeque<Duration>>,
    /// The shortest time to an answer so far, in microseconds.
    quickest: AtomicU64,
    /// Number of prefetch requests that may run at once; they are served in the order in which they were made.
    pub(super) slots: Arc<Semaphore>,
    pub(super) counts: Counts,
}

/// What was asked for and what came.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) requests: AtomicU64,
    retries: AtomicU64,
    pub(super) bytes: AtomicU64,
}

impl Counts {
    pub(super) fn traffic(&self) -> Traffic {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let (requests, retries, bytes) = (load(&self.requests), load(&self.retries), load(&self.bytes));
        Traffic { requests, retries, bytes, ..Traffic::default() }
    }
}

impl Connection {
    pub(super) fn new(address: &Address, options: &Options) -> Result<Self> {
        let no_runtime = |e| Error::storage("starting network threads for", Location::new(address.uri()), e);
        Ok(Connection {
            process: std::process::id(),
            runtime: runtime::handle().map_err(no_runtime)?,
            stage: Stage::default(),
            opened: Mutex::new(Arc::new(store::open(address, options)?)),
            address: address.clone(),
            options: options.clone(),
            reached: AtomicBool::new(false),
            first_bytes: Mutex::default(),
            quickest: AtomicU64::new(u64::MAX),
            slots: Arc::new(Semaphore::new(options.transfer.parallel_parts)),
            counts: Counts::default(),
        })
    }

    /// Waits for `work` on this thread, or until it is cancelled.
    pub(super) fn wait<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        let begun = Instant::now();
        let done = catch_unwind(AssertUnwindSafe(|| self.wait_for(work)));
        add_wait(begun.elapsed());
        done.unwrap_or_else(|panic| Err(self.broken_task(&*panic)))
    }

    fn wait_for<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        let Some(flag) = cancel_flag() else { return runtime::wait(&self.runtime, work) };
        let watch = async move {
            while !flag.load(Ordering::Relaxed) {
                tokio::time::sleep(CHECK_EVERY).await;
            }
        };
        match runtime::wait(&self.runtime, select(pin!(work), pin!(watch))) {
            Either::Left((done, _)) => done,
            Either::Right(((), _)) => Err(Error::Closed("the read was cancelled".to_owned())),
        }
    }

    /// The error for a task of this connection that panicked.
    pub(super) fn broken_task(&self, panic: &(dyn std::any::Any + Send)) -> Error {
        Error::storage("reading", Location::new(self.address.uri()), runtime::panicked(panic))
    }

    pub(super) fn transfer(&self) -> &Transfer {
        &self.options.transfer
    }

    pub(super) fn opened(&self) -> Arc<Opened> {
        self.opened.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Records that the store answered, and after how long.
    pub(super) fn answered(&self, after: Duration) {
        self.reached.store(true, Ordering::Relaxed);
        self.quickest.fetch_min(after.as_micros() as u64, Ordering::Relaxed);
        let mut recent = self.first_bytes.lock().unwrap_or_else(PoisonError::into_inner);
        if recent.len() == REMEMBERED {
            recent.pop_front();
        }
        recent.push_back(after);
    }

    /// Whether the store has ever answered within [`NEAR`].
    pub(super) fn is_near(&self) -> bool {
        self.quickest.load(Ordering::Relaxed) < NEAR.as_micros() as u64
    }

    /// How many of the [slots](Self::slots) a request for so many bytes takes. A store that answers at once is kept busy by a
    /// few large requests; more of them only fill memory that the caches could have held.
    pub(super) fn slots_for(&self, length: usize) -> u32 {
        let most = self.transfer().parallel_parts.min(MOST_SLOTS);
        if self.is_near() { (length / SLOT_BYTES).min(most).max(1) as u32 } else { 1 }
    }

    /// When to send a second request.
    pub(super) fn hedge_after(&self) -> Option<Duration> {
        match self.options.transfer.hedge {
            Hedge::Off => None,
            Hedge::After(time) => Some(time),
            Hedge::Auto => {
                let recent = self.first_bytes.lock().unwrap_or_else(PoisonError::into_inner);
                if recent.len() < ENOUGH {
                    return None;
                }
                let mut sorted: Vec<Duration> = recent.iter().copied().collect();
                sorted.sort_unstable();
                Some(sorted[sorted.len() * 95 / 100].max(Duration::from_millis(5)))
            }
        }
    }

    /// Reads credentials again and reconnects. If that fails, the old connection stays.
    fn renew(&self) {
        if let Ok(opened) = store::open(&self.address, &self.options) {
            *self.opened.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(opened);
        }
    }
}

/// How long one request has been tried, and how much longer it may be.
#[derive(Debug)]
pub(super) struct RetryTimer<'a> {
    connection: &'a Connection,
    action: &'static str,
    place: Location,
    /// The object's length as it was seen before, if it was.
    known: Option<u64>,
    begun: Instant,
    tries: u32,
    /// Number of attempts that were refused.
    refusals: u32,
    received: u64,
}

impl<'a> RetryTimer<'a> {
    pub(super) fn new(
        connection: &'a Connection,
        action: &'static str,
        place: Location,
        known: Option<u64>,
    ) -> Self {
        RetryTimer {
            connection,
            action,
            place,
            known,
            begun: Instant::now(),
            tries: 0,
            refusals: 0,
            received: 0,
        }
    }

    /// After a failure: waits before the next attempt, or returns the error if there is none left. `received` is the
    /// number of bytes received so far.
    pub(super) async fn wait_or_give_up(&mut self, mut failure: RequestError, received: u64) -> Result<()> {
        if received >= self.received + PROGRESS {
            (self.received, self.tries, self.begun) = (received, 0, Instant::now());
        }
        self.tries += 1;
        self.refusals += u32::from(failure.is_refusal());
        let connection = self.connection;
        let (opened, limits) = (connection.opened(), connection.transfer());
        let reached = connection.reached.load(Ordering::Relaxed);
        let pause = self.pause();
        let over = self.tries > limits.retries || self.begun.elapsed() + pause > limits.retry_for;
        if over || !failure.passes(self.refusals, self.known.is_some(), reached, &opened.identity) {
            let tried = Attempts { times: self.tries, seconds: self.begun.elapsed().as_secs_f64() };
            let before = self.known.unwrap_or_default();
            if let RequestError::Refused(fault) = &mut failure {
                fault.words = connection.options.hide(&fault.words);
            }
            return Err(failure.into_error(self.action, self.place.clone(), before, &opened, &tried));
        }
        if failure.wants_new_credentials() {
            connection.renew();
        }
        connection.counts.retries.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(pause).await;
        Ok(())
    }

    /// The same, for an error of the store.
    pub(super) async fn wait_after_error(
        &mut self,
        error: &object_store::Error,
        received: u64,
    ) -> Result<()> {
        self.wait_or_give_up(RequestError::Refused(Fault::new(error)), received).await
    }

    /// The same, for an answer that did not arrive in time.
    pub(super) async fn wait_after_stall(&mut self, received: u64) -> Result<()> {
        self.wait_or_give_up(RequestError::Stalled(self.connection.transfer().stall), received).await
    }

    /// Between half and all of a time that doubles with each attempt, so that many clients do not return at once.
    fn pause(&self) -> Duration {
        let doubled = FIRST_PAUSE * 2u32.pow(self.tries.saturating_sub(1).min(16));
        let most = doubled.min(LONGEST_PAUSE);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |t| t.subsec_nanos());
        most.mul_f64(0.5 + 0.5 * f64::from(now % 1000) / 1000.0)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn large_requests_to_a_nearby_store_take_several_slots() {
        let slots = |parts: &str, times: &[u64]| {
            let given = BTreeMap::from([("max_inflight_parts".to_owned(), parts.to_owned())]);
            let options = Options::parse("s3", &given).unwrap();
            let connection = Connection::new(&Address::parse("s3://bucket/key").unwrap(), &options).unwrap();
            for time in times {
                connection.answered(Duration::from_millis(*time));
            }
            [1, 128 << 10, 1 << 20, 8 << 20].map(|length| connection.slots_for(length))
        };
        assert_eq!(slots("64", &[]), [1; 4], "nobody knows how far it is");
        assert_eq!(slots("64", &[20, 5, 60]), [1; 4], "it is far");
        assert_eq!(slots("64", &[20, 1, 60]), [1, 1, 8, 8]);
        assert_eq!(slots("4", &[1]), [1, 1, 4, 4], "no request waits for more slots than there are");
    }
}
