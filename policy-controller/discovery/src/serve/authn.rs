//! Authenticates every request, and rejects invalid tokens.

use crate::serve::caller::{Caller, ConnectionInfo};
use crate::serve::codec::CountsAsWatch;
use crate::serve::core::Core;
use crate::serve::message_room::MessageRoom;
use crate::serve::status_reason::{StatusReason, WithReason as _};
use bytes::Bytes;
use futures_util::future::{self, BoxFuture};
use http::header::AUTHORIZATION;
use http::{HeaderMap, Request, Response};
use http_body::{Body as HttpBody, Frame};
use policy_enforce::PolicyLayer;
use policy_enforce::middleware::PolicyService;
use policy_server::{Allowance, AllowancePermit, RequestBody, head_bytes};
use policy_tls::peer::Peer;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tonic::Status;
use tonic::body::Body;
use tonic::service::Routes;
use tower::{Layer, Service};

/// Longest path of a request, which is more than any method has.
const MAX_PATH: usize = 256;

/// Longest token that is reviewed. Those of API servers are about a kilobyte.
const MAX_TOKEN: usize = 16 * 1024;

/// The services behind one connection.
#[derive(Clone)]
pub(crate) struct Authenticate {
    core: Arc<Core>,
    connected: ConnectionInfo,
    routes: Routes,
    room: RequestRoom,
}

/// Room for what clients send, shared by all connections.
#[derive(Clone, Debug)]
pub(crate) struct RequestRoom {
    /// Requests that have not been answered yet, or whose answers their client has not taken. Open watches
    /// are counted on their own.
    pub(crate) waiting: Allowance,
    /// Messages that have not come whole, and heads of requests until they are answered.
    pub(crate) messages: MessageRoom,
}

impl Authenticate {
    pub(crate) fn new(
        core: Arc<Core>,
        connected: ConnectionInfo,
        routes: Routes,
        room: RequestRoom,
    ) -> Self {
        Self { core, connected, routes, room }
    }

    /// Authenticates a request by its headers. A token goes before the certificate, because its
    /// bearer chose to be known by it.
    async fn caller(&self, headers: &mut HeaderMap) -> Result<Caller, Status> {
        let by_connection = &self.connected.caller;
        let several = headers.get_all(AUTHORIZATION).iter().count() > 1;
        // Not passed on, whatever it is.
        let Some(value) = headers.remove(AUTHORIZATION) else { return Ok(by_connection.clone()) };
        if several {
            return Err(Status::unauthenticated("several `authorization` headers")
                .because(StatusReason::NoCredentials));
        }
        if matches!(by_connection, Caller::Loopback) {
            return Ok(Caller::Loopback);
        }
        let token = value.to_str().ok().and_then(bearer).ok_or_else(|| {
            Status::unauthenticated("`authorization` is not `Bearer` and a token")
                .because(StatusReason::NoCredentials)
        })?;
        let caller = self.core.access.by_token(token, &self.connected.peer).await?;
        self.connected.share.stay_in_use();
        Ok(caller)
    }
}

/// The token of `Bearer <token>` (RFC 6750 section 2.1; the scheme is case-insensitive).
fn bearer(value: &str) -> Option<&str> {
    let (scheme, token) = value.split_once(' ')?;
    let token = token.trim();
    let is_token = scheme.eq_ignore_ascii_case("bearer")
        && !token.is_empty()
        && token.len() <= MAX_TOKEN
        && token.bytes().all(|byte| byte.is_ascii_graphic());
    is_token.then_some(token)
}

impl Service<Request<RequestBody>> for Authenticate {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        // Routes are always ready.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<RequestBody>) -> Self::Future {
        let Some(held) = self.room.waiting.take(&self.connected.peer) else {
            self.core.metrics.refused_stream();
            let limit = self.room.waiting.limit();
            let status = Status::resource_exhausted(format!(
                "{limit} requests from this address wait for an answer, the most allowed"
            ))
            .because(StatusReason::TooManyRequests);
            return Box::pin(future::ready(Ok(status.into_http())));
        };
        let path = request.uri().path_and_query().map_or(0, |path| path.as_str().len());
        if path > MAX_PATH {
            let status = Status::unimplemented("no method has so long a path");
            return Box::pin(future::ready(Ok(status.into_http())));
        }
        let (messages, peer) = (self.room.messages.clone(), self.connected.peer.clone());
        let mut own = self.clone();
        Box::pin(async move {
            let bytes = head_bytes(&request);
            let answering = async {
                let caller = own.caller(request.headers_mut()).await?;
                request.extensions_mut().insert(caller);
                let (messages, peer) = (own.room.messages, own.connected.peer.clone());
                request.extensions_mut().insert(own.connected);
                let answered =
                    own.routes.call(request.map(|body| messages.body(body, &peer))).await;
                Ok(answered.unwrap_or_else(|never| match never {}))
            };
            let answered = messages.with_head(&peer, bytes, answering).await;
            let response = answered.unwrap_or_else(Status::into_http);
            let is_watch = response.extensions().get::<CountsAsWatch>().is_some();
            if is_watch || response.body().is_end_stream() {
                return Ok(response);
            }
            Ok(response.map(|body| Body::new(CountedBody { body, _held: held })))
        })
    }
}

/// The body of an answer, whose request counts until it was taken.
struct CountedBody {
    body: Body,
    _held: AllowancePermit,
}

impl HttpBody for CountedBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }
}

/// The same service behind a policy, which decides on requests with credentials; requests without any
/// are rejected first.
#[derive(Clone)]
pub(crate) struct PolicyEnforced {
    inner: PolicyService<Authenticate>,
    peer: Arc<Peer>,
    core: Arc<Core>,
    anonymous: bool,
}

impl PolicyEnforced {
    pub(crate) fn new(guard: &PolicyLayer, peer: Peer, inner: Authenticate) -> Self {
        let core = inner.core.clone();
        let anonymous = matches!(inner.connected.caller, Caller::Anonymous);
        Self { inner: guard.layer(inner), peer: Arc::new(peer), core, anonymous }
    }
}

impl Service<Request<RequestBody>> for PolicyEnforced {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<RequestBody>) -> Self::Future {
        if self.anonymous && !request.headers().contains_key(AUTHORIZATION) {
            let refused = self.core.access.admit(&Caller::Anonymous).err();
            let status = refused.unwrap_or_else(|| {
                Status::unauthenticated("no credentials").because(StatusReason::NoCredentials)
            });
            return Box::pin(future::ready(Ok(status.into_http())));
        }
        request.extensions_mut().insert(self.peer.clone());
        let answering = self.inner.call(request);
        Box::pin(async move { Ok(answering.await?.map(Body::new)) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_follows_its_scheme() {
        assert_eq!(bearer("Bearer abc.def"), Some("abc.def"));
        assert_eq!(bearer("bearer  abc"), Some("abc"));
        for other in ["", "Bearer", "Bearer ", "Basic abc", "Bearer a b", "Bearerabc"] {
            assert_eq!(bearer(other), None, "{other}");
        }
        assert_eq!(bearer(&format!("Bearer {}", "a".repeat(MAX_TOKEN + 1))), None);
    }
}
