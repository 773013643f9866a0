//! Objects of a directory or a cluster, with their compiled policies.

use crate::cluster::controller::PodFlags;
use crate::cluster::list::{self, Listing};
use crate::cluster::permissions::{ListFailure, ListPermissions};
use crate::cluster::settings::{Settings, SettingsFlags};
use crate::cluster::{Cluster, ClusterFlags, QuerySource, Scope};
use crate::inputs::{KubectlInputFlags, inputs};
use crate::output::{Paint, print_note};
use crate::unknown_fields;
use anyhow::{Context, bail};
use clap::Args;
use policy_crds::{Kind, Object, ObjectKey};
use policy_engine::config::Namespaces;
use policy_engine::source::SourceError;
use policy_engine::source::directory::{DeclaredAt, ManifestFile, Manifests, load_linting, names};
use policy_engine::source::{Diagnostic, Severity};
use policy_engine::{Compiled, compile_objects};
use policy_webhooks::injector::{misplaced, templates};
use serde_json::Value;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

/// Flags of commands that read a directory or a cluster.
#[derive(Clone, Debug, Args)]
pub(crate) struct InventoryFlags {
    /// Read manifests instead of a cluster: a directory (YAML or JSON, any layout), a file, or `-` for
    /// standard input; may be repeated
    #[arg(short = 'f', long, value_name = "PATH", conflicts_with_all = ["kubeconfig", "context", "user"])]
    pub(crate) filename: Vec<PathBuf>,

    #[command(flatten)]
    pub(crate) kubectl: KubectlInputFlags,

    #[command(flatten)]
    pub(crate) cluster: ClusterFlags,

    #[command(flatten)]
    pub(crate) settings: SettingsFlags,
}

/// Objects with their compiled policies.
pub(crate) struct Inventory {
    /// Source of the objects.
    pub(crate) source: QuerySource,
    /// Namespaces that are shown.
    pub(crate) scope: Scope,
    /// Settings that the objects are compiled with.
    pub(crate) settings: Settings,
    /// Compiled policies.
    pub(crate) compiled: Compiled,
    /// Extent to which each kind could be listed.
    pub(crate) permissions: ListPermissions,
    /// Diagnostics of files.
    pub(crate) diagnostics: Vec<Diagnostic>,
    /// The objects as the API server returns them; empty for a directory.
    pub(crate) values: BTreeMap<ObjectKey, Value>,
    /// Locations of objects in files; empty for a cluster.
    pub(crate) locations: BTreeMap<ObjectKey, DeclaredAt>,
    /// The files with their documents; empty for a cluster.
    pub(crate) files: BTreeMap<Arc<str>, ManifestFile>,
    /// The cluster, unless it is a directory.
    pub(crate) cluster: Option<Cluster>,
}

impl InventoryFlags {
    /// Answers a kustomization with the command that renders it for `command`.
    ///
    /// # Errors
    /// A kustomization is named.
    pub(crate) fn refuse_kustomization(&self, command: &str) -> anyhow::Result<()> {
        self.kubectl.refuse_kustomization(&format!("{command} -f -"))
    }
}

impl Inventory {
    /// Reads the objects that the flags of a command select.
    ///
    /// # Errors
    /// Whatever cannot be read, with advice.
    pub(crate) async fn read(
        flags: &InventoryFlags,
        pod: &PodFlags,
        command: &str,
    ) -> anyhow::Result<Self> {
        let reader = format!("{command} -f -");
        flags.refuse_kustomization(command)?;
        if flags.filename.is_empty() {
            let cluster = Cluster::connect(&flags.cluster).await?;
            let settings = Settings::of_cluster(&cluster, pod, &flags.settings).await;
            return Self::of_cluster(cluster, settings).await;
        }
        let scope = flags.cluster.namespaces.of_directory();
        Self::of_paths(&flags.filename, scope, &flags.settings, &reader)
    }

    /// Reads manifests that are whole. `reader`: as for [`inputs`].
    ///
    /// # Errors
    /// Whatever cannot be read, with advice.
    pub(crate) fn of_paths(
        paths: &[PathBuf],
        scope: Scope,
        settings: &SettingsFlags,
        reader: &str,
    ) -> anyhow::Result<Self> {
        let inputs = inputs(paths, reader)?;
        let read = Self::of_manifests(&inputs, scope, Settings::of_directory(settings));
        let read = read.context("cannot read the manifests")?;
        read.refuse_unreadable()?;
        Ok(read)
    }

