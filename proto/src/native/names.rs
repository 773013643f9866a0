//! Texts of a policy, and what its grants ask for, each kept once: ten thousand routes of one namespace
//! name it ten thousand times.

use policy_core::authorization::{AuthorizationSet, Condition};
use std::cell::RefCell;
use std::collections::HashSet;
use std::sync::Arc;

/// What was met so far while an update is read. Dropped after it; what was read keeps what it uses.
#[derive(Debug)]
pub(super) struct Names {
    known: RefCell<HashSet<Arc<str>, foldhash::fast::RandomState>>,
    conditions: RefCell<HashSet<Arc<[Condition]>, foldhash::fast::RandomState>>,
    nobody: AuthorizationSet,
}

impl Names {
    pub(super) fn new() -> Self {
        Self { known: RefCell::default(), conditions: RefCell::default(), nobody: Arc::from([]) }
    }

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

    /// The one copy of what grants ask for: those that name the same authentication are alike.
    pub(super) fn conditions(&self, asked: Vec<Condition>) -> Arc<[Condition]> {
        let mut known = self.conditions.borrow_mut();
        if let Some(same) = known.get(asked.as_slice()) {
            return Arc::clone(same);
        }
        let new: Arc<[Condition]> = asked.into();
        known.insert(Arc::clone(&new));
        new
    }

    /// The empty set of grants.
    pub(super) fn nobody(&self) -> AuthorizationSet {
        Arc::clone(&self.nobody)
    }
}
