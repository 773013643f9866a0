//! The body of a request: what has come, joined.

use bytes::Bytes;
use h2::{FlowControl, Reason, RecvStream};
use http::HeaderMap;
use http_body::{Body, Frame};
use parking_lot::Mutex;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

/// The body of a request. Its sender may send as much as was read of it.
#[derive(Debug)]
pub struct RequestBody {
    joined: Arc<Mutex<Joined>>,
    window: FlowControl,
}

/// Data that has come and was not read.
#[derive(Debug, Default)]
struct Joined {
    data: Vec<u8>,
    end: Option<Result<Option<HeaderMap>, h2::Error>>,
    /// True once nothing more comes or is read.
    is_over: bool,
    reader: Option<Waker>,
    intake: Option<Waker>,
}

impl Joined {
    /// Adds data. The room grows by an eighth instead of doubling, so that it is about what it holds.
    fn join(&mut self, data: &[u8]) {
        if self.data.capacity().saturating_sub(self.data.len()) < data.len() {
            self.data.reserve_exact(data.len().max(self.data.len() >> 3_u32));
        }
        self.data.extend_from_slice(data);
    }
}

/// Takes a body out of h2; completes at its end, or if nobody reads it any more.
pub(super) struct Intake {
    /// Absent once it is over, so that h2 lets the stream go.
    stream: Option<RecvStream>,
    joined: Arc<Mutex<Joined>>,
}

/// Divides the body of a request into the side that takes it in and the side that is read.
pub(super) fn joined(mut stream: RecvStream) -> (Intake, RequestBody) {
    let joined = Arc::<Mutex<Joined>>::default();
    let window = stream.flow_control().clone();
    (Intake { stream: Some(stream), joined: joined.clone() }, RequestBody { joined, window })
}

impl Future for Intake {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Self { stream, joined } = self.get_mut();
        let Some(open) = stream else { return Poll::Ready(()) };
        {
            let mut joined = joined.lock();
            if joined.is_over {
                *stream = None;
                return Poll::Ready(());
            }
            if joined.intake.as_ref().is_none_or(|waker| !waker.will_wake(cx.waker())) {
                joined.intake = Some(cx.waker().clone());
            }
        }
        let end = ready!(poll_end(open, joined, cx));
        let reader = {
            let mut joined = joined.lock();
            joined.end = Some(end);
            joined.reader.take()
        };
        *stream = None;
        if let Some(reader) = reader {
            reader.wake();
        }
        Poll::Ready(())
    }
}

/// Takes what has come until there is no more, or the end.
fn poll_end(
    stream: &mut RecvStream,
    joined: &Mutex<Joined>,
    cx: &mut Context<'_>,
) -> Poll<Result<Option<HeaderMap>, h2::Error>> {
    loop {
        match ready!(stream.poll_data(cx)) {
            Some(Ok(data)) if data.is_empty() => {}
            Some(Ok(data)) => {
                let reader = {
                    let mut joined = joined.lock();
                    joined.join(&data);
                    joined.reader.take()
                };
                if let Some(reader) = reader {
                    reader.wake();
                }
            }
            Some(Err(error)) => return Poll::Ready(Err(error)),
            None => return stream.poll_trailers(cx),
        }
    }
}

impl Drop for Intake {
    fn drop(&mut self) {
        let reader = {
            let mut joined = self.joined.lock();
            if self.stream.is_some() {
                // The connection has ended, and the body has not.
                joined.end = Some(Err(Reason::CANCEL.into()));
            }
            joined.reader.take()
        };
        if let Some(reader) = reader {
            reader.wake();
        }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = h2::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, h2::Error>>> {
        let Self { joined, window } = self.get_mut();
        let data = {
            let mut joined = joined.lock();
            if joined.data.is_empty() {
                let end = match joined.end.take() {
                    Some(Ok(trailers)) => trailers.map(|trailers| Ok(Frame::trailers(trailers))),
                    Some(Err(error)) => Some(Err(error)),
                    None if joined.is_over => None,
                    None => {
                        joined.reader = Some(cx.waker().clone());
                        return Poll::Pending;
                    }
                };
                joined.is_over = true;
                return Poll::Ready(end);
            }
            // Not a part of it, so that no room is kept.
            Bytes::from(std::mem::take(&mut joined.data))
        };
        // It fails only if the stream has ended.
        _ = window.release_capacity(data.len());
        Poll::Ready(Some(Ok(Frame::data(data))))
    }

    fn is_end_stream(&self) -> bool {
        let joined = self.joined.lock();
        joined.data.is_empty() && (joined.is_over || matches!(joined.end, Some(Ok(None))))
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        let intake = {
            let mut joined = self.joined.lock();
            joined.is_over = true;
            joined.data = Vec::new();
            joined.intake.take()
        };
        if let Some(intake) = intake {
            intake.wake();
        }
    }
}
