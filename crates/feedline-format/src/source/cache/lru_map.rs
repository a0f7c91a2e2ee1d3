//! A few open values by name; the least recently used one is evicted.

use std::collections::HashMap;

/// At most `most` values. Eviction looks at all of them: fine for hundreds, not for millions.
#[derive(Debug)]
pub(super) struct LruMap<V> {
    values: HashMap<String, (V, u64)>,
    most: usize,
    uses: u64,
}

impl<V: Clone> LruMap<V> {
    pub(super) fn new(most: usize) -> Self {
        LruMap { values: HashMap::new(), most, uses: 0 }
    }

    pub(super) fn get(&mut self, name: &str) -> Option<V> {
        self.uses += 1;
        let (value, used) = self.values.get_mut(name)?;
        *used = self.uses;
        Some(value.clone())
    }

    /// Takes a value out, so that the caller can close it without holding a lock.
    pub(super) fn remove(&mut self, name: &str) -> Option<V> {
        self.values.remove(name).map(|(value, _)| value)
    }

    /// Returns the evicted value, so that the caller can close it without holding a lock.
    pub(super) fn put(&mut self, name: String, value: V) -> Option<V> {
        self.uses += 1;
        let mut evicted = None;
        if self.values.len() >= self.most && !self.values.contains_key(&name) {
            let oldest = self.values.iter().min_by_key(|(_, (_, used))| *used).map(|(name, _)| name.clone());
            evicted = oldest.and_then(|oldest| self.values.remove(&oldest)).map(|(value, _)| value);
        }
        self.values.insert(name, (value, self.uses));
        evicted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_is_removed() {
        let mut map = LruMap::new(2);
        assert_eq!(map.put("a".into(), 1), None);
        assert_eq!(map.put("b".into(), 2), None);
        assert_eq!(map.get("a"), Some(1));
        assert_eq!(map.put("c".into(), 3), Some(2));
        assert_eq!((map.get("a"), map.get("b"), map.get("c")), (Some(1), None, Some(3)));
        assert_eq!(map.put("c".into(), 4), None);
        assert_eq!(map.get("c"), Some(4));
    }
}
