//! A client's HTTP/1 connection: requests in turn, each answered before the next is parsed.
//!
//! All of it is one task. While a request is in flight, the upstream connection and the request
//! body are polled from here too; nothing passes between tasks.

use super::body::{ResponseBody, ResponseBodyError};
use super::client_body::ClientBody;
use super::client_conn::{ClientConn, ClientConnError};
use super::inflight::HttpConnection;
use super::io::{ClientIo, Metered, Prefixed};
use super::limits::MIN_HEAD_LIMIT;
use super::response::ClientResponse;
use super::response_end::ResponseEnd;
use super::tunnel::{self, Upgrade};
use super::upload::UploadBody;
use bytes::Bytes;
use http::request::Parts;
use http::{Method, Response, StatusCode};
use http_body::{Body as _, Frame};
use policy_core::TargetFault;
use policy_enforce::request_snapshot::UnencodedPath;
use policy_http::backlog;
use policy_http::future_pool::PooledFuture;
use policy_http::http1::encode::BodyEncoder;
use policy_http::http1::request_decode::{Bounds, RequestHead, RequestHeadError};
use policy_http::http1::response_encode::{self, BodyLength, ResponseContext};
use policy_http::http1::unencoded::UnencodedTarget;
use policy_http::http1::write_buf::WriteBuf;
use policy_http::http2::Interruptible as _;
use policy_http::shutdown::Shutdown;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll};
use tokio::task::spawn_local;

/// Serves requests until the connection ends. `service` answers a request.
pub(super) async fn serve<A, F>(
    connection: &Rc<HttpConnection>,
    io: Metered<ClientIo>,
    service: A,
) -> Result<(), ClientConnError>
where
    A: Fn(Rc<HttpConnection>, Box<Parts>, ClientBody) -> F,
    F: Future<Output = ClientResponse> + 'static,
{
    let conn = Rc::new(ClientConn::new(io));
    let http1 = Http1Connection { connection, conn, bounds: bounds(connection), service };
    let mut serving = pin!(http1.serve());
    poll_fn(|cx| http1.run(cx, |cx| serving.as_mut().poll(cx))).await
}

fn bounds(connection: &HttpConnection) -> Bounds {
    let limits = &connection.worker.shared.config.limits;
    let bytes = usize::try_from(limits.request_head).unwrap_or(usize::MAX);
    Bounds { fields: limits.headers, bytes: bytes.max(MIN_HEAD_LIMIT) }
}

struct Http1Connection<'a, A> {
    connection: &'a Rc<HttpConnection>,
    conn: Rc<ClientConn>,
    bounds: Bounds,
    service: A,
}

/// A response that is being written.
struct ResponseWriter {
    /// The body, until its end was read.
    body: Option<ResponseBody>,
    /// The body after that, if it is bounded until it is sent.
    unsent: Option<ResponseBody>,
    framing: BodyEncoder,
    /// True if the connection ends with this response.
    last: bool,
    /// Present once the body broke off, and from the beginning if it ends with the connection.
    end: Option<Box<ResponseEnd>>,
}

