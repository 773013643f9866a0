//! `io.linkerd.proxy.destination.Destination`.

use super::discovery::{Discovery, MAX_REQUEST, Question};
use super::stream::AnswerStream;
use super::view::{LastMessage, View};
use crate::serve::codec::{self, Payload};
use crate::serve::metrics::Method;
use crate::serve::status_reason::{StatusReason, WithReason as _};
use futures_util::future::BoxFuture;
use futures_util::stream::{self, Stream};
use policy_proto::compat::{ContextToken, PathTarget, parse_path};
use policy_proto::linkerd::destination::GetDestination;
use policy_proto::linkerd::destination::destination_server::SERVICE_NAME;
use std::convert::Infallible;
use std::task::{Context, Poll};
use tonic::body::Body;
use tonic::server::NamedService;
use tonic::{Request, Response, Status};

/// The service.
#[derive(Clone, Debug)]
pub(crate) struct DestinationService(Discovery);

impl DestinationService {
    /// The service.
    pub(crate) fn new(discovery: Discovery) -> Self {
        Self(discovery)
    }

    async fn watch(
        self,
        method: Method,
        view: fn(&Discovery, &PathTarget) -> View,
        request: Request<GetDestination>,
    ) -> Result<Response<impl Stream<Item = Result<Payload, Status>> + Send + use<>>, Status> {
        let Self(discovery) = self;
        let mut call = discovery.core.metrics.call(method);
        call.received();
        let GetDestination { scheme: _, path, context_token } = request.get_ref();
        let target = parse_path(path, &discovery.domain).map_err(|error| {
            call.end(tonic::Code::InvalidArgument);
            Status::invalid_argument(format!("path: {error}")).because(StatusReason::InvalidRequest)
        })?;
        let view = view(&discovery, &target);
        let question = Question { target, client: ContextToken::parse(context_token), view };
        let answers = discovery.open(request.extensions(), question, call).await?;
        Ok(Response::new(stream::unfold(answers, AnswerStream::next)))
    }
}

fn endpoints(discovery: &Discovery, _: &PathTarget) -> View {
    View::Endpoints(discovery.endpoints.clone(), None)
}

fn profile(discovery: &Discovery, target: &PathTarget) -> View {
    View::Profile(LastMessage::nothing(target, &discovery.domain))
}

impl NamedService for DestinationService {
    const NAME: &'static str = SERVICE_NAME;
}

impl tower::Service<http::Request<Body>> for DestinationService {
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
                    let watch = |of| service.watch(Method::DESTINATION_GET, endpoints, of);
                    codec::server_streaming(request, MAX_REQUEST, watch).await
                }
                Some((_, "GetProfile")) => {
                    let watch = |of| service.watch(Method::DESTINATION_PROFILE, profile, of);
                    codec::server_streaming(request, MAX_REQUEST, watch).await
                }
                Some(_) | None => Status::unimplemented("no such method").into_http(),
            })
        })
    }
}
