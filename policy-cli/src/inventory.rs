//! The objects that a command is about, from a directory or from a cluster, and what they mean.

use crate::cluster::controller::PodFlags;
use crate::cluster::gaps::{Gap, Gaps};
use crate::cluster::list::{self, Listing};
use crate::cluster::settings::{Settings, SettingsFlags};
use crate::cluster::{Asked, Cluster, ClusterFlags, Scope};
use crate::output::Paint;
use anyhow::Context;
use clap::Args;
use policy_crds::{Kind, Object, ObjectKey};
use policy_engine::config::Namespaces;
use policy_engine::source::Diagnostic;
use policy_engine::source::SourceError;
use policy_engine::source::directory::{DeclaredAt, load};
use policy_engine::{Compiled, compile_objects};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Flags of commands that look at a directory or at a cluster.
#[derive(Clone, Debug, Args)]
pub(crate) struct InventoryFlags {
    /// Look at manifests instead of a cluster: a directory (YAML or JSON, any layout), or one file
    #[arg(short = 'f', long, value_name = "PATH", conflicts_with_all = ["kubeconfig", "context"])]
    pub(crate) filename: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) cluster: ClusterFlags,

    #[command(flatten)]
    pub(crate) settings: SettingsFlags,
}

/// The objects, and what they mean.
pub(crate) struct Inventory {
    /// What was asked.
    pub(crate) asked: Asked,
    /// The namespaces that are shown.
    pub(crate) scope: Scope,
    /// What the objects are compiled with.
    pub(crate) settings: Settings,
    /// What they mean.
    pub(crate) compiled: Compiled,
    /// What could not be listed.
    pub(crate) gaps: Gaps,
    /// What is wrong with files.
    pub(crate) diagnostics: Vec<Diagnostic>,
    /// The objects as a cluster gives them; empty for a directory.
    pub(crate) values: BTreeMap<ObjectKey, Value>,
    /// Where objects stand in files; empty for a cluster.
    pub(crate) places: BTreeMap<ObjectKey, DeclaredAt>,
    /// The cluster, if it is one.
    pub(crate) cluster: Option<Cluster>,
}

impl Inventory {
    /// Reads what the flags name.
    ///
    /// # Errors
    /// What cannot be read, and what to do about it.
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
        let loaded = load(path, settings.config.limits)?;
        let objects = loaded.objects.iter().map(|object| Object::clone(object)).collect();
        Ok(Self {
            asked: Asked::directory(path, &scope),
            scope,
            compiled: compile_objects(objects, &settings.config),
            settings,
            gaps: Gaps::default(),
            diagnostics: loaded.diagnostics,
            values: BTreeMap::new(),
            places: loaded.locations,
            cluster: None,
        })
    }

    /// Lists a cluster.
    ///
    /// # Errors
    /// It cannot be reached, or refuses everything.
    pub(crate) async fn of_cluster(
        cluster: Cluster,
        mut settings: Settings,
    ) -> anyhow::Result<Self> {
        let Listing { values, mut objects, gaps } = list::list(&cluster).await?;
        if !gaps.knows_everywhere(Kind::Namespace) {
            // The controller has read what may not be listed here.
            settings.config.namespaces = Namespaces::Optional;
        }
        objects.retain(|object| settings.sees(&object.meta.key));
        Ok(Self {
            asked: cluster.asked.clone(),
            scope: cluster.scope.clone(),
            compiled: compile_objects(objects, &settings.config),
            settings,
            gaps,
            diagnostics: Vec::new(),
            values,
            places: BTreeMap::new(),
            cluster: Some(cluster),
        })
    }

    /// The object of this name, as it is understood.
    pub(crate) fn object(&self, key: &ObjectKey) -> Option<&Arc<Object>> {
        self.compiled.objects.iter().find(|object| object.meta.key == *key)
    }

    /// What could not be listed, for output.
    pub(crate) fn told_gaps(&self) -> Vec<Gap> {
        self.gaps.told()
    }

    /// What people are told beside the result, on standard error: what may not be listed and what
    /// would give it, and settings that are assumed.
    pub(crate) fn notes(&self) {
        let label = Paint::stderr().notice("note:");
        for line in self.gaps.words().lines() {
            eprintln!("{label} {line}");
        }
        if !self.gaps.words().is_empty() {
            eprintln!("{label} what depends on it is said to be not known. A role that gives it:");
            eprintln!("{}", self.gaps.role());
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
