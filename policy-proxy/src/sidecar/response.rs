//! The response to a request, as the connection's task receives it.

use super::body::ResponseBody;
use super::tunnel::Upgrade;
use h2::Reason;
use http::Response;
use policy_enforce::middleware::pipeline::LocalResponse;
use policy_enforce::respond::{Answer, Fault, ResponseFormat};

/// A response, and the protocol upgrade behind it.
pub(super) struct ClientResponse {
    pub(super) response: Response<ResponseBody>,
    /// Boxed, because it is rare and responses move by value.
    pub(super) upgrade: Option<Box<Upgrade>>,
}

impl ClientResponse {
    /// A reset in place of a response. Where the application reset the stream of the request, it has the
    /// same code. Where it closed a connection that was kept open, a connection of HTTP/1 is closed, so
    /// that the client's own rule for sending again applies (RFC 9112 section 9.3.1).
    pub(super) fn reset_for(answer: &Answer, asker: ResponseFormat) -> Option<Self> {
        let Answer::Upstream(fault) = answer else { return None };
        let reason = match fault {
            Fault::Reset(reason) => (*reason).into(),
            Fault::ClosedKept => Reason::INTERNAL_ERROR,
            Fault::Connect
            | Fault::ConnectTimeout
            | Fault::SourcePorts
            | Fault::Broken
            | Fault::Closed
            | Fault::Truncated
            | Fault::Stalled
            | Fault::Response(_)
            | Fault::Timeout(_) => return None,
        };
        Some(Response::new(ResponseBody::reset(reason, asker)).into())
    }
}

impl From<Response<ResponseBody>> for ClientResponse {
    fn from(response: Response<ResponseBody>) -> Self {
        Self { response, upgrade: None }
    }
}

impl From<LocalResponse> for ClientResponse {
    fn from(LocalResponse { response, format: asker }: LocalResponse) -> Self {
        response.map(|text| ResponseBody::text(text, asker)).into()
    }
}

/// HTTP/2 has no upgrades.
impl From<ClientResponse> for Response<ResponseBody> {
    fn from(response: ClientResponse) -> Self {
        response.response
    }
}
