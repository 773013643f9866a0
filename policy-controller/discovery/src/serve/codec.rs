//! gRPC methods whose answers are already encoded, so that a policy is encoded once however many clients
//! watch it.
//!
//! An answer is not copied for a client, as the gRPC library would: what clients share of it is sent as it
//! is. So however many streams a client opens without reading them, they hold no more than what is encoded
//! once.

use crate::serve::status_reason::{StatusReason, WithReason as _};
use bytes::{BufMut, Bytes, BytesMut};
use futures_util::stream::{self, Stream};
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue};
use http_body::{Body as HttpBody, Frame};
use pin_project_lite::pin_project;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tonic::body::Body;
use tonic::codec::{BufferSettings, DecodeBuf, Decoder};
use tonic::metadata::{MetadataMap, MetadataValue};
use tonic::{Code, Request, Response, Status, Streaming};

/// An encoded message: the part of one client, then the shared part. Together they are one
/// protobuf message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Payload {
    /// Bytes made for one client.
    pub(crate) own: Bytes,
    /// Bytes shared with every client that gets the same.
    pub(crate) shared: Bytes,
}

impl Payload {
    /// A message that is shared as a whole.
    pub(crate) fn shared(shared: Bytes) -> Self {
        Self { own: Bytes::new(), shared }
    }

    /// Length in bytes.
    pub(crate) fn len(&self) -> usize {
        self.own.len().saturating_add(self.shared.len())
    }
}

/// Mark of a response whose stream counts as a watch of its client. Every other request counts until its
/// answer was taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CountsAsWatch;

/// Answers a call of one message by one.
pub(crate) async fn unary<M, F>(
    request: http::Request<Body>,
    most: usize,
    handler: impl FnOnce(Request<M>) -> F,
) -> http::Response<Body>
where
    M: prost::Message + Default + 'static,
    F: Future<Output = Result<Response<Payload>, Status>>,
{
    let answer = async { handler(only(request, most).await?).await };
    match answer.await {
        Ok(answer) => respond(stream::iter([Ok(answer.into_inner())])),
        Err(status) => status.into_http(),
    }
}

/// Answers a call of one message by a stream, which counts as a watch.
pub(crate) async fn server_streaming<M, F, S>(
    request: http::Request<Body>,
    most: usize,
    handler: impl FnOnce(Request<M>) -> F,
) -> http::Response<Body>
where
    M: prost::Message + Default + 'static,
    F: Future<Output = Result<Response<S>, Status>>,
    S: Stream<Item = Result<Payload, Status>> + Send + 'static,
{
    let answer = async { handler(only(request, most).await?).await };
    watch(answer.await)
}

/// Answers a stream of messages by another, which counts as a watch.
pub(crate) async fn streaming<M, F, S>(
    request: http::Request<Body>,
    most: usize,
    handler: impl FnOnce(Request<Streaming<M>>) -> F,
) -> http::Response<Body>
where
    M: prost::Message + Default + 'static,
    F: Future<Output = Result<Response<S>, Status>>,
    S: Stream<Item = Result<Payload, Status>> + Send + 'static,
{
    let answer = async { handler(messages(request, most)?).await };
    watch(answer.await)
}

fn watch<S>(answer: Result<Response<S>, Status>) -> http::Response<Body>
where
    S: Stream<Item = Result<Payload, Status>> + Send + 'static,
{
    match answer {
        Ok(answer) => {
            let mut response = respond(answer.into_inner());
            response.extensions_mut().insert(CountsAsWatch);
            response
        }
        Err(status) => status.into_http(),
    }
}

fn respond<S>(answers: S) -> http::Response<Body>
where
    S: Stream<Item = Result<Payload, Status>> + Send + 'static,
{
    let body = PayloadBody { answers, rest: None, is_over: false };
    let mut response = http::Response::new(Body::new(body));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    response
}

/// The one message of a request.
async fn only<M>(request: http::Request<Body>, most: usize) -> Result<Request<M>, Status>
where
    M: prost::Message + Default + 'static,
{
    let (metadata, extensions, mut messages) = messages(request, most)?.into_parts();
    let first = messages.message().await?;
    let message = first.ok_or_else(|| {
        Status::invalid_argument("the request has no message").because(StatusReason::InvalidRequest)
    })?;
    Ok(Request::from_parts(metadata, extensions, message))
}

/// The messages of a request, of `most` bytes each. Its headers are dropped: nothing here reads them.
fn messages<M>(request: http::Request<Body>, most: usize) -> Result<Request<Streaming<M>>, Status>
where
    M: prost::Message + Default + 'static,
{
    let (head, body) = request.into_parts();
    match head.headers.get("grpc-encoding").map(HeaderValue::as_bytes) {
        None | Some(b"identity") => {}
        Some(_) => {
            let mut status =
                Status::unimplemented("`grpc-encoding`: messages must not be compressed");
            status
                .metadata_mut()
                .insert("grpc-accept-encoding", MetadataValue::from_static("identity"));
            return Err(status);
        }
    }
    let messages = Streaming::new_request(ProstDecoder(PhantomData), body, None, Some(most));
    Ok(Request::from_parts(MetadataMap::new(), head.extensions, messages))
}

