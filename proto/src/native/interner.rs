//! Interning of a policy's texts and conditions: ten thousand routes of one namespace name it ten
//! thousand times.

use policy_core::authorization::Condition;
use policy_core::name::Family;
use std::cell::RefCell;
use std::collections::HashSet;
use std::sync::Arc;

/// Interner for one update. Dropped after it; the decoded values keep their references.
#[derive(Debug, Default)]
pub(super) struct Interner {
    known: RefCell<HashSet<Arc<str>, foldhash::fast::RandomState>>,
    families: RefCell<HashSet<Arc<Family>, foldhash::fast::RandomState>>,
    conditions: RefCell<HashSet<Arc<[Condition]>, foldhash::fast::RandomState>>,
}

impl Interner {
    /// Returns the interned copy of `text`.
    pub(super) fn text(&self, text: &str) -> Arc<str> {
        let mut known = self.known.borrow_mut();
        if let Some(same) = known.get(text) {
            return Arc::clone(same);
        }
        let new: Arc<str> = text.into();
        known.insert(Arc::clone(&new));
        new
    }

    /// Returns the interned family of one kind and namespace.
    pub(super) fn family(&self, group: &str, kind: &str, namespace: &str) -> Arc<Family> {
        let [group, kind, namespace] = [group, kind, namespace].map(|text| self.text(text));
        let mut known = self.families.borrow_mut();
        let family = Family { group, kind, namespace };
        if let Some(same) = known.get(&family) {
            return Arc::clone(same);
        }
        let new = Arc::new(family);
        known.insert(Arc::clone(&new));
        new
    }

    /// Returns the interned conditions: grants that name the same authentication have the same
    /// ones.
    pub(super) fn conditions(&self, conditions: Vec<Condition>) -> Arc<[Condition]> {
        let mut known = self.conditions.borrow_mut();
        if let Some(same) = known.get(conditions.as_slice()) {
            return Arc::clone(same);
        }
        let new: Arc<[Condition]> = conditions.into();
        known.insert(Arc::clone(&new));
        new
    }
}