    /// Refuses manifests of which a part cannot be read, and such without an object: the answer would be
    /// about others than those that were meant. Prints notes about what was passed over.
    fn refuse_unreadable(&self) -> anyhow::Result<()> {
        let label = Paint::stderr().notice("note:");
        let about_files = || self.diagnostics.iter().filter(|found| found.object.is_none());
        for note in about_files().filter(|found| found.severity == Severity::Note) {
            eprintln!("{label} {}: {}", note.file, note.message);
        }
        // They grant nothing, which the answer does not say by itself.
        let invalid = self.diagnostics.iter().filter(|found| found.object.is_some());
        for error in invalid.filter(|found| found.severity == Severity::Error) {
            eprintln!("{error}");
        }
        let errors = about_files().filter(|found| found.severity == Severity::Error);
        // A document that is no object may be for another program.
        let (strange, errors): (Vec<_>, Vec<_>) = errors.partition(|found| found.states_no_kind);
        for error in strange {
            eprintln!("{error}");
        }
        if !errors.is_empty() {
            let errors: Vec<String> = errors.into_iter().map(ToString::to_string).collect();
            bail!("cannot read the manifests:\n{}", errors.join("\n"));
        }
        if self.compiled.objects.is_empty() {
            bail!("nothing was read: there is no object of a supported kind in {}", self.source);
        }
        Ok(())
    }

    /// Reads manifests.
    ///
    /// # Errors
    /// If an input itself cannot be read.
    pub(crate) fn of_manifests(
        inputs: &[Manifests],
        scope: Scope,
        settings: Settings,
    ) -> Result<Self, SourceError> {
        let lint = Some(unknown_fields::findings as _);
        let loaded = load_linting(inputs, settings.config.limits, lint)?;
        let objects = loaded.objects.iter().map(|object| Object::clone(object)).collect();
        Ok(Self {
            source: QuerySource::directory(&names(inputs), &scope),
            scope,
            compiled: compile_objects(objects, &settings.config),
            settings,
            permissions: ListPermissions::default(),
            diagnostics: loaded.diagnostics,
            values: BTreeMap::new(),
            locations: loaded.locations,
            files: loaded.files,
            cluster: None,
        })
    }

    /// Lists a cluster.
    ///
    /// # Errors
    /// The API server cannot be reached, or forbids everything.
    pub(crate) async fn of_cluster(
        cluster: Cluster,
        mut settings: Settings,
    ) -> anyhow::Result<Self> {
        let Listing { values, mut objects, permissions } = list::list(&cluster).await?;
        if !permissions.can_list_everywhere(Kind::Namespace) {
            // The controller can read the Namespaces that may not be listed here.
            settings.config.namespaces = Namespaces::Optional;
        }
        objects.retain(|object| settings.sees(&object.meta.key));
        Ok(Self {
            source: cluster.source.clone(),
            scope: cluster.scope.clone(),
            compiled: compile_objects(objects, &settings.config),
            settings,
            permissions,
            diagnostics: Vec::new(),
            values,
            locations: BTreeMap::new(),
            files: BTreeMap::new(),
            cluster: Some(cluster),
        })
    }

    /// Prints warnings about annotations of the manifests that have no effect where they are.
    pub(crate) fn print_misplaced(&self) {
        let label = Paint::stderr().notice("warning:");
        for value in self.declared() {
            for template in templates(&value) {
                for error in misplaced(&value, template.place) {
                    eprintln!("{label} {template}: {error}");
                }
            }
        }
    }

    /// Returns the objects in the files as they are written, those of Lists each.
    pub(crate) fn declared(&self) -> impl Iterator<Item = Cow<'_, Value>> {
        let documents = self.files.values().flat_map(|file| &file.documents);
        let values = documents.filter_map(|document| document.value.as_ref().ok());
        values.flat_map(policy_crds::parts).map(|part| part.value)
    }

    /// Returns the parsed object with this key.
    pub(crate) fn object(&self, key: &ObjectKey) -> Option<&Arc<Object>> {
        self.compiled.object(key)
    }

    /// Kinds that could not be listed, for output.
    pub(crate) fn list_failures(&self) -> Vec<ListFailure> {
        self.permissions.failures()
    }

    /// Returns notes for the end of an answer: what may not be listed, in one line, and assumed settings.
    pub(crate) fn notes(&self) -> Vec<String> {
        let hidden = self.permissions.summary().map(|hidden| {
            format!("{hidden}: what depends on it is not known (docs/cli.md, Rights)")
        });
        hidden.into_iter().chain(self.notes_about_settings()).collect()
    }

    /// Returns notes about assumed settings.
    pub(crate) fn notes_about_settings(&self) -> Vec<String> {
        let Settings { from, default_policy, watched, known, .. } = &self.settings;
        let watched = watched.as_ref().map(|watched| {
            let watched = watched.join(", ");
            format!("{from} watches {watched} only: what is elsewhere takes no effect")
        });
        let assumed = (!known).then(|| format!("default policy {default_policy}, of {from}"));
        watched.into_iter().chain(assumed).collect()
    }

    /// Prints the notes to standard error, after the answer.
    pub(crate) fn print_notes(&self) {
        self.notes().iter().for_each(|note| print_note(note));
    }
}
