//! The service behind a listener.

use super::connection::Accepted;
use super::refusal::ConnectionRefusal;
use std::net::SocketAddr;
use std::sync::Arc;

/// Serves the connections of a listener.
pub trait ConnectionService: Send + Sync + 'static {
    /// A value that lives as long as a connection, such as a gauge of open ones.
    type Open: Send + 'static;

    /// Accepts or refuses a client before anything of it is read.
    ///
    /// # Errors
    /// The reason to refuse it.
    fn admits(&self, client: SocketAddr) -> Result<(), &'static str> {
        let _ = client;
        Ok(())
    }

    /// Counts a connection that was accepted, until the value is dropped.
    fn opened(&self) -> Self::Open;

    /// Counts a connection that was refused.
    fn refused(&self, client: SocketAddr, reason: &ConnectionRefusal);

    /// Serves a connection until it ends. It is dropped if its room is given to another client.
    fn serve(self: Arc<Self>, accepted: Accepted) -> impl Future<Output = ()> + Send;
}
