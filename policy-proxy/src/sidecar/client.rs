//! One client's HTTP/1 connection: requests in turn, each answered before the next is looked at.
//!
//! All of it is one task. While a request is answered, the application's side and the request's body
//! are polled from here too; nothing passes between tasks.

use super::answered::Answered;
use super::body::ResponseBody;
use super::bounds::LEAST_HEAD;
use super::client_body::ClientBody;
use super::io::{ClientIo, Metered, Prefixed};
use super::open::HttpConnection;
use super::tunnel::{self, Switch};
use super::upload::UploadBody;
use super::wire::{Broken, Wire};
use bytes::Bytes;
use http::request::Parts;
use http::{Method, Response, StatusCode};
use http_body::{Body as _, Frame};
use policy_http::future_pool::PooledFuture;
use policy_http::http1::encode::BodyEncoder;
use policy_http::http1::request_decode::{Bounds, RequestHead, RequestHeadError};
use policy_http::http1::response_encode::{self, BodyLength, ResponseContext};
use policy_http::http1::write_buf::WriteBuf;
use policy_http::shutdown::Shutdown;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll};
use tokio::task::spawn_local;

/// Serves requests until the connection ends. `answer`: what answers a request.
pub(super) async fn serve<A, F>(
    connection: &Rc<HttpConnection>,
    io: Metered<ClientIo>,
    answer: A,
) -> Result<(), Broken>
where
    A: Fn(Rc<HttpConnection>, Box<Parts>, ClientBody) -> F,
    F: Future<Output = Answered> + 'static,
{
    let wire = Rc::new(Wire::new(io));
    let client = Client { connection, wire, bounds: bounds(connection), answer };
    let mut serving = pin!(client.serve());
    poll_fn(|cx| client.run(cx, |cx| serving.as_mut().poll(cx))).await
}

fn bounds(connection: &HttpConnection) -> Bounds {
    let limits = &connection.worker.shared.config.limits;
    let bytes = usize::try_from(limits.request_head).unwrap_or(usize::MAX);
    Bounds { fields: limits.headers, bytes: bytes.max(LEAST_HEAD) }
}

struct Client<'a, A> {
    connection: &'a Rc<HttpConnection>,
    wire: Rc<Wire>,
    bounds: Bounds,
    answer: A,
}

/// An answer that is being written.
struct Sending {
    /// What is still to be asked for.
    body: Option<ResponseBody>,
    framing: BodyEncoder,
    /// Whether the connection ends with it.
    last: bool,
}

