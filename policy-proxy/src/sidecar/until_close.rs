//! Responses of HTTP/1 whose body ends with the connection.

use super::client_conn::ClientConn;
use super::reset::{self, Resettable};
use std::future::poll_fn;
use std::rc::Rc;
use tokio::task::spawn_local;
use tokio::time::timeout;

/// A response whose body ends with the connection. Dropped before it is written, it resets the
/// connection, whose end would make the body look whole.
pub(super) struct UntilClose {
    conn: Rc<ClientConn>,
    /// True if the application's body broke off. What precedes that is delivered before the reset.
    pub(super) is_broken: bool,
    is_whole: bool,
}

impl UntilClose {
    pub(super) fn new(conn: &Rc<ClientConn>) -> Self {
        Self { conn: Rc::clone(conn), is_broken: false, is_whole: false }
    }

    /// Notes whether all of the response is written. If the application's body broke off, a task of its
    /// own waits until the client has what there is of it.
    pub(super) fn end(mut self, is_whole: bool) {
        self.is_whole = is_whole;
        if !is_whole && self.is_broken {
            spawn_local(async move {
                let delivered = async {
                    let flushed = poll_fn(|cx| self.conn.poll_flush(cx)).await;
                    if let (Ok(()), Some((io, _))) = (flushed, self.conn.take_stream()) {
                        io.reset_on_close();
                        reset::delivered(&io).await;
                    }
                };
                // Nothing else bounds it: the connection is over by now.
                let _ = timeout(reset::STUCK, delivered).await;
            });
        }
    }
}

impl Drop for UntilClose {
    fn drop(&mut self) {
        if !self.is_whole {
            self.conn.reset_on_close();
        }
    }
}
