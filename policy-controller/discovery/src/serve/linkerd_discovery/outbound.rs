//! `io.linkerd.proxy.outbound.OutboundPolicies`, where it is not forwarded to Linkerd's controller.

use super::discovery::{Discovery, MAX_REQUEST, Question};
use super::stream::AnswerStream;
use super::view::{LastMessage, View};
use crate::serve::codec::{self, Payload};
use crate::serve::metrics::Method;
use crate::serve::status_reason::{StatusReason, WithReason as _};
use futures_util::future::BoxFuture;
use futures_util::stream::{self, Stream};
use policy_proto::compat::{ContextToken, read_target};
use policy_proto::linkerd::outbound::TrafficSpec;
use policy_proto::linkerd::outbound::outbound_policies_server::SERVICE_NAME;
use policy_proto::workload::parse_workload;
use std::convert::Infallible;
use std::task::{Context, Poll};
use tonic::body::Body;
use tonic::server::NamedService;
use tonic::{Request, Response, Status};

/// The service.
#[derive(Clone, Debug)]
pub(crate) struct OutboundService(Discovery);

impl OutboundService {
    /// The service.
    pub(crate) fn new(discovery: Discovery) -> Self {
        Self(discovery)
    }

    async fn get(self, request: Request<TrafficSpec>) -> Result<Response<Payload>, Status> {
        Ok(Response::new(self.open(Method::OUTBOUND_GET, request).await?.only()?))
    }

    async fn watch(
        self,
        request: Request<TrafficSpec>,
    ) -> Result<Response<impl Stream<Item = Result<Payload, Status>> + Send + use<>>, Status> {
        let answers = self.open(Method::OUTBOUND_WATCH, request).await?;
        Ok(Response::new(stream::unfold(answers, AnswerStream::next)))
    }

    async fn open(
        self,
        method: Method,
        request: Request<TrafficSpec>,
    ) -> Result<Box<AnswerStream>, Status> {
        let Self(discovery) = self;
        let mut call = discovery.core.metrics.call(method);
        call.received();
        let target = read_target(request.get_ref(), &discovery.domain).map_err(|error| {
            call.end(tonic::Code::InvalidArgument);
            Status::invalid_argument(error.to_string()).because(StatusReason::InvalidRequest)
        })?;
        let view = View::Policy(LastMessage::nothing(&target, &discovery.domain));
        // A client that cannot be read is nowhere, as one without a context token is.
        let pod = parse_workload(&request.get_ref().source_workload).ok();
        let question = Question { target, client: ContextToken { pod, node: None }, view };
        discovery.open(request.extensions(), question, call).await
    }
}

impl NamedService for OutboundService {
    const NAME: &'static str = SERVICE_NAME;
}

impl tower::Service<http::Request<Body>> for OutboundService {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let service = self.clone();
        Box::pin(async move {
            Ok(match request.uri().path().rsplit_once('/') {
                Some((_, "Get")) => {
                    codec::unary(request, MAX_REQUEST, |spec| service.get(spec)).await
                }
                Some((_, "Watch")) => {
                    codec::server_streaming(request, MAX_REQUEST, |spec| service.watch(spec)).await
                }
                Some(_) | None => Status::unimplemented("no such method").into_http(),
            })
        })
    }
}
