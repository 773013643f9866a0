//! HTTP/2 connections to the application. They are polled by the task of the client's connection
//! that the requests come from, so nothing passes between tasks.

use super::body_room::{BodyAccount, ReceiveWindows, Windows};
use super::frame_filter::{FRAMES_BUDGET, FrameFilter, PeerIo};
use super::recv_body::{FinishedStreams, RecvBody, ResponseGuard, UploadCancel};
use super::send_body::{Interruptible, Reset, SendBody, Untouched, while_waiting};
use super::send_queue::{Piece, SendQueue};
use super::stream_permits::StreamPermits;
use crate::interim::{InterimResponses, head_size};
use crate::signal::store_waker;
use bytes::Bytes;
use h2::Reason;
use h2::client::{Builder, Connection, SendRequest};
use http::{Request, Response};
use http_body::Body;
use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use tokio::io::{AsyncRead, AsyncWrite};

/// A client's HTTP/2 connections to the application: one that accepts requests, and older ones that
/// finish their streams.
pub struct Streams<S, B> {
    /// The connection that accepts requests.
    sender: RefCell<Option<Sender>>,
    id: Cell<u32>,
    drivers: RefCell<Vec<Driver<S>>>,
    /// Request bodies that the task has to send.
    uploads: RefCell<Vec<SendBody<B>>>,
    /// Streams that are complete.
    finished: FinishedStreams,
    /// The account of the client's connection.
    account: Option<Rc<BodyAccount>>,
    /// Waker of the task that polls the connections.
    task: RefCell<Option<Waker>>,
}

struct Driver<S> {
    id: u32,
    connection: Connection<FrameFilter<S>, Piece>,
    /// The state of the connection's stream.
    state: PeerIo,
    windows: ReceiveWindows,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Driver<S> {
    fn update_windows(&mut self, account: Option<&BodyAccount>) {
        let Some(account) = account else { return };
        let connection = RefCell::new(&mut self.connection);
        self.windows.update(
            account,
            |bytes| connection.borrow_mut().set_target_window_size(bytes),
            |bytes| connection.borrow_mut().set_initial_window_size(bytes).is_ok(),
        );
    }
}

/// Settings of connections to the application.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Flow-control windows of a stream and of the connection, in bytes.
    pub windows: (u32, u32),
    /// Maximum size of a header list, in bytes. Larger ones, up to four times that, are received as a
    /// whole and the owner's to refuse: h2 would cut trailers short without a word.
    pub head: u32,
}

/// A connection that accepts requests.
#[derive(Clone)]
pub struct Sender {
    /// Number of the connection.
    id: u32,
    sender: SendRequest<Piece>,
    /// Pieces of request bodies that wait to be written.
    queue: SendQueue,
    permits: Rc<StreamPermits>,
}

/// Reason why a request has no response.
pub enum SendError<B> {
    /// It was not sent, because the connection accepts no more requests.
    Unsent(Box<Request<B>>),
    /// It was certainly not processed (RFC 9113 section 8.7), and nothing of its body was taken.
    Refused(Box<Request<B>>),
    /// The application reset the stream, or did not process it, with some of its body taken.
    Reset(Reason),
    /// More interim responses preceded the response than may.
    TooManyInterim,
    /// The connection was lost, or the response is malformed.
    Broken,
}

/// The body of a request that was sent, while it may still be had back.
enum Sent<B> {
    /// It is empty.
    Whole(B),
    Uploading(Rc<Untouched<B>>),
}

impl<B> Sent<B> {
    async fn take_back(self) -> Option<B> {
        match self {
            Self::Whole(body) => Some(body),
            Self::Uploading(body) => body.take().await,
        }
    }
}

impl<S, B> Streams<S, B> {
    /// Creates the streams of a client's connection, whose bodies count for an account.
    pub fn new(account: Option<BodyAccount>) -> Self {
        Self {
            sender: RefCell::default(),
            id: Cell::default(),
            drivers: RefCell::default(),
            uploads: RefCell::default(),
            finished: FinishedStreams::default(),
            account: account.map(Rc::new),
            task: RefCell::default(),
        }
    }
}

