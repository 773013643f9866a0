//! Requests that are streams of a connection to the application. It is polled by the task of the client's
//! connection, which its requests come from: nothing passes between tasks.

use super::inflow::{FRAMES_BUDGET, Inflow, Portion};
use super::pulse::{Beat, Heard, Pulse};
use super::pump::{Pump, Reset, Watched, while_waiting};
use super::received::{Cut, Left, Received, Tie};
use super::seats::Seats;
use crate::signal::remember;
use bytes::Bytes;
use h2::client::{Builder, Connection, SendRequest};
use http::{Request, Response};
use http_body::Body;
use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};

/// A client's HTTP/2 connections to the application: one, and those that end after what is open.
pub struct Streams<S, B> {
    /// The one that takes requests.
    sender: RefCell<Option<Sender>>,
    made: Cell<u32>,
    drivers: RefCell<Vec<Driver<S>>>,
    /// Bodies that somebody has to send.
    uploads: RefCell<Vec<Pump<B>>>,
    /// Streams that are over.
    left: Left,
    /// Who polls the drivers.
    polled_by: RefCell<Option<Waker>>,
}

struct Driver<S> {
    made: u32,
    connection: Connection<Inflow<S>, Bytes>,
    /// What is read of it before others have their turn.
    portion: Portion,
    pulse: Option<Pulse>,
}

/// How such connections are set up.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// PING interval, and how long an answer may take.
    pub ping: (Duration, Duration),
    /// Of a stream, and of the connection.
    pub windows: (u32, u32),
    /// Bytes of a header list.
    pub head: u32,
}

/// A connection that takes requests.
#[derive(Clone)]
pub struct Sender {
    /// Which of them it is.
    made: u32,
    sender: SendRequest<Bytes>,
    seats: Rc<Seats>,
    heard: Rc<Heard>,
}

impl<S, B> Default for Streams<S, B> {
    fn default() -> Self {
        Self {
            sender: RefCell::default(),
            made: Cell::default(),
            drivers: RefCell::default(),
            uploads: RefCell::default(),
            left: Left::default(),
            polled_by: RefCell::default(),
        }
    }
}

impl<S, B> Streams<S, B>
where
    S: AsyncRead + AsyncWrite + Unpin,
    B: Body<Data = Bytes, Error: Reset> + Watched + Unpin,
{
    /// The connection that takes requests, if there is one.
    pub fn sender(&self) -> Option<Sender> {
        self.sender.borrow().clone()
    }

    /// Makes `stream` the connection that takes requests.
    ///
    /// # Errors
    /// The application does not speak HTTP/2, or is gone.
    pub async fn begin(&self, stream: S, settings: Settings) -> Result<Sender, h2::Error> {
        let heard = Heard::new();
        let mut builder = Builder::new();
        builder
            .enable_push(false)
            .initial_max_send_streams(FIRST_STREAMS)
            .initial_window_size(settings.windows.0)
            .initial_connection_window_size(settings.windows.1)
            .max_header_list_size(settings.head)
            .data_frame_budget(FRAMES_BUDGET)
            .max_send_buffer_size(SEND_BUFFER);
        let portion = Portion::default();
        let stream = Inflow::of_server(stream, portion.clone());
        let (sender, mut connection) = builder.handshake(stream).await?;
        let pings = connection.ping_pong();
        let pulse = pings.map(|pings| Pulse::new(pings, Rc::clone(&heard), settings.ping, None));
        let made = self.made.get().wrapping_add(1);
        self.made.set(made);
        self.drivers.borrow_mut().push(Driver { made, connection, portion, pulse });
        let sender = Sender { made, sender, seats: Rc::default(), heard };
        *self.sender.borrow_mut() = Some(sender.clone());
        if let Some(waker) = &*self.polled_by.borrow() {
            waker.wake_by_ref();
        }
        Ok(sender)
    }

    /// Sends a request once the application takes it, and waits for its response.
    ///
    /// # Errors
    /// `Some`: the request was not sent, since the connection takes none any more. `None`: no response
    /// will come.
    pub async fn send(
        &self,
        via: Sender,
        mut request: Request<B>,
    ) -> Result<Response<Received>, Option<Request<B>>> {
        let Sender { made, mut sender, seats, heard } = via;
        let seat = while_waiting(request.body_mut(), seats.take(&mut sender)).await;
        let Some(seat) = seat else {
            self.forget(made);
            return Err(Some(request));
        };
        let (head, body) = request.into_parts();
        let last = body.is_end_stream();
        let request = Request::from_parts(head, ());
        let (mut response, stream) = sender.send_request(request, last).map_err(|_| None)?;
        drop((sender, seats));
        let tie = if last {
            Tie::Answer(seat)
        } else {
            let cut = Rc::new(Cut::new(seat));
            self.uploads.borrow_mut().push(Pump::new(stream, body).until(Rc::clone(&cut)));
            Tie::request(cut)
        };
        let answered = poll_fn(|cx| Pin::new(&mut response).poll(cx)).await.map_err(|_| None)?;
        heard.note();
        Ok(answered.map(|stream| Received::response(stream, tie, Rc::clone(&self.left), heard)))
    }

    fn forget(&self, made: u32) {
        let forgotten = self.sender.borrow_mut().take_if(|sender| sender.made == made);
        if let Some(Sender { seats, .. }) = forgotten {
            seats.close();
        }
    }

    /// A body that somebody has to send.
    pub(super) fn upload(&self) -> Option<Pump<B>> {
        self.uploads.borrow_mut().pop()
    }

    /// Forgets streams that are over. Wakes whoever polls.
    pub(super) fn forget_left(&self) {
        self.left.borrow_mut().clear();
    }

    /// Reads and writes what there is. `idle`: no request is open. `true`: there is more to be read,
    /// once others have had their turn.
    pub(super) fn poll(&self, cx: &mut Context<'_>, idle: bool) -> bool {
        remember(&mut self.polled_by.borrow_mut(), cx);
        let mut rests = false;
        self.drivers.borrow_mut().retain_mut(|driver| {
            driver.portion.renew();
            let ended = Pin::new(&mut driver.connection).poll(cx).is_ready();
            rests |= driver.portion.is_spent();
            let dead = |pulse: &mut Pulse| pulse.poll(cx, idle) == Poll::Ready(Beat::Dead);
            let over = ended || driver.pulse.as_mut().is_some_and(dead);
            if over {
                self.forget(driver.made);
            }
            !over
        });
        let refuses = |Sender { made, sender, seats, .. }: &mut Sender| {
            (!seats.look(sender)).then_some(*made)
        };
        let ended = self.sender.borrow_mut().as_mut().and_then(refuses);
        if let Some(made) = ended {
            self.forget(made);
        }
        rests
    }

    /// Nobody asks any more: tells the application so, if it listens.
    pub(super) fn close(&self) {
        *self.sender.borrow_mut() = None;
        self.uploads.borrow_mut().clear();
        self.forget_left();
        *self.polled_by.borrow_mut() = None;
        let mut cx = Context::from_waker(Waker::noop());
        for mut driver in std::mem::take(&mut *self.drivers.borrow_mut()) {
            driver.portion.renew();
            let _ = Pin::new(&mut driver.connection).poll(&mut cx);
        }
    }
}

impl<S, B> std::fmt::Debug for Streams<S, B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Streams").field("made", &self.made).finish_non_exhaustive()
    }
}

/// Streams until the application says how many it takes.
const FIRST_STREAMS: usize = 100;
/// Bytes of a request that wait for the application's window.
const SEND_BUFFER: usize = 1024 * 1024;
