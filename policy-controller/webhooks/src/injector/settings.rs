//! What the injector is told.

use super::control_plane::ControlPlane;
use super::effective_config::Defaults;
use std::path::PathBuf;

/// The configuration of the injector's webhook, unless another is named.
pub const INJECTOR_CONFIGURATION: &str = policy_kube::names::INJECTOR_CONFIGURATION;

/// What every injected pod has in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Settings that neither the pod nor its namespace states.
    pub defaults: Defaults,
    /// Where the control plane is.
    pub control_plane: ControlPlane,
    /// Whom sidecars trust.
    pub trust: Trust,
    /// What becomes of pods that could get around their sidecar.
    pub bypass: Bypass,
    /// Whether the sidecar is an init container that goes on (Kubernetes 1.29), or a container like
    /// others.
    pub native: bool,
}

/// Whom sidecars trust.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Trust {
    /// The roots in the ConfigMap of their namespace, whoever has written them.
    #[default]
    ConfigMap,
    /// These to begin with, PEM; the document in that ConfigMap says later ones.
    Followed(String),
    /// These, PEM, for as long as the pod lives.
    Fixed(String),
}

/// Where the roots come from that sidecars begin with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrustSettings {
    /// A PEM file, read for each pod; absent: the roots that the controller trusts itself.
    pub file: Option<PathBuf>,
    /// Whether nobody publishes a document that says later ones.
    pub fixed: bool,
}

/// What becomes of pods that could get around their sidecar: with capabilities that change the rules
/// of redirection, or with images of their own choice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bypass {
    /// They are created, and their author is warned.
    #[default]
    Warn,
    /// They are refused.
    Refuse,
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
    pub control_plane: ControlPlane,
    /// What kind of container the sidecar is.
    pub sidecar: Sidecar,
    /// Where the roots come from that sidecars begin with.
    pub trust: TrustSettings,
    /// What becomes of pods that could get around their sidecar.
    pub bypass: Bypass,
}
