//! Reads the heads of a response: interim ones, and the final one.

use super::{Connection, Error};
use crate::http1::head_arena;
use crate::http1::read_buf;
use crate::http1::request_decode::Bounds;
use crate::http1::response_decode::{self, ResponseFraming, ResponseHead, ResponseHeadError};
use bytes::{Bytes, BytesMut};
use http::{Response, StatusCode};
use http_body::Body;
use std::io;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite};

impl<S, B> Connection<S, B>
where
    S: AsyncRead + AsyncWrite + Unpin,
    B: Body<Data = Bytes> + Unpin,
{
    /// Sends the request and waits for the next head of its response. After an interim one
    /// ([`response_decode::is_interim`]), another follows.
    ///
    /// # Errors
    ///
    /// There will be no response.
    pub fn poll_head(&mut self, cx: &mut Context<'_>) -> Poll<Result<Response<()>, Error>> {
        if self.is_sending()
            && let Poll::Ready(sent) = self.poll_send(cx)
        {
            sent?;
        }
        if std::mem::take(&mut self.watched) {
            // Nothing can have arrived since: this thread would have been woken.
            return Poll::Pending;
        }
        loop {
            let status = match self.parse_input()? {
                HeadStatus::Partial => match ready!(self.poll_parse(cx)) {
                    Ok(Some(status)) => status,
                    Ok(None) => return Poll::Ready(Err(self.ended())),
                    Err(Error::Io(error)) => return Poll::Ready(Err(self.broken(error))),
                    Err(error) => return Poll::Ready(Err(error)),
                },
                complete @ HeadStatus::Complete(_) => complete,
            };
            match status {
                HeadStatus::Partial => {}
                HeadStatus::Complete(head) if head.is_interim() => {
                    return Poll::Ready(self.count_interim(head));
                }
                HeadStatus::Complete(head) => return Poll::Ready(self.start_body(head)),
            }
        }
    }

    /// Parses a head that arrived together with the interim response before it.
    fn parse_input(&mut self) -> Result<HeadStatus, Error> {
        if !std::mem::take(&mut self.head_follows) || self.input.is_empty() {
            return Ok(HeadStatus::Partial);
        }
        let head = response_decode::parse(&mut self.input, self.is_head, self.bounds)?;
        Ok(head.map_or(HeadStatus::Partial, HeadStatus::Complete))
    }

    fn count_interim(&mut self, head: ResponseHead) -> Result<Response<()>, Error> {
        self.head_follows = true;
        self.awaits_continue &= head.response.status() != StatusCode::CONTINUE;
        if !self.interim.admits(head.text.len()) {
            return Err(ResponseHeadError::TooManyInterim.into());
        }
        Ok(head.response)
    }

    /// Returns the error of a connection that ended before the response's head was complete.
    fn ended(&self) -> Error {
        if !self.bytes_written {
            Error::Unsent
        } else if self.input.is_empty() && self.interim.is_empty() {
            Error::Closed
        } else {
            Error::Truncated
        }
    }

    fn broken(&self, error: io::Error) -> Error {
        let reset = [
            io::ErrorKind::ConnectionReset,
            io::ErrorKind::ConnectionAborted,
            io::ErrorKind::BrokenPipe,
        ];
        if !self.bytes_written || reset.contains(&error.kind()) {
            self.ended()
        } else {
            Error::Io(error)
        }
    }

    /// Reads and parses a head; `None` at the end of the connection. Only bytes that have to be
    /// kept are copied out of the thread's buffer, because most responses arrive whole.
    fn poll_parse(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<HeadStatus>, Error>> {
        let Self { io, input, buffered_body, is_head, bounds, .. } = self;
        let read = read_buf::poll_read(io, cx, |fresh| {
            if fresh.is_empty() {
                return Ok(None);
            }
            parse(fresh, input, buffered_body, (*is_head, *bounds)).map(Some)
        });
        Poll::Ready(ready!(read)?)
    }
}

/// Result of parsing a response head.
#[allow(clippy::large_enum_variant, reason = "moved once per response; a box would cost more")]
enum HeadStatus {
    Complete(ResponseHead),
    Partial,
}

/// Parses a head from `input` and `fresh`, which follows it. A body that arrived with its head goes
/// to `buffered_body`; the rest of `fresh` is kept in `input`.
fn parse(
    fresh: &[u8],
    input: &mut BytesMut,
    buffered_body: &mut Bytes,
    (is_head, bounds): (bool, Bounds),
) -> Result<HeadStatus, Error> {
    if !input.is_empty() {
        input.extend_from_slice(fresh);
        let head = response_decode::parse(input, is_head, bounds)?;
        return Ok(head.map_or(HeadStatus::Partial, HeadStatus::Complete));
    }
    let Some((head, used)) = response_decode::find(fresh, is_head, bounds)? else {
        input.extend_from_slice(fresh);
        return Ok(HeadStatus::Partial);
    };
    let mut rest = fresh.get(used..).unwrap_or_default();
    if let ResponseFraming::Length(length) = head.body
        && let Ok(length) = usize::try_from(length)
        && let Some((body, behind)) = rest.split_at_checked(length)
    {
        *buffered_body = head_arena::keep(body);
        rest = behind;
    }
    if !rest.is_empty() {
        input.extend_from_slice(rest);
    }
    Ok(HeadStatus::Complete(head))
}
