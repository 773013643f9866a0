//! Clients of a fake API server, for tests.

#![allow(
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    reason = "a test ends where it cannot go on"
)]

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use std::convert::Infallible;

/// A client of an API server with these responses, for what a real one does only in moments that a
/// test cannot choose.
pub fn client(
    answer: impl Fn(&Request<kube::client::Body>) -> Response<Full<Bytes>> + Clone + Send + 'static,
) -> kube::Client {
    let service = tower::service_fn(move |request| {
        let answered = answer(&request);
        async move { Ok::<_, Infallible>(answered) }
    });
    kube::Client::new(service, "default")
}

/// A JSON response.
pub fn answer(code: u16, body: &serde_json::Value) -> Response<Full<Bytes>> {
    Response::builder().status(code).body(body.to_string().into()).unwrap()
}

/// An error response as the API server writes it.
pub fn refused(code: u16) -> Response<Full<Bytes>> {
    let body = serde_json::json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code,
        "message": "no", "reason": "No", "metadata": {},
    });
    answer(code, &body)
}

/// A client whose requests are all refused.
pub fn refusing_client() -> kube::Client {
    client(|_| refused(403))
}
