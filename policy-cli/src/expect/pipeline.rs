//! Runs expectations through the whole pipeline: controller, gRPC, sidecar, and a real client over
//! real sockets.

use super::error::ExpectError;
use super::evaluator::{headers, host};
use super::expectation::{ClientTls, Expectation, Expectations, Version};
use super::report::Report;
use super::world::{Place, World};
use crate::local_mesh::addresses::Peer;
use crate::local_mesh::decision_log::DecisionRecord;
use crate::local_mesh::mesh::{LocalMesh, LocalMeshConfig, LocalMeshError};
use crate::local_mesh::pods::{PortAllocation, RunningPod, application_name};
use crate::request::{Failed, Outcome, Protocol, Question, Tls, send};
use crate::verdict::{Found, Verdict};
use policy_core::{WorkloadKey, fold_mapped};
use policy_engine::WorkloadState;
use rustls_pki_types::ServerName;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU16;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// How long a client waits for its answer.
const ANSWER: Duration = Duration::from_secs(15);

/// How long a decision may take to be told after the answer.
const TOLD: Duration = Duration::from_secs(5);

/// Serves the manifests of `directory` and asks its sidecars what the file `expectations` asks. Uses
/// free ports of 127.10.0.0/16, so that several can run at once. Must be called in a tokio runtime
/// with I/O and time.
///
/// # Errors
/// What cannot be read, started or asked. Requests that are not as expected are in the report.
pub async fn run_pipeline(directory: &Path, expectations: &Path) -> Result<Report, ExpectError> {
    run(directory, expectations, false).await
}

/// The same, with clients of the mesh on the direct path, as Linkerd's proxies connect. Ports that
/// carry bytes are asked the other way: there an identity is known on the direct path alone.
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
    let mesh =
        LocalMesh::start(directory, LocalMeshConfig::new(config, PortAllocation::Free)).await?;
    let mut run = Run { mesh, pods: BTreeMap::new(), direct };
    run.start_pods(&expectations).await?;
    let mut report = Report::default();
    for expectation in &expectations.requests {
        let (found, further) = run.ask(expectation).await?;
        report.add_with(expectation, found, further);
    }
    Ok(report)
}

impl From<LocalMeshError> for ExpectError {
    fn from(error: LocalMeshError) -> Self {
        Self::World(error.to_string())
    }
}

struct Run {
    mesh: LocalMesh,
    pods: BTreeMap<WorkloadKey, (Arc<WorkloadState>, RunningPod)>,
    direct: bool,
}

impl Run {
    async fn start_pods(&mut self, expectations: &Expectations) -> Result<(), ExpectError> {
        let mut asked: BTreeMap<WorkloadKey, BTreeSet<NonZeroU16>> = BTreeMap::new();
        for expectation in &expectations.requests {
            let key = WorkloadKey::pod(&expectation.to.namespace, &expectation.to.name);
            asked.entry(key).or_default().insert(expectation.to.port);
        }
        for (key, ports) in asked {
            let state = self.mesh.state(&key).await?;
            let unit = self.mesh.start_pod(&state, &ports).await?;
            self.pods.insert(key, (state, unit));
        }
        Ok(())
    }

    async fn ask(
        &mut self,
        expectation: &Expectation,
    ) -> Result<(Found, Vec<String>), ExpectError> {
        let unaskable =
            |message: String| ExpectError::Unaskable { name: expectation.name.clone(), message };
        let to = &expectation.to;
        let key = WorkloadKey::pod(&to.namespace, &to.name);
        let (state, unit) =
            self.pods.get(&key).ok_or_else(|| unaskable(format!("there is no pod `{key}`")))?;
        let world = World { config: &self.mesh.config };
        let place = world.place(expectation, &state.facts)?;
        let address = unit.ports.get(&to.port).copied();
        let address = address.ok_or_else(|| unaskable(format!("`{to}` has no address")))?;
        let server_name = unit.server_name.clone();
        let meshed = expectation.tls() == ClientTls::Mesh && place.identity.is_some();
        let direct = unit.direct.filter(|_| self.direct && meshed);
        let from = self.mesh.allocate_for(Peer::Address(place.address), place.address)?;
        let mut question = question(expectation, address).map_err(unaskable)?;
        question.from = Some(IpAddr::V4(from));
        question.tls = self.tls(expectation, &place, server_name).map_err(unaskable)?;
        let direct = direct.filter(|_| question.protocol != Protocol::Tcp);
        if let Some(own) = direct {
            let asked = Question { address: own, direct: Some(to.port), ..question.clone() };
            let (entry, answer) = self.put(&asked, place.address).await.map_err(unaskable)?;
            if entry.request.is_some() {
                return Ok((entry.found.clone(), differs(&entry.found, &answer)));
            }
        }
        let (entry, answer) = self.put(&question, place.address).await.map_err(unaskable)?;
        Ok((entry.found.clone(), differs(&entry.found, &answer)))
    }

