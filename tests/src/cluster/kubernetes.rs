//! One of Kubernetes' own controllers, beside an API server without nodes.

use super::definition::Cluster;
use super::process::Process;
use super::programs;
use anyhow::{Context as _, Result};
use std::process::Command;

/// A controller that runs. Ended when dropped.
#[derive(Debug)]
pub struct KubernetesController {
    _process: Process,
}

impl Cluster {
    /// Runs one controller of `kube-controller-manager` alone, as the administrator.
    ///
    /// # Errors
    /// The program cannot be had or started.
    pub fn kubernetes_controller(&self, name: &str) -> Result<KubernetesController> {
        let programs = programs::kubernetes()?;
        let mut command = Command::new(programs.folder.join("kube-controller-manager"));
        command
            .arg(format!("--kubeconfig={}", self.kubeconfig().display()))
            .arg(format!("--controllers={name}"))
            .args(["--leader-elect=false", "--secure-port=0"]);
        let started = self.home.run("kube-controller-manager", &mut command);
        Ok(KubernetesController { _process: started.context("kube-controller-manager")? })
    }
}
