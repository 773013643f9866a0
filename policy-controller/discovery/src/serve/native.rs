//! `portcullis.policy.v1.PolicyDiscovery`: the service. What it sends is in [`super::encodings`].

use crate::serve::caller::Caller;
use crate::serve::codec::{self, Payload};
use crate::serve::core::Core;
use crate::serve::counted_stream::CountedStream;
use crate::serve::encodings::Encodings;
use crate::serve::metrics::Method;
use crate::serve::session::Session;
use crate::serve::slot;
use futures_util::future::BoxFuture;
use futures_util::stream::Stream;
use policy_proto::messages::WatchRequest;
use policy_proto::messages::policy_discovery_server::SERVICE_NAME;
use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};
use tonic::body::Body;
use tonic::{Code, Request, Response, Status, Streaming};

/// The service.
#[derive(Clone, Debug)]
pub(crate) struct Native {
    encodings: Encodings,
}

impl Native {
    /// The service over `core`.
    pub(crate) fn new(core: Arc<Core>) -> Self {
        Self { encodings: Encodings::new(core) }
    }

    async fn watch(
        self,
        request: Request<Streaming<WatchRequest>>,
    ) -> Result<Response<impl Stream<Item = Result<Payload, Status>> + Send + use<>>, Status> {
        let core = &self.encodings.core;
        let mut call = core.metrics.call(Method::WATCH);
        let connected = Core::connected(request.extensions());
        let caller = Caller::of(request.extensions());
        let opened = connected.and_then(|connected| {
            core.access.admit(&caller)?;
            let held = core.take_stream(&connected.peer)?;
            Ok((connected, held))
        });
        let (connected, held) = opened.inspect_err(|status| call.end(status.code()))?;
        let held = Arc::new(held);
        // One message in the slot and one in the codec: all that a slow client makes us keep.
        let (sender, receiver) = slot::slot();
        let counted = CountedStream::new(receiver, held.clone());
        let inbound = request.into_inner();
        tokio::spawn(async move {
            let run = Session::run(self.encodings, inbound, &sender, &call, (connected, caller));
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

impl tonic::server::NamedService for Native {
    const NAME: &'static str = SERVICE_NAME;
}

impl tower::Service<http::Request<Body>> for Native {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let service = self.clone();
        let most = service.encodings.core.config.max_request_bytes;
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
