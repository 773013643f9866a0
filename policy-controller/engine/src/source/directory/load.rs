//! Reads a directory once, and applies further scans of it.

use super::manifest::{self, Lint};
use super::scan::{Scan, scan};
use super::store::{DeclaredAt, Store};
use crate::config::Limits;
use crate::source::definition::{Batch, SourceError};
use crate::source::diagnostic::Diagnostic;
use policy_crds::{Object, ObjectKey};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// The contents of a directory.
#[derive(Clone, Debug)]
pub struct DirectoryContents {
    /// Objects, workloads as their pods, by kind and name.
    pub objects: Vec<Arc<Object>>,
    /// Everything that is wrong.
    pub diagnostics: Vec<Diagnostic>,
    /// The location at which each object was declared.
    pub locations: BTreeMap<ObjectKey, DeclaredAt>,
}

/// Reads a directory, or a single file, once.
///
/// # Errors
/// If it cannot be read at all. Errors of a file are diagnostics.
pub fn load(path: &Path, limits: Limits) -> Result<DirectoryContents, SourceError> {
    load_linting(path, limits, None)
}

/// Reads a directory, or a single file, once, with a further look at every object.
///
/// # Errors
/// If it cannot be read at all. Errors of a file are diagnostics.
pub fn load_linting(
    path: &Path,
    limits: Limits,
    lint: Option<Lint>,
) -> Result<DirectoryContents, SourceError> {
    let scan = scan(path, limits.file_bytes)?;
    let mut store = Store::linting(lint);
    let diagnostics = apply_scan(path, &mut store, scan).1;
    let objects = store.objects().cloned().collect();
    Ok(DirectoryContents { objects, diagnostics, locations: store.locations() })
}

/// Applies a scan, with a warning if it contains no objects.
pub fn apply_scan(path: &Path, store: &mut Store, scan: Scan) -> (Batch, Vec<Diagnostic>) {
    let found = scan.files.len();
    let (batch, mut diagnostics) = store.update(scan);
    if store.objects().next().is_none() && diagnostics.is_empty() {
        let message = match found {
            0 => "no .yaml, .yml or .json file was found here",
            _ => "no object of a supported kind was found here",
        };
        let file: Arc<str> = path.display().to_string().into();
        diagnostics.push(manifest::as_warning(Diagnostic::about_file(&file, message.to_owned())));
    }
    (batch, diagnostics)
}
