//! What a server says in one message of `PolicyDiscovery.Watch`.

use super::update::Update;
use crate::messages as m;

/// What the server says: `WatchResponse`.
#[derive(Debug)]
pub enum Response {
    /// The workload.
    Workload(Box<m::Workload>),
    /// A port's policy, or a change of it.
    Port(Box<Update>),
    /// Nothing that is known to this version.
    Unknown,
}
