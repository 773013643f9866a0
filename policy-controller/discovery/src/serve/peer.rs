//! Who is connected.

use super::caller::Caller;
use policy_server::Peer;
use tokio_util::sync::CancellationToken;

/// What is known of the connection that a request arrived on; in the request's extensions.
#[derive(Clone, Debug)]
pub(crate) struct Connected {
    /// The client.
    pub(crate) peer: Peer,
    /// Who the client is by its connection alone.
    pub(crate) caller: Caller,
    /// Cancelled when the connection is to end: its age, or shutdown. Streams end with OK then.
    pub(crate) ending: CancellationToken,
}
