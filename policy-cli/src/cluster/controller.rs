//! The controller's pod in a cluster.

use super::Cluster;
use super::api_error::{explain, is_forbidden, message};
use anyhow::{anyhow, bail};
use clap::Args;
use kube::api::ListParams;
use kube::core::Request;
use serde_json::Value;
use std::sync::Arc;

/// Flags that locate the controller of a cluster.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Controller")]
pub(crate) struct PodFlags {
    /// Namespace in which the controller runs
    #[arg(long, value_name = "NAMESPACE", default_value = "portcullis", value_parser = super::namespace)]
    pub(crate) controller_namespace: Arc<str>,

    /// Labels of the controller's pods
    #[arg(
        long,
        value_name = "LABELS",
        default_value = "app.kubernetes.io/component=policy-controller"
    )]
    pub(crate) controller_selector: String,
}

/// Flags that locate the control plane of a cluster.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Controller")]
pub(crate) struct ControlPlaneFlags {
    #[command(flatten)]
    pub(crate) pod: PodFlags,

    /// Labels of the issuer's pods
    #[arg(long, value_name = "LABELS", default_value = "app.kubernetes.io/component=issuer")]
    pub(crate) issuer_selector: String,
}

/// A pod of the controller.
#[derive(Clone, Debug)]
pub(crate) struct ControllerPod {
    /// Its namespace.
    pub(crate) namespace: Arc<str>,
    /// Its name.
    pub(crate) name: String,
    /// Its ServiceAccount.
    pub(crate) service_account: String,
    /// The whole object.
    pub(crate) pod: Value,
}

/// Finds a pod of the controller, preferring a ready one.
///
/// # Errors
/// There is none, or listing pods is forbidden. The message names the namespace and the flags that
/// change it.
pub(crate) async fn find(cluster: &Cluster, flags: &PodFlags) -> anyhow::Result<ControllerPod> {
    let PodFlags { controller_namespace: namespace, controller_selector: selector } = flags;
    all(cluster, flags).await?.into_iter().next().ok_or_else(|| {
        anyhow!(
            "no pod with the labels {selector} was found in namespace {namespace}; \
             --controller-namespace and --controller-selector say where else"
        )
    })
}

/// Finds the pods of the controller that are ready, or one that is not where none is.
///
/// # Errors
/// There is none, or listing pods is forbidden. The message names the flags that change it.
pub(crate) async fn ready(
    cluster: &Cluster,
    flags: &PodFlags,
) -> anyhow::Result<Vec<ControllerPod>> {
    let mut found = all(cluster, flags).await?;
    if found.iter().any(|own| is_ready(&own.pod)) {
        found.retain(|own| is_ready(&own.pod));
        return Ok(found);
    }
    find(cluster, flags).await.map(|one| vec![one])
}

/// The pods of the controller, ready ones first.
async fn all(cluster: &Cluster, flags: &PodFlags) -> anyhow::Result<Vec<ControllerPod>> {
    let PodFlags { controller_namespace: namespace, controller_selector: selector } = flags;
    let mut pods = match pods(cluster, namespace, selector).await {
        Ok(pods) => pods,
        Err(error) if is_forbidden(&error) => bail!(
            "cannot look for the controller: {} (--controller-namespace names another namespace)",
            message(&error)
        ),
        Err(error) => return Err(explain(&error, &cluster.source, "look for the controller")),
    };
    pods.sort_by_key(|pod| (!is_ready(pod), text(pod, &["metadata", "name"])));
    let read = |pod: Value| ControllerPod {
        namespace: namespace.clone(),
        name: text(&pod, &["metadata", "name"]),
        service_account: match text(&pod, &["spec", "serviceAccountName"]) {
            name if name.is_empty() => "default".to_owned(),
            name => name,
        },
        pod,
    };
    Ok(pods.into_iter().map(read).collect())
}

/// Lists the pods of a namespace with these labels.
///
/// # Errors
/// The API server's.
pub(crate) async fn pods(
    cluster: &Cluster,
    namespace: &str,
    selector: &str,
) -> Result<Vec<Value>, kube::Error> {
    let path = format!("/api/v1/namespaces/{namespace}/pods");
    let params = ListParams::default().labels(selector);
    let request = Request::new(path).list(&params).map_err(kube::Error::BuildRequest)?;
    let mut answer: Value = cluster.client.request(request).await?;
    Ok(match answer.get_mut("items").map(Value::take) {
        Some(Value::Array(pods)) => pods,
        _ => Vec::new(),
    })
}

fn text(value: &Value, path: &[&str]) -> String {
    let found = path.iter().try_fold(value, |value, field| value.get(field));
    found.and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// True if a pod is ready and is not being deleted.
pub(crate) fn is_ready(pod: &Value) -> bool {
    let conditions = pod.get("status").and_then(|status| status.get("conditions"));
    let ending = pod.get("metadata").is_some_and(|m| m.get("deletionTimestamp").is_some());
    let ready = conditions.and_then(Value::as_array).into_iter().flatten().any(|condition| {
        text(condition, &["type"]) == "Ready" && text(condition, &["status"]) == "True"
    });
    ready && !ending
}
