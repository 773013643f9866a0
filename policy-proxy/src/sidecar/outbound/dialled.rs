//! What an application dialled, and whether it is the sidecar itself.

use crate::sidecar::settings::Target;
use crate::sidecar::worker::Worker;
use policy_core::fold_mapped;
use std::net::{IpAddr, SocketAddr};

/// An accepted outbound connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dialled {
    /// The application's address, which is the pod's own.
    pub(super) from: IpAddr,
    /// The address that it dialled.
    pub(super) address: SocketAddr,
}

impl Worker {
    /// True if a connection to this address would come back to an outbound listener.
    pub(super) fn is_loop(&self, target: Target, dialled: Dialled) -> bool {
        let ip = dialled.address.ip();
        let is_here = ip.is_loopback() || ip.is_unspecified();
        let listens =
            self.shared.listening.iter().any(|own| {
                own.target.is_outbound() && own.address.port() == dialled.address.port()
            });
        // Loopback is never redirected: who dialled it dialled the listener.
        (is_here && target == Target::Outbound)
            || (listens && (is_here || self.is_own_address(ip, dialled)))
    }

    /// True if an address is this pod's.
    pub(super) fn is_own_address(&self, address: IpAddr, dialled: Dialled) -> bool {
        let stated = &self.shared.config.pod_addresses;
        (address == dialled.from && !address.is_loopback())
            || stated.iter().any(|own| fold_mapped(*own) == address)
    }
}
