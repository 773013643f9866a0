//! The response to a request, as the connection's task receives it.

use super::body::ResponseBody;
use super::tunnel::Upgrade;
use http::Response;
use policy_enforce::middleware::pipeline::LocalResponse;

/// A response, and the protocol upgrade behind it.
pub(super) struct ClientResponse {
    pub(super) response: Response<ResponseBody>,
    /// Boxed, because it is rare and responses move by value.
    pub(super) upgrade: Option<Box<Upgrade>>,
    /// True if the client gets no response, because the application closed a connection that was kept
    /// open: an HTTP/1 connection is closed, so that the client's own rule for sending again applies
    /// (RFC 9112 section 9.3.1), and a stream is reset.
    pub(super) unanswered: bool,
}

impl From<Response<ResponseBody>> for ClientResponse {
    fn from(response: Response<ResponseBody>) -> Self {
        Self { response, upgrade: None, unanswered: false }
    }
}

impl From<LocalResponse> for ClientResponse {
    fn from(LocalResponse { response, format: asker }: LocalResponse) -> Self {
        response.map(|text| ResponseBody::text(text, asker)).into()
    }
}

/// HTTP/2 has no upgrades.
impl From<ClientResponse> for Option<Response<ResponseBody>> {
    fn from(response: ClientResponse) -> Self {
        (!response.unanswered).then_some(response.response)
    }
}
