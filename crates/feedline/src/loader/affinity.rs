//! Worker threads on some CPUs only: on those of one NUMA node, batches lie in its memory, because memory belongs to the
//! node of the thread that writes it first.

use crate::error::{Error, Result};

/// Refuses CPUs that this process may not use.
#[cfg(target_os = "linux")]
pub(super) fn check(cpus: &[u32]) -> Result<()> {
    if cpus.is_empty() {
        return Ok(());
    }
    let allowed = own()?;
    match cpus.iter().find(|cpu| !has(&allowed, **cpu)) {
        None => Ok(()),
        Some(cpu) => Err(Error::option("cpus", format!("this process may not use CPU {cpu}"))),
    }
}

#[cfg(not(target_os = "linux"))]
pub(super) fn check(cpus: &[u32]) -> Result<()> {
    if cpus.is_empty() { Ok(()) } else { Err(Error::option("cpus", "needs Linux")) }
}

/// Runs `start`, whose threads get these CPUs; any of the process if there are none. The caller keeps its own.
#[cfg(target_os = "linux")]
pub(super) fn on_cpus<T>(cpus: &[u32], start: impl FnOnce() -> Result<T>) -> Result<T> {
    use rustix::thread::{CpuSet, sched_setaffinity};

    /// Gives the caller its own CPUs back, also after a panic.
    struct Restore(CpuSet);

    impl Drop for Restore {
        fn drop(&mut self) {
            // They were allowed a moment ago; if they are not any more, the system has chosen others.
            let _ = sched_setaffinity(None, &self.0);
        }
    }

    if cpus.is_empty() {
        return start();
    }
    check(cpus)?;
    let _restore = Restore(own()?);
    let mut wanted = CpuSet::new();
    for cpu in cpus {
        wanted.set(*cpu as usize);
    }
    // A new thread inherits the CPUs of the one that starts it.
    sched_setaffinity(None, &wanted).map_err(|errno| Error::option("cpus", errno.to_string()))?;
    start()
}

#[cfg(not(target_os = "linux"))]
pub(super) fn on_cpus<T>(_: &[u32], start: impl FnOnce() -> Result<T>) -> Result<T> {
    start()
}

/// The CPUs of this thread.
#[cfg(target_os = "linux")]
fn own() -> Result<rustix::thread::CpuSet> {
    rustix::thread::sched_getaffinity(None).map_err(|errno| Error::option("cpus", errno.to_string()))
}

#[cfg(target_os = "linux")]
fn has(set: &rustix::thread::CpuSet, cpu: u32) -> bool {
    let cpu = cpu as usize;
    cpu < rustix::thread::CpuSet::MAX_CPU && set.is_set(cpu)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn threads_get_the_cpus_and_the_caller_keeps_its_own() {
        let before = own().unwrap();
        let one = (0..1024).find(|cpu| has(&before, *cpu)).unwrap();
        let inside = on_cpus(&[one], || std::thread::spawn(own).join().unwrap()).unwrap();
        assert_eq!((inside.count(), has(&inside, one)), (1, true));
        assert_eq!(own().unwrap(), before);
        assert_eq!(on_cpus(&[], own).unwrap(), before);
    }

    #[test]
    fn cpus_that_do_not_exist_are_refused() {
        for cpu in [1023, 1024, u32::MAX] {
            let message = check(&[cpu]).unwrap_err().to_string();
            assert!(message.contains(&format!("CPU {cpu}")), "{message}");
            assert!(on_cpus(&[cpu], || Ok(())).is_err());
        }
    }
}
