//! Facts about this machine and the limits of this process. `None` if the system does not report them.

use std::fs;

use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};

/// The processor's name.
pub(crate) fn cpu_model() -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name") || line.starts_with("Model"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

/// Instruction sets that matter for images, and whether this processor has them.
pub(crate) fn cpu_features() -> Vec<(&'static str, bool)> {
    #[cfg(target_arch = "x86_64")]
    {
        vec![
            ("sse4.2", std::is_x86_feature_detected!("sse4.2")),
            ("avx2", std::is_x86_feature_detected!("avx2")),
            ("fma", std::is_x86_feature_detected!("fma")),
            ("f16c", std::is_x86_feature_detected!("f16c")),
            ("bmi2", std::is_x86_feature_detected!("bmi2")),
            ("avx512f", std::is_x86_feature_detected!("avx512f")),
            ("avx512bw", std::is_x86_feature_detected!("avx512bw")),
        ]
    }
    #[cfg(target_arch = "aarch64")]
    {
        vec![("neon", true), ("sve", std::arch::is_aarch64_feature_detected!("sve"))]
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    {
        Vec::new()
    }
}

/// Number of threads that can run at once: processors, limited by affinity and cgroup.
pub(crate) fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Number of processors that are switched on.
pub(crate) fn processors() -> Option<usize> {
    let text = fs::read_to_string("/sys/devices/system/cpu/online").ok()?;
    let mut count = 0;
    for range in text.trim().split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        count += last.parse::<usize>().ok()? - first.parse::<usize>().ok()? + 1;
    }
    Some(count)
}

/// Number of processors this process may run on.
pub(crate) fn affinity() -> Option<usize> {
    #[cfg(target_os = "linux")]
    {
        rustix::thread::sched_getaffinity(None).ok().map(|set| set.count() as usize)
    }
    #[cfg(not(target_os = "linux"))]
    {
        None
    }
}

/// Processor time that the cgroup allows, in processors.
pub(crate) fn cpu_quota() -> Option<f64> {
    let text = cgroup("cpu.max")?;
    let mut numbers = text.split_whitespace().map(str::parse::<f64>);
    let (quota, period) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
    Some(quota / period)
}

/// Bytes of memory that the cgroup allows.
pub(crate) fn memory_limit() -> Option<u64> {
    cgroup("memory.max")?.trim().parse().ok()
}

/// A file of this process's cgroup (version 2), or of the root if the process is at the root of its own view.
fn cgroup(file: &str) -> Option<String> {
    let text = fs::read_to_string("/proc/self/cgroup").ok()?;
    let path = text.lines().find_map(|line| line.strip_prefix("0::"))?;
    let own = format!("/sys/fs/cgroup{}/{file}", path.trim_end_matches('/'));
    fs::read_to_string(own).or_else(|_| fs::read_to_string(format!("/sys/fs/cgroup/{file}"))).ok()
}

/// A line of `/proc/meminfo` in bytes, such as `MemTotal`.
pub(crate) fn memory(name: &str) -> Option<u64> {
    kilobytes("/proc/meminfo", name)
}

/// Largest resident memory of this process since the last [`reset_peak`], in bytes.
pub(crate) fn peak_resident() -> Option<u64> {
    kilobytes("/proc/self/status", "VmHWM")
}

/// Resets the peak, so that the next one belongs to the next piece of work.
pub(crate) fn reset_peak() {
    let _ = fs::write("/proc/self/clear_refs", "5");
}

fn kilobytes(file: &str, name: &str) -> Option<u64> {
    let text = fs::read_to_string(file).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}

/// Number of bytes that this process has read from storage so far.
pub(crate) fn storage_read() -> Option<u64> {
    let text = fs::read_to_string("/proc/self/io").ok()?;
    text.lines().find_map(|line| line.strip_prefix("read_bytes: "))?.parse().ok()
}

/// Processor time of all threads so far, in seconds; the sum that `getrusage` reports, in nanoseconds.
pub(crate) fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// The selected one of `always [madvise] never`.
pub(crate) fn huge_pages() -> Option<String> {
    let text = fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").ok()?;
    Some(text.split_once('[')?.1.split_once(']')?.0.to_owned())
}

/// Number of files this process may have open: now, and at most if raised. `None` means no limit.
pub(crate) fn open_files() -> (Option<u64>, Option<u64>) {
    let limit = getrlimit(Resource::Nofile);
    (limit.current, limit.maximum)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn facts_of_the_machine_are_found_on_linux() {
        assert!(threads() >= 1);
        assert!(affinity().is_some_and(|n| n >= 1));
        assert!(memory("MemTotal").is_some_and(|n| n > 1 << 20));
        assert!(peak_resident().is_some_and(|n| n > 1 << 16));
        let before = cpu_seconds();
        let sum = (0..1_000_000u64).fold(0u64, |sum, n| sum.wrapping_mul(31) ^ n);
        assert!(cpu_seconds() >= before, "{sum}");
    }
}
