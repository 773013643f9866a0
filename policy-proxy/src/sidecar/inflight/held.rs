//! The memory that a connection's requests hold beside their bodies.

use crate::sidecar::head_room::HeadPermit;
use policy_http::http2::{BodyAccount, HeldBytes};
use std::cell::{OnceCell, RefCell};
use std::rc::Rc;

/// The account of an HTTP/1 connection, opened with its first large head, and its bytes that are not
/// parsed yet.
#[derive(Debug, Default)]
pub(super) struct HeldByHttp1 {
    pub(super) account: OnceCell<Rc<BodyAccount>>,
    pub(super) unparsed: RefCell<Option<HeldBytes>>,
}

/// Room of a head, and its bytes.
pub(super) struct HeldHead {
    pub(super) _permit: HeadPermit,
    pub(super) _bytes: HeldBytes,
}
