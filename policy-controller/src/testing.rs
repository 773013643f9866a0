//! Objects for the tests of this crate.

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use policy_crds::{Kind, Object, ObjectKey};
use std::convert::Infallible;
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

/// A client of an API server that answers so: for what a real one does only in a moment that cannot be
/// chosen.
pub(crate) fn client(
    answer: impl Fn(&Request<kube::client::Body>) -> Response<Full<Bytes>> + Clone + Send + 'static,
) -> kube::Client {
    let service = tower::service_fn(move |request| {
        let answered = answer(&request);
        async move { Ok::<_, Infallible>(answered) }
    });
    kube::Client::new(service, "default")
}

/// An answer in JSON.
pub(crate) fn answer(code: u16, body: &serde_json::Value) -> Response<Full<Bytes>> {
    Response::builder().status(code).body(body.to_string().into()).unwrap()
}

/// A refusal, as the API server words it.
pub(crate) fn refused(code: u16) -> Response<Full<Bytes>> {
    let body = serde_json::json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code,
        "message": "no", "reason": "No", "metadata": {},
    });
    answer(code, &body)
}

/// A client that is refused everything.
pub(crate) fn refusing_client() -> kube::Client {
    client(|_| refused(403))
}
