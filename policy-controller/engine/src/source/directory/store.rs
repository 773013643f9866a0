//! The files read so far, and the changes that each new scan makes.

use super::distinct::distinct;
use super::manifest::{self, DeclaredObject, Lint, Manifest, Standing};
use super::manifest_file::ManifestFile;
use super::scan::{FileContent, Scan, keyed_hash};
use super::tombstone::tombstone;
use crate::source::definition::{Batch, Change};
use crate::source::diagnostic::Diagnostic;
use policy_crds::annotation::OF_SERVERS;
use policy_crds::document::Location;
use policy_crds::{Body, Claims, Kind, Object, ObjectKey};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hash;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The location at which an object was declared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeclaredAt {
    /// The object as written, for example the Deployment of a pod.
    pub declared: ObjectKey,
    /// The file.
    pub file: Arc<str>,
    /// Its location in the file.
    pub location: Location,
}

/// Files as last read, and objects as last published.
#[derive(Debug, Default)]
pub struct Store {
    files: BTreeMap<PathBuf, File>,
    published: BTreeMap<ObjectKey, Arc<Object>>,
    version: u64,
    lint: Option<Lint>,
    /// True if the documents of files are kept for [`Store::into_documents`].
    keeps_documents: bool,
}

#[derive(Debug, Default)]
struct File {
    /// Of the content, so that a file is parsed only when it differs.
    hash: u64,
    manifest: Manifest,
    /// Its documents, where the store keeps them.
    documents: Option<ManifestFile>,
    /// Its earlier objects that can no longer be read; without grants.
    tombstones: Vec<DeclaredObject>,
}

impl Store {
    /// An empty store that takes this look at every object.
    pub fn linting(lint: Option<Lint>) -> Self {
        Self { lint, ..Self::default() }
    }

    /// The same, which keeps the documents of files besides.
    pub(super) fn keeping_documents(lint: Option<Lint>) -> Self {
        Self { lint, keeps_documents: true, ..Self::default() }
    }

    /// Returns the documents of all files by name, if the store keeps them.
    pub(super) fn into_documents(self) -> BTreeMap<Arc<str>, ManifestFile> {
        let files = self.files.into_iter();
        files.filter_map(|(path, file)| Some((name(&path), file.documents?))).collect()
    }

    /// Applies a scan of the directory: returns the changes, and all current diagnostics.
    pub(super) fn update(&mut self, scan: Scan) -> (Batch, Vec<Diagnostic>) {
        let Scan { files, emptied: _, unlisted, parts, mut diagnostics } = scan;
        let unknown = |path: &Path| unlisted.iter().any(|directory| path.starts_with(directory));
        self.files.retain(|path, file| {
            let was_manifest = parts.contains(path) && file.declares_some();
            files.contains_key(path) || unknown(path) || was_manifest
        });
        for (path, file) in &mut self.files {
            if !files.contains_key(path) {
                let reason = match parts.contains(path) {
                    true => "is a part of a kustomization now, and was a manifest before",
                    false => "its directory cannot be listed",
                };
                let reason = reason.to_owned();
                file.replace(&name(path), &FileContent::Unusable(reason), self.lint, false);
            }
        }
        for (path, content) in files {
            let file = self.files.entry(path.clone()).or_default();
            file.replace(&name(&path), &content, self.lint, self.keeps_documents);
        }
        for file in self.files.values() {
            diagnostics.extend(file.manifest.diagnostics.iter().cloned());
            diagnostics.extend(file.tombstone_diagnostic());
        }
        let objects = self.merge(&mut diagnostics);
        (self.publish(objects), diagnostics)
    }

    /// Replaces all objects by tombstones, as if nothing could be read any more: they keep their
    /// claims and lose their grants.
    pub fn withdraw_grants(&mut self, reason: &str) -> (Batch, Vec<Diagnostic>) {
        let unlisted = self.files.keys().cloned().collect();
        let (batch, mut diagnostics) = self.update(Scan { unlisted, ..Scan::default() });
        diagnostics.truncate(100);
        diagnostics.insert(0, Diagnostic::about_file(&"directory".into(), reason.to_owned()));
        (batch, diagnostics)
    }

    /// The objects in force, as last published.
    pub(super) fn objects(&self) -> impl Iterator<Item = &Arc<Object>> {
        self.published.values()
    }