pin_project! {
    /// The messages of an answer, each behind gRPC's prefix, and the status as trailers.
    struct PayloadBody<S> {
        #[pin]
        answers: S,
        // The shared part of the message that has begun.
        rest: Option<Bytes>,
        is_over: bool,
    }
}

impl<S: Stream<Item = Result<Payload, Status>>> HttpBody for PayloadBody<S> {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = self.project();
        if let Some(rest) = this.rest.take() {
            return Poll::Ready(Some(Ok(Frame::data(rest))));
        }
        if *this.is_over {
            return Poll::Ready(None);
        }
        let next = ready!(this.answers.poll_next(cx)).transpose();
        let status = match next.and_then(|payload| payload.map(framed).transpose()) {
            Ok(Some((first, rest))) => {
                *this.rest = rest;
                return Poll::Ready(Some(Ok(Frame::data(first))));
            }
            Ok(None) => Status::new(Code::Ok, ""),
            Err(status) => status,
        };
        *this.is_over = true;
        Poll::Ready(Some(Ok(Frame::trailers(trailers(&status)))))
    }

    fn is_end_stream(&self) -> bool {
        self.is_over && self.rest.is_none()
    }
}

/// Most bytes of a message that is sent as one piece, which takes a copy.
const JOINED: usize = 4096;

/// Returns a message behind gRPC's prefix, in one piece or two.
fn framed(payload: Payload) -> Result<(Bytes, Option<Bytes>), Status> {
    let length = u32::try_from(payload.len())
        .map_err(|_| Status::resource_exhausted("the answer has 4 GiB or more"))?;
    let Payload { own, shared } = payload;
    let is_joined = shared.len() <= JOINED;
    let room = own.len().saturating_add(5).saturating_add(if is_joined { shared.len() } else { 0 });
    let mut first = BytesMut::with_capacity(room);
    // Not compressed.
    first.put_u8(0);
    first.put_u32(length);
    first.put(own);
    if is_joined {
        first.put(shared);
        return Ok((first.freeze(), None));
    }
    Ok((first.freeze(), Some(shared)))
}

fn trailers(status: &Status) -> HeaderMap {
    let mut trailers = HeaderMap::new();
    if let Err(unfit) = status.add_header(&mut trailers) {
        tracing::debug!(%status, %unfit, "a status cannot be sent as it is");
        trailers.clear();
        trailers.insert(Status::GRPC_STATUS, HeaderValue::from(i32::from(Code::Internal)));
    }
    trailers
}

/// Decodes `M`.
struct ProstDecoder<M>(PhantomData<fn() -> M>);

impl<M: prost::Message + Default> Decoder for ProstDecoder<M> {
    type Item = M;
    type Error = Status;

    fn decode(&mut self, src: &mut DecodeBuf<'_>) -> Result<Option<M>, Status> {
        M::decode(src).map(Some).map_err(|error| {
            Status::invalid_argument(format!("unreadable message: {error}"))
                .because(StatusReason::InvalidRequest)
        })
    }

    /// Small buffers, because streams are many and mostly silent.
    fn buffer_settings(&self) -> BufferSettings {
        BufferSettings::new(256, 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::BodyExt;

    fn bytes(byte: u8, length: usize) -> Bytes {
        vec![byte; length].into()
    }

    #[tokio::test]
    async fn a_message_is_its_parts_behind_its_length_and_a_large_one_is_not_copied() {
        let (small, large) = (bytes(2, JOINED), bytes(2, 4097));
        for shared in [Bytes::new(), small, large.clone()] {
            let payload = Payload { own: bytes(1, 3), shared: shared.clone() };
            let mut expected = vec![0];
            expected.extend(u32::try_from(payload.len()).unwrap().to_be_bytes());
            expected.extend_from_slice(&payload.own);
            expected.extend_from_slice(&shared);
            let answer = Ok(payload);
            let mut response = respond(stream::iter([answer]));
            let (mut sent, mut uncopied) = (Vec::new(), 0);
            let trailers = loop {
                let frame = response.frame().await.unwrap().unwrap();
                match frame.into_data() {
                    Ok(data) => {
                        uncopied += usize::from(data.as_ptr() == large.as_ptr());
                        sent.extend_from_slice(&data);
                    }
                    Err(frame) => break frame.into_trailers().unwrap(),
                }
            };
            assert!(sent == expected, "{} bytes shared", shared.len());
            assert_eq!(uncopied, usize::from(shared.len() > JOINED), "{} bytes", shared.len());
            assert_eq!(trailers["grpc-status"], "0");
            assert!(response.frame().await.is_none());
        }
    }

    #[tokio::test]
    async fn an_error_is_the_status_behind_what_was_sent() {
        let answers = [Ok(Payload::shared(bytes(1, 1))), Err(Status::aborted("änd"))];
        let collected = respond(stream::iter(answers)).collect().await.unwrap();
        let trailers = collected.trailers().unwrap().clone();
        assert_eq!(
            (&trailers["grpc-status"], &trailers["grpc-message"]),
            (&"10".parse().unwrap(), &"%C3%A4nd".parse().unwrap())
        );
        assert_eq!(collected.to_bytes(), [0, 0, 0, 0, 1, 1].as_slice());
    }
}
