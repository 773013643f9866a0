//! Clients of an API server that is none, for the tests of this crate.

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
pub(crate) use policy_engine::testing::{key, object, objects, server};
use std::convert::Infallible;

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
