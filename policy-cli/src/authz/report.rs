//! Output of `portcullis authz`.

use crate::cluster::QuerySource;
use crate::cluster::permissions::ListFailure;
use crate::cluster::settings::Settings;
use policy_engine::enforcement::Enforcement;
use serde::Serialize;
use std::num::NonZeroU16;

/// Result of `portcullis authz`.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AuthzReport {
    /// Source of the objects.
    #[serde(rename = "asked")]
    pub(crate) source: QuerySource,
    /// Settings that the policies were compiled with.
    pub(crate) settings: Settings,
    /// Kinds that could not be listed.
    #[serde(rename = "gaps")]
    pub(crate) list_failures: Vec<ListFailure>,
    /// The workloads, with those of identical policy merged into one group.
    pub(crate) workloads: Vec<WorkloadGroup>,
}

/// Workloads of identical policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WorkloadGroup {
    /// Namespace.
    pub(crate) namespace: String,
    /// `Pod` or `ExternalWorkload`.
    pub(crate) kind: &'static str,
    /// Names.
    pub(crate) names: Vec<String>,
    /// State of the sidecar; absent for manifests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) sidecar: Option<Sidecar>,
    /// The reason why these workloads have no sidecar, so that nothing of this holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) unguarded: Option<String>,
    /// Resources that could not be listed although they affect these workloads: the result may be
    /// incomplete or wrong.
    pub(crate) not_known: Vec<String>,
    /// Declared ports.
    pub(crate) ports: Vec<Port>,
    /// Ports named only by annotations.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) annotated_ports: Vec<Port>,
    /// Every other port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) other_ports: Option<Port>,
}

/// State of the proxy that enforces a workload's policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Sidecar {
    /// A sidecar of this project.
    Here,
    /// A proxy that uses Linkerd's API, or that of an ExternalWorkload.
    Compatible,
    /// No proxy.
    Missing,
    /// The pod is not running.
    NotRunning,
}

impl From<Enforcement> for Sidecar {
    fn from(standing: Enforcement) -> Self {
        match standing {
            Enforcement::Sidecar => Self::Here,
            Enforcement::Compatible => Self::Compatible,
            Enforcement::Bare => Self::Missing,
            Enforcement::Idle => Self::NotRunning,
        }
    }
}

/// Effective authorization of a port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Port {
    /// The port; absent: those of `ranges`, or else every port that is not listed.
    pub(crate) port: Option<NonZeroU16>,
    /// Ports that share this entry, such as `9000` or `9002-9010`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) ranges: Vec<String>,
    /// The Server that owns it, or the default policy.
    pub(crate) owner: String,
    /// True if a Server owns the port.
    #[serde(skip)]
    pub(crate) of_server: bool,
    /// Protocol by which connections are read.
    pub(crate) protocol: String,
    /// The reason why anybody can reach the port, whatever is granted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) unguarded: Option<String>,
    /// Reason if every request is denied.
    pub(crate) denied: Option<&'static str>,
    /// Access rows.
    pub(crate) access: Vec<Access>,
    /// Fate of requests that no route matches; absent if `access` covers them.
    pub(crate) otherwise: Option<String>,
    /// Effects on permitted requests: those of routes, where equal ones are one entry, then those of
    /// the port.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) effects: Vec<RequestEffects>,
    /// Rate limits on granted requests, in words.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) limits: Vec<String>,
    /// Grants that do not take effect.
    pub(crate) withheld: Vec<UnresolvedGrantEntry>,
}

/// Requests, with the clients that one grant admits to them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Access {
    /// The route; absent where no route decides.
    pub(crate) route: Option<String>,
    /// Its hosts; empty: every host.
    pub(crate) hosts: Vec<String>,
    /// Requests in words: `connections` for traffic that is not HTTP, `requests` for all requests.
    pub(crate) what: Vec<String>,
    /// Requirements that a client must fulfil, all of them; empty: no requirement.
    pub(crate) requires: Vec<ClientRequirement>,
    /// True if any client can be admitted.
    pub(crate) granted: bool,
    /// The object that grants it; absent if there is none.
    pub(crate) by: Option<String>,
    /// True if admitted requests are logged as audited.
    pub(crate) audited: bool,
    /// True if admitted before routes are evaluated, as probes are.
    pub(crate) exempt: bool,
}

/// A requirement: the client must match one entry of the one list that is not empty, or the request
/// must meet the condition.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ClientRequirement {
    /// One of these identities: a name, `*.suffix`, or `*` for any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) identities: Vec<String>,
    /// An address in one of these networks.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) networks: Vec<String>,
    /// `mesh` (with or without an identity) or `passthrough`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tls: Option<&'static str>,
    /// A condition on the request, such as `path parameter book In [42]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) request: Option<String>,
    /// The object that requires it.
    pub(crate) from: String,
}

/// Permitted requests, with the effects on them.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RequestEffects {
    /// The route; absent: every permitted request of the port.
    pub(crate) route: Option<String>,
    /// Its hosts; empty: every host.
    pub(crate) hosts: Vec<String>,
    /// Requests in words.
    pub(crate) what: Vec<String>,
    /// Bounds on time. Those of the port hold besides those of a route, and the shortest counts.
    pub(crate) timeouts: Vec<TimeoutEntry>,
    /// Other effects, in the order in which they apply. Those of the port apply after those of a route.
    pub(crate) changes: Vec<EffectChange>,
}

/// A bound on a part of an exchange.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TimeoutEntry {
    /// The part: `complete`, `head`, `response` or `idle`.
    pub(crate) bound: &'static str,
    /// The part in words.
    #[serde(skip)]
    pub(crate) words: &'static str,
    /// The time, such as `3s`.
    pub(crate) after: String,
    /// Conditions on the request, all of which must hold; empty: none.
    pub(crate) when: Vec<String>,
    /// The object that sets it.
    pub(crate) by: String,
}

/// An effect that is no bound.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EffectChange {
    /// Changes in words, in their order.
    pub(crate) what: Vec<String>,
    /// Conditions on the request as it was received, all of which must hold; empty: none.
    pub(crate) when: Vec<String>,
    /// True if a proxy that cannot make the changes refuses the request.
    pub(crate) required: bool,
    /// The object that configures them.
    pub(crate) by: String,
}

/// A grant without effect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct UnresolvedGrantEntry {
    /// The route of the grant; absent: the port.
    pub(crate) route: Option<String>,
    /// The object that contains the grant.
    pub(crate) by: String,
    /// Reason why it does not.
    pub(crate) reason: String,
    /// True if that is unknown only because something could not be listed.
    pub(crate) not_known: bool,
}
