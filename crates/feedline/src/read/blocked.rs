//! Whether a read made its thread wait.
//!
//! Time alone does not tell: on a busy machine a thread that only copied from the page cache may have lost its core
//! meanwhile. The system counts how often a thread gave its core up by itself, which a read does only to wait.

#![expect(unsafe_code, reason = "asking the system about the calling thread")]

use std::time::{Duration, Instant};

/// Shorter waits are not worth a hand-over to another thread.
const WORTH: Duration = Duration::from_micros(50);

/// Checks whether one read of the calling thread waits.
#[derive(Debug)]
pub(crate) struct WaitCheck {
    begun: Instant,
    waits: u64,
}

impl WaitCheck {
    pub(crate) fn begin() -> Self {
        WaitCheck { begun: Instant::now(), waits: waits() }
    }

    /// Whether the thread waited since then.
    pub(super) fn has_waited(&self) -> bool {
        self.begun.elapsed() >= WORTH && waits() > self.waits
    }
}

/// How often the calling thread has waited so far.
#[cfg(target_os = "linux")]
fn waits() -> u64 {
    // SAFETY: `rusage` is plain numbers, for which zeros are valid.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is valid for writes and outlives the call.
    let failed = unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) } != 0;
    if failed { 0 } else { usage.ru_nvcsw as u64 }
}

/// Where the system does not count waits of a thread: time off the core, in units that are worth something.
#[cfg(not(target_os = "linux"))]
fn waits() -> u64 {
    use std::sync::OnceLock;
    static BEGUN: OnceLock<Instant> = OnceLock::new();
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    let on_core = Duration::new(time.tv_sec as u64, time.tv_nsec as u32);
    let off_core = BEGUN.get_or_init(Instant::now).elapsed().saturating_sub(on_core);
    (off_core.as_nanos() / WORTH.as_nanos()) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleeping_is_waiting() {
        let check = WaitCheck::begin();
        std::thread::sleep(Duration::from_millis(2));
        assert!(check.has_waited());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn working_is_not_waiting() {
        let check = WaitCheck::begin();
        let mut sum = 0u64;
        while check.begun.elapsed() < WORTH * 4 {
            sum = std::hint::black_box(sum + 1);
        }
        assert!(!check.has_waited());
    }
}
