//! What a request is answered with.

use super::body::ResponseBody;
use super::tunnel::Switch;
use http::Response;
use policy_enforce::middleware::pipeline::LocalResponse;

/// An answer, and what it switches to.
pub(super) struct Answered {
    pub(super) response: Response<ResponseBody>,
    /// Boxed, because it is rare and answers are handed on by value.
    pub(super) switch: Option<Box<Switch>>,
}

impl From<Response<ResponseBody>> for Answered {
    fn from(response: Response<ResponseBody>) -> Self {
        Self { response, switch: None }
    }
}

impl From<LocalResponse> for Answered {
    fn from(LocalResponse { response, format: asker }: LocalResponse) -> Self {
        response.map(|text| ResponseBody::text(text, asker)).into()
    }
}

/// For HTTP/2, which switches to nothing.
impl From<Answered> for Response<ResponseBody> {
    fn from(answered: Answered) -> Self {
        answered.response
    }
}