    /// Asks, and waits for the decision.
    async fn put(
        &mut self,
        question: &Question,
        client: IpAddr,
    ) -> Result<(DecisionRecord, Got), String> {
        let (local, answer) = send_from(question).await;
        let real = fold_mapped(client);
        let entry = self.decision(|entry| {
            entry.client.ip() == real && local.is_none_or(|local| entry.client.port() == local)
        });
        match entry.await {
            Some(entry) => Ok((entry, answer)),
            None => Err(format!("no decision was recorded; the client got {answer:?}")),
        }
    }

    fn tls(
        &self,
        expectation: &Expectation,
        place: &Place,
        server_name: String,
    ) -> Result<Option<Tls>, String> {
        let name = match expectation.tls() {
            ClientTls::None => return Ok(None),
            ClientTls::Mesh => server_name,
            ClientTls::Passthrough => {
                application_name(&expectation.to.namespace, &expectation.to.name)
            }
        };
        let credentials = self.mesh.launcher.authority.credentials(place.identity.as_ref());
        Ok(Some(Tls {
            credentials: credentials.map_err(|error| error.to_string())?,
            server_name: ServerName::try_from(name).map_err(|error| error.to_string())?,
        }))
    }

    /// The next decision of a client; earlier ones of others are passed over.
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
        tokio::time::timeout(TOLD, wait).await.ok().flatten()
    }
}

/// What the client got, as far as it matters here.
#[derive(Debug)]
enum Got {
    Answer(Outcome),
    Nothing(Failed),
}

/// Asks, and says which port the question came from if that is known.
async fn send_from(question: &Question) -> (Option<u16>, Got) {
    match send(question).await {
        Ok(answer) => (answer.local.map(|local| local.port()), Got::Answer(answer.outcome)),
        Err(error) => (None, Got::Nothing(error)),
    }
}

/// How what the client got disagrees with what was decided.
fn differs(found: &Found, got: &Got) -> Vec<String> {
    let allowed = found.decision != Verdict::Deny;
    match got {
        Got::Answer(Outcome::Ok) if !allowed => {
            vec!["denied, but the client got through".to_owned()]
        }
        Got::Answer(Outcome::Refused | Outcome::Failed) if allowed => {
            vec!["allowed, but the client was refused".to_owned()]
        }
        Got::Nothing(error) if allowed => vec![format!("allowed, but {error}")],
        Got::Answer(_) | Got::Nothing(_) => Vec::new(),
    }
}

fn question(expectation: &Expectation, address: SocketAddr) -> Result<Question, String> {
    let mut question = match expectation.request() {
        None => Question::tcp(address),
        Some((method, target)) => {
            let mut question = Question::get(address, &target);
            question.method = method.parse().map_err(|_| format!("`{method}` is not a method"))?;
            question.protocol = match (&expectation.grpc, expectation.version) {
                (Some(_), _) => Protocol::Grpc,
                (None, Version::H1) => Protocol::Http1,
                (None, Version::H2) => Protocol::Http2,
            };
            question
        }
    };
    question.host = expectation.host.clone().unwrap_or_else(|| host(expectation));
    question.headers = headers(expectation)?;
    question.timeout = ANSWER;
    Ok(question)
}
