//! The mark of a pod's sidecar: an annotation that the injector writes and nobody changes, by which
//! redirection and outbound discovery know how the sidecar was really set up.

use crate::ports::PortSet;
use serde_json::{Map, Value};
use std::num::NonZeroU16;
use std::sync::Arc;

/// How the sidecar of a pod was set up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SidecarMark {
    /// The version that injected it.
    pub version: Arc<str>,
    /// The port of the sidecar itself.
    pub inbound_port: NonZeroU16,
    /// The ports that are not redirected to it.
    pub skipped: PortSet,
    /// The identity that it proves; absent: that of the pod's ServiceAccount.
    pub identity: Option<Arc<str>>,
    /// The server name (SNI) that clients send; absent: its identity.
    pub server_name: Option<Arc<str>>,
    /// Its outbound half.
    pub outbound: OutboundMode,
    /// What writes the rules of redirection.
    pub capture: Capture,
}

/// The outbound half of a sidecar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OutboundMode {
    /// There is none.
    None,
    /// It carries every connection.
    On,
    /// It carries connections to workloads in the mesh, and refuses plaintext.
    MeshOnly,
}

/// What writes the rules of redirection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Capture {
    /// The init container of the pod.
    InitContainer,
    /// The CNI plugin of the node.
    Plugin,
}

impl SidecarMark {
    /// The port of a sidecar whose pod has no mark.
    pub const INBOUND_PORT: u16 = 4143;

    /// The value of the annotation.
    pub fn to_json(&self) -> String {
        let text = |text: &Arc<str>| Value::from(&**text);
        let skipped = Some(&self.skipped).filter(|ports| !ports.is_empty());
        let fields = [
            ("capture", Some(self.capture.as_str().into())),
            ("identity", self.identity.as_ref().map(text)),
            ("inboundPort", Some(self.inbound_port.get().into())),
            ("outbound", Some(self.outbound.as_str().into())),
            ("serverName", self.server_name.as_ref().map(text)),
            ("skippedInboundPorts", skipped.map(|ports| ports.to_string().into())),
            ("version", Some(text(&self.version))),
        ];
        let present = fields.into_iter().filter_map(|(name, value)| Some((name.into(), value?)));
        Value::Object(present.collect::<Map<String, Value>>()).to_string()
    }
}

impl OutboundMode {
    /// The value as the annotation spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::On => "on",
            Self::MeshOnly => "mesh-only",
        }
    }
}

impl Capture {
    /// The value as the annotation spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::InitContainer => "init-container",
            Self::Plugin => "cni-plugin",
        }
    }
}
