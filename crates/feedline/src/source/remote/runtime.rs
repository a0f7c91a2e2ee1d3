//! The one place where async work runs: two threads per process, started when first needed, never shared with users'
//! own runtimes. A forked child has none of the parent's threads and starts its own.

use std::sync::{Mutex, PoisonError};

use tokio::runtime::{Builder, Handle, Runtime};

/// Two: one core can decrypt and copy while the other waits; more would compete with decoding.
const THREADS: usize = 2;

static RUNNING: Mutex<Option<(u32, Runtime)>> = Mutex::new(None);

/// A handle to this process's runtime.
pub(super) fn handle() -> std::io::Result<Handle> {
    let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
    let process = std::process::id();
    if let Some((owner, runtime)) = &*running
        && *owner == process
    {
        return Ok(runtime.handle().clone());
    }
    let runtime = Builder::new_multi_thread()
        .worker_threads(THREADS)
        .thread_name("feedline-net")
        .enable_all()
        .build()?;
    let handle = runtime.handle().clone();
    // Dropping a runtime waits for its threads; those of a parent process do not exist here.
    if let Some(before) = running.replace((process, runtime)) {
        std::mem::forget(before);
    }
    Ok(handle)
}