    /// The location at which each object was declared; of several declarations the first by path.
    pub(super) fn locations(&self) -> BTreeMap<ObjectKey, DeclaredAt> {
        let mut locations = BTreeMap::new();
        let declared = self.declared();
        for item in declared.iter().filter(|item| item.standing == Standing::Present) {
            locations.entry(item.object.meta.key.clone()).or_insert_with(|| DeclaredAt {
                declared: item.declared.clone(),
                file: item.file.clone(),
                location: item.location.clone(),
            });
        }
        locations
    }

    /// The objects of all files and their tombstones, pods of workloads under names of their own. A
    /// tombstone has the name that its object had.
    fn declared(&self) -> Vec<Cow<'_, DeclaredObject>> {
        let all = |file| {
            let File { manifest, tombstones, .. }: &File = file;
            manifest.objects.iter().chain(tombstones)
        };
        distinct(self.files.values().flat_map(all))
    }

    /// One object per name: the first by path, and readable objects before tombstones. Another object of
    /// policy by its name grants nothing and keeps its claims, and so does its tombstone.
    fn merge(&self, diagnostics: &mut Vec<Diagnostic>) -> BTreeMap<ObjectKey, Arc<Object>> {
        let declared = self.declared();
        let (present, tombstones): (Vec<&DeclaredObject>, Vec<&DeclaredObject>) = declared
            .iter()
            .map(|item| &**item)
            .partition(|item| item.standing == Standing::Present);
        let mut winners: BTreeMap<&ObjectKey, &DeclaredObject> = BTreeMap::new();
        let mut further = Vec::new();
        for item in present {
            let key = &item.object.meta.key;
            match winners.get(key) {
                Some(first) => {
                    diagnostics.push(duplicate(first, item));
                    further.extend(declared_again(first, item, further.len()));
                }
                None => {
                    winners.insert(key, item);
                }
            }
        }
        for item in tombstones {
            let key = &item.object.meta.key;
            match winners.get(key) {
                Some(first) if !replaces(item, first) => {
                    further.extend(declared_again(first, item, further.len()));
                }
                Some(_) | None => {
                    winners.insert(key, item);
                }
            }
        }
        let objects = winners.into_iter().map(|(key, item)| (key.clone(), item.object.clone()));
        objects.chain(further).collect()
    }

    fn publish(&mut self, objects: BTreeMap<ObjectKey, Arc<Object>>) -> Batch {
        let mut changes = Vec::new();
        let mut kinds: BTreeSet<Kind> = BTreeSet::new();
        for key in self.published.keys().filter(|key| !objects.contains_key(*key)) {
            kinds.insert(key.kind);
            changes.push(Change::Delete(key.clone()));
        }
        for (key, object) in &objects {
            if self.published.get(key) != Some(object) {
                kinds.insert(key.kind);
                changes.push(Change::Apply(object.clone()));
            }
        }
        self.published = objects;
        if !changes.is_empty() {
            self.version = self.version.saturating_add(1);
        }
        let versions = kinds.into_iter().map(|kind| (kind, self.version)).collect();
        Batch { changes, versions, ..Batch::default() }
    }
}

impl File {
    fn replace(&mut self, file: &Arc<str>, content: &FileContent, lint: Option<Lint>, keep: bool) {
        let hash = keyed_hash(|mut hasher| content.hash(&mut hasher));
        if hash == self.hash {
            return;
        }
        self.hash = hash;
        let manifest = match content {
            FileContent::Bytes(bytes) => {
                let read = ManifestFile::read(bytes);
                let manifest = manifest::parse(file, &read, lint);
                self.documents = keep.then_some(read);
                manifest
            }
            FileContent::Unusable(reason) => Manifest {
                diagnostics: vec![Diagnostic::about_file(file, reason.clone())],
                ..Manifest::default()
            },
        };
        let before = std::mem::replace(&mut self.manifest, manifest);
        // Workloads of different kinds may declare pods of one name.
        let identity =
            |item: &DeclaredObject| (item.object.meta.key.clone(), item.declared.clone());
        let now: BTreeSet<_> = self.manifest.objects.iter().map(identity).collect();
        let kept = |item: DeclaredObject| {
            let unreadable = self.manifest.unreadable.contains(&item.declared)
                && !matches!(item.object.body, Body::Invalid(_));
            let standing = match unreadable {
                true => Standing::EarlierOfInvalid,
                false if self.manifest.complete || now.contains(&identity(&item)) => return None,
                false => Standing::Earlier,
            };
            let object = Arc::new(tombstone(&item.object));
            Some(DeclaredObject { object, standing, ..item })
        };
        // Of an object that was declared twice both are kept.
        let mut tombstones: Vec<_> = before.objects.into_iter().filter_map(kept).collect();
        let newer: BTreeSet<_> = tombstones.iter().map(identity).collect();
        let older = std::mem::take(&mut self.tombstones).into_iter();
        let older = older.filter(|item| !newer.contains(&identity(item)));
        tombstones.extend(older.filter_map(kept));
        tombstones.sort_by_cached_key(identity);
        self.tombstones = tombstones;
    }

