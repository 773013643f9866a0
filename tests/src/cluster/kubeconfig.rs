//! Files that name a cluster, and names that nobody else has.

use anyhow::Result;
use kube::config::{KubeConfigOptions, Kubeconfig};
use std::path::Path;

/// Client configuration of the file's current context.
pub(super) async fn config_of(kubeconfig: &Path) -> Result<kube::Config> {
    let file = Kubeconfig::read_from(kubeconfig)?;
    let config = kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?;
    Ok(config)
}

/// A number that is not the same twice.
pub(super) fn random() -> u32 {
    use std::hash::{BuildHasher as _, RandomState};
    // The state's keys are random; its upper half is dropped on purpose.
    let hash = RandomState::new().hash_one(std::process::id());
    u32::try_from(hash & u64::from(u32::MAX)).unwrap_or_default()
}
