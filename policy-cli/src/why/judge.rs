//! The decision on a question at one workload, by the steps of its sidecar.

use super::client::ClientArgument;
use crate::inventory::Inventory;
use crate::local_mesh::cluster_address;
use crate::sidecar_view::{self, ClientTls, Outgoing, carries_http, version_fits};
use anyhow::{Context, anyhow};
use http::HeaderMap;
use http::header::HOST;
use http::request::Parts;
use policy_core::explain::{Explanation, explain};
use policy_core::{
    Connection, Decision, Denied, Facts, Identity, Protocol, RequestView, ServerPolicy, Subject,
    Tls, WorkloadKey, fold_mapped,
};
use policy_crds::ObjectKey;
use policy_engine::Compiled;
use policy_engine::least_change::{Access, LeastChange, least_change};
use std::net::IpAddr;
use std::num::NonZeroU16;
use std::sync::Arc;

/// A question, of whichever workload.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    /// The client.
    pub(crate) from: ClientArgument,
    /// Its address; absent: one inside the cluster, or that of `from`.
    pub(crate) address: Option<IpAddr>,
    /// The request; absent: the connection itself.
    pub(crate) request: Option<QuestionRequest>,
}

/// A request of a question.
#[derive(Clone, Debug)]
pub(crate) struct QuestionRequest {
    /// Method.
    pub(crate) method: String,
    /// Path and query.
    pub(crate) target: String,
    /// Host; absent: the name of the workload.
    pub(crate) host: Option<String>,
    /// Headers.
    pub(crate) headers: HeaderMap,
    /// True if it is sent by HTTP/2.
    pub(crate) h2: bool,
    /// True if it is a call of gRPC.
    pub(crate) grpc: bool,
}

/// The facts of a client at a workload.
pub(crate) struct JudgedClient {
    /// Its address.
    pub(crate) address: IpAddr,
    /// True if the address is one that was given.
    pub(crate) stated: bool,
    /// The identity that it proves.
    pub(crate) identity: Option<Identity>,
}