impl<A, F> Http1Connection<'_, A>
where
    A: Fn(Rc<HttpConnection>, Box<Parts>, ClientBody) -> F,
    F: Future<Output = ClientResponse> + 'static,
{
    /// Polls the connection's work, unless the connection is to be closed at once.
    fn run(
        &self,
        cx: &mut Context<'_>,
        work: impl FnOnce(&mut Context<'_>) -> Poll<Result<(), ClientConnError>>,
    ) -> Poll<Result<(), ClientConnError>> {
        if self.connection.ending.poll(cx) == Some(Shutdown::Immediate) {
            return Poll::Ready(Err(ClientConnError::Closed));
        }
        self.conn.run(cx, work)
    }

    /// Drives the client's side while a response is pending.
    fn maintain(&self, cx: &mut Context<'_>) -> Result<(), ClientConnError> {
        self.conn.maintain(cx).map_err(|error| self.client_failed(error))?;
        self.connection.hold_unparsed(self.conn.unparsed());
        if self.conn.is_half_closed() {
            self.connection.half_closed.set(true);
        }
        Ok(())
    }

    /// Makes the application see a reset of the client as one.
    fn client_failed(&self, error: ClientConnError) -> ClientConnError {
        if error.is_reset() {
            self.connection.upstream.reset_on_close();
        }
        error
    }

    async fn serve(&self) -> Result<(), ClientConnError> {
        loop {
            let head = match poll_fn(|cx| self.poll_request(cx)).await {
                Ok(Some(head)) => head,
                Ok(None) => break,
                Err(ClientConnError::Head(bad)) => {
                    self.reject(bad).await?;
                    return Err(bad.into());
                }
                Err(error) => return Err(error),
            };
            let (mut writer, upgrade) = match self.respond(head).await {
                Err(ClientConnError::Unanswered) => break,
                responded => responded?,
            };
            let sent = poll_fn(|cx| self.poll_send(cx, &mut writer)).await;
            if let Some(end) = writer.end.take() {
                end.end(sent.is_ok());
            }
            sent?;
            let last = writer.last;
            drop(writer);
            let clear = poll_fn(|cx| self.conn.poll_upload_done(cx)).await;
            if let Some(upgrade) = upgrade {
                self.start_tunnel(*upgrade);
                return Ok(());
            }
            if !clear {
                self.shutdown().await?;
                return self.linger().await;
            }
            if last {
                break;
            }
        }
        self.close().await
    }

    /// Closes a connection after its last response. In plaintext, closing is as good as a shutdown;
    /// TLS needs a close_notify.
    async fn close(&self) -> Result<(), ClientConnError> {
        if self.conn.is_plain() {
            poll_fn(|cx| self.conn.poll_flush(cx)).await?;
            drop(self.conn.take_stream());
            return Ok(());
        }
        self.shutdown().await
    }

    fn is_ending(&self) -> bool {
        self.connection.ending.get().is_some()
    }

    /// Reads the next request head. A request that the client began to send is served even while
    /// draining.
    fn poll_request(
        &self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<RequestHead>, ClientConnError>> {
        let polled = self.conn.poll_head(cx, self.bounds);
        self.connection.hold_unparsed(self.conn.unparsed());
        match polled {
            Poll::Pending if self.conn.has_buffered() => self.connection.unfinished(),
            Poll::Pending if self.is_ending() => return Poll::Ready(Ok(None)),
            Poll::Pending => {}
            ready @ Poll::Ready(_) => return ready,
        }
        Poll::Pending
    }

    /// Calls the service, and writes the head of its response.
    async fn respond(
        &self,
        head: RequestHead,
    ) -> Result<(ResponseWriter, Option<Box<Upgrade>>), ClientConnError> {
        let RequestHead { mut parts, body, keep_alive, expects, text } = head;
        mark_unencoded(&mut parts);
        self.connection.upstream.request_text.replace(text);
        let is_head = parts.method == Method::HEAD;
        let mut request = ResponseContext { version: parts.version, head: is_head, keep_alive };
        let body = ClientBody::Http1(UploadBody::new(&self.conn, body, (expects, self.bounds)));
        let mut pending =
            PooledFuture::new(|| (self.service)(Rc::clone(self.connection), parts, body));
        let answered = poll_fn(|cx| {
            let polled = pending.poll(cx);
            self.write_interim();
            match polled {
                Poll::Ready(answered) => {
                    request.keep_alive &= self.conn.can_keep_alive(cx) && !self.is_ending();
                    Poll::Ready(Ok(answered))
                }
                Poll::Pending => {
                    self.maintain(cx)?;
                    Poll::Pending::<Result<_, ClientConnError>>
                }
            }
        })
        .await?;
        let ClientResponse { response, upgrade } = answered;
        if response.body().aborted().is_some() {
            return Err(ClientConnError::Unanswered);
        }
        Ok((self.write_head(response, request), upgrade))
    }

    /// Writes the interim responses that have arrived.
    fn write_interim(&self) {
        while let Some(response) = self.connection.take_interim() {
            self.conn
                .write(|out| out.head(|small| response_encode::write_interim(response, small)));
        }
    }

    fn write_head(
        &self,
        response: Response<ResponseBody>,
        request: ResponseContext,
    ) -> ResponseWriter {
        let length = response.body().size_hint().exact();
        let length = length.map_or(BodyLength::Unknown, BodyLength::Known);
        let second = self.connection.worker.now();
        let text = self.connection.upstream.response_text.take();
        // Still there if the request was refused.
        self.connection.upstream.request_text.take();
        // An application that drains its connections wants its clients to go.
        let closes = self.connection.upstream.closes.take();
        let request = ResponseContext { keep_alive: request.keep_alive && !closes, ..request };
        let (written, body) = self.conn.write(|out| {
            out.head(|small| {
                response_encode::write((response, &text), (request, length), small, second)
            })
        });
        let (framing, last) = (written.framing, written.last);
        let end = (framing == BodyEncoder::UntilClose)
            .then(|| Box::new(ResponseEnd::until_close(&self.conn)));
        let (body, unsent) = (Some(body), None);
        let mut writer = ResponseWriter { body, unsent, framing, last, end };
        // A body that is not written is not polled.
        if writer.framing == BodyEncoder::None {
            writer.end_body();
        }
        writer
    }

    /// Writes the response body; ready once all is written.
    fn poll_send(
        &self,
        cx: &mut Context<'_>,
        writer: &mut ResponseWriter,
    ) -> Poll<Result<(), ClientConnError>> {
        loop {
            let more = self.fill_write_buf(cx, writer);
            let flushed = self.conn.poll_flush(cx).map_err(|error| self.client_failed(error))?;
            // Bytes before the failure of the body are still sent.
            let waits = more?;
            match (flushed, &writer.body) {
                (Poll::Ready(()), None) => return Poll::Ready(Ok(())),
                (Poll::Ready(()), Some(_)) if !waits => {}
                (_, _) => break,
            }
        }
        // A client that does not read keeps the body from being polled or sent, not its bounds.
        let body = writer.body.as_mut().or(writer.unsent.as_mut());
        if body.is_some_and(|body| body.is_late(cx)) {
            return Poll::Ready(Err(ClientConnError::ResponseAborted));
        }
        self.maintain(cx)?;
        Poll::Pending
    }

    /// Fills the write buffer from the body. `true`: the body is pending.
    fn fill_write_buf(
        &self,
        cx: &mut Context<'_>,
        writer: &mut ResponseWriter,
    ) -> Result<bool, ClientConnError> {
        while let Some(body) = &mut writer.body {
            let most = backlog::bounded(MAX_BUFFERED);
            if self.conn.write(|out| out.len() >= most || out.pieces() >= MAX_CHUNKS) {
                return Ok(false);
            }
            let Poll::Ready(frame) = Pin::new(body).poll_frame(cx) else { return Ok(true) };
            let frame = frame.transpose().map_err(|error| writer.broken(&error, &self.conn))?;
            self.conn.write(|out| writer.take(frame, out))?;
        }
        Ok(false)
    }

    /// Answers a malformed request head with its status, as far as possible.
    async fn reject(&self, bad: RequestHeadError) -> Result<(), ClientConnError> {
        let status = match bad {
            RequestHeadError::Malformed => StatusCode::BAD_REQUEST,
            RequestHeadError::TooLarge => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            RequestHeadError::TargetTooLong => StatusCode::URI_TOO_LONG,
        };
        let mut response = Response::new(());
        *response.status_mut() = status;
        let version = http::Version::HTTP_11;
        let request = ResponseContext { version, head: false, keep_alive: false };
        let second = self.connection.worker.now();
        self.conn.write(|out| {
            out.head(|small| {
                let head = (response, &b""[..]);
                response_encode::write(head, (request, BodyLength::Known(0)), small, second)
            })
        });
        self.shutdown().await?;
        // An oversized head is not read to its end.
        if bad == RequestHeadError::TooLarge { Ok(()) } else { self.linger().await }
    }

    async fn shutdown(&self) -> Result<(), ClientConnError> {
        poll_fn(|cx| {
            std::task::ready!(self.conn.poll_flush(cx))?;
            self.conn.poll_shutdown(cx).map(Ok)
        })
        .await
    }

    /// Lingering close: discards input until the client closes or the timeout of a request head
    /// expires. Closing a socket with unread bytes resets the connection, and the client may lose
    /// the response that states the reason (RFC 9112 section 9.6).
    async fn linger(&self) -> Result<(), ClientConnError> {
        self.connection.unfinished();
        poll_fn(|cx| self.conn.poll_discard(cx).map(Ok)).await
    }

    /// Hands the stream over to the tunnel of an upgrade.
    fn start_tunnel(&self, upgrade: Upgrade) {
        if let Some((io, read)) = self.conn.take_stream() {
            self.connection.hold_unparsed(0);
            spawn_local(tunnel::forward(Prefixed::new(read, io), upgrade));
        }
    }
}

impl ResponseWriter {
    fn broken(&mut self, error: &ResponseBodyError, conn: &Rc<ClientConn>) -> ClientConnError {
        if let ResponseBodyError::Upstream(error) = error {
            match &mut self.end {
                Some(end) => end.is_broken = true,
                None => self.end = Some(Box::new(ResponseEnd::broken(conn, error.is_reset()))),
            }
        }
        ClientConnError::ResponseAborted
    }

    fn take(
        &mut self,
        frame: Option<Frame<Bytes>>,
        out: &mut WriteBuf,
    ) -> Result<(), ClientConnError> {
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
                self.end_body();
                let trailers = frame.into_trailers().unwrap_or_default();
                self.framing.trailers(&trailers, out).map_err(|_| body_incomplete())
            }
        }
    }

    fn end(&mut self, out: &mut WriteBuf) -> Result<(), ClientConnError> {
        self.end_body();
        self.framing.end(out).map_err(|_| body_incomplete())
    }

    fn end_body(&mut self) {
        self.unsent = self.body.take().and_then(ResponseBody::into_unsent);
    }
}

/// Tells the authorizer of a character in the path that is to be percent-encoded.
fn mark_unencoded(head: &mut Parts) {
    let Some(UnencodedTarget { in_path: Some(byte) }) = head.extensions.get() else { return };
    let fault = match byte {
        b'<' => TargetFault::LessThan,
        b'>' => TargetFault::GreaterThan,
        _ => TargetFault::GraveAccent,
    };
    head.extensions.insert(UnencodedPath(fault));
}

fn body_incomplete() -> ClientConnError {
    ClientConnError::Io(std::io::ErrorKind::UnexpectedEof.into())
}

/// Bytes, and chunks, of a body that are buffered before they are written.
const MAX_BUFFERED: usize = 64 * 1024;
const MAX_CHUNKS: usize = 16;
