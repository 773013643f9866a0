//! Runs expectations through the whole pipeline: controller, gRPC, sidecar, and a real client over
//! real sockets.

use super::burst::{self, Decided};
use super::client_endpoint::{ClientEndpoint, ClientResolver};
use super::error::ExpectError;
use super::evaluator::{headers, host};
use super::expectation::{Expectation, Expectations, Version};
use super::report::Report;
use crate::local_mesh::addresses::Peer;
use crate::local_mesh::decision_log::DecisionRecord;
use crate::local_mesh::mesh::{LocalMesh, LocalMeshConfig, LocalMeshError};
use crate::local_mesh::pods::{PortAllocation, RunningPod, application_name};
use crate::request::{ClientRequest, ClientResponse, Outcome, Protocol, RequestError, Tls, send};
use crate::sidecar_view::ClientTls;
use crate::verdict::Verdict;
use futures_util::future::join_all;
use policy_core::{WorkloadKey, fold_mapped};
use policy_engine::WorkloadState;
use policy_engine::source::directory::Manifests;
use rustls_pki_types::ServerName;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU16;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Timeout of a client's request.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(15);

/// Time in which a decision must be recorded after the response.
const DECISION_TIMEOUT: Duration = Duration::from_secs(5);

/// Serves the manifests of `directory` and sends the requests of the file `expectations` through
/// its sidecars. Uses free ports of 127.10.0.0/16, so that several can run at once. Must be called
/// in a tokio runtime with I/O and time.
///
/// # Errors
/// Files that cannot be read, a mesh that does not start, and requests that cannot be sent.
/// Requests with another result than expected are in the report.
pub async fn run_pipeline(directory: &Path, expectations: &Path) -> Result<Report, ExpectError> {
    run(directory, expectations, false).await
}

/// Like [`run_pipeline`], with meshed clients on the direct path, as Linkerd's proxies connect.
/// Ports that carry bytes use the other path, because the direct path is the only one on which
/// their clients' identity is known.
///
/// # Errors
/// As [`run_pipeline`].
pub async fn run_pipeline_direct(
    directory: &Path,
    expectations: &Path,
) -> Result<Report, ExpectError> {
    run(directory, expectations, true).await
}

async fn run(directory: &Path, expectations: &Path, direct: bool) -> Result<Report, ExpectError> {
    let expectations = Expectations::read(expectations)?;
    let config = expectations.cluster.config()?;
    let mesh = LocalMesh::start(
        vec![Manifests::Path(directory.to_owned())],
        LocalMeshConfig::new(config, PortAllocation::Free),
    )
    .await?;
    let mut run = PipelineRun { mesh, pods: BTreeMap::new(), direct };
    run.start_pods(&expectations).await?;
    let mut report = Report::default();
    for expectation in &expectations.requests {
        let (found, further) = run.run_request(expectation).await?;
        report.add(expectation, found, further);
    }
    let conditions = run.mesh.controller.conditions.table().await;
    let conditions =
        conditions.ok_or_else(|| ExpectError::Setup("the controller has ended".to_owned()))?;
    report.add_conditions(&expectations.conditions, &conditions);
    Ok(report)
}

impl From<LocalMeshError> for ExpectError {
    fn from(error: LocalMeshError) -> Self {
        Self::Setup(error.to_string())
    }
}

struct PipelineRun {
    mesh: LocalMesh,
    pods: BTreeMap<WorkloadKey, (Arc<WorkloadState>, RunningPod)>,
    direct: bool,
}

impl PipelineRun {
    async fn start_pods(&mut self, expectations: &Expectations) -> Result<(), ExpectError> {
        let mut ports_by_pod: BTreeMap<WorkloadKey, BTreeSet<NonZeroU16>> = BTreeMap::new();
        for expectation in &expectations.requests {
            let key = expectation.to.key();
            ports_by_pod.entry(key).or_default().insert(expectation.to.port);
        }
        for (key, ports) in ports_by_pod {
            let state = self.mesh.state(&key).await?;
            let unit = self.mesh.start_pod(&state, &ports).await?;
            self.pods.insert(key, (state, unit));
        }
        Ok(())
    }

    async fn run_request(&mut self, expectation: &Expectation) -> Result<Decided, ExpectError> {
        let invalid = |message: String| ExpectError::InvalidRequest {
            name: expectation.name.clone(),
            message,
        };
        let to = &expectation.to;
        let key = to.key();
        let (state, unit) =
            self.pods.get(&key).ok_or_else(|| invalid(format!("there is no workload `{key}`")))?;
        let resolver = ClientResolver { config: &self.mesh.config };
        let endpoint = resolver.resolve(expectation, &state.facts)?;
        let address = unit.ports.get(&to.port).copied();
        let address = address.ok_or_else(|| invalid(format!("`{to}` has no address")))?;
        let server_name = unit.server_name.clone();
        let meshed = expectation.tls() == ClientTls::Mesh && endpoint.identity.is_some();
        let direct = unit.direct.filter(|_| self.direct && meshed);
        let from = self.mesh.allocate_for(Peer::Address(endpoint.address), endpoint.address)?;
        let mut client_request = client_request(expectation, address).map_err(invalid)?;
        client_request.from = Some(IpAddr::V4(from));
        client_request.tls = self.tls(expectation, &endpoint, server_name).map_err(invalid)?;
        let direct = direct.filter(|_| client_request.protocol != Protocol::Tcp);
        let count = burst::count(expectation);
        let exchanges = match direct {
            Some(own) => {
                let direct_request =
                    ClientRequest { address: own, direct: Some(to.port), ..client_request.clone() };
                self.exchange(&direct_request, endpoint.address, count).await.map_err(invalid)?
            }
            None => Vec::new(),
        };
        let over_http = exchanges.iter().any(|(entry, _)| entry.request.is_some());
        let exchanges = if over_http {
            exchanges
        } else {
            self.exchange(&client_request, endpoint.address, count).await.map_err(invalid)?
        };
        let decided = exchanges.into_iter().map(|(entry, result)| {
            let contradictions = contradictions(expectation, &entry, &result);
            (entry.found, contradictions)
        });
        burst::representative(expectation, decided.collect())
            .ok_or_else(|| invalid("it was never sent".to_owned()))
    }