/// A decision with its explanation.
pub(crate) struct Judged {
    /// The policy of the port.
    pub(crate) policy: Arc<ServerPolicy>,
    /// The client.
    pub(crate) client: JudgedClient,
    /// The verdict of the whole way: `None` permits.
    pub(crate) refused: Option<Denied>,
    /// The explanation; absent where a step before the policy refused the request.
    pub(crate) explanation: Option<Explanation>,
    /// The least change; empty where it is allowed.
    pub(crate) change: LeastChange,
    /// The number of the known change that would allow it.
    pub(crate) mended_by: Option<usize>,
    /// Policies of the workload's namespace whose conditions the client meets, wherever they grant.
    pub(crate) admitting: Vec<ObjectKey>,
    /// The canonical host and path of the request, as far as it got.
    pub(crate) target: Option<(Option<String>, String)>,
    /// True if the request was decided as the connection that carries it, because the port carries bytes.
    pub(crate) as_bytes: bool,
    /// The question as the parameters of a sidecar's `/explain`.
    pub(crate) sidecar_query: Vec<(&'static str, String)>,
}

/// Decides on a question at a port of a workload. `identity` is what the client proves. The least change is
/// looked for only with known changes, the objects with each, and if none of these allows it.
///
/// # Errors
/// The workload has no such policy, or the request cannot be sent.
pub(crate) fn judge(
    inventory: &Inventory,
    (workload, port): (&WorkloadKey, NonZeroU16),
    question: &Question,
    (identity, known): (Option<Identity>, Option<&[Compiled]>),
) -> anyhow::Result<Judged> {
    let compiled = &inventory.compiled;
    let missing = || format!("there is no policy of {workload}:{port}");
    let policy = compiled.port(workload, port).with_context(missing)?;
    let facts = &compiled.workloads.get(workload).with_context(missing)?.state.facts;
    let client = client(inventory, question, identity)?;
    let connection = connection(&policy, &client, facts);
    let head = head(question, workload, client.identity.is_some())?;
    let carried = head.as_ref().filter(|_| carries_http(&policy, &connection));
    let as_bytes = head.is_some() && carried.is_none();
    let sidecar_query = sidecar_query(port, &connection, carried);
    let seen = Seen { inventory, workload, port, policy: &policy, connection };
    let SidecarOutcome { refused, explanation, change, mended_by, admitting, target } =
        seen.decide(carried, known);
    Ok(Judged {
        policy,
        client,
        refused,
        explanation,
        change,
        mended_by,
        admitting,
        target,
        as_bytes,
        sidecar_query,
    })
}

/// The parameters of the same question to a sidecar.
fn sidecar_query(
    port: NonZeroU16,
    connection: &Connection<'_>,
    head: Option<&Parts>,
) -> Vec<(&'static str, String)> {
    let mut query = vec![("port", port.to_string()), ("client", connection.client.to_string())];
    match connection.tls {
        Tls::Absent => query.push(("tls", "none".to_owned())),
        Tls::Passthrough => query.push(("tls", "passthrough".to_owned())),
        Tls::Terminated(identity) => {
            query.push(("tls", "mesh".to_owned()));
            query.extend(identity.map(|identity| ("identity", identity.as_str().to_owned())));
        }
    }
    let Some(head) = head else { return query };
    let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
    query.extend([("method", head.method.to_string()), ("path", path.to_owned())]);
    let host = head.headers.get(HOST).and_then(|host| host.to_str().ok()).map(str::to_owned);
    let host = host.or_else(|| head.uri.authority().map(ToString::to_string));
    query.extend(host.map(|host| ("host", host)));
    let headers = head.headers.iter().filter(|(name, _)| *name != HOST);
    let lines =
        headers.filter_map(|(name, value)| Some(format!("{name}: {}", value.to_str().ok()?)));
    query.extend(lines.map(|line| ("header", line)));
    query
}

impl Judged {
    /// The least change, which is left empty.
    pub(super) fn take_change(&mut self) -> LeastChange {
        std::mem::take(&mut self.change)
    }
}

/// A connection at a port.
struct Seen<'a> {
    inventory: &'a Inventory,
    workload: &'a WorkloadKey,
    port: NonZeroU16,
    policy: &'a ServerPolicy,
    connection: Connection<'a>,
}

impl Seen<'_> {
    fn decide(&self, head: Option<&Parts>, known: Option<&[Compiled]>) -> SidecarOutcome {
        let Self { inventory, workload, port, policy, connection } = self;
        let meshed = matches!(connection.tls, Tls::Terminated(_));
        let mut target = None;
        if let Some(head) = head.filter(|_| policy.deny.is_none()) {
            if !version_fits(policy.protocol, head.version, meshed) {
                return SidecarOutcome {
                    refused: Some(Denied::ProtocolMismatch),
                    ..SidecarOutcome::default()
                };
            }
            match sidecar_view::target(policy.paths, head) {
                Ok(found) => target = Some((head, found)),
                Err(fault) => {
                    return SidecarOutcome {
                        refused: Some(Denied::Target(fault)),
                        ..SidecarOutcome::default()
                    };
                }
            }
        }
        let request = target.as_ref().map(|(head, target)| RequestView {
            method: &head.method,
            host: target.host.as_deref(),
            path: &target.path,
            query: target.query,
            headers: &head.headers,
        });
        let explanation = explain(policy, connection, request.as_ref());
        let refused = refusal(&explanation, request.is_some());
        let access = Access { workload, port: *port, connection: *connection, request };
        let known = known.filter(|_| refused.is_some());
        let mended_by =
            known.and_then(|known| known.iter().position(|after| self.is_mended(after, &access)));
        let change = match known.is_some() && mended_by.is_none() {
            true => least_change(&inventory.compiled, &inventory.settings.config, &access),
            false => LeastChange::default(),
        };
        let subject = Subject { connection, request: request.as_ref() };
        let admitting = match refused {
            Some(Denied::Unauthorized) => admitting(inventory, workload, &subject),
            Some(_) | None => Vec::new(),
        };
        let target = target.map(|(_, target)| {
            (target.host.as_deref().map(str::to_owned), target.path.clone().into_owned())
        });
        SidecarOutcome {
            refused,
            explanation: Some(explanation),
            change,
            mended_by,
            admitting,
            target,
        }
    }

    /// True if the objects after a change allow the access, by the same protocol.
    fn is_mended(&self, after: &Compiled, access: &Access<'_>) -> bool {
        let Some(policy) = after.port(self.workload, self.port) else { return false };
        let explanation = explain(&policy, &access.connection, access.request.as_ref());
        policy.protocol == self.policy.protocol
            && refusal(&explanation, access.request.is_some()).is_none()
    }
}

