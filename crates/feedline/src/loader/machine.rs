//! How much memory this process can use.

/// The smallest of the machine's memory, the control group's limit and the process's own limit (`ulimit -v`).
pub(crate) fn memory_bytes() -> u64 {
    [machine(), control_group(), own_limit()].into_iter().flatten().min().unwrap_or(isize::MAX as u64)
}

#[cfg(target_os = "linux")]
fn machine() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kilobytes.checked_mul(1024)
}

#[cfg(not(target_os = "linux"))]
fn machine() -> Option<u64> {
    None
}

/// `max` in the file means no limit, and does not parse.
fn control_group() -> Option<u64> {
    let read = |path: &str| std::fs::read_to_string(path).ok()?.trim().parse().ok();
    read("/sys/fs/cgroup/memory.max").or_else(|| read("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
}

#[cfg(unix)]
fn own_limit() -> Option<u64> {
    rustix::process::getrlimit(rustix::process::Resource::As).current
}

#[cfg(not(unix))]
fn own_limit() -> Option<u64> {
    None
}

#[cfg(test)]
mod tests {
    #[test]
    fn this_machine_has_some() {
        assert!((1 << 20..=isize::MAX as u64).contains(&super::memory_bytes()));
    }
}
