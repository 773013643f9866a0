//! Flags that take one of a few words.

use clap::ValueEnum;

/// Format of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    #[default]
    Plain,
    /// One JSON object per line.
    Json,
}

/// See [`KubeletExemption`](policy_engine::config::KubeletExemption).
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum KubeletArg {
    /// The probes and hooks that a pod declares.
    Probes,
    /// Everything from the probe networks.
    All,
}

/// See [`PodGateways`](policy_engine::config::PodGateways).
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PodGatewaysArg {
    /// They are the node's where they are a default gateway of the pod itself, which its sidecar looks up.
    /// To Linkerd's proxies they are pods'.
    ByRoute,
    /// They are the node's own, from which it reaches its pods: kubenet, flannel, k3s. Linkerd's proxies
    /// there need this.
    OfNode,
    /// They may be pods': Calico, Cilium with pools of the cluster, addresses of a cloud's network.
    OfPods,
}

/// See [`ProbeRoutes`](policy_engine::config::ProbeRoutes).
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ProbeRoutesArg {
    /// On all.
    Always,
    /// On those without routes, as Linkerd does.
    Unrouted,
}

/// See [`ReferenceGrants`](policy_engine::config::ReferenceGrants).
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum GrantsArg {
    /// Yes.
    Enforce,
    /// No, but a missing one is reported.
    Warn,
}

/// See [`UndeclaredPorts`](policy_core::UndeclaredPorts).
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum UndeclaredArg {
    /// The default policy.
    Default,
    /// They are refused.
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
    /// They are created, and their author is warned.
    #[default]
    Warn,
    /// They are refused.
    Refuse,
}
