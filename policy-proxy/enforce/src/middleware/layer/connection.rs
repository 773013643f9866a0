//! A client's connection to a service behind the layer, and what all of them share.

use crate::client_headers::ClientHeaders;
use crate::record::{Notices, Recorder};
use crate::store::PortHandle;
use crate::telemetry::Telemetry;
use policy_tls::peer::Peer;
use std::any::Any;
use std::sync::{Arc, Once, OnceLock};

/// The state that all connections of a layer share.
#[derive(Clone)]
pub(super) struct LayerState {
    pub(super) handle: PortHandle,
    pub(super) telemetry: Arc<Telemetry>,
    pub(super) workload: Arc<str>,
    pub(super) notices: Arc<Notices>,
    pub(super) recorder: Option<Arc<dyn Recorder>>,
    /// True if no router has read a request before the layer.
    pub(super) whole_service: bool,
    /// Logs a tunnel that nothing would end once.
    pub(super) unguarded: Arc<Once>,
    /// The source that keeps the policies current.
    pub(super) source: Option<Arc<dyn Any + Send + Sync>>,
}

impl LayerState {
    /// Logs a tunnel that nothing would end, once.
    pub(super) fn unguarded(&self) {
        self.unguarded.call_once(|| {
            tracing::error!(
                workload = %self.workload,
                "an answer 101 was refused: the application did not take the `TunnelGuard` of the \
                 request, so that the tunnel would outlive its grant"
            );
        });
    }
}

/// A client's connection.
pub(super) struct LayerConnection {
    pub(super) shared: Arc<LayerState>,
    pub(super) peer: Arc<Peer>,
    /// Written once for all its requests, at the first that the server learns its client of.
    pub(super) informed: OnceLock<ClientHeaders>,
}
