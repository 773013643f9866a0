//! `grpc.reflection.v1.ServerReflection`, and `v1alpha`, whose bytes are the same. A caller has to be
//! known, and a stream counts as a watch of its client.

use super::descriptors::Descriptors;
use crate::serve::authz::expiry;
use crate::serve::caller::{Caller, ConnectionInfo};
use crate::serve::codec::{self, Payload};
use crate::serve::core::Core;
use crate::serve::status_reason::{StatusReason, WithReason as _};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, Stream};
use policy_proto::reflection::server_reflection_request::MessageRequest as Question;
use policy_proto::reflection::server_reflection_response::MessageResponse as Answer;
use policy_proto::reflection::{
    ErrorResponse, ExtensionNumberResponse, ListServiceResponse, ServerReflectionRequest,
    ServerReflectionResponse, ServiceResponse,
};
use policy_server::AllowancePermit;
use prost::Message as _;
use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tonic::body::Body;
use tonic::server::NamedService;
use tonic::{Code, Request, Response, Status, Streaming};

/// Largest question: the longest name of a file or symbol is far shorter.
const MAX_REQUEST: usize = 4096;

/// Longest host of a question, which is that of a name in DNS. An answer repeats it twice.
const MAX_HOST: usize = 255;

/// The service of both versions.
#[derive(Clone, Debug)]
pub(crate) struct Reflection {
    core: Arc<Core>,
    /// Full names of the services that are served here.
    services: Arc<[&'static str]>,
    known: Arc<Descriptors>,
}

impl Reflection {
    /// The service, which lists itself beside `services`.
    pub(crate) fn new(core: Arc<Core>, mut services: Vec<&'static str>) -> Self {
        services.push(<ReflectionService<false> as NamedService>::NAME);
        services.push(<ReflectionService<true> as NamedService>::NAME);
        services.sort_unstable();
        let known = Arc::new(Descriptors::of(&services));
        Self { core, services: services.into(), known }
    }

    fn open(
        self,
        request: Request<Streaming<ServerReflectionRequest>>,
    ) -> Result<Response<impl Stream<Item = Result<Payload, Status>> + Send + use<>>, Status> {
        let caller = Caller::of(request.extensions());
        self.core.access.admit(&caller)?;
        let ConnectionInfo { peer, ending, .. } = Core::connected(request.extensions())?;
        let _held = self.core.take_stream(&peer)?;
        let (questions, expires) = (request.into_inner(), caller.expires());
        let stream = ReflectionStream { service: self, questions, ending, expires, _held };
        Ok(Response::new(stream::unfold(Some(stream), ReflectionStream::next)))
    }

    fn answer(&self, request: ServerReflectionRequest) -> Result<Payload, Status> {
        if request.host.len() > MAX_HOST {
            let text = format!("host: {MAX_HOST} bytes at most");
            return Err(Status::invalid_argument(text).because(StatusReason::InvalidRequest));
        }
        let known = &self.known;
        let found = match &request.message_request {
            Some(Question::ListServices(_)) => Found::Own(self.list()),
            Some(Question::FileByFilename(name)) => Found::file(known.file(name), "file", name),
            Some(Question::FileContainingSymbol(name)) => {
                Found::file(known.file_of(name), "symbol", name)
            }
            // None of the messages has extensions.
            Some(Question::FileContainingExtension(of)) => {
                Found::none("extension of", &of.containing_type)
            }
            Some(Question::AllExtensionNumbersOfType(name)) if known.has_message(name) => {
                Found::Own(Answer::AllExtensionNumbersResponse(ExtensionNumberResponse {
                    base_type_name: name.clone(),
                    extension_number: Vec::new(),
                }))
            }
            Some(Question::AllExtensionNumbersOfType(name)) => Found::none("message", name),
            None => {
                let text = "message_request: it names nothing".to_owned();
                Found::Own(error(Code::InvalidArgument, text))
            }
        };
        let (message_response, shared) = match found {
            Found::Own(answer) => (Some(answer), Bytes::new()),
            Found::Shared(field) => (None, field),
        };
        let own = ServerReflectionResponse {
            valid_host: request.host.clone(),
            original_request: Some(request),
            message_response,
        };
        Ok(Payload { own: own.encode_to_vec().into(), shared })
    }

    fn list(&self) -> Answer {
        let of = |name: &&str| ServiceResponse { name: (*name).to_owned() };
        let service = self.services.iter().map(of).collect();
        Answer::ListServicesResponse(ListServiceResponse { service })
    }
}

/// The part of an answer that answers.
enum Found {
    /// Made for this question.
    Own(Answer),
    /// An encoded field, the same for all who ask.
    Shared(Bytes),
}

impl Found {
    fn file(file: Option<Bytes>, what: &str, name: &str) -> Self {
        file.map_or_else(|| Self::none(what, name), Self::Shared)
    }

    fn none(what: &str, name: &str) -> Self {
        Self::Own(error(Code::NotFound, format!("no {what} `{name}` here")))
    }
}

fn error(code: Code, error_message: String) -> Answer {
    Answer::ErrorResponse(ErrorResponse { error_code: code.into(), error_message })
}

/// The answers of one stream. The next question is read when the last answer has been taken.
struct ReflectionStream {
    service: Reflection,
    questions: Streaming<ServerReflectionRequest>,
    ending: CancellationToken,
    expires: Option<Instant>,
    _held: AllowancePermit,
}

impl ReflectionStream {
    async fn next(own: Option<Self>) -> Option<(Result<Payload, Status>, Option<Self>)> {
        let mut own = own?;
        let metrics = &own.service.core.metrics.access;
        let answer = tokio::select! {
            biased;
            () = own.ending.cancelled() => return None,
            expired = expiry(own.expires, metrics) => Err(expired),
            question = own.questions.message() => match question {
                Ok(Some(question)) => own.service.answer(question),
                Ok(None) => return None,
                Err(status) => Err(status),
            },
        };
        let rest = answer.is_ok().then_some(own);
        Some((answer, rest))
    }
}

/// The service of one version.
#[derive(Clone, Debug)]
pub(crate) struct ReflectionService<const ALPHA: bool>(pub(crate) Reflection);

impl NamedService for ReflectionService<false> {
    const NAME: &'static str = "grpc.reflection.v1.ServerReflection";
}

impl NamedService for ReflectionService<true> {
    const NAME: &'static str = "grpc.reflection.v1alpha.ServerReflection";
}

impl<const ALPHA: bool> tower::Service<http::Request<Body>> for ReflectionService<ALPHA> {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let service = self.0.clone();
        Box::pin(async move {
            if !request.uri().path().ends_with("/ServerReflectionInfo") {
                return Ok(Status::unimplemented("no such method").into_http());
            }
            let open = |questions| std::future::ready(service.open(questions));
            Ok(codec::streaming(request, MAX_REQUEST, open).await)
        })
    }
}
