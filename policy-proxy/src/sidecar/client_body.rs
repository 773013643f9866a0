//! The body of a client's request, of either HTTP version.

use super::client_conn::UploadError;
use super::upload::UploadBody;
use bytes::Bytes;
use h2::Reason;
use http_body::{Body, Frame, SizeHint};
use policy_http::http2::{RecvBody, Reset};
use std::pin::Pin;
use std::task::{Context, Poll};

/// The body as its HTTP version reads it.
#[derive(Debug)]
pub(super) enum ClientBody {
    Http1(UploadBody),
    Http2(RecvBody),
}

impl ClientBody {
    /// Leaves it to the application to say `100 Continue`: it sees what the client expects.
    pub(super) fn leave_continue(&self) {
        match self {
            Self::Http1(body) => body.leave_continue(),
            // Nothing but the application says it there.
            Self::Http2(_) => {}
        }
    }

    /// True if the body will stay incomplete; otherwise wakes `cx` when that is known. Buffers
    /// frames that arrive while nothing can be forwarded.
    pub(super) fn is_broken(&mut self, cx: &mut Context<'_>) -> bool {
        match self {
            Self::Http1(body) => body.is_broken(cx),
            Self::Http2(body) => body.gather(cx),
        }
    }
}

impl Body for ClientBody {
    type Data = Bytes;
    type Error = RequestBodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, RequestBodyError>>> {
        match self.get_mut() {
            Self::Http1(body) => {
                Pin::new(body).poll_frame(cx).map(|frame| frame.map(|frame| Ok(frame?)))
            }
            Self::Http2(body) => {
                Pin::new(body).poll_frame(cx).map(|frame| frame.map(|frame| Ok(frame?)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Http1(body) => body.is_end_stream(),
            Self::Http2(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Http1(body) => body.size_hint(),
            Self::Http2(body) => body.size_hint(),
        }
    }
}

/// Error that ends a request body early.
#[derive(Debug, thiserror::Error)]
pub(super) enum RequestBodyError {
    /// The client reset its stream or connection.
    #[error("client: {0}")]
    Http2(#[from] h2::Error),
    /// The client closed the connection, or its body is malformed.
    #[error(transparent)]
    Http1(#[from] UploadError),
    /// Permission was lost, or the trailers are too large.
    #[error("ended by policy")]
    Cut,
}

impl RequestBodyError {
    /// True if a client of HTTP/1 ended its side, or sent a malformed body, and was not reset.
    pub(super) fn is_end(&self) -> bool {
        matches!(self, Self::Http1(error) if !error.is_reset())
    }
}

impl Reset for RequestBodyError {
    fn reason(&self) -> Reason {
        match self {
            Self::Http2(error) if error.is_reset() => {
                error.reason().unwrap_or(Reason::INTERNAL_ERROR)
            }
            // The client is gone. The reason of its GOAWAY, if it sent one, is no stream's.
            Self::Http2(_) => Reason::CANCEL,
            Self::Http1(_) | Self::Cut => Reason::INTERNAL_ERROR,
        }
    }
}