impl<A, F> Client<'_, A>
where
    A: Fn(Rc<HttpConnection>, Box<Parts>, ClientBody) -> F,
    F: Future<Output = Answered> + 'static,
{
    /// One poll of the connection's work, unless it is to end at once.
    fn run(
        &self,
        cx: &mut Context<'_>,
        work: impl FnOnce(&mut Context<'_>) -> Poll<Result<(), Broken>>,
    ) -> Poll<Result<(), Broken>> {
        if self.connection.ending.poll(cx) == Some(Shutdown::Immediate) {
            return Poll::Ready(Err(Broken::Stopped));
        }
        self.wire.run(cx, work)
    }

    async fn serve(&self) -> Result<(), Broken> {
        loop {
            let head = match poll_fn(|cx| self.poll_next(cx)).await {
                Ok(Some(head)) => head,
                Ok(None) => break,
                Err(Broken::Head(bad)) => {
                    self.refuse(bad).await?;
                    return Err(bad.into());
                }
                Err(error) => return Err(error),
            };
            let (mut sending, switch) = self.answer(head).await?;
            poll_fn(|cx| self.poll_send(cx, &mut sending)).await?;
            let last = sending.last;
            drop(sending);
            let clear = poll_fn(|cx| self.wire.poll_settled(cx)).await;
            if let Some(switch) = switch {
                self.hand_over(*switch);
                return Ok(());
            }
            if !clear {
                self.shut_down().await?;
                return self.see_off().await;
            }
            if last {
                break;
            }
        }
        self.end().await
    }

    /// Ends a connection on which all is said. Closing says as much as shutting down, but inside TLS.
    async fn end(&self) -> Result<(), Broken> {
        if self.wire.is_plain() {
            poll_fn(|cx| self.wire.poll_flush(cx)).await?;
            drop(self.wire.take());
            return Ok(());
        }
        self.shut_down().await
    }

    fn is_ending(&self) -> bool {
        self.connection.ending.get().is_some()
    }

    /// The next head. What the client began to send is served even if the connection is to end.
    fn poll_next(&self, cx: &mut Context<'_>) -> Poll<Result<Option<RequestHead>, Broken>> {
        match self.wire.poll_head(cx, self.bounds) {
            Poll::Pending if self.wire.has_unread() => self.connection.unfinished(),
            Poll::Pending if self.is_ending() => return Poll::Ready(Ok(None)),
            Poll::Pending => {}
            ready @ Poll::Ready(_) => return ready,
        }
        Poll::Pending
    }

    /// Has the request answered, and begins to write the answer.
    async fn answer(&self, head: RequestHead) -> Result<(Sending, Option<Box<Switch>>), Broken> {
        let RequestHead { parts, body, keep_alive, expects, trailers } = head;
        let is_head = parts.method == Method::HEAD;
        let mut asked =
            ResponseContext { version: parts.version, head: is_head, trailers, keep_alive };
        let body = ClientBody::Http1(UploadBody::behind(&self.wire, body, (expects, self.bounds)));
        let mut answering =
            PooledFuture::new(|| (self.answer)(Rc::clone(self.connection), parts, body));
        let answered = poll_fn(|cx| match answering.poll(cx) {
            Poll::Ready(answered) => {
                asked.keep_alive &= self.wire.can_go_on(cx) && !self.is_ending();
                Poll::Ready(Ok(answered))
            }
            Poll::Pending => {
                self.wire.attend(cx)?;
                Poll::Pending::<Result<_, Broken>>
            }
        })
        .await?;
        let Answered { response, switch } = answered;
        Ok((self.begin(response, asked), switch))
    }

    fn begin(&self, response: Response<ResponseBody>, asked: ResponseContext) -> Sending {
        let length = response.body().size_hint().exact();
        let length = length.map_or(BodyLength::Unknown, BodyLength::Known);
        let second = self.connection.worker.now();
        let (written, body) = self.wire.write(|out| {
            out.head(|small| response_encode::write(response, (asked, length), small, second))
        });
        // A body that is not written is not asked for.
        let body = (written.framing != BodyEncoder::None).then_some(body);
        Sending { body, framing: written.framing, last: written.last }
    }

    /// Writes the answer and what its body gives; ready once all is written.
    fn poll_send(&self, cx: &mut Context<'_>, sending: &mut Sending) -> Poll<Result<(), Broken>> {
        loop {
            let more = self.gather(cx, sending);
            let flushed = self.wire.poll_flush(cx)?;
            // What was written before the body broke off is for the client.
            let waits = more?;
            match (flushed, &sending.body) {
                (Poll::Ready(()), None) => return Poll::Ready(Ok(())),
                (Poll::Ready(()), Some(_)) if !waits => {}
                (_, _) => break,
            }
        }
        self.wire.attend(cx)?;
        Poll::Pending
    }

    /// Takes from the body what fits. `true`: the body has nothing more for now.
    fn gather(&self, cx: &mut Context<'_>, sending: &mut Sending) -> Result<bool, Broken> {
        while let Some(body) = &mut sending.body {
            if self.wire.write(|out| out.len() >= MOST_GATHERED || out.pieces() >= MOST_PIECES) {
                return Ok(false);
            }
            let Poll::Ready(frame) = Pin::new(body).poll_frame(cx) else { return Ok(true) };
            self.wire
                .write(|out| sending.take(frame.transpose().map_err(|_| Broken::Cut)?, out))?;
        }
        Ok(false)
    }

    /// Answers what is no request, as far as it can be.
    async fn refuse(&self, bad: RequestHeadError) -> Result<(), Broken> {
        let status = match bad {
            RequestHeadError::Malformed => StatusCode::BAD_REQUEST,
            RequestHeadError::TooLarge => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            RequestHeadError::TargetTooLong => StatusCode::URI_TOO_LONG,
        };
        let mut response = Response::new(());
        *response.status_mut() = status;
        let (head, trailers) = (false, false);
        let version = http::Version::HTTP_11;
        let asked = ResponseContext { version, head, trailers, keep_alive: false };
        let second = self.connection.worker.now();
        self.wire.write(|out| {
            out.head(|small| {
                response_encode::write(response, (asked, BodyLength::Known(0)), small, second)
            })
        });
        self.shut_down().await?;
        // Of a head without end nobody hears more than is bounded.
        if bad == RequestHeadError::TooLarge { Ok(()) } else { self.see_off().await }
    }

    async fn shut_down(&self) -> Result<(), Broken> {
        poll_fn(|cx| {
            std::task::ready!(self.wire.poll_flush(cx))?;
            self.wire.poll_shutdown(cx).map(Ok)
        })
        .await
    }

    /// Reads what the client still sends, until it ends or the time that a head may take is over: a
    /// connection that is closed with bytes unread is reset, and the client may lose the answer that
    /// says why (RFC 9112 section 9.6).
    async fn see_off(&self) -> Result<(), Broken> {
        self.connection.unfinished();
        poll_fn(|cx| self.wire.poll_discard(cx).map(Ok)).await
    }

    /// Gives the stream to the tunnel that the client and the application agreed on.
    fn hand_over(&self, switch: Switch) {
        if let Some((io, read)) = self.wire.take() {
            spawn_local(tunnel::carry(Prefixed::new(read, io), switch));
        }
    }
}

impl Sending {
    fn take(&mut self, frame: Option<Frame<Bytes>>, out: &mut WriteBuf) -> Result<(), Broken> {
        let Some(frame) = frame else { return self.end(out) };
        match frame.into_data() {
            Ok(data) => {
                self.framing.data(data, out);
                let complete = self.framing == BodyEncoder::Length(0);
                if complete || self.body.as_ref().is_some_and(ResponseBody::is_end_stream) {
                    return self.end(out);
                }
                Ok(())
            }
            Err(frame) => {
                self.body = None;
                let trailers = frame.into_trailers().unwrap_or_default();
                self.framing.trailers(&trailers, out).map_err(|_| cut_short())
            }
        }
    }

    fn end(&mut self, out: &mut WriteBuf) -> Result<(), Broken> {
        self.body = None;
        self.framing.end(out).map_err(|_| cut_short())
    }
}

fn cut_short() -> Broken {
    Broken::Io(std::io::ErrorKind::UnexpectedEof.into())
}

/// Bytes, and pieces, of a body that are gathered before they are written.
const MOST_GATHERED: usize = 64 * 1024;
const MOST_PIECES: usize = 16;
