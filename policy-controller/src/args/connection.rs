//! Flags that name a cluster.

use clap::Args;
use policy_kube::cluster::{Cluster, ClusterError};
use std::path::PathBuf;

/// Flags that name a cluster. Without any, `$KUBECONFIG`, `~/.kube/config` and the pod's own service
/// account are tried, in this order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Args)]
#[command(next_help_heading = "Cluster")]
pub struct ClusterArgs {
    /// File that names clusters and users [default: $KUBECONFIG, ~/.kube/config].
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,

    /// Context of the kubeconfig file [default: its current one].
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,
}

impl ClusterArgs {
    /// Returns the cluster that the flags name.
    pub fn cluster(&self) -> Cluster {
        Cluster { kubeconfig: self.kubeconfig.clone(), context: self.context.clone() }
    }

    /// Creates a client. Nothing is sent yet.
    ///
    /// # Errors
    /// [`ClusterError`]: what names the cluster is absent or cannot be read.
    pub async fn connect(&self) -> Result<kube::Client, ClusterError> {
        self.cluster().connect().await
    }

    /// Returns the configuration of a client.
    ///
    /// # Errors
    /// As [`ClusterArgs::connect`].
    pub async fn config(&self) -> Result<kube::Config, ClusterError> {
        self.cluster().config().await
    }
}
