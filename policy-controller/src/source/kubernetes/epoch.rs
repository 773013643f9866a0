//! What names the numbering of resource versions: the uid of an object that lives as long as the
//! cluster's storage, the same for every replica.

use super::api::{Api, Failure};
use serde_json::{Value, json};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

/// The candidates, the Lease before all others.
#[derive(Clone, Debug)]
pub(super) struct Names {
    /// Namespace of the control plane.
    pub(super) namespace: Arc<str>,
    /// Name of the Lease there.
    pub(super) lease: Arc<str>,
    /// Namespaces whose uid does as well, in order.
    pub(super) fallback: Vec<Arc<str>>,
}

/// The epoch. Fails only where asking again may help.
pub(super) async fn epoch(api: &Api, names: &Names) -> Result<Arc<str>, Failure> {
    let refused = match lease(api, names).await {
        Ok(uid) => return Ok(uid),
        Err(failure) if is_final(&failure) => failure,
        Err(failure) => return Err(failure),
    };
    let (lease, namespace) = (&names.lease, &names.namespace);
    for name in &names.fallback {
        match api.get(&format!("/api/v1/namespaces/{name}")).await {
            Ok(body) => {
                tracing::warn!(
                    lease = %format!("{namespace}/{lease}"), reason = %refused,
                    "no Lease: revisions are numbered by the uid of namespace {name}"
                );
                return uid(&body);
            }
            Err(failure) if is_final(&failure) => {}
            Err(failure) => return Err(failure),
        }
    }
    // The standard library's hash keys are its one source of randomness.
    let random = RandomState::new().hash_one(std::process::id());
    tracing::warn!(
        lease = %format!("{namespace}/{lease}"), reason = %refused,
        "neither the Lease nor a namespace may be read: revisions of replicas cannot be compared"
    );
    Ok(format!("process-{random:016x}").into())
}

/// Whether asking again does not help: not allowed, not there, not accepted.
fn is_final(failure: &Failure) -> bool {
    match failure {
        Failure::Refused { code, .. } => matches!(code, 403 | 404 | 405 | 422),
        Failure::Unreachable(_)
        | Failure::Unreadable(_)
        | Failure::Silent(_)
        | Failure::NotServed { .. } => false,
    }
}

async fn lease(api: &Api, names: &Names) -> Result<Arc<str>, Failure> {
    let (namespace, name) = (&names.namespace, &names.lease);
    let leases = format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases");
    match api.get(&format!("{leases}/{name}")).await {
        Ok(body) => return uid(&body),
        Err(failure) if failure.is_missing() => {}
        Err(failure) => return Err(failure),
    }
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": { "name": &**name, "namespace": &**namespace },
        "spec": {},
    });
    match api.post(&leases, &lease).await {
        Ok(body) => uid(&body),
        // Another replica was faster.
        Err(Failure::Refused { code: 409, .. }) => {
            uid(&api.get(&format!("{leases}/{name}")).await?)
        }
        Err(failure) => Err(failure),
    }
}

fn uid(body: &[u8]) -> Result<Arc<str>, Failure> {
    let value: Value = serde_json::from_slice(body)
        .map_err(|error| Failure::Unreadable(format!("an object: {error}")))?;
    let uid = value.get("metadata").and_then(|metadata| metadata.get("uid"));
    let uid = uid.and_then(Value::as_str).filter(|uid| !uid.is_empty());
    uid.map(Arc::from).ok_or_else(|| Failure::Unreadable("an object without uid".to_owned()))
}
