//! Authenticates every request, and rejects invalid tokens.

use crate::serve::caller::{Caller, ConnectionInfo};
use crate::serve::core::Core;
use futures_util::future::{self, BoxFuture};
use http::header::AUTHORIZATION;
use http::{HeaderMap, Request, Response};
use hyper::body::Incoming;
use policy_enforce::PolicyLayer;
use policy_enforce::middleware::PolicyService;
use policy_server::Allowance;
use policy_tls::peer::Peer;
use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};
use tonic::Status;
use tonic::body::Body;
use tonic::service::Routes;
use tower::{Layer, Service};

/// Longest token that is reviewed. Those of API servers are about a kilobyte.
const MAX_TOKEN: usize = 16 * 1024;

/// The services behind one connection.
#[derive(Clone)]
pub(crate) struct Authenticate {
    core: Arc<Core>,
    connected: ConnectionInfo,
    routes: Routes,
    /// Requests that have not been answered yet: their tokens are reviewed, their messages read.
    waiting: Allowance,
}

impl Authenticate {
    pub(crate) fn new(
        core: Arc<Core>,
        connected: ConnectionInfo,
        routes: Routes,
        waiting: Allowance,
    ) -> Self {
        Self { core, connected, routes, waiting }
    }

    /// Authenticates a request by its headers. A token goes before the certificate, because its
    /// bearer chose to be known by it.
    async fn caller(&self, headers: &mut HeaderMap) -> Result<Caller, Status> {
        let by_connection = &self.connected.caller;
        let several = headers.get_all(AUTHORIZATION).iter().count() > 1;
        // Not passed on, whatever it is.
        let Some(value) = headers.remove(AUTHORIZATION) else { return Ok(by_connection.clone()) };
        if several {
            return Err(Status::unauthenticated("several `authorization` headers"));
        }
        if matches!(by_connection, Caller::Loopback) {
            return Ok(Caller::Loopback);
        }
        let token = value.to_str().ok().and_then(bearer).ok_or_else(|| {
            Status::unauthenticated("`authorization` is not `Bearer` and a token")
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

impl Service<Request<Incoming>> for Authenticate {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        // Routes are always ready.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Incoming>) -> Self::Future {
        let Some(held) = self.waiting.take(&self.connected.peer) else {
            self.core.metrics.refused_stream();
            let limit = self.waiting.limit();
            let status = Status::resource_exhausted(format!(
                "{limit} requests from this address wait for an answer, the most allowed"
            ));
            return Box::pin(future::ready(Ok(status.into_http())));
        };
        let mut own = self.clone();
        Box::pin(async move {
            let _held = held;
            match own.caller(request.headers_mut()).await {
                Ok(caller) => {
                    request.extensions_mut().insert(caller);
                    request.extensions_mut().insert(own.connected);
                    own.routes.call(request).await
                }
                Err(status) => Ok(status.into_http()),
            }
        })
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

impl Service<Request<Incoming>> for PolicyEnforced {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<Incoming>) -> Self::Future {
        if self.anonymous && !request.headers().contains_key(AUTHORIZATION) {
            let refused = self.core.access.admit(&Caller::Anonymous).err();
            let status = refused.unwrap_or_else(|| Status::unauthenticated("no credentials"));
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
