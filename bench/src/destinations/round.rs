//! The results of one round.

use policy_bench::process::Memory;
use std::time::Duration;

/// Results of a round.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Round {
    /// Memory of the server: without clients, with idle connections, with every subscription.
    pub(crate) empty: Memory,
    pub(crate) connected: Memory,
    pub(crate) subscribed: Memory,
    /// From the first lookup to the last first answer, and the server's processor time meanwhile.
    pub(crate) opened: Duration,
    pub(crate) opening: Duration,
    /// From the end of the server to the last first answer of the next one; processor time of the new
    /// server and of the clients; connections that were tried; memory of the new server.
    pub(crate) back: Duration,
    pub(crate) returning: Duration,
    pub(crate) spent: Duration,
    pub(crate) attempts: usize,
    pub(crate) again: Memory,
}