    /// True if it declares an object, or did before it could no longer be read.
    fn declares_some(&self) -> bool {
        !self.manifest.objects.is_empty() || !self.tombstones.is_empty()
    }

    /// The warning about tombstones of the file, or about content that is lost.
    fn tombstone_diagnostic(&self) -> Option<Diagnostic> {
        let first = self.manifest.diagnostics.first()?;
        let message = if let Some(item) = self.tombstones.first() {
            format!(
                "{} earlier object(s) of this file, {} among them, keep what they claim and have \
                 lost what they granted",
                self.tombstones.len(),
                item.object.meta.key
            )
        } else if self.manifest.complete {
            return None;
        } else {
            "what could not be read here is unknown: it grants nothing, and it restricts nothing \
             either"
                .to_owned()
        };
        Some(Diagnostic::about_file(&first.file, message))
    }
}

/// True if the earlier pods of a workload, or an earlier pod, take the place of what the same workload or
/// pod declares at present, which is invalid.
fn replaces(tombstone: &DeclaredObject, first: &DeclaredObject) -> bool {
    tombstone.standing == Standing::EarlierOfInvalid
        && first.standing == Standing::Present
        && first.declared == tombstone.declared
}

/// The object of a further declaration that differs from the first one, by a name that no object can
/// have: it permits nothing, and what it refuses stays refused. It is as old as the first, so that it
/// takes nothing from it.
fn declared_again(
    first: &DeclaredObject,
    second: &DeclaredObject,
    number: usize,
) -> Option<(ObjectKey, Arc<Object>)> {
    let kind = second.object.meta.key.kind;
    let is_policy = kind.is_custom() && kind != Kind::ExternalWorkload;
    if !is_policy || is_alike(first, second) {
        return None;
    }
    let mut object = tombstone(&second.object);
    object.meta.created = first.object.meta.created;
    let key = &mut object.meta.key;
    key.name = format!("{}#{}", key.name, number.saturating_add(2)).into();
    Some((key.clone(), Arc::new(object)))
}

/// True if two objects of policy mean the same. Of a tombstone there are claims alone.
fn is_alike(first: &DeclaredObject, second: &DeclaredObject) -> bool {
    let (one, other) = (&first.object, &second.object);
    let same_body = match second.standing {
        Standing::Present => one.body == other.body,
        Standing::Earlier | Standing::EarlierOfInvalid => claims(one) == claims(other),
    };
    let annotation = |object: &Object, name: &str| object.meta.annotations.get(name).cloned();
    same_body
        && one.meta.labels == other.meta.labels
        && one.meta.recorded == other.meta.recorded
        && OF_SERVERS.iter().all(|name| annotation(one, name) == annotation(other, name))
}

fn claims(object: &Object) -> Claims {
    match &object.body {
        Body::Valid(resource) => object.meta.key.kind.spec().claims(Some(resource)),
        Body::Invalid(invalid) => invalid.claims.clone(),
    }
}

fn duplicate(first: &DeclaredObject, second: &DeclaredObject) -> Diagnostic {
    let key = &second.object.meta.key;
    let message = format!(
        "{key} is declared twice: {}:{} counts, {}:{} does not",
        first.file, first.location.line, second.file, second.location.line
    );
    let mut diagnostic = Diagnostic::about_file(&second.file, message);
    diagnostic.line = Some(second.location.line);
    diagnostic.column = Some(second.location.column);
    diagnostic.object = Some(key.clone());
    diagnostic
}

fn name(path: &Path) -> Arc<str> {
    path.display().to_string().into()
}
