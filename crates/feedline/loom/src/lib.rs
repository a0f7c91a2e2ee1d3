//! The ring of `feedline`, run through every interleaving that loom can find.
//!
//! `cargo test --release` in this folder (`make test` does it).

#[allow(dead_code, reason = "the tests use part of it")]
#[path = "../../src/batch/ring.rs"]
mod ring;

/// Loom's types under the names `ring.rs` uses.
mod sync {
    pub(crate) use loom::cell::UnsafeCell;
    pub(crate) use loom::sync::atomic::{AtomicU64, Ordering};
    pub(crate) use loom::sync::{Condvar, Mutex, MutexGuard};
}

#[cfg(test)]
mod tests {
    use super::ring::{Ring, Take};
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::thread;

    /// A batch of rows, each written by exactly one worker: loom reports any overlapping access.
    struct Rows {
        number: u64,
        rows: Vec<UnsafeCell<u64>>,
        sealed: bool,
    }

    // SAFETY: what the ring promises, and what loom checks here.
    unsafe impl Sync for Rows {}

    fn work(ring: &Ring<Rows>) {
        while let Some(claim) = ring.claim() {
            let open = |number: u64| {
                let rows = (0..ring.rows(number)).map(|_| UnsafeCell::new(0)).collect();
                Rows { number, rows, sealed: false }
            };
            let fill = |batch: &Rows, claim: &super::ring::Claim| {
                assert_eq!(batch.number, claim.batch);
                for row in claim.row..claim.row + claim.rows {
                    // SAFETY: the claim is unique, and so are its rows.
                    batch.rows[row as usize].with_mut(|value| unsafe { *value = claim.batch * 10 + row + 1 });
                }
            };
            let seal = |batch: &mut Rows| batch.sealed = true;
            if !ring.work(claim, open, fill, seal) {
                return;
            }
        }
    }

    fn check(batch: &Rows, number: u64, rows: u64) {
        assert!(batch.sealed && batch.number == number && batch.rows.len() as u64 == rows);
        for (row, value) in batch.rows.iter().enumerate() {
            // SAFETY: the batch is ours.
            value.with(|value| assert_eq!(unsafe { *value }, number * 10 + row as u64 + 1));
        }
    }

    fn model(preemptions: usize, test: impl Fn() + Sync + Send + 'static) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(preemptions);
        builder.check(test);
    }

    #[test]
    fn two_workers_fill_seal_and_deliver_in_order() {
        model(3, || {
            let ring = Arc::new(Ring::new(1, 2, 3, 1));
            let workers: Vec<_> = (0..2)
                .map(|_| {
                    let ring = ring.clone();
                    thread::spawn(move || work(&ring))
                })
                .collect();
            for (number, rows) in [(0, 2), (1, 1)] {
                match ring.take(None) {
                    Take::Batch(batch) => check(&batch, number, rows),
                    _ => panic!("batch {number} expected"),
                }
            }
            assert!(matches!(ring.take(None), Take::End));
            for worker in workers {
                worker.join().unwrap();
            }
        });
    }

    #[test]
    fn groups_of_rows_have_one_worker_each() {
        model(3, || {
            // Two groups in the first batch; half of one in the last.
            let ring = Arc::new(Ring::new(1, 4, 5, 2));
            let workers: Vec<_> = (0..2)
                .map(|_| {
                    let ring = ring.clone();
                    thread::spawn(move || work(&ring))
                })
                .collect();
            for (number, rows) in [(0, 4), (1, 1)] {
                match ring.take(None) {
                    Take::Batch(batch) => check(&batch, number, rows),
                    _ => panic!("batch {number} expected"),
                }
            }
            for worker in workers {
                worker.join().unwrap();
            }
        });
    }

    #[test]
    fn a_cell_is_reused_only_after_its_batch_was_taken() {
        model(3, || {
            let ring = Arc::new(Ring::new(2, 1, 3, 1));
            let other = ring.clone();
            let worker = thread::spawn(move || work(&other));
            let mut kept = Vec::new();
            while let Take::Batch(batch) = ring.take(None) {
                kept.push(batch);
            }
            worker.join().unwrap();
            for (number, batch) in kept.iter().enumerate() {
                check(batch, number as u64, 1);
            }
            assert_eq!(kept.len(), 3);
        });
    }

    #[test]
    fn closing_at_any_moment_ends_every_wait() {
        model(2, || {
            let ring = Arc::new(Ring::new(1, 2, 4, 1));
            let workers: Vec<_> = (0..2)
                .map(|_| {
                    let ring = ring.clone();
                    thread::spawn(move || work(&ring))
                })
                .collect();
            ring.close();
            assert!(matches!(ring.take(None), Take::End));
            for worker in workers {
                worker.join().unwrap();
            }
        });
    }
}
