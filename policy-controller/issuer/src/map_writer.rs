//! Writes one ConfigMap of roots: creates it, replaces it, or deletes and creates it again if nobody
//! may change it.

use super::bundle::Bundle;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Api, DeleteParams, PostParams, Preconditions};
use kube::{Client, ResourceExt as _};
use std::time::Duration;

/// Timeout of a request to the API server.
pub(super) const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// The label of ConfigMaps with the namespace of the control plane whose roots they hold.
pub(super) const CONTROL_PLANE: &str = "portcullis.dev/control-plane-ns";

const FORBIDDEN: u16 = 403;
const NOT_FOUND: u16 = 404;
const CONFLICT: u16 = 409;
const INVALID: u16 = 422;

/// Writes ConfigMaps of roots.
#[derive(Clone)]
pub(super) struct MapWriter {
    pub(super) client: Client,
    pub(super) name: String,
    pub(super) home: String,
}

/// Result of writing one ConfigMap.
pub(super) enum WriteResult {
    Created(ConfigMap),
    Restored(ConfigMap),
    /// The namespace or the ConfigMap has been deleted since it was read.
    Missing,
    /// The namespace is terminating.
    Terminating,
    /// The API server refuses the write, which objects of the namespace can cause: an admission rule
    /// or a quota (403), another client that changes the ConfigMap at the same time (409), what is
    /// invalid beside the existing object (422).
    Refused(String),
    /// The API server did not answer, or could not say.
    Failed(String),
}

impl MapWriter {
    /// Returns the ConfigMaps of a namespace.
    pub(super) fn maps(&self, namespace: &str) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// Returns true if the ConfigMap belongs to this control plane and not to another one of the
    /// cluster.
    pub(super) fn is_ours(&self, map: &ConfigMap) -> bool {
        map.labels().get(CONTROL_PLANE) == Some(&self.home)
    }

    /// Writes the ConfigMap of a namespace, of which `existing` was read.
    pub(super) async fn write(
        &self,
        namespace: &str,
        existing: Option<ConfigMap>,
        copy: &Bundle,
    ) -> WriteResult {
        let maps = self.maps(namespace);
        let exists = existing.is_some();
        let writing = async {
            let params = PostParams::default();
            match existing {
                // The control plane's own holds what was endorsed before: if the issuer ended between
                // the two requests, that would be lost.
                Some(fixed) if fixed.immutable == Some(true) && namespace != self.home => {
                    maps.delete(&self.name, &exactly(&fixed)).await?;
                    maps.create(&params, &self.map_of(None, copy)).await
                }
                // With the resourceVersion that was read: a concurrent write by another client is a
                // conflict.
                Some(other) => {
                    maps.replace(&self.name, &params, &self.map_of(Some(other), copy)).await
                }
                None => maps.create(&params, &self.map_of(None, copy)).await,
            }
        };
        match tokio::time::timeout(REQUEST_TIMEOUT, writing).await {
            Ok(Ok(map)) if exists => WriteResult::Restored(map),
            Ok(Ok(map)) => WriteResult::Created(map),
            Ok(Err(kube::Error::Api(status))) => refused(&status),
            Ok(Err(error)) => WriteResult::Failed(error.to_string()),
            Err(_) => WriteResult::Failed("the API server did not respond in time".to_owned()),
        }
    }

    /// Returns the ConfigMap as it should be: other data is removed, labels and annotations of
    /// other clients are kept.
    pub(super) fn map_of(&self, existing: Option<ConfigMap>, copy: &Bundle) -> ConfigMap {
        let mut metadata = existing.map(|existing| existing.metadata).unwrap_or_else(|| {
            ObjectMeta { name: Some(self.name.clone()), ..ObjectMeta::default() }
        });
        let labels = metadata.labels.get_or_insert_default();
        labels.insert("app.kubernetes.io/managed-by".to_owned(), "portcullis-issuer".to_owned());
        labels.insert(CONTROL_PLANE.to_owned(), self.home.clone());
        metadata.managed_fields = None;
        ConfigMap { metadata, data: Some(copy.data()), ..ConfigMap::default() }
    }
}

/// Parameters that delete the ConfigMap as it was read, and no later one of its name.
fn exactly(map: &ConfigMap) -> DeleteParams {
    let preconditions = Preconditions { uid: map.uid(), resource_version: map.resource_version() };
    DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() }
}

fn refused(status: &kube::core::Status) -> WriteResult {
    let ending = status.code == FORBIDDEN && status.message.contains("being terminated");
    match status.code {
        NOT_FOUND => WriteResult::Missing,
        FORBIDDEN if ending => WriteResult::Terminating,
        CONFLICT => {
            WriteResult::Refused("write conflict (409), another client changed it".to_owned())
        }
        FORBIDDEN | INVALID => {
            WriteResult::Refused(format!("{} ({})", status.message, status.code))
        }
        _ => WriteResult::Failed(status.message.clone()),
    }
}
