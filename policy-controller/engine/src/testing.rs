//! Objects for tests.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::missing_panics_doc,
    reason = "a test ends where it cannot go on"
)]

mod choices;
pub mod groups;
pub mod trees;

use crate::source::{Batch, Diagnostic, Health, Source, SourceContext, SourceError};
use policy_crds::{Kind, Object, ObjectKey};
use std::sync::Arc;
use tokio::sync::{mpsc, watch};

/// The name of an object.
pub fn key(kind: Kind, namespace: &str, name: &str) -> ObjectKey {
    ObjectKey { kind, namespace: namespace.into(), name: name.into() }
}

/// The objects of a manifest, as the directory source gives them.
pub fn objects(text: &str) -> Vec<Object> {
    let documents = policy_crds::document::read(text);
    let values = documents.iter().map(|document| document.value.as_ref().unwrap());
    values
        .filter(|value| !value.is_null())
        .flat_map(policy_crds::parse_all)
        .map(|object| object.unwrap())
        .collect()
}

/// The one object of a manifest.
pub fn object(text: &str) -> Arc<Object> {
    let mut all = objects(text);
    assert_eq!(all.len(), 1, "{text}");
    Arc::new(all.remove(0))
}

/// A Server on a port of every pod.
pub fn server(namespace: &str, name: &str, port: u16) -> Arc<Object> {
    object(&format!(
        "{{apiVersion: policy.linkerd.io/v1beta3, kind: Server, \
          metadata: {{name: {name}, namespace: {namespace}}}, \
          spec: {{podSelector: {{}}, port: {port}, proxyProtocol: HTTP/1}}}}"
    ))
}

/// A policy that grants a Server to every client.
pub fn policy_on_server(namespace: &str, name: &str, server: &str) -> Arc<Object> {
    object(&format!(
        "{{apiVersion: policy.linkerd.io/v1alpha1, kind: AuthorizationPolicy, \
          metadata: {{name: {name}, namespace: {namespace}}}, \
          spec: {{targetRef: {{group: policy.linkerd.io, kind: Server, name: {server}}}, \
                  requiredAuthenticationRefs: []}}}}"
    ))
}

/// A source that forwards batches from a channel.
#[derive(Debug)]
pub struct ChannelSource(
    /// The receiver of batches.
    pub mpsc::Receiver<Batch>,
);

impl Source for ChannelSource {
    fn epoch(&self) -> Arc<str> {
        "given".into()
    }

    fn diagnostics(&self) -> watch::Receiver<Arc<[Diagnostic]>> {
        watch::channel(Arc::from([])).1
    }

    fn health(&self) -> watch::Receiver<Arc<Health>> {
        watch::channel(Arc::default()).1
    }

    async fn run(mut self, context: SourceContext) -> Result<(), SourceError> {
        while let Some(batch) = self.0.recv().await {
            let Ok(()) = context.sink.send(batch).await else { break };
        }
        Ok(())
    }
}