    /// Sends a request `count` times at once and waits for the decisions.
    async fn exchange(
        &mut self,
        client_request: &ClientRequest,
        client: IpAddr,
        count: u32,
    ) -> Result<Vec<(DecisionRecord, ClientResult)>, String> {
        let mut sent = join_all((0..count).map(|_| send_from(client_request))).await;
        let real = fold_mapped(client);
        let mut exchanges = Vec::new();
        while !sent.is_empty() {
            let Some(entry) = self.decision(|entry| entry.client.ip() == real).await else {
                return Err(format!("no decision was recorded; the client got {sent:?}"));
            };
            let port = entry.client.port();
            let own = sent.iter().position(|(local, _)| *local == Some(port));
            let unknown = || sent.iter().position(|(local, _)| local.is_none());
            if let Some(at) = own.or_else(unknown) {
                exchanges.push((entry, sent.swap_remove(at).1));
            }
        }
        Ok(exchanges)
    }

    fn tls(
        &self,
        expectation: &Expectation,
        endpoint: &ClientEndpoint,
        server_name: String,
    ) -> Result<Option<Tls>, String> {
        let name = match expectation.tls() {
            ClientTls::None => return Ok(None),
            ClientTls::Mesh => server_name,
            ClientTls::Passthrough => {
                application_name(&expectation.to.namespace, &expectation.to.name)
            }
        };
        let credentials = self.mesh.launcher.authority.credentials(endpoint.identity.as_ref());
        Ok(Some(Tls {
            credentials: credentials.map_err(|error| error.to_string())?,
            server_name: ServerName::try_from(name).map_err(|error| error.to_string())?,
        }))
    }

    /// Waits for the next decision of a client, and skips those of others.
    async fn decision(
        &mut self,
        is_it: impl Fn(&DecisionRecord) -> bool,
    ) -> Option<DecisionRecord> {
        let decisions = &mut self.mesh.decisions;
        let wait = async {
            while let Some(entry) = decisions.recv().await {
                if is_it(&entry) {
                    return Some(entry);
                }
            }
            None
        };
        tokio::time::timeout(DECISION_TIMEOUT, wait).await.ok().flatten()
    }
}

/// Outcome of a request for the client.
#[derive(Debug)]
enum ClientResult {
    Response(Box<ClientResponse>),
    Error(RequestError),
}

/// Sends a request, and returns its source port if that is known.
async fn send_from(client_request: &ClientRequest) -> (Option<u16>, ClientResult) {
    match send(client_request).await {
        Ok(response) => {
            (response.local.map(|local| local.port()), ClientResult::Response(Box::new(response)))
        }
        Err(error) => (None, ClientResult::Error(error)),
    }
}

/// Contradictions between the client's result, the expected one and the decision.
fn contradictions(
    expectation: &Expectation,
    entry: &DecisionRecord,
    result: &ClientResult,
) -> Vec<String> {
    let allowed = entry.found.decision != Verdict::Deny;
    // The response that is stated is that of the expected decision.
    let expected = entry.found.decision == expectation.decision;
    let response = expectation.response.as_ref().filter(|_| expected);
    let received = expectation.received.as_ref().filter(|_| expected);
    match result {
        ClientResult::Response(found) => {
            let mut all = match response {
                Some(response) => response.differs(found),
                None => outcome_contradicts(allowed, found.outcome),
            };
            all.extend(received.map(|received| received.differs(found)).unwrap_or_default());
            all
        }
        ClientResult::Error(error) if allowed || response.is_some() => {
            vec![format!("{}, but {error}", expectation.decision.as_str())]
        }
        ClientResult::Error(_) => Vec::new(),
    }
}

fn outcome_contradicts(allowed: bool, outcome: Outcome) -> Vec<String> {
    match outcome {
        Outcome::Ok if !allowed => vec!["denied, but the client got through".to_owned()],
        Outcome::Refused | Outcome::Failed if allowed => {
            vec!["allowed, but the client was refused".to_owned()]
        }
        Outcome::Ok | Outcome::Refused | Outcome::Failed => Vec::new(),
    }
}

fn client_request(expectation: &Expectation, address: SocketAddr) -> Result<ClientRequest, String> {
    let mut client_request = match expectation.request() {
        None => ClientRequest::tcp(address),
        Some((method, target)) => {
            let mut client_request = ClientRequest::get(address, &target);
            client_request.method =
                method.parse().map_err(|_| format!("`{method}` is not a method"))?;
            client_request.protocol = match (&expectation.grpc, expectation.version) {
                (Some(_), _) => Protocol::Grpc,
                (None, Version::H1) => Protocol::Http1,
                (None, Version::H2) => Protocol::Http2,
            };
            client_request
        }
    };
    client_request.host = expectation.host.clone().unwrap_or_else(|| host(expectation));
    client_request.headers = headers(expectation)?;
    client_request.timeout = RESPONSE_TIMEOUT;
    Ok(client_request)
}
