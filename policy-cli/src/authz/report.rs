//! What is told of who may reach which workloads.

use crate::cluster::Asked;
use crate::cluster::gaps::Gap;
use crate::cluster::settings::Settings;
use policy_engine::enforcement::Enforcement;
use serde::Serialize;
use std::num::NonZeroU16;

/// Who may reach which workloads.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Report {
    /// What was asked.
    pub(crate) asked: Asked,
    /// What policies were compiled with.
    pub(crate) settings: Settings,
    /// What could not be listed.
    pub(crate) gaps: Vec<Gap>,
    /// The workloads; those for which the same holds are told once.
    pub(crate) workloads: Vec<Workloads>,
}

/// Workloads for which the same holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Workloads {
    /// Namespace.
    pub(crate) namespace: String,
    /// `Pod` or `ExternalWorkload`.
    pub(crate) kind: &'static str,
    /// Names.
    pub(crate) names: Vec<String>,
    /// What runs there and enforces this; none: manifests do not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) sidecar: Option<Sidecar>,
    /// What decides about them and could not be listed: what is told may be incomplete or wrong.
    pub(crate) not_known: Vec<String>,
    /// Declared ports.
    pub(crate) ports: Vec<Port>,
    /// Ports that nothing but annotations names.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) annotated_ports: Vec<Port>,
    /// Every other port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) other_ports: Option<Port>,
}

/// What runs beside a workload and enforces its policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Sidecar {
    /// A sidecar of ours.
    Here,
    /// A proxy of Linkerd's API, or that of an ExternalWorkload.
    Compatible,
    /// Nothing.
    Missing,
    /// It does not run.
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

/// Who may reach a port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Port {
    /// The port; none: those of `ranges`, else every port that is not named elsewhere.
    pub(crate) port: Option<NonZeroU16>,
    /// Ports that share what is told, such as `9000` or `9002-9010`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) ranges: Vec<String>,
    /// The Server that owns it, or the default policy that holds.
    pub(crate) owner: String,
    /// Whether a Server owns it.
    #[serde(skip)]
    pub(crate) of_server: bool,
    /// How connections are read.
    pub(crate) protocol: String,
    /// Why everything is refused, if it is.
    pub(crate) denied: Option<&'static str>,
    /// Who may do what.
    pub(crate) access: Vec<Access>,
    /// What becomes of requests that no route matches; none: they are in `access`.
    pub(crate) otherwise: Option<String>,
    /// How many requests are let through of those that are granted, in words.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) limits: Vec<String>,
    /// What would grant and does not.
    pub(crate) withheld: Vec<Withhold>,
}

/// Something that may be done, and by whom.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Access {
    /// The route; none where no route decides.
    pub(crate) route: Option<String>,
    /// Its hosts; empty: every host.
    pub(crate) hosts: Vec<String>,
    /// Which requests, in words; `connections` for what is not HTTP, `requests` for all.
    pub(crate) what: Vec<String>,
    /// What a client must fulfil, all of it; empty: nothing.
    pub(crate) requires: Vec<Need>,
    /// Whether anybody may.
    pub(crate) granted: bool,
    /// The object that grants it; none if nothing does.
    pub(crate) by: Option<String>,
    /// Whether it is logged as audited.
    pub(crate) audited: bool,
    /// Whether it passes without routes being looked at, as probes do.
    pub(crate) exempt: bool,
}

/// What a client must fulfil: one of the things in the one list that is not empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Need {
    /// One of these identities: a name, `*.suffix`, or `*` for any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) identities: Vec<String>,
    /// An address in one of these networks.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) networks: Vec<String>,
    /// `mesh` (with or without an identity) or `passthrough`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tls: Option<&'static str>,
    /// The object that asks for it.
    pub(crate) from: String,
}

/// A grant that came to nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Withhold {
    /// The route it would have been for; none: the port.
    pub(crate) route: Option<String>,
    /// The object that would have granted.
    pub(crate) by: String,
    /// Why it does not.
    pub(crate) reason: String,
    /// Whether that is only because something could not be listed.
    pub(crate) not_known: bool,
}
