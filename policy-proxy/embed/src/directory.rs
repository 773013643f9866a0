//! Policies from a directory of manifests.

mod follow;
mod source;

use crate::error::EmbedError;
use crate::policies::Policies;
use policy_core::WorkloadKey;
use policy_engine::publish::LookupError;
use policy_engine::start;
use source::DirectorySource;
use std::path::Path;

/// The settings of the controller that would follow the manifests: the default policy, the networks of
/// the cluster, the names that end identities.
pub use policy_engine::ControllerConfig as DirectoryConfig;

impl Policies {
    /// Follows the policies of a workload in the manifests below `path`, read once a second. They
    /// mean what they mean to a controller: the manifest of the pod says which ports there are, and an
    /// edit that breaks an object ends its grants.
    ///
    /// # Errors
    /// The directory cannot be read, or has no such workload.
    pub async fn from_directory(
        path: impl AsRef<Path>,
        workload: &WorkloadKey,
    ) -> Result<Self, EmbedError> {
        Self::from_directory_with(path, workload, DirectoryConfig::default()).await
    }

    /// As [`Self::from_directory`], with settings.
    ///
    /// # Errors
    /// The same.
    pub async fn from_directory_with(
        path: impl AsRef<Path>,
        workload: &WorkloadKey,
        config: DirectoryConfig,
    ) -> Result<Self, EmbedError> {
        let store = Self::store()?;
        let source = DirectorySource::new(path.as_ref().to_owned(), config.limits);
        let mut controller = start(config, source);
        let mut synced = controller.policies.synced();
        tokio::select! {
            // Only a directory that cannot be read ends the source.
            ended = controller.source_ended() => if let Err(error) = ended {
                return Err(EmbedError::Manifests(error.to_string()));
            },
            _ = synced.wait_for(|synced| *synced) => {}
        }
        match controller.policies.workload(workload).await {
            Ok(_) => {}
            Err(LookupError::NotFound) => return Err(EmbedError::NoWorkload(workload.to_string())),
            Err(error) => return Err(EmbedError::Manifests(error.to_string())),
        }
        let name = workload.to_string();
        let follow = follow::run(controller, store.clone(), workload.clone());
        Ok(Self::new(store, &name, follow))
    }
}
