//! `portcullis.policy.v1.DestinationDiscovery`: one stream per workload, for all the destinations of
//! its connections.
//!
//! ```text
//! Begin ──▶ authorized as a watch of the workload's policies
//! Lookup ──▶ engine: one channel for all who ask the same ──▶ ready ──▶ answer, whole or a change
//! ```
//!
//! An answer is encoded once for all streams, and so is the change from one answer to another. A slow
//! client skips answers. Waiting for changes costs a stream nothing, however many lookups it has.

mod lookup;
mod messages;
mod ready;
mod session;

use crate::serve::answers::Answers;
use crate::serve::caller::Caller;
use crate::serve::codec::{self, Payload};
use crate::serve::core::Core;
use crate::serve::counted_stream::CountedStream;
use crate::serve::metrics::Method;
use crate::serve::slot;
use futures_util::future::BoxFuture;
use futures_util::stream::Stream;
use policy_engine::Destinations;
use policy_proto::messages::DestinationRequest;
use policy_proto::messages::destination_discovery_server::SERVICE_NAME;
use session::DestinationSession;
use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};
use tonic::body::Body;
use tonic::{Code, Request, Response, Status, Streaming};

/// The service.
#[derive(Clone, Debug)]
pub(crate) struct Destination {
    answers: Answers,
    destinations: Destinations,
}

impl Destination {
    /// The service over `destinations`.
    pub(crate) fn new(core: Arc<Core>, destinations: Destinations) -> Self {
        Self { answers: Answers::new(core, &messages::WORDING), destinations }
    }

    async fn watch(
        self,
        request: Request<Streaming<DestinationRequest>>,
    ) -> Result<Response<impl Stream<Item = Result<Payload, Status>> + Send + use<>>, Status> {
        let core = &self.answers.core;
        let mut call = core.metrics.call(Method::DESTINATIONS);
        let connected = Core::connected(request.extensions());
        let caller = Caller::of(request.extensions());
        let opened = connected.and_then(|connected| {
            core.access.admit(&caller)?;
            let held = core.take_stream(&connected.peer)?;
            Ok((connected, held))
        });
        let (connected, held) = opened.inspect_err(|status| call.end(status.code()))?;
        let held = Arc::new(held);
        let (sender, receiver) = slot::slot();
        let counted = CountedStream::new(receiver, held.clone());
        let inbound = request.into_inner();
        tokio::spawn(async move {
            let Self { answers, destinations } = self;
            let handles = (answers, destinations);
            let run = DestinationSession::run(
                handles,
                inbound,
                &sender,
                &call,
                (connected.ending, connected.peer, caller),
            );
            let ended = run.await;
            call.end(ended.as_ref().map_or_else(Status::code, |()| Code::Ok));
            if let Err(status) = ended {
                // If the client is gone, the status is dropped.
                if sender.ready().await {
                    sender.send(Err(status));
                }
            }
            drop((call, held));
        });
        Ok(Response::new(counted))
    }
}

impl tonic::server::NamedService for Destination {
    const NAME: &'static str = SERVICE_NAME;
}

impl tower::Service<http::Request<Body>> for Destination {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let service = self.clone();
        let most = service.answers.core.config.max_request_bytes;
        Box::pin(async move {
            let method = request.uri().path().strip_prefix('/').and_then(|path| {
                path.strip_prefix(SERVICE_NAME).and_then(|path| path.strip_prefix('/'))
            });
            Ok(match method {
                Some("Watch") => codec::streaming(request, most, |said| service.watch(said)).await,
                Some(_) | None => Status::unimplemented("no such method").into_http(),
            })
        })
    }
}
