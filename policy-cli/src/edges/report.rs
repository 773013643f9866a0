//! Result of `portcullis edges`, as `-o json` prints it.

use crate::cluster::QuerySource;
use serde::Serialize;

/// Connections that pods opened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EdgesReport {
    /// The cluster.
    #[serde(rename = "asked")]
    pub(crate) source: QuerySource,
    /// The workload, such as `Deployment shop/cart`; absent: every workload of the namespaces that
    /// were asked.
    pub(crate) workload: Option<String>,
    /// True if the connections of every pod are known.
    pub(crate) complete: bool,
    /// The pods.
    pub(crate) pods: Vec<SidecarSource>,
    /// The connections, those of all pods of a workload together.
    pub(crate) edges: Vec<Edge>,
    /// Connections that were refused, and attempts that failed.
    pub(crate) failures: Vec<EdgeFailure>,
}

/// A pod, and what its sidecar could be asked.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SidecarSource {
    /// Namespace.
    pub(crate) namespace: String,
    /// Name.
    pub(crate) name: String,
    /// The identity that it proves.
    pub(crate) identity: Option<String>,
    /// The outbound half: `on`, `mesh-only` or `none`.
    pub(crate) outbound: &'static str,
    /// Reason why its connections are not known.
    pub(crate) problem: Option<String>,
}

/// A workload that opened connections.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EdgeOrigin {
    /// Its namespace.
    pub(crate) namespace: String,
    /// The workload, such as `deployment/web`.
    pub(crate) owner: String,
}

/// The other side of connections. What is absent is not known, or is no one thing.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EdgePeer {
    /// Namespace of the Service, or of the pod.
    pub(crate) namespace: Option<String>,
    /// The Service; absent for an address of a pod.
    pub(crate) service: Option<String>,
    /// Port of the Service.
    pub(crate) port: Option<u16>,
    /// Owner of the pod that was reached, such as `deployment/web`.
    pub(crate) owner: Option<String>,
}

/// Connections of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Edge {
    /// The workload that opened them.
    pub(crate) from: EdgeOrigin,
    /// The other side.
    #[serde(flatten)]
    pub(crate) peer: EdgePeer,
    /// True in mesh TLS, false in plaintext.
    pub(crate) tls: bool,
    /// The identity of the other side.
    pub(crate) identity: Option<String>,
    /// Reason for plaintext.
    pub(crate) reason: Option<String>,
    /// How many, and how many bytes.
    #[serde(flatten)]
    pub(crate) counts: Counts,
}

/// Counts of connections that reached an endpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Counts {
    /// Connections opened.
    pub(crate) opened: u64,
    /// Connections closed.
    pub(crate) closed: u64,
    /// Bytes sent.
    pub(crate) sent: u64,
    /// Bytes received.
    pub(crate) received: u64,
}

/// Failures of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EdgeFailure {
    /// The workload whose connections failed.
    pub(crate) from: EdgeOrigin,
    /// The other side.
    #[serde(flatten)]
    pub(crate) peer: EdgePeer,
    /// The reason.
    pub(crate) reason: String,
    /// How many.
    #[serde(flatten)]
    pub(crate) counts: FailureCounts,
}

/// Counts of failures.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FailureCounts {
    /// Connections that were reset before their first byte.
    pub(crate) refused: u64,
    /// Attempts to reach an endpoint that failed; another may have been reached instead.
    pub(crate) attempts: u64,
}

impl EdgesReport {
    /// True if some sidecar could be asked.
    pub(crate) fn is_known(&self) -> bool {
        self.pods.iter().any(|pod| pod.problem.is_none())
    }
}
