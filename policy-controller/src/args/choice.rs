//! Flags that take one of a few words.

use clap::ValueEnum;

/// Format of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Text for people.
    #[default]
    Plain,
    /// One JSON object per line.
    Json,
}

/// A function that is on or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Toggle {
    /// On.
    Enabled,
    /// Off.
    Disabled,
}

/// See [`KubeletExemption`](policy_engine::config::KubeletExemption).
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum KubeletArg {
    /// The probes and hooks that a pod declares.
    Probes,
    /// All connections from the probe networks.
    All,
}

/// See [`PodGateways`](policy_engine::config::PodGateways).
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PodGatewaysArg {
    /// The node, where they are a default gateway of the pod itself, which its sidecar looks up.
    /// Linkerd's proxies take them for pods'.
    ByRoute,
    /// The node, which reaches its pods from them: kubenet, flannel, k3s. Linkerd's proxies there
    /// need this.
    OfNode,
    /// Possibly pods: Calico, Cilium with pools of the cluster, addresses of a cloud's network.
    OfPods,
}

/// See [`ProbeRoutes`](policy_engine::config::ProbeRoutes).
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ProbeRoutesArg {
    /// All ports.
    Always,
    /// Ports without routes, as Linkerd does.
    Unrouted,
}

/// See [`ReferenceGrants`](policy_engine::config::ReferenceGrants).
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum GrantsArg {
    /// Required.
    Enforce,
    /// Not required, but a missing one is reported.
    Warn,
}

/// See [`UndeclaredPorts`](policy_core::UndeclaredPorts).
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum UndeclaredArg {
    /// The default policy.
    Default,
    /// Deny.
    Deny,
}

/// See [`Sidecar`](policy_webhooks::injector::Sidecar).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum SidecarArg {
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

/// See [`Bypass`](policy_webhooks::injector::Bypass).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum BypassArg {
    /// Create them, and warn their author.
    #[default]
    Warn,
    /// Reject them.
    Refuse,
}

/// See [`OutboundTransport`](policy_webhooks::injector::OutboundTransport).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum TransportArg {
    /// To the port that the application asked for; opaque ports by the sidecar's own port.
    #[default]
    Original,
    /// To the sidecar's own port, with a header that names the application's, as Linkerd's proxies do.
    Header,
}

/// See [`Unanswered`](policy_webhooks::injector::Unanswered).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum UnansweredArg {
    /// It is refused.
    #[default]
    Refuse,
    /// It goes on in plaintext.
    Plaintext,
}
