//! One allocation for all values that are equal.

use crate::query::workload::WorkloadShape;
use hashbrown::HashMap;
use policy_core::ServerPolicy;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Weak};

/// A value with an outline by which it is looked up.
pub(super) trait Outlined {
    /// The part that is hashed: the same for equal values, and different for most others. It is less
    /// than the whole where that is large.
    fn outline(&self) -> impl Hash;
}

impl Outlined for WorkloadShape {
    fn outline(&self) -> impl Hash {
        self
    }
}

impl Outlined for ServerPolicy {
    /// Without what routes and grants say: of a Server there may be thousands, most of which it
    /// shares with the policies that it is compared with.
    fn outline(&self) -> impl Hash {
        let routes = &self.routes;
        let counts = [routes.routes.len(), routes.hosts.len(), self.authorizations.len()];
        let first = routes.routes.first().map(|route| &route.origin);
        (&self.owner, &self.protocol, self.deny, &self.exemptions, counts, first)
    }
}

/// Values by content, as long as they are referenced.
pub(super) struct Interned<T> {
    by_hash: HashMap<u64, Vec<Weak<T>>>,
}

impl<T> Clone for Interned<T> {
    fn clone(&self) -> Self {
        Self { by_hash: self.by_hash.clone() }
    }
}

impl<T> Default for Interned<T> {
    fn default() -> Self {
        Self { by_hash: HashMap::new() }
    }
}

impl<T: Eq + Outlined> Interned<T> {
    /// The one allocation of a value equal to this.
    pub(super) fn intern(&mut self, value: T) -> Arc<T> {
        let held = self.by_hash.entry(content_hash(&value.outline())).or_default();
        if let Some(equal) = held.iter().filter_map(Weak::upgrade).find(|held| **held == value) {
            return equal;
        }
        let value = Arc::new(value);
        held.retain(|weak| weak.strong_count() > 0);
        held.push(Arc::downgrade(&value));
        value
    }

    /// Number of values.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.by_hash.values().map(Vec::len).sum()
    }

    /// Drops values that are no longer referenced.
    pub(super) fn sweep(&mut self) {
        self.by_hash.retain(|_, held| held.iter().any(|weak| weak.strong_count() > 0));
    }
}

/// A hash of everything a value says; equal for equal values of one build.
pub(crate) fn content_hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}