/// The outcome of the steps of a sidecar.
#[derive(Default)]
struct SidecarOutcome {
    refused: Option<Denied>,
    explanation: Option<Explanation>,
    change: LeastChange,
    mended_by: Option<usize>,
    admitting: Vec<ObjectKey>,
    target: Option<(Option<String>, String)>,
}

/// The policies of a workload's namespace whose conditions a client meets.
fn admitting(
    inventory: &Inventory,
    workload: &WorkloadKey,
    subject: &Subject<'_>,
) -> Vec<ObjectKey> {
    let keys = inventory.compiled.objects.iter().map(|object| &object.meta.key);
    keys.filter(|key| key.namespace == workload.namespace)
        .filter(|key| {
            let grant = inventory.compiled.granted_by(key);
            grant.is_some_and(|grant| grant.is_ok_and(|grant| grant.holds(subject)))
        })
        .cloned()
        .collect()
}

/// The refusal of the whole way: a limit that cannot be read refuses what is permitted.
fn refusal(explanation: &Explanation, is_request: bool) -> Option<Denied> {
    match explanation.decision {
        Decision::Deny(denial) => Some(denial.reason),
        Decision::Permit(_) => {
            let limit = explanation.rate_limit.as_ref().filter(|_| is_request);
            limit.is_some_and(|limit| limit.refuses).then_some(Denied::RateLimitInvalid)
        }
    }
}

fn client(
    inventory: &Inventory,
    question: &Question,
    identity: Option<Identity>,
) -> anyhow::Result<JudgedClient> {
    let stated = match (&question.from, question.address) {
        (ClientArgument::Address(address), _) => Some(*address),
        (ClientArgument::Account(..) | ClientArgument::Identity(_), address) => address,
    };
    let assumed = || {
        cluster_address(&inventory.settings.config.cluster_networks)
            .context("the cluster has no networks; --address says where the client is")
    };
    let address = stated.map_or_else(assumed, Ok)?;
    Ok(JudgedClient { address: fold_mapped(address), stated: stated.is_some(), identity })
}

/// The connection of a client. On an opaque port an identity arrives by the sidecar's own port, which the
/// outbound half takes (docs/callers.md).
fn connection<'a>(
    policy: &ServerPolicy,
    client: &'a JudgedClient,
    facts: &'a Facts,
) -> Connection<'a> {
    let identity = client.identity.as_ref();
    let tls = match (policy.protocol, identity) {
        (Protocol::Opaque, Some(_)) => Tls::Terminated(identity),
        (_, Some(_)) => sidecar_view::tls(policy, ClientTls::Mesh, identity),
        (_, None) => Tls::Absent,
    };
    Connection { client: client.address, tls, facts }
}

fn head(
    question: &Question,
    workload: &WorkloadKey,
    meshed: bool,
) -> anyhow::Result<Option<Parts>> {
    let Some(sent) = &question.request else { return Ok(None) };
    let own = format!("{}.{}", workload.name, workload.namespace);
    let outgoing = Outgoing {
        method: &sent.method,
        target: &sent.target,
        host: sent.host.as_deref().unwrap_or(&own),
        headers: sent.headers.clone(),
        h2: sent.h2,
        grpc: sent.grpc,
        meshed,
    };
    sidecar_view::head(outgoing).map(Some).map_err(|error| anyhow!("the request: {error}"))
}
