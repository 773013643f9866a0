//! The connection to a cluster's API server, and the clients of it.

use kube::config::{KubeConfigOptions, Kubeconfig};
use std::path::PathBuf;
use std::time::Duration;

/// Selects a cluster. If nothing is set, `$KUBECONFIG`, `~/.kube/config` and the pod's own service
/// account are tried, in this order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cluster {
    /// Path of the kubeconfig file.
    pub kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig file; `None`: its current context.
    pub context: Option<String>,
}

/// Error of connecting to a cluster.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// The kubeconfig file cannot be used.
    #[error("{file}: {error}")]
    Kubeconfig {
        /// The file.
        file: String,
        /// The error.
        error: kube::config::KubeconfigError,
    },
    /// Neither a kubeconfig nor a pod's service account was found.
    #[error("no cluster: {0}")]
    NoCluster(String),
    /// The client cannot be made, for instance because a certificate cannot be read.
    #[error("cannot create a client of the cluster: {0}")]
    Client(kube::Error),
}

impl Cluster {
    /// Makes a client. Nothing is sent yet.
    ///
    /// # Errors
    /// [`ClusterError`]: the kubeconfig or service account is absent or cannot be read.
    pub async fn connect(&self) -> Result<kube::Client, ClusterError> {
        let config = self.config().await?;
        kube::Client::try_from(config).map_err(ClusterError::Client)
    }

    /// Makes a client without retries, for a source of objects, which retries by itself and reports
    /// each failure. Nothing is sent yet.
    ///
    /// # Errors
    /// As [`Cluster::connect`].
    pub async fn connect_once(&self) -> Result<kube::Client, ClusterError> {
        let mut config = self.config().await?;
        config.default_retry = false;
        kube::Client::try_from(config).map_err(ClusterError::Client)
    }

    /// The configuration of a client.
    ///
    /// # Errors
    /// As [`Cluster::connect`].
    pub async fn config(&self) -> Result<kube::Config, ClusterError> {
        let options = KubeConfigOptions { context: self.context.clone(), ..Default::default() };
        let named = |file: String| move |error| ClusterError::Kubeconfig { file, error };
        let mut config = match &self.kubeconfig {
            Some(path) => {
                let file = path.display().to_string();
                let read = Kubeconfig::read_from(path).map_err(named(file.clone()))?;
                let config = kube::Config::from_custom_kubeconfig(read, &options).await;
                config.map_err(named(file))?
            }
            None if self.context.is_some() => {
                let config = kube::Config::from_kubeconfig(&options).await;
                config.map_err(named("kubeconfig".to_owned()))?
            }
            None => kube::Config::infer()
                .await
                .map_err(|error| ClusterError::NoCluster(error.to_string()))?,
        };
        // An API server that accepts and never responds must not block a watch for ever. Watches
        // themselves are silent for up to a minute between bookmarks.
        config.connect_timeout = Some(Duration::from_secs(10));
        config.read_timeout = Some(Duration::from_secs(120));
        config.write_timeout = Some(Duration::from_secs(30));
        Ok(config)
    }
}
