//! The end of a client's HTTP/1 connection behind a response that breaks off.

use super::client_conn::ClientConn;
use super::reset::{self, Resettable};
use std::future::poll_fn;
use std::rc::Rc;
use tokio::task::spawn_local;
use tokio::time::timeout;

/// The end of a response that may break off: a reset if its body ends with the connection, whose end would
/// make it look whole, or if the application was reset; else the end that the application gave it.
/// Dropped before the response is written, it resets the connection in the former cases.
pub(super) struct ResponseEnd {
    conn: Rc<ClientConn>,
    resets: bool,
    /// True if the application's body broke off. What precedes that is delivered before the end.
    pub(super) is_broken: bool,
    is_whole: bool,
}

impl ResponseEnd {
    /// The end of a response whose body ends with the connection.
    pub(super) fn until_close(conn: &Rc<ClientConn>) -> Self {
        Self { conn: Rc::clone(conn), resets: true, is_broken: false, is_whole: false }
    }

    /// The end of a response whose body broke off; `resets`: the application was reset.
    pub(super) fn broken(conn: &Rc<ClientConn>, resets: bool) -> Self {
        Self { conn: Rc::clone(conn), resets, is_broken: true, is_whole: false }
    }

    /// Notes whether all of the response is written. If the application's body broke off, a task of its
    /// own waits until the client has what there is of it.
    pub(super) fn end(mut self, is_whole: bool) {
        self.is_whole = is_whole;
        if !is_whole && self.is_broken {
            spawn_local(async move {
                // Nothing else bounds it: the connection is over by now.
                let _ = timeout(reset::STUCK, self.deliver()).await;
            });
        }
    }

    /// Delivers what there is of the response, and ends the connection.
    async fn deliver(&self) {
        if poll_fn(|cx| self.conn.poll_flush(cx)).await.is_err() {
            return;
        }
        if !self.resets {
            return poll_fn(|cx| self.conn.poll_shutdown(cx)).await;
        }
        if let Some((io, _)) = self.conn.take_stream() {
            io.reset_on_close();
            reset::delivered(&io).await;
        }
    }
}

impl Drop for ResponseEnd {
    fn drop(&mut self) {
        if self.resets && !self.is_whole {
            self.conn.reset_on_close();
        }
    }
}
