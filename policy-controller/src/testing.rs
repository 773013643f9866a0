//! Objects for the tests of this crate.

use policy_crds::{Kind, Object, ObjectKey};
use std::sync::Arc;

pub(crate) fn key(kind: Kind, namespace: &str, name: &str) -> ObjectKey {
    ObjectKey { kind, namespace: namespace.into(), name: name.into() }
}

/// The objects of a manifest, as the directory source gives them.
pub(crate) fn objects(text: &str) -> Vec<Object> {
    let documents = policy_crds::document::read(text);
    let values = documents.iter().map(|document| document.value.as_ref().unwrap());
    values
        .filter(|value| !value.is_null())
        .flat_map(policy_crds::parse_all)
        .map(|object| object.unwrap())
        .collect()
}

pub(crate) fn object(text: &str) -> Arc<Object> {
    let mut all = objects(text);
    assert_eq!(all.len(), 1, "{text}");
    Arc::new(all.remove(0))
}

/// A Server on a port of every pod.
pub(crate) fn server(namespace: &str, name: &str, port: u16) -> Arc<Object> {
    object(&format!(
        "{{apiVersion: policy.linkerd.io/v1beta3, kind: Server, \
          metadata: {{name: {name}, namespace: {namespace}}}, \
          spec: {{podSelector: {{}}, port: {port}, proxyProtocol: HTTP/1}}}}"
    ))
}

/// A policy that grants a Server to everybody.
pub(crate) fn policy_on_server(namespace: &str, name: &str, server: &str) -> Arc<Object> {
    object(&format!(
        "{{apiVersion: policy.linkerd.io/v1alpha1, kind: AuthorizationPolicy, \
          metadata: {{name: {name}, namespace: {namespace}}}, \
          spec: {{targetRef: {{group: policy.linkerd.io, kind: Server, name: {server}}}, \
                  requiredAuthenticationRefs: []}}}}"
    ))
}
