//! Access to a cluster: selecting it, listing its objects, reaching its controller, and explaining
//! errors of the API server.

pub(crate) mod api_error;
pub(crate) mod api_flags;
pub(crate) mod connect;
pub(crate) mod controller;
pub(crate) mod list;
pub(crate) mod owners;
pub(crate) mod permissions;
pub(crate) mod pod_http;
pub(crate) mod port_forward;
pub(crate) mod roots;
pub(crate) mod settings;
pub(crate) mod token;
pub(crate) mod undetermined;

use anyhow::Context;
use api_flags::ApiFlags;
use clap::Args;
use kube::config::{Kubeconfig, KubeconfigError};
use policy_kube::cluster::ClusterError;
use serde::Serialize;
use std::fmt;
use std::sync::Arc;

/// Flags that select a cluster and a namespace.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ClusterFlags {
    #[command(flatten)]
    pub(crate) api: ApiFlags,

    #[command(flatten)]
    pub(crate) namespaces: NamespaceFlags,
}

/// Flags that select a namespace.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Namespace")]
pub(crate) struct NamespaceFlags {
    /// Namespace [default: that of the context; all of a directory]
    #[arg(short, long, value_name = "NAMESPACE", value_parser = namespace)]
    pub(crate) namespace: Option<Arc<str>>,

    /// Every namespace
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    pub(crate) all_namespaces: bool,
}

/// Flags of a command that asks a cluster, and never a directory.
#[derive(Clone, Debug, Args)]
pub(crate) struct LiveClusterFlags {
    #[command(flatten)]
    api: ApiFlags,

    /// Namespace [default: that of the context]
    #[arg(short, long, value_name = "NAMESPACE", value_parser = namespace)]
    namespace: Option<Arc<str>>,

    /// Every namespace
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    all_namespaces: bool,
}

impl LiveClusterFlags {
    /// The same, as every command connects by them.
    pub(crate) fn flags(&self) -> ClusterFlags {
        let Self { api, namespace, all_namespaces } = self.clone();
        ClusterFlags { api, namespaces: NamespaceFlags { namespace, all_namespaces } }
    }
}

/// Parses the name of a namespace, which becomes part of URLs.
pub(crate) fn namespace(name: &str) -> Result<Arc<str>, String> {
    let fits = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    let sound = (1..=63).contains(&name.len()) && name.bytes().all(fits);
    if sound { Ok(name.into()) } else { Err("expected letters a-z, digits and `-`".to_owned()) }
}

/// Namespaces that a command covers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// All of them.
    All,
    /// One namespace.
    Namespace(Arc<str>),
}

impl Scope {
    /// True if objects of this namespace are shown. Objects without a namespace are shown with all.
    pub(crate) fn contains(&self, namespace: &str) -> bool {
        match self {
            Self::All => true,
            Self::Namespace(own) => **own == *namespace,
        }
    }

    /// The namespace, if there is only one.
    pub(crate) fn namespace(&self) -> Option<&Arc<str>> {
        match self {
            Self::All => None,
            Self::Namespace(namespace) => Some(namespace),
        }
    }
}

impl NamespaceFlags {
    /// Scope for a directory: all its namespaces unless one is named.
    pub(crate) fn of_directory(&self) -> Scope {
        self.namespace.clone().map_or(Scope::All, Scope::Namespace)
    }
}

/// Source of a command's result: a cluster, a controller or a directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct QuerySource {
    /// The directories and files, where manifests were read.
    pub(crate) directory: Option<String>,
    /// The address of a controller on this machine.
    pub(crate) controller: Option<String>,
    /// The context of the kubeconfig; absent for a directory and inside a pod.
    pub(crate) context: Option<String>,
    /// The API server.
    pub(crate) server: Option<String>,
    /// The namespace; absent: all.
    pub(crate) namespace: Option<String>,
}

impl QuerySource {
    /// A controller on this machine.
    pub(crate) fn controller(address: &str, scope: &Scope) -> Self {
        Self {
            directory: None,
            controller: Some(address.to_owned()),
            context: None,
            server: None,
            namespace: scope.namespace().map(ToString::to_string),
        }
    }

    /// Manifests of these names.
    pub(crate) fn directory(names: &str, scope: &Scope) -> Self {
        Self {
            directory: Some(names.to_owned()),
            controller: None,
            context: None,
            server: None,
            namespace: scope.namespace().map(ToString::to_string),
        }
    }
}

/// `context kind at https://127.0.0.1:6443, namespace shop`
impl fmt::Display for QuerySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let server = self.server.as_deref().unwrap_or_default();
        match (&self.directory, &self.controller, &self.context) {
            (Some(directory), _, _) => write!(f, "manifests of {directory}")?,
            (None, Some(address), _) => write!(f, "controller at {address}")?,
            (None, None, Some(context)) => write!(f, "context {context} at {server}")?,
            (None, None, None) => write!(f, "the cluster of this pod at {server}")?,
        }
        match &self.namespace {
            Some(namespace) => write!(f, ", namespace {namespace}"),
            None => f.write_str(", all namespaces"),
        }
    }
}

