//! Identification of the other replicas.

use std::collections::BTreeSet;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

/// Another replica.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Replica {
    /// Address of its policy port.
    pub address: SocketAddr,
    /// Name of its pod, if known.
    pub name: Option<Arc<str>>,
}

impl fmt::Display for Replica {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => write!(f, "{name} ({})", self.address),
            None => self.address.fmt(f),
        }
    }
}

/// The other replicas, as far as they are known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Replicas {
    /// The addresses and names of all other replicas.
    Known(BTreeSet<Replica>),
    /// Unknown so far, for this reason.
    Unknown(Arc<str>),
}
