//! The tasks of an HTTP/2 connection beside its frames: a request that is answered, a response that
//! is sent, and a request body that is forwarded.

use super::connection::ClientConnection;
use super::scheduler::Entry;
use super::send_body::{Interruptible, Reset, SendBody};
use super::send_queue::{Piece, SendQueue, head_cost};
use crate::future_pool::PooledFuture;
use crate::http1::date;
use bytes::Bytes;
use h2::Reason;
use h2::server::SendResponse;
use http::header::{CONTENT_LENGTH, DATE};
use http::{HeaderValue, Response, StatusCode};
use http_body::Body;
use std::future::Future;
use std::task::{Context, Poll};
use std::time::Duration;

/// One task of a stream.
pub(super) enum StreamTask<F: 'static, C: ClientConnection> {
    /// A request is being answered.
    Answering { answering: PooledFuture<F>, respond: SendResponse<Piece> },
    /// The response is being sent.
    Responding(SendBody<C::ResponseBody>),
    /// The body of a request is being forwarded, independently of its response.
    Uploading(SendBody<C::RequestBody>),
}

impl<F, C> StreamTask<F, C>
where
    F: Future<Output: Into<Response<C::ResponseBody>>> + 'static,
    C: ClientConnection,
{
    pub(super) fn answering(answer: impl FnOnce() -> F, respond: SendResponse<Piece>) -> Self {
        Self::Answering { answering: PooledFuture::new(answer), respond }
    }

    /// Ready when the task is complete. `stall`: maximum time that the peer's window may stay closed.
    /// `queue`: the client's.
    pub(super) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        entry: Option<&Entry>,
        (connection, stall, queue): (&C, Option<Duration>, &SendQueue),
    ) -> Poll<()> {
        loop {
            let body = match self {
                Self::Responding(body) => return body.poll(cx, entry, stall),
                Self::Uploading(body) => return body.poll(cx, entry, stall),
                Self::Answering { answering, respond } => {
                    let answered = answering.poll(cx);
                    while let Some(interim) = connection.next_interim() {
                        let cost = head_cost(interim.headers());
                        // Of a stream that is closed, the client takes nothing.
                        if respond.send_informational(interim).is_ok() {
                            queue.hold_head(cost);
                        }
                    }
                    match answered {
                        Poll::Ready(answered) => {
                            begin(answered.into(), respond, (connection.second(), queue))
                        }
                        // A client that has reset the stream takes no response.
                        Poll::Pending => return respond.poll_reset(cx).map(|_| ()),
                    }
                }
            };
            match body {
                Some(body) => *self = Self::Responding(body),
                None => return Poll::Ready(()),
            }
        }
    }
}

/// Sends the head of a response; returns the task for its body, if it has one.
fn begin<B>(
    response: Response<B>,
    respond: &mut SendResponse<Piece>,
    (second, queue): (u32, &SendQueue),
) -> Option<SendBody<B>>
where
    B: Body<Data = Bytes, Error: Reset> + Interruptible + Unpin,
{
    let (mut head, body) = response.into_parts();
    if let Some(reason) = body.aborted() {
        respond.send_reset(reason);
        return None;
    }
    let last = body.is_end_stream();
    if head.status == StatusCode::NO_CONTENT {
        // RFC 9110 section 8.6.
        head.headers.remove(CONTENT_LENGTH);
    }
    if let (false, Some(length)) = (last, body.size_hint().exact()) {
        head.headers.entry(CONTENT_LENGTH).or_insert_with(|| HeaderValue::from(length));
    }
    head.headers.entry(DATE).or_insert_with(|| date::value(second));
    let cost = head_cost(&head.headers);
    match respond.send_response(Response::from_parts(head, ()), last) {
        Ok(stream) => {
            queue.hold_head(cost);
            (!last).then(|| SendBody::new(stream, queue.stream(), body))
        }
        Err(_) => {
            // The stream is closed, or a header is not valid in HTTP/2.
            respond.send_reset(Reason::INTERNAL_ERROR);
            None
        }
    }
}
