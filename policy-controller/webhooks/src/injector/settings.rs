//! Settings of the injector.

use super::control_plane::ControlPlane;
use super::effective_config::Defaults;
use super::outbound_settings::{Hindrance, OutboundSettings};
use std::path::PathBuf;

/// Default name of the injector's MutatingWebhookConfiguration.
pub const INJECTOR_CONFIGURATION: &str = policy_kube::names::INJECTOR_CONFIGURATION;

/// Settings that all injected pods share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Defaults of settings that neither the pod nor its namespace specifies.
    pub defaults: Defaults,
    /// Addresses and identities of the control plane.
    pub control_plane: ControlPlane,
    /// The roots that sidecars trust.
    pub trust: Trust,
    /// Handling of pods that could bypass their sidecar.
    pub bypass: Bypass,
    /// True for a native sidecar (Kubernetes 1.29), false for an ordinary container.
    pub native: bool,
    /// Settings of the outbound half, where a pod has one.
    pub outbound: OutboundSettings,
}

impl Settings {
    /// Returns the reason why no pod can have the outbound half.
    pub(super) fn hindrance(&self) -> Option<Hindrance> {
        match (self.native, self.outbound.is_unanswered) {
            (false, _) => Some(Hindrance::NotNative),
            (true, true) => Some(Hindrance::NoDiscovery),
            (true, false) => None,
        }
    }
}

/// The roots that sidecars trust.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Trust {
    /// The roots in the ConfigMap of their namespace, without an endorsement.
    #[default]
    ConfigMap,
    /// These roots to begin with, PEM; the endorsed roots in that ConfigMap later.
    Followed(String),
    /// These roots, PEM, for the lifetime of the pod.
    Fixed(String),
}

/// Source of the roots that sidecars begin with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrustSettings {
    /// A PEM file, read for each pod; absent for the controller's own roots.
    pub file: Option<PathBuf>,
    /// True if no endorsed roots are published.
    pub fixed: bool,
}

/// Handling of pods that could bypass their sidecar: by capabilities that can change the
/// redirection rules, or by other images.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bypass {
    /// They are created, and their author is warned.
    #[default]
    Warn,
    /// They are refused.
    Refuse,
}

/// Kind of the sidecar's container.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sidecar {
    /// A native sidecar if the API server supports it (Kubernetes 1.29), else an ordinary
    /// container.
    #[default]
    Auto,
    /// A native sidecar, an init container with `restartPolicy: Always`: it starts before the
    /// application and ends after it, and a Job completes without it.
    Native,
    /// An ordinary container.
    Container,
}

/// Settings of the injector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InjectorSettings {
    /// Name of its MutatingWebhookConfiguration.
    pub configuration: String,
    /// Defaults of settings that neither pods nor namespaces specify.
    pub defaults: Defaults,
    /// Addresses and identities of the control plane.
    pub control_plane: ControlPlane,
    /// Kind of the sidecar's container.
    pub sidecar: Sidecar,
    /// Source of the roots that sidecars begin with.
    pub trust: TrustSettings,
    /// Handling of pods that could bypass their sidecar.
    pub bypass: Bypass,
    /// Settings of the outbound half, where a pod has one.
    pub outbound: OutboundSettings,
    /// True if `linkerd.io/inject` asks this injector, too.
    pub reads_linkerd: bool,
}
