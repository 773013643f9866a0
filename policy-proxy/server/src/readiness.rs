//! Whether a process is ready, and what is missing until it is.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What must hold before this process is ready, by name.
#[derive(Clone, Debug, Default)]
pub struct Readiness {
    missing: Arc<Mutex<Vec<Arc<str>>>>,
    reported: Arc<Mutex<BTreeMap<&'static str, Vec<String>>>>,
    without: Arc<Mutex<Vec<String>>>,
}

/// One thing that must hold. Until [`Requirement::met`] is called it does not.
#[derive(Clone, Debug)]
pub struct Requirement {
    name: Arc<str>,
    readiness: Readiness,
}

impl Readiness {
    /// Adds something that does not hold yet. `name` is what `/ready` shows, in words.
    pub fn require(&self, name: &str) -> Requirement {
        let requirement = Requirement { name: name.into(), readiness: self.clone() };
        requirement.lost();
        requirement
    }

    /// Replaces what `part` has to complain of; empty: nothing any more.
    pub fn report(&self, part: &'static str, complaints: Vec<String>) {
        let mut reported = self.reported.lock();
        if complaints.is_empty() {
            reported.remove(part);
        } else {
            reported.insert(part, complaints);
        }
    }

    /// States what this process does without, ready or not: shown, and no reason to be unready.
    pub fn do_without(&self, functions: impl IntoIterator<Item = String>) {
        self.without.lock().extend(functions);
    }

    /// What does not hold: what was required, in the order it was required or lost, then what parts
    /// complain of.
    pub fn missing(&self) -> Vec<Arc<str>> {
        let mut missing = self.missing.lock().clone();
        missing.extend(self.reported.lock().values().flatten().map(|text| text.as_str().into()));
        missing
    }

    /// Whether nothing is missing.
    pub fn is_ready(&self) -> bool {
        self.missing.lock().is_empty() && self.reported.lock().is_empty()
    }

    /// What this process does without.
    pub fn without(&self) -> Vec<String> {
        self.without.lock().clone()
    }
}

impl Requirement {
    /// It holds.
    pub fn met(&self) {
        self.readiness.missing.lock().retain(|name| *name != self.name);
    }

    /// It does not hold, or no longer.
    pub fn lost(&self) {
        let mut missing = self.readiness.missing.lock();
        if !missing.contains(&self.name) {
            missing.push(self.name.clone());
        }
    }
}
