//! What the system says about this process and its threads. Where it says nothing, zeros.

use std::fs::read_to_string;

use super::CoreStats;

/// Memory resident now.
pub(super) fn resident() -> u64 {
    let pages = read_to_string("/proc/self/statm").ok();
    let pages = pages.and_then(|text| text.split(' ').nth(1)?.parse::<u64>().ok());
    pages.unwrap_or(0) * rustix::param::page_size() as u64
}

/// Time on a core and time without one, of these threads.
pub(super) fn cores(threads: impl Iterator<Item = u64>) -> CoreStats {
    let mut all = CoreStats::default();
    for thread in threads.filter(|thread| *thread != 0) {
        // Nanoseconds on a core, nanoseconds ready to run, number of turns.
        let Ok(text) = read_to_string(format!("/proc/self/task/{thread}/schedstat")) else { continue };
        let mut numbers = text.split_whitespace().filter_map(|word| word.parse::<f64>().ok());
        if let (Some(run), Some(ready)) = (numbers.next(), numbers.next()) {
            all.cpu_seconds += run * 1e-9;
            all.starved_seconds += ready * 1e-9;
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_memory_and_no_thread_zero() {
        assert!(resident() > 1 << 20 || !std::path::Path::new("/proc/self/statm").exists());
        assert_eq!(cores([0].into_iter()), CoreStats::default());
    }
}
