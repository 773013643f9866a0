//! What a request is answered with.

use super::body::ResponseBody;
use super::tunnel::Upgrade;
use http::Response;
use policy_enforce::middleware::pipeline::Refused;

/// An answer, and what it switches to.
pub(super) struct ClientResponse {
    pub(super) response: Response<ResponseBody>,
    /// Boxed, because it is rare and answers are handed on by value.
    pub(super) upgrade: Option<Box<Upgrade>>,
}

impl From<Response<ResponseBody>> for ClientResponse {
    fn from(response: Response<ResponseBody>) -> Self {
        Self { response, upgrade: None }
    }
}

impl From<Refused> for ClientResponse {
    fn from(Refused { response, asker }: Refused) -> Self {
        response.map(|text| ResponseBody::text(text, asker)).into()
    }
}

/// For HTTP/2, which switches to nothing.
impl From<ClientResponse> for Response<ResponseBody> {
    fn from(response: ClientResponse) -> Self {
        response.response
    }
}
