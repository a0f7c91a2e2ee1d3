//! Threads, batches in flight, and their memory.

use super::Plan;
use crate::batch::Layout;
use crate::dataset::Dataset;
use crate::error::{Error, Result};
use crate::loader::{MOST_OBJECTS, machine};
use crate::spec::{LoaderOptions, ReadAhead};
use crate::transform::ImagePlan;

/// Bytes of remote data read ahead, unless a memory budget is set: two windows of a block shuffle.
const AHEAD_BYTES: u64 = 576 << 20;

impl Plan {
    /// Bytes allowed for reads ahead. If there is a memory budget: half of it for remote data; for local data a quarter of
    /// what batches leave.
    pub(crate) fn ahead_bytes(&self) -> u64 {
        match self.options.memory_budget {
            None => AHEAD_BYTES,
            Some(budget) if self.remote => budget / 2,
            Some(budget) => (budget.saturating_sub(self.dense_bytes(self.depth)) / 4).min(AHEAD_BYTES),
        }
    }

    /// Refuses a number of reads ahead that would have no effect.
    pub(crate) fn check_read_ahead(&self, dataset: &Dataset) -> Result<()> {
        if !matches!(self.options.read_ahead, ReadAhead::Reads(_)) {
            return Ok(());
        }
        let format = dataset.format();
        let local = (0..format.object_count().min(MOST_OBJECTS))
            .any(|number| format.object(number).is_some_and(|(source, _)| !source.is_remote()));
        let reason = if self.remote && !local {
            "a number is for local data; for remote data set storage_options={'max_inflight_parts': ...} in fl.open".to_owned()
        } else if format.object_count() == 0 {
            format!("{} cannot tell which bytes come next; leave it at 'auto'", format.name())
        } else if self.ahead_bytes() == 0 {
            "memory_budget leaves no bytes for it".to_owned()
        } else {
            return Ok(());
        };
        Err(Error::option("read_ahead", reason))
    }

    /// Bytes allowed for values whose size is not known beforehand; `None` without a memory budget.
    pub(crate) fn ragged_budget(&self) -> Option<u64> {
        let rest = |budget: u64| budget.saturating_sub(self.dense_bytes(self.depth));
        // If dense columns take all of it, short texts beside them must not make batches wait for each other.
        let ahead =
            if self.remote || self.options.read_ahead == ReadAhead::Off { 0 } else { self.ahead_bytes() };
        self.batches_budget().map(|budget| rest(budget).saturating_sub(ahead).max(budget / 8))
    }

    /// The part of the memory budget that is left for batches.
    fn batches_budget(&self) -> Option<u64> {
        let budget = self.options.memory_budget?;
        Some(if self.remote { budget - self.ahead_bytes() } else { budget })
    }

    /// Bytes of dense columns with `depth` batches in flight. Two more batches exist besides: the user's current one
    /// and the one before.
    fn dense_bytes(&self, depth: usize) -> u64 {
        self.batch_bytes().saturating_mul(depth as u64 + 2)
    }

    fn has_ragged(&self) -> bool {
        self.columns.iter().any(|column| matches!(column.layout, Layout::Ragged { .. }))
    }

    /// Bytes of one full batch's dense columns.
    pub(crate) fn batch_bytes(&self) -> u64 {
        self.columns.iter().map(|c| c.row_bytes() as u64).sum::<u64>().saturating_mul(self.options.batch_size)
    }

    /// Refuses batches that are too large now, naming the column, instead of failing at the first batch.
    pub(super) fn check_sizes(&self) -> Result<()> {
        let most = machine::memory_bytes();
        let rows = self.options.batch_size.min(self.sequence().positions(self.samples)).max(1);
        for (column, spec) in self.columns.iter().enumerate() {
            let each = spec.row_bytes() as u64;
            let bytes = each.saturating_mul(rows);
            if bytes <= most {
                continue;
            }
            let views = self.image_fields.iter().flat_map(|views| &views.outputs);
            let plan = views.into_iter().find(|(at, _)| *at == column).map(|(_, plan)| &self.images[*plan]);
            let reason = format!(
                "{}: {} makes {each} bytes a sample, {bytes} a batch of {rows}; this process can have {most} at most",
                spec.name,
                plan.map_or("its shape", ImagePlan::sized_by)
            );
            return Err(Error::option("transforms", reason));
        }
        Ok(())
    }

    /// Number of batches in flight: those ready ahead and the one being filled, within the memory budget.
    pub(super) fn choose_depth(&self) -> Result<usize> {
        // Small batches need more of them in flight to keep all threads busy: at least four samples per thread.
        let enough = (4 * self.threads as u64).div_ceil(self.options.batch_size) as usize;
        let wanted = self.options.prefetch.unwrap_or(enough.max(2)) + 1;
        let affordable = self.affordable_depth();
        if affordable == 0 {
            let (budget, each) = (self.options.memory_budget.unwrap_or_default(), self.batch_bytes());
            let reason = format!(
                "{budget} bytes; one batch is {each} bytes, and three are needed at least (one being filled, two held)"
            );
            return Err(Error::option("memory_budget", reason));
        }
        Ok(wanted.min(affordable))
    }

    /// Number of batches in flight that the memory budget allows.
    fn affordable_depth(&self) -> usize {
        let Some(budget) = self.batches_budget() else { return usize::MAX };
        (budget / self.batch_bytes().max(1)).saturating_sub(2) as usize
    }

    /// Largest number of batches in flight for `auto_tune`.
    pub(crate) fn most_depth(&self) -> usize {
        let limited = self.options.memory_budget.is_some() && self.has_ragged();
        if limited { self.depth } else { self.affordable_depth().min(64) }
    }
}

pub(super) fn threads(options: &LoaderOptions) -> usize {
    if options.num_workers > 0 {
        return options.num_workers;
    }
    cores_for(options)
}

/// Number of cores that the worker threads may use.
pub(crate) fn cores_for(options: &LoaderOptions) -> usize {
    let cores = usable_cores();
    if options.cpus.is_empty() { cores } else { options.cpus.len().min(cores) }
}

/// Number of cores this process may use; respects CPU affinity and cgroup quotas.
pub fn usable_cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}