impl<S, B> Streams<S, B>
where
    S: AsyncRead + AsyncWrite + Unpin,
    B: Body<Data = Bytes, Error: Reset> + Interruptible + Unpin,
{
    /// Returns the account of the client's connection.
    pub fn account(&self) -> Option<&Rc<BodyAccount>> {
        self.account.as_ref()
    }

    /// Returns the connection that accepts requests, if there is one.
    pub fn sender(&self) -> Option<Sender> {
        self.sender.borrow().clone()
    }

    /// Performs the handshake on `stream` and makes it the connection that accepts requests. No PING is
    /// sent on it: servers of gRPC end connections for PINGs more often than every five minutes
    /// (too_many_pings), and the system tells at once when an application in the same pod is gone.
    ///
    /// # Errors
    /// The application does not speak HTTP/2, or has closed the connection.
    pub async fn handshake(&self, stream: S, settings: Settings) -> Result<Sender, h2::Error> {
        let windows = Windows { stream: settings.windows.0, connection: settings.windows.1 };
        let windows = match &self.account {
            Some(account) => account.windows(windows),
            None => ReceiveWindows::usual(windows),
        };
        let mut builder = Builder::new();
        builder
            .enable_push(false)
            .initial_max_send_streams(FIRST_STREAMS)
            .initial_window_size(windows.first().stream)
            .initial_connection_window_size(windows.first().connection)
            .max_header_list_size(settings.head.saturating_mul(4))
            .data_frame_budget(FRAMES_BUDGET)
            .max_send_buffer_size(SEND_BUFFER);
        let state = PeerIo::default();
        let stream = FrameFilter::of_server(stream, state.clone());
        let (sender, connection) = builder.handshake::<_, Piece>(stream).await?;
        let id = self.id.get().wrapping_add(1);
        self.id.set(id);
        self.drivers.borrow_mut().push(Driver { id, connection, state, windows });
        let sender = Sender {
            id,
            sender,
            queue: SendQueue::of(self.account.clone()),
            permits: Rc::default(),
        };
        *self.sender.borrow_mut() = Some(sender.clone());
        if let Some(waker) = &*self.task.borrow() {
            waker.wake_by_ref();
        }
        Ok(sender)
    }

    /// Waits for a stream permit, sends a request, and waits for its response. Interim responses go
    /// to `inform`; there is none after more of them than may be. A copy of the head is
    /// kept meanwhile: an application that ends its connection by GOAWAY leaves out what it got last.
    ///
    /// # Errors
    /// There will be no response.
    pub async fn send(
        &self,
        via: Sender,
        mut request: Request<B>,
        inform: &dyn Fn(Response<()>),
    ) -> Result<Response<RecvBody>, SendError<B>> {
        let Sender { id, mut sender, queue, permits } = via;
        let permit = while_waiting(request.body_mut(), permits.acquire(&mut sender)).await;
        let Some(permit) = permit else {
            self.retire(id);
            return Err(SendError::Unsent(Box::new(request)));
        };
        let (head, body) = request.into_parts();
        let (kept, last) = (Box::new(head.clone()), body.is_end_stream());
        let sent = sender.send_request(Request::from_parts(head, ()), last);
        let (mut response, stream) = sent.map_err(|_| SendError::Broken)?;
        drop((sender, permits));
        let (guard, sent) = if last {
            (ResponseGuard::Sent(permit), Sent::Whole(body))
        } else {
            let cancel = Rc::new(UploadCancel::new(permit));
            let mut upload =
                SendBody::new(stream, queue.stream(), body).cancelled_by(Rc::clone(&cancel));
            let sent = Sent::Uploading(upload.returnable());
            self.uploads.borrow_mut().push(upload);
            (ResponseGuard::sending(cancel), sent)
        };
        let mut interim = InterimResponses::default();
        let answered = poll_fn(|cx| {
            while let Poll::Ready(Some(informed)) = response.poll_informational(cx) {
                let informed = informed?;
                if !interim.admits(head_size(informed.headers())) {
                    return Poll::Ready(Err(Reason::ENHANCE_YOUR_CALM.into()));
                }
                inform(informed);
            }
            Pin::new(&mut response).poll(cx)
        })
        .await;
        match answered {
            Ok(answered) => Ok(answered.map(|stream| {
                let finished = Rc::clone(&self.finished);
                RecvBody::response(stream, guard, finished, self.account.clone())
            })),
            Err(error) if is_unprocessed(&error) => Err(match sent.take_back().await {
                Some(body) => SendError::Refused(Box::new(Request::from_parts(*kept, body))),
                None => SendError::Reset(Reason::REFUSED_STREAM),
            }),
            Err(error) if error.is_reset() && error.is_remote() => {
                Err(error.reason().map_or(SendError::Broken, SendError::Reset))
            }
            Err(_) if interim.are_exceeded() => Err(SendError::TooManyInterim),
            Err(_) => Err(SendError::Broken),
        }
    }

    fn retire(&self, id: u32) {
        let forgotten = self.sender.borrow_mut().take_if(|sender| sender.id == id);
        if let Some(Sender { permits, .. }) = forgotten {
            permits.close();
        }
    }

    /// Returns the next request body that the task has to send.
    pub(super) fn upload(&self) -> Option<SendBody<B>> {
        self.uploads.borrow_mut().pop()
    }

    /// Drops complete streams. Wakes the polling task.
    pub(super) fn drop_finished(&self) {
        self.finished.borrow_mut().clear();
    }

    /// Reads and writes frames. Returns true if a read budget is exhausted and the task has to poll
    /// again after other tasks.
    pub(super) fn poll(&self, cx: &mut Context<'_>) -> bool {
        store_waker(&mut self.task.borrow_mut(), cx);
        let mut more_to_read = false;
        self.drivers.borrow_mut().retain_mut(|driver| {
            driver.state.refill();
            driver.update_windows(self.account.as_deref());
            let ended = Pin::new(&mut driver.connection).poll(cx).is_ready();
            more_to_read |= driver.state.is_exhausted();
            if ended {
                self.retire(driver.id);
            }
            !ended
        });
        let refuses = |Sender { id, sender, permits, .. }: &mut Sender| {
            (!permits.update(sender)).then_some(*id)
        };
        let ended = self.sender.borrow_mut().as_mut().and_then(refuses);
        if let Some(id) = ended {
            self.retire(id);
        }
        more_to_read
    }

    /// Closes the connections and sends GOAWAY if possible: no more requests follow.
    pub(super) fn close(&self) {
        *self.sender.borrow_mut() = None;
        self.uploads.borrow_mut().clear();
        self.drop_finished();
        *self.task.borrow_mut() = None;
        let mut cx = Context::from_waker(Waker::noop());
        for mut driver in std::mem::take(&mut *self.drivers.borrow_mut()) {
            driver.state.refill();
            let _ = Pin::new(&mut driver.connection).poll(&mut cx);
        }
    }
}

impl<S, B> std::fmt::Debug for Streams<S, B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Streams").field("last_id", &self.id).finish_non_exhaustive()
    }
}

/// Returns true if the application has certainly not processed the stream: it said REFUSED_STREAM,
/// or GOAWAY with a lower number, which h2 reports to the streams above that number alone.
fn is_unprocessed(error: &h2::Error) -> bool {
    let refused = error.is_reset() && error.reason() == Some(Reason::REFUSED_STREAM);
    error.is_remote() && (refused || error.is_go_away())
}

/// Maximum number of streams until the application sends its SETTINGS, which are its first bytes.
const FIRST_STREAMS: usize = 1;
/// Maximum number of request bytes that wait for the application's window.
const SEND_BUFFER: usize = 1024 * 1024;
