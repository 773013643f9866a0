//! Flags that select an API server, and the user in whose name it is asked.

use clap::Args;
use policy_controller::args::ClusterArgs;
use policy_kube::cluster::ClusterError;

/// Flags that select an API server, and the user in whose name it is asked.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ApiFlags {
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,

    /// Ask in the name of this user or ServiceAccount (system:serviceaccount:NAMESPACE:NAME), as kubectl
    /// does
    #[arg(long = "as", value_name = "USER")]
    user: Option<String>,

    /// Ask in the name of this group, too; may be repeated
    #[arg(long = "as-group", value_name = "GROUP", requires = "user")]
    groups: Vec<String>,
}

impl ApiFlags {
    /// Returns the configuration of a client.
    ///
    /// # Errors
    /// The kubeconfig that names the cluster is absent or cannot be read.
    pub(crate) async fn config(&self) -> Result<kube::Config, ClusterError> {
        let mut config = self.cluster.config().await?;
        if let Some(user) = &self.user {
            config.auth_info.impersonate = Some(user.clone());
            config.auth_info.impersonate_groups =
                (!self.groups.is_empty()).then(|| self.groups.clone());
        }
        Ok(config)
    }
}
