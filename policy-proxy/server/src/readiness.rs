//! Readiness of a process.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The requirements for this process to be ready, by name.
#[derive(Clone, Debug, Default)]
pub struct Readiness {
    missing: Arc<Mutex<Vec<Arc<str>>>>,
    reported: Arc<Mutex<BTreeMap<&'static str, Vec<String>>>>,
    remarks: Arc<Mutex<BTreeMap<&'static str, Vec<String>>>>,
    without: Arc<Mutex<Vec<String>>>,
}

/// One requirement. It is missing until [`Requirement::met`] is called.
#[derive(Clone, Debug)]
pub struct Requirement {
    name: Arc<str>,
    readiness: Readiness,
}

impl Readiness {
    /// Adds a requirement, which is missing. `/ready` shows `name`.
    pub fn require(&self, name: &str) -> Requirement {
        let requirement = Requirement { name: name.into(), readiness: self.clone() };
        requirement.lost();
        requirement
    }

    /// Replaces the complaints of `part`, which make the process unready; empty clears them.
    pub fn report(&self, part: &'static str, complaints: Vec<String>) {
        replace(&mut self.reported.lock(), part, complaints);
    }

    /// Replaces the remarks of `part`, which are shown but do not make the process unready. For
    /// problems that other replicas would have as well, so that taking this one out of service
    /// helps no client.
    pub fn remark(&self, part: &'static str, remarks: Vec<String>) {
        replace(&mut self.remarks.lock(), part, remarks);
    }

    /// Returns the remarks, in the order of the parts' names.
    pub fn remarks(&self) -> Vec<String> {
        self.remarks.lock().values().flatten().cloned().collect()
    }

    /// Adds functions that this process runs without; shown, but not a reason to be unready.
    pub fn do_without(&self, functions: impl IntoIterator<Item = String>) {
        self.without.lock().extend(functions);
    }

    /// Returns what is missing: the requirements in the order in which they were added or lost,
    /// then the complaints.
    pub fn missing(&self) -> Vec<Arc<str>> {
        let mut missing = self.missing.lock().clone();
        missing.extend(self.reported.lock().values().flatten().map(|text| text.as_str().into()));
        missing
    }

    /// Returns true if nothing is missing.
    pub fn is_ready(&self) -> bool {
        self.missing.lock().is_empty() && self.reported.lock().is_empty()
    }

    /// Returns the functions that this process runs without.
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
    /// Marks the requirement as met.
    pub fn met(&self) {
        self.readiness.missing.lock().retain(|name| *name != self.name);
    }

    /// Marks the requirement as missing.
    pub fn lost(&self) {
        let mut missing = self.readiness.missing.lock();
        if !missing.contains(&self.name) {
            missing.push(self.name.clone());
        }
    }
}
