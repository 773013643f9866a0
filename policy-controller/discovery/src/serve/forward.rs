//! `OutboundPolicies`, beside Linkerd: its proxies use one address for inbound and outbound policy, so
//! requests for outbound policy are forwarded to Linkerd's controller unchanged.
//!
//! Nothing is decoded: messages, metadata and trailers pass byte for byte, save for a viewer's
//! `authorization`, which is meant for us. A stream counts against its peer's share as our own do and
//! ends with OK when its connection is to end.

use super::caller::{Caller, ConnectionInfo};
use super::channel_pool::{ChannelPool, StreamPermit};
use super::codec::CountsAsWatch;
use super::core::Core;
use super::metrics::{Call, Method};
use crate::serve::status_reason::{StatusReason, WithReason as _};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body::Frame;
use http_body_util::BodyExt as _;
use policy_server::{AllowancePermit, TlsHandle};
use policy_tls::control;
use policy_tls::control::{Bounds, ControllerAddress};
use std::convert::Infallible;
use std::io::{Error, ErrorKind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio_util::sync::WaitForCancellationFutureOwned;
use tonic::body::Body;
use tonic::server::NamedService;
use tonic::transport::Channel;
use tonic::{Code, Status};
use tower::{Service, ServiceExt as _};

/// Connect timeout and keep-alive interval of Linkerd's controller. Linkerd's proxies give up on a
/// first answer after 3 s (docs/spec/controller.md 2.2).
const BOUNDS: Bounds =
    Bounds { connect: Duration::from_secs(2), keep_alive: Duration::from_secs(10) };

/// The service.
#[derive(Clone, Debug)]
pub(crate) struct Forward(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    core: Arc<Core>,
    to: ControllerAddress,
    tls: Option<TlsHandle>,
    pool: ChannelPool,
}

impl Forward {
    /// Forwards to the controller at `to`, to which we prove who we are with `tls`.
    pub(crate) fn new(core: Arc<Core>, to: ControllerAddress, tls: Option<TlsHandle>) -> Self {
        Self(Arc::new(Inner { core, to, tls, pool: ChannelPool::default() }))
    }
}

impl NamedService for Forward {
    const NAME: &'static str = "io.linkerd.proxy.outbound.OutboundPolicies";
}

impl Service<Request<Body>> for Forward {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let inner = Arc::clone(&self.0);
        Box::pin(async move {
            let mut call = inner.core.metrics.call(Method::of_outbound(request.uri().path()));
            Ok(match inner.forward(request).await {
                Ok((mut response, held, connected)) => {
                    response.extensions_mut().insert(CountsAsWatch);
                    response.map(|body| ForwardedBody::new(body, connected, held, call).into_body())
                }
                Err(status) => {
                    call.end(status.code());
                    status.into_http()
                }
            })
        })
    }
}

impl Inner {
    async fn forward(
        &self,
        mut request: Request<Body>,
    ) -> Result<(Response<Body>, (AllowancePermit, StreamPermit), ConnectionInfo), Status> {
        let connected = Core::connected(request.extensions())?;
        self.core.access.admit(&Caller::of(request.extensions()))?;
        let held = self.core.take_stream(&connected.peer)?;
        request.headers_mut().remove(AUTHORIZATION);
        // The extensions belong to this connection alone.
        request.extensions_mut().clear();
        let permit = self.pool.take();
        let mut channel = permit.channel.get_or_try_init(|| self.connect()).await?.clone();
        let ready = channel.ready().await.map_err(|error| self.unreachable(&error))?;
        let response = ready.call(request).await.map_err(|error| self.unreachable(&error))?;
        Ok((response, (held, permit), connected))
    }

    async fn connect(&self) -> Result<Channel, Status> {
        let tls = self.tls.clone();
        let credentials = Arc::new(move |expected| {
            let own = tls.as_ref().map(|tls| tls.client_of(expected)).transpose();
            own.map_err(Error::other)?.flatten().ok_or_else(|| {
                Error::new(
                    ErrorKind::NotConnected,
                    "no client certificate for Linkerd's policy controller",
                )
            })
        });
        let connecting = control::connect(&self.to, BOUNDS, credentials);
        connecting.await.map_err(|error| self.unreachable(&error))
    }

    /// Linkerd's proxies take it as a reason to try again.
    fn unreachable(&self, error: &tonic::transport::Error) -> Status {
        let why = control::chain(error);
        tracing::warn!(to = %self.to, error = why, "cannot forward the request for outbound policy");
        Status::unavailable(format!("Linkerd's policy controller at {} : {why}", self.to))
            .because(StatusReason::ForwardFailed)
    }
}

/// An answer on its way through.
struct ForwardedBody {
    body: Body,
    ending: Pin<Box<WaitForCancellationFutureOwned>>,
    call: Call,
    ended: bool,
    _held: (AllowancePermit, StreamPermit),
}

impl ForwardedBody {
    fn new(
        body: Body,
        connected: ConnectionInfo,
        held: (AllowancePermit, StreamPermit),
        call: Call,
    ) -> Self {
        let ending = Box::pin(connected.ending.cancelled_owned());
        Self { body, ending, call, ended: false, _held: held }
    }

    fn into_body(self) -> Body {
        Body::new(self.map_err(|error: tonic::Status| error))
    }
}

impl http_body::Body for ForwardedBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if self.ended {
            return Poll::Ready(None);
        }
        if self.ending.as_mut().poll(context).is_ready() {
            self.ended = true;
            self.call.end(Code::Ok);
            return Poll::Ready(Some(Ok(Frame::trailers(ok()))));
        }
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        match &frame {
            Some(Ok(frame)) => {
                if let Some(trailers) = frame.trailers_ref() {
                    self.call.end(code(trailers));
                }
            }
            Some(Err(error)) => self.call.end(error.code()),
            None => {}
        }
        self.ended = !matches!(frame, Some(Ok(_)));
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.ended || self.body.is_end_stream()
    }
}

fn ok() -> HeaderMap {
    let mut trailers = HeaderMap::new();
    trailers.insert(Status::GRPC_STATUS, HeaderValue::from_static("0"));
    trailers
}

fn code(trailers: &HeaderMap) -> Code {
    Status::from_header_map(trailers).map_or(Code::Unknown, |status| status.code())
}
