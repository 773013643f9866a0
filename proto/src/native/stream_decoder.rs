//! `PolicyDiscovery.Watch` with incremental decoding.
//!
//! The library's stream buffers a message until it is complete, and keeps its buffer, as large as
//! the largest message, as long as the stream lasts. Here messages are decoded as they arrive.

use super::message_reader::MessageReader;
use crate::messages as m;
use bytes::{Buf, Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Method, StatusCode, Version, header};
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tonic::client::GrpcService;
use tonic::codec::{Codec, EncodeBody};
use tonic::codegen::{Body, StdError, tokio_stream::Stream};
use tonic::{Code, Status};

pub use super::update::Response;

/// The server's messages.
#[derive(Debug)]
pub struct Responses<B> {
    body: B,
    /// The maximum size of a message in bytes.
    max: usize,
    /// Received bytes that are not decoded yet.
    arrived: Bytes,
    /// The head of a message that is not complete.
    head: BytesMut,
    message: Option<MessageReader>,
}

/// The length of a message's prefix: the compressed flag and the message length (gRPC over HTTP/2,
/// "Length-Prefixed-Message").
const HEAD: usize = 5;

/// `PolicyDiscovery.Watch` over `channel`, for messages of at most `max` bytes.
///
/// # Errors
/// The server's status, or the error of the connection.
pub async fn watch<C, B>(
    mut channel: C,
    max: usize,
    requests: impl Stream<Item = m::WatchRequest> + Send + 'static,
) -> Result<Responses<B>, Status>
where
    C: GrpcService<tonic::body::Body, ResponseBody = B>,
    C::Error: Into<StdError>,
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<StdError>,
{
    let failed = |error: C::Error| Status::from_error(error.into());
    poll_fn(|cx| channel.poll_ready(cx)).await.map_err(failed)?;
    let response = channel.call(request(requests)).await.map_err(failed)?;
    let (head, body) = response.into_parts();
    if let Some(status) = Status::from_header_map(&head.headers) {
        // A response without a stream is an error, whatever its status.
        return Err(status);
    }
    if head.status != StatusCode::OK {
        return Err(of_http(head.status));
    }
    let (arrived, head) = (Bytes::new(), BytesMut::new());
    Ok(Responses { body, max, arrived, head, message: None })
}

fn request(
    requests: impl Stream<Item = m::WatchRequest> + Send + 'static,
) -> http::Request<tonic::body::Body> {
    let encoder = tonic_prost::ProstCodec::<m::WatchRequest, ()>::default().encoder();
    let body = EncodeBody::new_client(encoder, InfallibleStream(Box::pin(requests)), None, None);
    let mut request = http::Request::new(tonic::body::Body::new(body));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = http::Uri::from_static("/portcullis.policy.v1.PolicyDiscovery/Watch");
    *request.version_mut() = Version::HTTP_2;
    let headers = request.headers_mut();
    headers.insert(header::TE, HeaderValue::from_static("trailers"));
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    request
}

/// A stream of messages without errors.
struct InfallibleStream<S>(Pin<Box<S>>);

impl<S: Stream> Stream for InfallibleStream<S> {
    type Item = Result<S::Item, Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.as_mut().poll_next(cx).map(|next| next.map(Ok))
    }
}

/// Maps an HTTP status without a gRPC status (doc/http-grpc-status-mapping.md of gRPC).
fn of_http(status: StatusCode) -> Status {
    let code = match status.as_u16() {
        400 => Code::Internal,
        401 => Code::Unauthenticated,
        403 => Code::PermissionDenied,
        404 => Code::Unimplemented,
        429 | 502..=504 => Code::Unavailable,
        _ => Code::Unknown,
    };
    Status::new(code, format!("answered with HTTP status {}", status.as_u16()))
}

impl<B> Responses<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<StdError>,
{
    /// The next message, `None` at the end of the stream. Cancel safe.
    ///
    /// # Errors
    /// The server's status, or the error of a malformed message. The stream has ended.
    pub async fn message(&mut self) -> Result<Option<Response>, Status> {
        poll_fn(|cx| self.poll_message(cx)).await
    }

    fn poll_message(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Response>, Status>> {
        loop {
            if let Some(message) = self.take()? {
                return Poll::Ready(Ok(Some(message)));
            }
            match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => self.arrived = data,
                    Err(frame) => {
                        let trailers = frame.into_trailers().unwrap_or_default();
                        return Poll::Ready(self.ended(&trailers));
                    }
                },
                Some(Err(error)) => return Poll::Ready(Err(Status::from_error(error.into()))),
                None => return Poll::Ready(self.ended(&HeaderMap::new())),
            }
        }
    }

    /// Decodes the next message if it is complete.
    fn take(&mut self) -> Result<Option<Response>, Status> {
        loop {
            let Some(message) = &mut self.message else {
                let missing = HEAD.saturating_sub(self.head.len()).min(self.arrived.len());
                self.head.extend_from_slice(&self.arrived.split_to(missing));
                if self.head.len() < HEAD {
                    return Ok(None);
                }
                let length = self.length()?;
                self.message = Some(MessageReader::new(length));
                continue;
            };
            let broken = |error| Status::internal(format!("policy discovery: {error}"));
            message.take(&mut self.arrived).map_err(broken)?;
            if !message.is_complete() {
                return Ok(None);
            }
            let message =
                self.message.take().map(MessageReader::finish).transpose().map_err(broken)?;
            return Ok(message);
        }
    }

    /// Takes the head of a message.
    fn length(&mut self) -> Result<usize, Status> {
        let compressed = self.head.get_u8();
        let length = self.head.get_u32();
        if compressed != 0 {
            return Err(Status::internal(
                "a message is compressed, but compression was not negotiated",
            ));
        }
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        if length > self.max {
            let message = format!("a message of {length} bytes is longer than {}", self.max);
            return Err(Status::out_of_range(message));
        }
        Ok(length)
    }

    fn ended(&self, trailers: &HeaderMap) -> Result<Option<Response>, Status> {
        match Status::from_header_map(trailers) {
            Some(status) if status.code() != Code::Ok => Err(status),
            Some(_) | None if self.message.is_some() || !self.head.is_empty() => {
                Err(Status::internal("the stream ends within a message"))
            }
            Some(_) | None => Ok(None),
        }
    }
}
