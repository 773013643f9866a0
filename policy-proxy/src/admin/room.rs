//! Room for connections of the admin port: that of the pod and its node, and that of all other
//! clients. In each the client that holds most makes room for another, so that no stranger keeps a
//! scraper waiting, and no container of the pod the kubelet, which would restart it for that.

use policy_server::{CapacityBounds, Peer, RevocationOrder, Share, SharedCapacity};
use std::io;
use std::net::IpAddr;

/// Connections of the pod and its node.
const NEAR: CapacityBounds =
    CapacityBounds { total: 64, per_client: 64, first: RevocationOrder::LeastRecentlyUsed };

/// Connections of other clients: scrapes are few.
const OTHERS: CapacityBounds = CapacityBounds { per_client: 16, ..NEAR };

/// Room for connections.
#[derive(Debug)]
pub(super) struct AdminRoom {
    near: SharedCapacity,
    others: SharedCapacity,
}

impl Default for AdminRoom {
    fn default() -> Self {
        Self { near: SharedCapacity::new(NEAR), others: SharedCapacity::new(OTHERS) }
    }
}

impl AdminRoom {
    /// Takes room for a connection of `client`. `near`: it is the pod itself or its node.
    ///
    /// # Errors
    /// Nobody who holds more can give room back.
    pub(super) fn take(&self, client: IpAddr, near: bool) -> io::Result<Share> {
        let room = if near { &self.near } else { &self.others };
        let full = |_| io::Error::other("too many connections to the admin port");
        room.take(&Peer::at(client), 1).map_err(full)
    }
}

/// Serves a connection until another one needs its room.
///
/// # Errors
/// Those of the connection, or that it made room.
pub(super) async fn served(
    share: &Share,
    connection: impl Future<Output = io::Result<()>>,
) -> io::Result<()> {
    tokio::select! {
        served = connection => served,
        () = share.revoked() => {
            Err(io::Error::other("closed to make room for another connection to the admin port"))
        }
    }
}
