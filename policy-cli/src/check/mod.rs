//! Linting of manifests: what is wrong, what refers to nothing, what can never take effect, and what
//! an empty list means, each with its place in the file.

mod conditions;
mod empty;
mod places;
mod remarks;
mod routes;
mod servers;

use places::Places;
use policy_controller::source::SourceError;
use policy_controller::source::directory::{Diagnostic, Severity, load};
use policy_controller::{Compiled, ControllerConfig, compile_objects};
use policy_crds::Object;
use std::path::Path;

/// What was found.
#[derive(Debug)]
pub struct Findings {
    /// Everything found, by file and line.
    pub diagnostics: Vec<Diagnostic>,
    /// How many objects were read; a Deployment counts as its pods.
    pub objects: usize,
}

impl Findings {
    /// How many findings are of this severity.
    pub fn count(&self, severity: Severity) -> usize {
        self.diagnostics.iter().filter(|diagnostic| diagnostic.severity == severity).count()
    }
}

/// Reads manifests and says everything that is to be said about them. Errors lose grants; warnings
/// take effect, perhaps not as meant.
///
/// # Errors
/// If `path` itself cannot be read.
pub fn check(path: &Path, config: &ControllerConfig) -> Result<Findings, SourceError> {
    let loaded = load(path, config.limits)?;
    let objects: Vec<Object> = loaded.objects.iter().map(|object| Object::clone(object)).collect();
    let compiled = compile_objects(objects, config);
    let mut places = Places::new(loaded.places);
    let mut diagnostics = loaded.diagnostics;
    for finding in findings(&compiled, &mut places) {
        let (object, field) = (&finding.object, &finding.field);
        diagnostics.push(places.diagnostic(object, field, finding.message));
    }
    diagnostics.sort_by(|a, b| {
        let key = |d: &Diagnostic| (d.file.clone(), d.line, d.column);
        key(a).cmp(&key(b))
    });
    Ok(Findings { diagnostics, objects: compiled.objects.len() })
}

/// A warning before its place has been looked up.
struct Finding {
    object: policy_crds::ObjectKey,
    field: String,
    message: String,
}

fn findings(compiled: &Compiled, places: &mut Places) -> Vec<Finding> {
    let mut findings = conditions::findings(compiled, places);
    findings.extend(servers::findings(compiled));
    findings.extend(routes::findings(compiled));
    findings.extend(empty::findings(compiled, places));
    let remarks = remarks::findings(compiled, &findings);
    findings.extend(remarks);
    findings
}

#[cfg(test)]
mod tests;
