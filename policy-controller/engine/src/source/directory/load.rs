//! Reads manifests once, and applies further scans of it.

use super::input::{Manifests, names};
use super::manifest::{self, Lint};
use super::manifest_file::ManifestFile;
use super::scan::{Scan, scan};
use super::store::{DeclaredAt, Store};
use crate::config::Limits;
use crate::source::definition::{Batch, SourceError};
use crate::source::diagnostic::{Diagnostic, Severity};
use policy_crds::{Object, ObjectKey};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// The contents of manifests.
#[derive(Clone, Debug)]
pub struct DirectoryContents {
    /// Objects, workloads as their pods, by kind and name.
    pub objects: Vec<Arc<Object>>,
    /// Everything that is wrong.
    pub diagnostics: Vec<Diagnostic>,
    /// The location at which each object was declared.
    pub locations: BTreeMap<ObjectKey, DeclaredAt>,
    /// The documents of every file, by its name.
    pub files: BTreeMap<Arc<str>, ManifestFile>,
}

/// Reads a directory, or a single file, once.
///
/// # Errors
/// If it cannot be read at all. Errors of a file are diagnostics.
pub fn load(path: &Path, limits: Limits) -> Result<DirectoryContents, SourceError> {
    load_linting(&[Manifests::Path(path.to_owned())], limits, None)
}

/// Reads inputs once, with a further look at every object.
///
/// # Errors
/// If an input cannot be read at all. Errors of a file are diagnostics.
pub fn load_linting(
    inputs: &[Manifests],
    limits: Limits,
    lint: Option<Lint>,
) -> Result<DirectoryContents, SourceError> {
    let scan = scan(inputs, limits.file_bytes)?;
    let mut store = Store::keeping_documents(lint);
    let diagnostics = apply_scan(inputs, &mut store, scan).1;
    let objects = store.objects().cloned().collect();
    let locations = store.locations();
    Ok(DirectoryContents { objects, diagnostics, locations, files: store.into_documents() })
}

/// Applies a scan, with a warning if it contains no objects.
pub fn apply_scan(inputs: &[Manifests], store: &mut Store, scan: Scan) -> (Batch, Vec<Diagnostic>) {
    let found = scan.files.len();
    let (batch, mut diagnostics) = store.update(scan);
    let is_note = |found: &Diagnostic| found.severity == Severity::Note;
    if store.objects().next().is_none() && diagnostics.iter().all(is_note) {
        let message = match found {
            0 if !diagnostics.is_empty() => "no manifest was found here beside what is passed over",
            0 => "no .yaml, .yml or .json file was found here",
            _ => "no object of a supported kind was found here",
        };
        let file: Arc<str> = names(inputs).into();
        diagnostics.push(manifest::as_warning(Diagnostic::about_file(&file, message.to_owned())));
    }
    (batch, diagnostics)
}
