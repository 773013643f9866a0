//! Whether a process is ready, and what is missing until it is.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What must hold before this process is ready, by name.
#[derive(Clone, Debug, Default)]
pub struct Readiness {
    missing: Arc<Mutex<Vec<Arc<str>>>>,
    reported: Arc<Mutex<BTreeMap<&'static str, Vec<String>>>>,
    remarks: Arc<Mutex<BTreeMap<&'static str, Vec<String>>>>,
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
        replace(&mut self.reported.lock(), part, complaints);
    }

    /// Replaces what `part` remarks: shown to whoever asks for it, and no reason to be unready. It is
    /// for what another replica would suffer from as well, so that to be without this one helps nobody.
    pub fn remark(&self, part: &'static str, remarks: Vec<String>) {
        replace(&mut self.remarks.lock(), part, remarks);
    }

    /// What the parts remark, in the order of their names.
    pub fn remarks(&self) -> Vec<String> {
        self.remarks.lock().values().flatten().cloned().collect()
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

fn replace(
    parts: &mut BTreeMap<&'static str, Vec<String>>,
    part: &'static str,
    texts: Vec<String>,
) {
    if texts.is_empty() {
        parts.remove(part);
    } else {
        parts.insert(part, texts);
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
