//! What the injector is told.

use super::chosen::Defaults;
use super::places::Places;

/// The configuration of the injector's webhook, unless another is named.
pub const INJECTOR_CONFIGURATION: &str = policy_kube::names::INJECTOR_CONFIGURATION;

/// What every injected pod has in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Settings that neither the pod nor its namespace states.
    pub defaults: Defaults,
    /// Where the control plane is.
    pub places: Places,
    /// Whether the sidecar is an init container that goes on (Kubernetes 1.29), or a container like
    /// others.
    pub native: bool,
}

/// What kind of container the sidecar is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sidecar {
    /// An init container that goes on where the API server knows these (Kubernetes 1.29), else a
    /// container like others.
    #[default]
    Auto,
    /// An init container that goes on: it starts before the application, ends after it, and a Job
    /// completes without it.
    Native,
    /// A container like others.
    Container,
}

/// How the injector is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InjectorSettings {
    /// Name of its MutatingWebhookConfiguration.
    pub configuration: String,
    /// What holds where pods and namespaces say nothing.
    pub defaults: Defaults,
    /// Where the control plane is.
    pub places: Places,
    /// What kind of container the sidecar is.
    pub sidecar: Sidecar,
}
