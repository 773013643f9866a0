//! `/proxy-log-level`: reads and replaces the filter of the log.

use super::Admin;
use super::answer::{empty, refuse, refuse_method, text};
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body::Body;
use http_body_util::{BodyExt, Full, Limited};
use policy_tls::peer::Peer;

/// Bytes of a filter, at most.
const MAX_BYTES: usize = 4096;

impl Admin {
    /// Serves loopback only, and only if enabled.
    pub(super) async fn log_level<B>(
        &self,
        peer: &Peer,
        request: Request<B>,
    ) -> Response<Full<Bytes>>
    where
        B: Body<Data = Bytes, Error: Into<Box<dyn std::error::Error + Send + Sync>>>,
    {
        let filter = self.shared.config.log_filter.as_ref();
        let Some(filter) = filter.filter(|_| self.shared.config.log_level) else {
            return refuse(StatusCode::NOT_FOUND, "the log level endpoint is not enabled");
        };
        if let Some(refused) = self.refuse_remote(peer) {
            return refused;
        }
        if matches!(*request.method(), Method::GET | Method::HEAD) {
            return text(StatusCode::OK, format!("{}\n", filter.get()));
        }
        if *request.method() != Method::PUT {
            return refuse_method("GET, HEAD, PUT");
        }
        let body = Limited::new(request.into_body(), MAX_BYTES);
        // A body that does not arrive is cut off by the timeout of its connection.
        let wanted = match Box::pin(body.collect()).await {
            Ok(body) => String::from_utf8(body.to_bytes().to_vec()).ok(),
            Err(_) => None,
        };
        let Some(wanted) = wanted else {
            let bound = format!("expected a filter of at most {MAX_BYTES} bytes");
            return refuse(StatusCode::BAD_REQUEST, &bound);
        };
        match filter.set(wanted.trim()) {
            Ok(()) => {
                tracing::info!(filter = wanted.trim(), "log filter replaced");
                empty(StatusCode::NO_CONTENT)
            }
            Err(error) => refuse(StatusCode::BAD_REQUEST, &error),
        }
    }
}