/// Connection to a cluster.
#[derive(Clone)]
pub(crate) struct Cluster {
    /// The connection.
    pub(crate) client: kube::Client,
    /// Description of the cluster for output.
    pub(crate) source: QuerySource,
    /// Namespaces that are shown.
    pub(crate) scope: Scope,
}

impl Cluster {
    /// Selects the cluster. Sends nothing yet.
    ///
    /// # Errors
    /// No cluster is configured, or its configuration cannot be read; the message lists the
    /// alternatives.
    pub(crate) async fn connect(flags: &ClusterFlags) -> anyhow::Result<Self> {
        let config = flags.api.config().await.map_err(|error| cluster_error(&flags.api, error))?;
        let scope = match (&flags.namespaces.namespace, flags.namespaces.all_namespaces) {
            (_, true) => Scope::All,
            (Some(namespace), false) => Scope::Namespace(namespace.clone()),
            (None, false) => {
                let default = &config.default_namespace;
                let name = namespace(default).map_err(|message| {
                    anyhow::anyhow!("the context's namespace `{default}`: {message}")
                })?;
                Scope::Namespace(name)
            }
        };
        let source = QuerySource {
            directory: None,
            controller: None,
            context: context(&flags.api),
            server: Some(config.cluster_url.to_string().trim_end_matches('/').to_owned()),
            namespace: scope.namespace().map(ToString::to_string),
        };
        let client =
            kube::Client::try_from(config).context("cannot make a client of the cluster")?;
        Ok(Self { client, source, scope })
    }
}

/// Name of the selected context; `None` without a kubeconfig.
fn context(api: &ApiFlags) -> Option<String> {
    api.cluster.context.clone().or_else(|| kubeconfig(api)?.current_context)
}

fn kubeconfig(api: &ApiFlags) -> Option<Kubeconfig> {
    match &api.cluster.kubeconfig {
        Some(path) => Kubeconfig::read_from(path),
        None => Kubeconfig::read(),
    }
    .ok()
}

/// Explains why no cluster is available, and lists the alternatives.
fn cluster_error(api: &ApiFlags, error: ClusterError) -> anyhow::Error {
    let known: Vec<String> = kubeconfig(api)
        .map(|file| file.contexts.into_iter().map(|context| context.name).collect())
        .unwrap_or_default();
    let unknown = api.cluster.context.as_ref().filter(|name| !known.contains(name));
    match (error, unknown) {
        (_, Some(name)) if !known.is_empty() => {
            anyhow::anyhow!(
                "--context: there is no context `{name}`; there are {}",
                known.join(", ")
            )
        }
        (ClusterError::Kubeconfig { file, error }, _) => anyhow::anyhow!(
            "--kubeconfig: `{file}` cannot be used: {}; `kubectl config view` shows what it says",
            error_chain(&error)
        ),
        (ClusterError::NoCluster(why), _) => match Kubeconfig::read() {
            Err(error) if is_absent(&error) => anyhow::anyhow!(
                "no cluster is configured: $KUBECONFIG and ~/.kube/config name none and this is no \
                 pod; give --kubeconfig FILE, or a directory of manifests"
            ),
            Err(error) => anyhow::anyhow!(
                "no cluster is available: the file that $KUBECONFIG names, else ~/.kube/config, \
                 cannot be used: {}",
                error_chain(&error)
            ),
            Ok(_) => anyhow::anyhow!("no cluster is available: {why}"),
        },
        (error @ ClusterError::Client(_), _) => anyhow::Error::new(error),
    }
}

/// True if there is no kubeconfig at all.
fn is_absent(error: &KubeconfigError) -> bool {
    if let KubeconfigError::ReadConfig(error, _) = error {
        error.kind() == std::io::ErrorKind::NotFound
    } else {
        matches!(error, KubeconfigError::FindPath)
    }
}

/// Formats an error with its causes, without repetitions.
pub(crate) fn error_chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        let words = next.to_string();
        if !text.contains(&words) {
            text.push_str(": ");
            text.push_str(&words);
        }
        cause = next.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_asked_is_said_in_one_line() {
        let scope = Scope::Namespace("shop".into());
        let directory = QuerySource::directory("deploy", &scope);
        assert_eq!(directory.to_string(), "manifests of deploy, namespace shop");
        let cluster = QuerySource {
            directory: None,
            controller: None,
            context: Some("kind".to_owned()),
            server: Some("https://127.0.0.1:6443".to_owned()),
            namespace: None,
        };
        assert_eq!(cluster.to_string(), "context kind at https://127.0.0.1:6443, all namespaces");
    }

    #[test]
    fn names_of_namespaces_cannot_leave_their_place_in_a_url() {
        assert_eq!(namespace("shop-1").as_deref(), Ok("shop-1"));
        for wrong in ["", "a/b", "..", "A", "a?b"] {
            assert!(namespace(wrong).is_err(), "{wrong}");
        }
    }
}
