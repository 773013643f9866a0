//! The epoch of resource versions: the uid of the Lease, which is the same for every replica, and a
//! counter in its annotation, because a restored backup brings back the uid together with the
//! versions.

use super::api::{Api, ApiError};
use crate::lease::{KINDS_IN_USE, kinds_of};
use policy_crds::Kind;
use policy_engine::epoch;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

/// The annotation of the Lease that counts the epochs.
pub(super) const COUNTER: &str = "portcullis.dev/epoch";

/// The objects that can name an epoch, the Lease first.
#[derive(Clone, Debug)]
pub(super) struct EpochObjects {
    /// Namespace of the control plane.
    pub(super) namespace: Arc<str>,
    /// Name of the Lease there.
    pub(super) lease: Arc<str>,
    /// Namespaces whose uid is used instead, in order.
    pub(super) fallback: Vec<Arc<str>>,
}

impl EpochObjects {
    fn collection(&self) -> String {
        format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases", self.namespace)
    }
}

/// A Lease as it was read.
#[derive(Clone, Debug)]
pub(super) struct EpochLease {
    /// Its uid.
    pub(super) uid: Arc<str>,
    /// Number of epochs before the current one.
    pub(super) counter: u64,
    /// Its resource version.
    pub(super) version: Option<u64>,
    object: Value,
}

impl EpochLease {
    fn parse(body: &[u8]) -> Result<Self, ApiError> {
        let object = parsed(body)?;
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
        // The name of the annotation has a slash, which `~1` escapes. An unreadable counter is
        // replaced when it is raised.
        let counter = text(&format!("/metadata/annotations/{}", COUNTER.replace('/', "~1")));
        let counter = counter.and_then(|counter| counter.parse().ok()).unwrap_or_default();
        let version = text("/metadata/resourceVersion").and_then(|version| version.parse().ok());
        Ok(Self { uid: uid(&object)?, counter, version, object })
    }

    /// The custom kinds that it says are in use.
    pub(super) fn kinds_in_use(&self) -> BTreeSet<Kind> {
        let pointer = format!("/metadata/annotations/{}", KINDS_IN_USE.replace('/', "~1"));
        let value = self.object.pointer(&pointer).and_then(Value::as_str);
        value.map(kinds_of).unwrap_or_default()
    }

    /// The epoch that it names.
    pub(super) fn epoch(&self) -> Arc<str> {
        epoch::name(&self.uid, self.counter)
    }

    /// A Lease with nothing else.
    #[cfg(test)]
    pub(super) fn for_test(uid: &str, counter: u64, version: u64) -> Self {
        Self { uid: uid.into(), counter, version: Some(version), object: Value::Null }
    }
}

/// Reads the Lease, and creates it where there is none.
pub(super) async fn read(api: &Api, names: &EpochObjects) -> Result<EpochLease, ApiError> {
    let (namespace, name, leases) = (&names.namespace, &names.lease, names.collection());
    match api.get(&format!("{leases}/{name}")).await {
        Ok(body) => return EpochLease::parse(&body),
        Err(failure) if failure.is_not_found() => {}
        Err(failure) => return Err(failure),
    }
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": { "name": &**name, "namespace": &**namespace },
        "spec": {},
    });
    match api.post(&leases, &lease).await {
        Ok(body) => EpochLease::parse(&body),
        // Another replica created it first.
        Err(failure) if failure.is_conflict() => {
            EpochLease::parse(&api.get(&format!("{leases}/{name}")).await?)
        }
        Err(failure) => Err(failure),
    }
}

/// Writes the counter into the Lease that was read. Fails with a conflict if another client has
/// written since.
pub(super) async fn write(
    api: &Api,
    names: &EpochObjects,
    read: &EpochLease,
    counter: u64,
) -> Result<EpochLease, ApiError> {
    let mut object = read.object.clone();
    let metadata = object.get_mut("metadata").and_then(Value::as_object_mut);
    let metadata =
        metadata.ok_or_else(|| ApiError::Malformed("a Lease without metadata".into()))?;
    let annotations = metadata.entry("annotations").or_insert_with(|| json!({}));
    if let Value::Object(annotations) = annotations {
        annotations.insert(COUNTER.to_owned(), counter.to_string().into());
    } else {
        *annotations = json!({ COUNTER: counter.to_string() });
    }
    let (leases, name) = (names.collection(), &names.lease);
    EpochLease::parse(&api.put(&format!("{leases}/{name}"), &object).await?)
}

/// The epoch where the Lease may not be used. Fails only where a retry may help.
pub(super) async fn without_lease(
    api: &Api,
    names: &EpochObjects,
    refused: &ApiError,
) -> Result<Arc<str>, ApiError> {
    let (lease, namespace) = (&names.lease, &names.namespace);
    for name in &names.fallback {
        match api.get(&format!("/api/v1/namespaces/{name}")).await {
            Ok(body) => {
                tracing::warn!(
                    lease = %format!("{namespace}/{lease}"), reason = %refused,
                    "cannot use the Lease: the uid of namespace {name} names the epoch of revisions"
                );
                return uid(&parsed(&body)?);
            }
            Err(failure) if failure.is_permanent() => {}
            Err(failure) => return Err(failure),
        }
    }
    tracing::warn!(
        lease = %format!("{namespace}/{lease}"), reason = %refused,
        "cannot read the Lease or a namespace: revisions of replicas cannot be compared"
    );
    Ok(process_epoch())
}

/// An epoch that no other replica has and that this process has never used.
pub(super) fn process_epoch() -> Arc<str> {
    // The standard library's hash keys are its one source of randomness.
    let random = RandomState::new().hash_one(std::process::id());
    format!("process-{random:016x}").into()
}

fn parsed(body: &[u8]) -> Result<Value, ApiError> {
    let parsed = serde_json::from_slice(body);
    parsed.map_err(|error| ApiError::Malformed(format!("an object: {error}")))
}

fn uid(object: &Value) -> Result<Arc<str>, ApiError> {
    let uid = object.pointer("/metadata/uid").and_then(Value::as_str);
    let uid = uid.filter(|uid| !uid.is_empty());
    uid.map(Arc::from).ok_or_else(|| ApiError::Malformed("an object without uid".to_owned()))
}
