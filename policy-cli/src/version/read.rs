//! Versions in a cluster.

use super::report::{VersionReport, controller_version, of_component, of_sidecars};
use crate::cluster::api_error::{explain, is_forbidden, message};
use crate::cluster::controller::{ControlPlaneFlags, pods};
use crate::cluster::list::pages;
use crate::cluster::{Cluster, Scope};
use serde_json::Value;

/// Reads the versions of the control plane, and of the sidecars in the selected namespaces.
///
/// # Errors
/// The API server cannot be reached, or rejects the credentials. Whatever it forbids is recorded in
/// the report.
pub(crate) async fn read(
    cluster: &Cluster,
    flags: &ControlPlaneFlags,
) -> anyhow::Result<VersionReport> {
    let mut not_known = Vec::new();
    let home = &flags.pod.controller_namespace;
    let found = pods(cluster, home, &flags.pod.controller_selector).await;
    let controller = pods_or_note(cluster, found, "the controller", &mut not_known)?;
    let found = pods(cluster, home, &flags.issuer_selector).await;
    let issuer = pods_or_note(cluster, found, "the issuer", &mut not_known)?;
    let path = match &cluster.scope {
        Scope::All => "/api/v1/pods".to_owned(),
        Scope::Namespace(name) => format!("/api/v1/namespaces/{name}/pods"),
    };
    let all = pages(&cluster.client, &path).await;
    let all = pods_or_note(cluster, all, "sidecars", &mut not_known)?;
    if controller.is_empty() && not_known.is_empty() {
        let selector = &flags.pod.controller_selector;
        not_known.push(format!(
            "the controller: namespace {home} has no pod with the labels {selector}; \
             --controller-namespace says where else"
        ));
    }
    let version = controller_version(&controller);
    let version = version.as_deref();
    let running = [
        of_component("controller", &controller, version),
        of_component("issuer", &issuer, version),
        of_sidecars(&all, version),
    ];
    let source = Some(cluster.source.clone());
    Ok(VersionReport { source, running: running.concat(), not_known, ..VersionReport::of_client() })
}

/// Returns the pods, or adds a note why they are unknown.
fn pods_or_note(
    cluster: &Cluster,
    found: Result<Vec<Value>, kube::Error>,
    what: &str,
    not_known: &mut Vec<String>,
) -> anyhow::Result<Vec<Value>> {
    match found {
        Ok(pods) => Ok(pods),
        Err(error) if is_forbidden(&error) => {
            not_known.push(format!("{what}: {}", message(&error)));
            Ok(Vec::new())
        }
        Err(error) => Err(explain(&error, &cluster.source, "list pods")),
    }
}
