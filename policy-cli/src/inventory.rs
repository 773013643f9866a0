//! Objects of a directory or a cluster, with their compiled policies.

use crate::cluster::controller::PodFlags;
use crate::cluster::list::{self, Listing};
use crate::cluster::permissions::{ListFailure, ListPermissions};
use crate::cluster::settings::{Settings, SettingsFlags};
use crate::cluster::{Cluster, ClusterFlags, QuerySource, Scope};
use crate::output::Paint;
use crate::unknown_fields;
use anyhow::Context;
use clap::Args;
use policy_crds::{Kind, Object, ObjectKey};
use policy_engine::config::Namespaces;
use policy_engine::source::Diagnostic;
use policy_engine::source::SourceError;
use policy_engine::source::directory::{DeclaredAt, load_linting};
use policy_engine::{Compiled, compile_objects};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Flags of commands that read a directory or a cluster.
#[derive(Clone, Debug, Args)]
pub(crate) struct InventoryFlags {
    /// Read manifests instead of a cluster: a directory (YAML or JSON, any layout), or one file
    #[arg(short = 'f', long, value_name = "PATH", conflicts_with_all = ["kubeconfig", "context"])]
    pub(crate) filename: Option<PathBuf>,

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
    /// The cluster, unless it is a directory.
    pub(crate) cluster: Option<Cluster>,
}

impl Inventory {
    /// Reads the objects that the flags select.
    ///
    /// # Errors
    /// Whatever cannot be read, with advice.
    pub(crate) async fn read(flags: &InventoryFlags, pod: &PodFlags) -> anyhow::Result<Self> {
        match &flags.filename {
            Some(path) => {
                let scope = flags.cluster.namespaces.of_directory();
                let read = Self::of_directory(path, scope, Settings::of_directory(&flags.settings));
                read.context("cannot read the manifests")
            }
            None => {
                let cluster = Cluster::connect(&flags.cluster).await?;
                let settings = Settings::of_cluster(&cluster, pod, &flags.settings).await;
                Self::of_cluster(cluster, settings).await
            }
        }
    }

    /// Reads manifests.
    ///
    /// # Errors
    /// If `path` itself cannot be read.
    pub(crate) fn of_directory(
        path: &Path,
        scope: Scope,
        settings: Settings,
    ) -> Result<Self, SourceError> {
        let lint = Some(unknown_fields::findings as _);
        let loaded = load_linting(path, settings.config.limits, lint)?;
        let objects = loaded.objects.iter().map(|object| Object::clone(object)).collect();
        Ok(Self {
            source: QuerySource::directory(path, &scope),
            scope,
            compiled: compile_objects(objects, &settings.config),
            settings,
            permissions: ListPermissions::default(),
            diagnostics: loaded.diagnostics,
            values: BTreeMap::new(),
            locations: loaded.locations,
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
            cluster: Some(cluster),
        })
    }

    /// Returns the parsed object with this key.
    pub(crate) fn object(&self, key: &ObjectKey) -> Option<&Arc<Object>> {
        self.compiled.objects.iter().find(|object| object.meta.key == *key)
    }

    /// Kinds that could not be listed, for output.
    pub(crate) fn list_failures(&self) -> Vec<ListFailure> {
        self.permissions.failures()
    }

    /// Prints notes to standard error: kinds that may not be listed, the role that would allow it,
    /// and assumed settings.
    pub(crate) fn print_notes(&self) {
        let label = Paint::stderr().notice("note:");
        for line in self.permissions.summary().lines() {
            eprintln!("{label} {line}");
        }
        if !self.permissions.summary().is_empty() {
            eprintln!("{label} what depends on it is not known. A ClusterRole that allows it:");
            eprintln!("{}", self.permissions.cluster_role());
        }
        if let Some(watched) = &self.settings.watched {
            let (watched, from) = (watched.join(", "), &self.settings.from);
            eprintln!("{label} {from} watches {watched} only: what is elsewhere takes no effect");
        }
        if !self.settings.known {
            let Settings { from, default_policy, .. } = &self.settings;
            eprintln!("{label} default policy {default_policy}, of {from}");
        }
    }
}
