//! Texts of a policy, and what its grants ask for, each kept once: ten thousand routes of one namespace
//! name it ten thousand times.

use policy_core::authorization::Condition;
use policy_core::name::Family;
use std::cell::RefCell;
use std::collections::HashSet;
use std::sync::Arc;

/// What was met so far while an update is read. Dropped after it; what was read keeps what it uses.
#[derive(Debug, Default)]
pub(super) struct Interner {
    known: RefCell<HashSet<Arc<str>, foldhash::fast::RandomState>>,
    families: RefCell<HashSet<Arc<Family>, foldhash::fast::RandomState>>,
    conditions: RefCell<HashSet<Arc<[Condition]>, foldhash::fast::RandomState>>,
}

impl Interner {
    /// The one copy of `text`.
    pub(super) fn text(&self, text: &str) -> Arc<str> {
        let mut known = self.known.borrow_mut();
        if let Some(same) = known.get(text) {
            return Arc::clone(same);
        }
        let new: Arc<str> = text.into();
        known.insert(Arc::clone(&new));
        new
    }

    /// The one copy of what objects of one kind and namespace have in common.
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

    /// The one copy of what grants ask for: those that name the same authentication are alike.
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
