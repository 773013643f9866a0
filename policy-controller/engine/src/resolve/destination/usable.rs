//! The endpoints of a Service that clients in one place may use, chosen as kube-proxy chooses them.
//!
//! The table of `policy_testkit::endpoints` has the cases, which a test compares with kube-proxy 1.34 on
//! a node. Hints for nodes count, as they do in kube-proxy since its gate PreferSameTrafficDistribution
//! is on by default (1.34). `publishNotReadyAddresses` is no part of the choice: the controller that
//! writes the slices states such endpoints as ready.

use crate::publish::destination::ScopeKind;
use policy_core::AddressFamily;
use policy_crds::resource::{EndpointSlice, SliceEndpoint};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

/// The choice of endpoints.
#[derive(Clone, Copy, Debug)]
pub(super) struct Choice<'a> {
    /// Name of the Service's port; empty: it has none.
    pub(super) port: &'a str,
    /// The family of the address that clients dial.
    pub(super) family: AddressFamily,
    /// True if clients may use endpoints of their own node alone.
    pub(super) local_only: bool,
    /// The node of the clients, if all are on one.
    pub(super) node: Option<&'a str>,
    /// The zone of the clients, if all are in one.
    pub(super) zone: Option<&'a str>,
}

/// An endpoint by its address and port.
pub(super) type Candidate<'a> = (SocketAddr, &'a SliceEndpoint);

impl<'a> Choice<'a> {
    /// The endpoints that these clients may use, in order, each once.
    pub(super) fn usable(&self, slices: &[&'a EndpointSlice]) -> Vec<Candidate<'a>> {
        let candidates = self.candidates(slices);
        let all = |is_usable: fn(&SliceEndpoint) -> bool| -> Vec<Candidate<'a>> {
            let usable = candidates.iter().filter(|(_, endpoint)| is_usable(endpoint));
            usable.map(|(address, endpoint)| (*address, *endpoint)).collect()
        };
        let ready = all(|endpoint| endpoint.is_ready);
        if !ready.is_empty() {
            return self.hinted(ready);
        }
        // Endpoints that end are better than none. Hints do not count among them.
        all(|endpoint| endpoint.is_serving && endpoint.is_terminating)
    }

    /// The kind of scope that the choice depends on.
    pub(super) fn needs(&self, slices: &[&EndpointSlice]) -> ScopeKind {
        let mut endpoints = self.of_family(slices).flat_map(|slice| &slice.endpoints);
        let mut zones = false;
        let nodes = endpoints.any(|endpoint| {
            zones |= !endpoint.zones.is_empty();
            !endpoint.nodes.is_empty()
        });
        match (self.local_only || nodes, zones) {
            (true, _) => ScopeKind::Node,
            (false, true) => ScopeKind::Zone,
            (false, false) => ScopeKind::All,
        }
    }

    fn of_family<'s>(
        &self,
        slices: &'s [&'a EndpointSlice],
    ) -> impl Iterator<Item = &'a EndpointSlice> + use<'s, 'a> {
        let family = self.family;
        slices.iter().copied().filter(move |slice| slice.family == Some(family))
    }

    /// The endpoints with the port. Of one address in several slices, as while an endpoint moves
    /// between them, the readiest counts. kube-proxy takes the slices in an order of chance, and so
    /// any of them.
    fn candidates(&self, slices: &[&'a EndpointSlice]) -> BTreeMap<SocketAddr, &'a SliceEndpoint> {
        let mut candidates: BTreeMap<SocketAddr, &'a SliceEndpoint> = BTreeMap::new();
        for slice in self.of_family(slices) {
            let port = slice.ports.iter().find(|port| &*port.name == self.port);
            let Some(port) = port.and_then(|port| port.port) else { continue };
            for endpoint in slice.endpoints.iter().filter(|endpoint| self.reaches(endpoint)) {
                let address = SocketAddr::new(endpoint.address, port.get());
                let best = candidates.entry(address).or_insert(endpoint);
                if readiness(endpoint) > readiness(best) {
                    *best = endpoint;
                }
            }
        }
        candidates
    }

    /// False for endpoints of other nodes where only those of the clients' own count.
    fn reaches(&self, endpoint: &SliceEndpoint) -> bool {
        !self.local_only || (self.node.is_some() && endpoint.node.as_deref() == self.node)
    }

    /// The endpoints that are for clients here, if each of them says whom it is for and one fits;
    /// else all.
    fn hinted(&self, ready: Vec<Candidate<'a>>) -> Vec<Candidate<'a>> {
        if self.local_only {
            return ready;
        }
        let nodes = |endpoint: &'a SliceEndpoint| &*endpoint.nodes;
        let zones = |endpoint: &'a SliceEndpoint| &*endpoint.zones;
        let hinted =
            fitting(&ready, self.node, nodes).or_else(|| fitting(&ready, self.zone, zones));
        hinted.unwrap_or(ready)
    }
}

/// Those whose hints name `place`; `None` unless all have hints and one fits.
fn fitting<'a>(
    ready: &[Candidate<'a>],
    place: Option<&str>,
    hints: impl Fn(&'a SliceEndpoint) -> &'a [Arc<str>],
) -> Option<Vec<Candidate<'a>>> {
    let place = place?;
    if ready.iter().any(|(_, endpoint)| hints(endpoint).is_empty()) {
        return None;
    }
    let fits = |endpoint: &'a SliceEndpoint| hints(endpoint).iter().any(|hint| **hint == *place);
    let fitting: Vec<_> = ready.iter().filter(|(_, endpoint)| fits(endpoint)).copied().collect();
    (!fitting.is_empty()).then_some(fitting)
}

fn readiness(endpoint: &SliceEndpoint) -> (bool, bool) {
    (endpoint.is_ready, endpoint.is_serving)
}

#[cfg(test)]
mod tests;
