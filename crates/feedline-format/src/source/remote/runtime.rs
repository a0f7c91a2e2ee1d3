//! Runs all async work: two threads per process, started when first needed, never shared with users' own runtimes. A
//! forked child has none of the parent's threads and starts its own.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, Wake};
use std::thread::Thread;

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::Semaphore;

/// Two threads: one core can decrypt and copy while the other waits; more would compete with decoding.
const THREADS: usize = 2;

/// Number of background jobs at a time. Each fetches one block of 4 MiB for the disk cache: enough for a fast link at
/// 20 ms, with at most 64 MiB of memory.
const JOBS: usize = 16;

/// The runtime of one process, followed by that of a forked child, and so on. None is ever dropped: dropping waits
/// for threads, and a parent's threads do not exist in the child.
struct Running {
    own: OnceLock<(u32, Runtime, Arc<Semaphore>)>,
    next: OnceLock<Box<Running>>,
}

impl Running {
    const fn new() -> Self {
        Running { own: OnceLock::new(), next: OnceLock::new() }
    }
}

static FIRST: Running = Running::new();

/// Held while a runtime is stored in the list, and while the process forks, so that a child never finds a
/// half-written entry.
static PLACING: Mutex<()> = Mutex::new(());

/// While the guard lives, no runtime is stored in the list.
pub(in crate::source) fn hold() -> MutexGuard<'static, ()> {
    PLACING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A handle to this process's runtime.
pub(super) fn handle() -> std::io::Result<Handle> {
    Ok(running()?.0)
}

/// Runs a job that may wait for the network or the disk, a few at a time, in the order in which they were given.
pub(super) fn background(job: Box<dyn FnOnce() + Send>) -> std::io::Result<Job> {
    let (handle, turns) = running()?;
    let unwanted = Arc::new(AtomicBool::new(false));
    let dropped = unwanted.clone();
    // The semaphore comes before the thread: name lookups use threads of the same pool, and jobs that wait for a
    // lookup must leave one for it.
    handle.spawn(async move {
        let Ok(_turn) = turns.acquire().await else { return };
        if !dropped.load(Ordering::Relaxed) {
            let _ = tokio::task::spawn_blocking(job).await;
        }
    });
    Ok(Job { unwanted })
}

/// Dropping it cancels a job that has not begun.
#[derive(Debug)]
pub(super) struct Job {
    unwanted: Arc<AtomicBool>,
}

impl Drop for Job {
    fn drop(&mut self) {
        self.unwanted.store(true, Ordering::Relaxed);
    }
}

fn running() -> std::io::Result<(Handle, Arc<Semaphore>)> {
    let process = std::process::id();
    let mut running = &FIRST;
    loop {
        match running.own.get() {
            Some((owner, runtime, turns)) if *owner == process => {
                return Ok((runtime.handle().clone(), turns.clone()));
            }
            Some(_) => {
                running = running.next.get().unwrap_or_else(|| {
                    let _placing = hold();
                    running.next.get_or_init(|| Box::new(Running::new()))
                });
            }
            None => {
                let built = build()?;
                let placed = {
                    let _placing = hold();
                    running.own.set((process, built, Arc::new(Semaphore::new(JOBS))))
                };
                // If another thread was faster, the next iteration finds its runtime.
                if let Err((_, late, _)) = placed {
                    late.shutdown_background();
                }
            }
        }
    }
}

/// Starts the threads. tokio panics if the system refuses a thread; here that becomes an ordinary error.
fn build() -> std::io::Result<Runtime> {
    // tokio's panic would be printed before we catch it. Starting and joining one thread first finds the same failure
    // quietly.
    let _ = std::thread::Builder::new().spawn(|| ())?.join();
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(THREADS).thread_name("feedline-net").enable_all();
    std::panic::catch_unwind(AssertUnwindSafe(|| builder.build()))
        .unwrap_or_else(|_| Err(std::io::Error::other("the system refused a network thread")))
}

/// Waits on this thread for work that runs on `handle`'s runtime.
///
/// tokio's own `block_on` refuses threads that belong to another runtime, but users may load from inside an
/// asynchronous program.
pub(super) fn wait<F: Future>(handle: &Handle, work: F) -> F::Output {
    // Timers and tasks that the work starts belong to our runtime.
    let _inside = handle.enter();
    let sleeper = Arc::new(Sleeper { thread: std::thread::current(), woken: AtomicBool::new(false) });
    let waker = sleeper.clone().into();
    let mut context = Context::from_waker(&waker);
    let mut work = pin!(work);
    loop {
        if let Poll::Ready(done) = work.as_mut().poll(&mut context) {
            return done;
        }
        // A thread may be unparked for other reasons, and before it parks.
        while !sleeper.woken.swap(false, Ordering::Acquire) {
            std::thread::park();
        }
    }
}

/// A thread that waits for work.
struct Sleeper {
    thread: Thread,
    woken: AtomicBool,
}

impl Wake for Sleeper {
    fn wake(self: Arc<Self>) {
        self.woken.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

/// The error for asynchronous work that panicked: most likely the system refused a thread (for a name lookup).
pub(super) fn panicked(panic: &(dyn Any + Send)) -> std::io::Error {
    let text = panic.downcast_ref::<&str>().map(|s| (*s).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    std::io::Error::other(format!("network work failed: {}", text.unwrap_or_default()))
}
