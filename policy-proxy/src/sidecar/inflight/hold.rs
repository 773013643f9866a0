//! Large heads of open requests, and over HTTP/1 bytes that are not parsed yet, counted for the account of
//! their connection.

use super::held::HeldHead;
use super::{HttpConnection, InflightGuard};
use crate::sidecar::head_room::{HeadPermit, body_group};
use policy_enforce::error::ErrorKind;
use policy_http::http2::{BodyAccount, HeldBytes};
use policy_http::shutdown::Shutdown;
use std::rc::{Rc, Weak};

impl HttpConnection {
    /// Makes an account end a connection where others need its room.
    pub(super) fn end_by(account: &BodyAccount, connection: Weak<Self>) {
        account.ended_by(move || connection.upgrade().iter().for_each(|own| own.end_for_room()));
    }

    /// Ends at once, because other connections need the room of what it holds.
    fn end_for_room(&self) {
        self.http_error(ErrorKind::TooManyRequests);
        self.ending.raise(Shutdown::Immediate);
    }

    /// Counts bytes of HTTP/1 that are not parsed yet.
    pub(in crate::sidecar) fn hold_unparsed(self: &Rc<Self>, bytes: usize) {
        let bytes = if bytes > SMALL { bytes } else { 0 };
        let mut held = self.held.unparsed.borrow_mut();
        match &mut *held {
            Some(own) if bytes > 0 => own.set(bytes),
            Some(_) => *held = None,
            None if bytes > 0 => *held = Some(HeldBytes::of(self.account(), bytes)),
            None => {}
        }
    }

    fn account(self: &Rc<Self>) -> &Rc<BodyAccount> {
        let own = self.upstream.streams.account();
        own.unwrap_or_else(|| {
            self.held.account.get_or_init(|| {
                let account = self.worker.bodies.account(body_group(&self.peer));
                Self::end_by(&account, Rc::downgrade(self));
                Rc::new(account)
            })
        })
    }
}

impl InflightGuard {
    /// Holds room for the request's head until the request is over.
    pub(in crate::sidecar) fn hold(&self, head: Option<HeadPermit>) {
        let Some(permit) = head else { return };
        let account = self.connection.account();
        let bytes = HeldBytes::of(account, permit.bytes());
        if let Some(open) = self.connection.inflight.borrow_mut().get_mut(self.key) {
            open.head = Some(Box::new(HeldHead { _permit: permit, _bytes: bytes }));
        }
    }
}

/// Bytes that are not parsed yet and count for nothing.
const SMALL: usize = 4 * 1024;
