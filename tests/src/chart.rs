//! Helm, on the chart of this repository.

use crate::cluster::{documents, helm_or_skip};
use crate::sources::root;
use anyhow::{Context as _, Result, bail};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The version of Kubernetes that charts are rendered for where no cluster says its own.
pub const KUBE_VERSION: &str = "1.34.3";

/// The chart's folder.
pub fn folder() -> PathBuf {
    root().join("charts/portcullis")
}

/// The chart's example values, by name, sorted.
///
/// # Errors
/// If they cannot be listed, or one is not named `*-values.yaml`.
pub fn examples() -> Result<Vec<(String, PathBuf)>> {
    let mut examples = Vec::new();
    for entry in std::fs::read_dir(folder().join("ci"))? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str());
        let name = name.and_then(|name| name.strip_suffix("-values.yaml"));
        let name = name.with_context(|| format!("{}: not *-values.yaml", path.display()))?;
        examples.push((name.to_owned(), path));
    }
    examples.sort();
    Ok(examples)
}

/// A release of the chart.
#[derive(Clone, Debug)]
pub struct Helm {
    program: PathBuf,
    namespace: String,
    kubeconfig: Option<PathBuf>,
}

impl Helm {
    /// Helm, for a release in this namespace; absent: the test is to return, it has been counted as
    /// skipped.
    pub fn or_skip(namespace: &str) -> Option<Self> {
        let namespace = namespace.to_owned();
        Some(Self { program: helm_or_skip()?, namespace, kubeconfig: None })
    }

    /// The same for a release in another namespace.
    #[must_use]
    pub fn within(mut self, namespace: &str) -> Self {
        namespace.clone_into(&mut self.namespace);
        self
    }

    /// The same on a cluster.
    #[must_use]
    pub fn on(mut self, kubeconfig: &Path) -> Self {
        self.kubeconfig = Some(kubeconfig.to_owned());
        self
    }

    /// Calls Helm: with `template portcullis <chart>`, for example.
    ///
    /// # Errors
    /// If it cannot be run.
    pub fn call(&self, arguments: &[&str]) -> Result<Output> {
        let mut command = Command::new(&self.program);
        // Neither the user's cluster nor its settings.
        for variable in ["HELM_NAMESPACE", "HELM_KUBECONTEXT", "KUBECONFIG"] {
            command.env_remove(variable);
        }
        if let Some(kubeconfig) = &self.kubeconfig {
            command.arg("--kubeconfig").arg(kubeconfig);
        }
        command.args(arguments).args(["--namespace", &self.namespace]);
        command.output().with_context(|| self.program.display().to_string())
    }

    /// Renders the chart for [`KUBE_VERSION`] unless the arguments say otherwise.
    ///
    /// # Errors
    /// As [`Self::call`].
    pub fn template(&self, arguments: &[&str]) -> Result<Output> {
        let chart = folder().display().to_string();
        let mut all = vec!["template", "portcullis", &chart];
        if !arguments.contains(&"--kube-version") {
            all.extend(["--kube-version", KUBE_VERSION]);
        }
        all.extend(arguments);
        self.call(&all)
    }

    /// The objects of the chart with these values.
    ///
    /// # Errors
    /// What Helm says.
    pub fn objects(&self, values: &Path) -> Result<Vec<Value>> {
        let values = values.display().to_string();
        documents(&succeeded(&self.template(&["--values", &values])?)?)
    }
}

/// Standard output of a call that has to succeed.
///
/// # Errors
/// What it said instead.
pub fn succeeded(output: &Output) -> Result<String> {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        bail!("{text}\n{}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(text)
}
