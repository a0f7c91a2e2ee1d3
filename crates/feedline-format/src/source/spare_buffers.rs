//! Buffers of freed ranges, for the next ones: new memory from the system costs a page fault for every 4 KiB, 0.2 s of CPU
//! per GB where receiving takes 0.5.

/// Spare buffers of one kind, at most `MOST` bytes.
#[derive(Debug, Default)]
pub(super) struct SpareBuffers<Buffer, const MOST: usize> {
    /// Each with its capacity, oldest first.
    buffers: Vec<(usize, Buffer)>,
    pub(super) bytes: usize,
    /// Bytes of all buffers in use, and their maximum so far: used and spare buffers together never exceed it.
    pub(super) used: usize,
    pub(super) most_used: usize,
}

/// Rounds up to sizes at most an eighth apart, so that the next range can reuse a buffer.
pub(super) fn capacity_for(length: usize) -> usize {
    let step = (length.next_power_of_two() / 16).max(4096);
    length.next_multiple_of(step)
}

impl<Buffer, const MOST: usize> SpareBuffers<Buffer, MOST> {
    /// A buffer for `length` bytes: a spare one, or what `fresh` makes of the capacity. `None` if `fresh` makes none.
    pub(super) fn take(
        &mut self,
        length: usize,
        fresh: impl FnOnce(usize) -> Option<Buffer>,
    ) -> Option<Buffer> {
        let capacity = capacity_for(length);
        let found = self.buffers.iter().rposition(|(spare, _)| *spare == capacity);
        let buffer = if let Some(at) = found {
            self.bytes -= capacity;
            self.buffers.swap_remove(at).1
        } else {
            fresh(capacity)?
        };
        self.used += capacity;
        self.most_used = self.most_used.max(self.used);
        self.shrink();
        Some(buffer)
    }

    /// Takes a buffer for `length` bytes back; `None` if it is lost.
    pub(super) fn put(&mut self, length: usize, buffer: Option<Buffer>) {
        let capacity = capacity_for(length);
        self.used = self.used.saturating_sub(capacity);
        if let Some(buffer) = buffer {
            self.bytes += capacity;
            self.buffers.push((capacity, buffer));
        }
        self.shrink();
    }

    /// Frees the oldest spare buffers until the limits hold.
    fn shrink(&mut self) {
        let most = (self.most_used - self.used).min(MOST);
        let mut gone = 0;
        while self.bytes > most {
            self.bytes -= self.buffers[gone].0;
            gone += 1;
        }
        self.buffers.drain(..gone);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Spare = SpareBuffers<Vec<u8>, { 128 << 20 }>;

    fn take(spare: &mut Spare, length: usize) -> Vec<u8> {
        spare.take(length, |capacity| Some(Vec::with_capacity(capacity))).unwrap()
    }

    proptest! {
        #[test]
        fn spare_buffers_never_raise_the_peak(
            steps in prop::collection::vec((1usize..300_000, 0usize..4), 1..200),
        ) {
            let mut spare = Spare::default();
            let mut taken: Vec<(usize, Vec<u8>)> = Vec::new();
            let mut most = 0;
            for (length, keep) in steps {
                let buffer = take(&mut spare, length);
                prop_assert!(buffer.is_empty() && buffer.capacity() >= length);
                prop_assert!(buffer.capacity() <= length + length / 8 + 4096);
                taken.push((length, buffer));
                let used: usize = taken.iter().map(|(_, buffer)| buffer.capacity()).sum();
                most = most.max(used);
                prop_assert_eq!(spare.used, used);
                while taken.len() > keep {
                    let (length, buffer) = taken.remove(0);
                    spare.put(length, Some(buffer));
                }
                let kept: usize = spare.buffers.iter().map(|(_, buffer)| buffer.capacity()).sum();
                prop_assert_eq!(kept, spare.bytes);
                prop_assert!(spare.used + kept <= most);
            }
        }
    }

    #[test]
    fn a_buffer_of_similar_length_is_reused() {
        let mut spare = Spare::default();
        let (first, second) = (take(&mut spare, 1_000_000), take(&mut spare, 1_000_000));
        let place = first.as_ptr();
        spare.put(1_000_000, Some(first));
        let again = take(&mut spare, 990_000);
        assert_eq!(again.as_ptr(), place);
        drop((again, second));
    }
}
