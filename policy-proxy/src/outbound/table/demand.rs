//! A table as the client of discovery sees it, whatever the data path keeps in it.

use policy_core::destination::Destination;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::sync::watch;

/// The destinations that are asked for, and the taker of the answers. The methods are
/// those of the table.
pub trait Demand: fmt::Debug + Send + Sync {
    /// Returns the count of changes of [`wanted`](Self::wanted).
    fn demand(&self) -> watch::Receiver<u64>;
    /// Returns the wanted addresses, each with the serial number of its demand.
    fn wanted(&self) -> Vec<(SocketAddr, u64)>;
    /// Takes an answer.
    fn answer(&self, address: SocketAddr, destination: Arc<Destination>);
    /// Takes a refusal.
    fn refuse(&self, address: SocketAddr, reason: &str);
    /// Notes that an answer is not confirmed any more.
    fn lose(&self, address: SocketAddr);
    /// Notes that no answer is confirmed any more.
    fn lose_all(&self);
    /// Drops what was not used for its time.
    fn sweep(&self);
}
