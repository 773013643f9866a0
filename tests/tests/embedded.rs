//! Every scenario inside a service: policy-embed reads the manifests, and the layer is around a service of
//! axum, one of hyper and one of tonic. Their requests are decided as the sidecar decides them, or the table
//! says why not.

use http::{HeaderName, HeaderValue, Request, Response, Version as HttpVersion};
use http_body_util::{BodyExt, Full};
use ipnet::IpNet;
use policy_cli::expect::{Client, ClientTls, Expectation, Expectations, Verdict, Version};
use policy_core::{Identity, WorkloadKey};
use policy_embed::{Peer, PeerTls, Policies, PolicyLayer, Recorder};
use policy_enforce::record::Record;
use policy_engine::ControllerConfig;
use policy_tests::sources::root;
use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU16;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tower::util::BoxCloneService;
use tower::{Layer, ServiceExt, service_fn};

type Body = Full<bytes::Bytes>;
type Service = BoxCloneService<Request<Body>, Response<Body>, Infallible>;

/// The reason why a request is none of the layer's, or is decided in another way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Otherwise {
    /// It is none of HTTP: bytes, or TLS of the application.
    NotHttp,
    /// The sidecar goes by the version of HTTP and by the protocol that the Server declares; a service
    /// answers the versions that it speaks.
    Protocol,
    /// It comes from the node, whose address the manifests alone do not state.
    Node,
}

/// The last decision that the layer recorded.
#[derive(Default)]
struct Decided(Mutex<Option<(Verdict, Option<String>)>>);

impl Recorder for Decided {
    fn record(&self, record: &Record<'_>) {
        let reason = record.verdict.reason();
        let verdict = match (reason, record.audited) {
            (Some(_), _) => Verdict::Deny,
            (None, true) => Verdict::Audit,
            (None, false) => Verdict::Allow,
        };
        let reason = reason.map(|reason| reason.as_str().to_owned());
        *self.0.lock().unwrap() = Some((verdict, reason));
    }
}

/// The folders below `tests/scenarios`, sorted.
fn scenarios() -> Vec<PathBuf> {
    let entries = fs::read_dir(root().join("tests/scenarios")).unwrap();
    let mut found: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    found.retain(|path| path.is_dir());
    found.sort();
    found
}

/// Number of kinds of services.
const KINDS: usize = 3;

/// A service of each kind behind a layer.
fn services(layer: PolicyLayer) -> [Service; KINDS] {
    let axum = axum::Router::new().fallback(async || "here");
    let axum = axum.map_request(|request: Request<Body>| request.map(axum::body::Body::new));
    let axum = axum.map_response(|response| response.map(|_| Body::default()));
    let hyper =
        service_fn(async |_: Request<Body>| Ok::<_, Infallible>(Response::new(Body::default())));
    let (_, health) = tonic_health::server::health_reporter();
    let tonic = tonic::service::Routes::new(health).prepare();
    let tonic = tonic.map_request(|request: Request<Body>| request.map(tonic::body::Body::new));
    let tonic = tonic.map_response(|response| response.map(|_| Body::default()));
    let layer = layer.whole_service();
    [boxed(layer.layer(axum)), boxed(layer.layer(hyper)), boxed(layer.layer(tonic))]
}

fn boxed<S, R>(service: S) -> Service
where
    S: tower::Service<Request<Body>, Response = Response<R>, Error = Infallible>
        + Clone
        + Send
        + 'static,
    S::Future: Send,
    R: Send + 'static,
{
    BoxCloneService::new(service.map_response(|response| response.map(|_| Body::default())))
}

/// Any address inside of the cluster.
fn inside(config: &ControllerConfig) -> IpAddr {
    let networks = &config.cluster_networks;
    let first = networks.iter().find(|net| net.addr().is_ipv4()).or(networks.first()).unwrap();
    match first {
        IpNet::V4(net) => {
            let address: std::net::Ipv4Addr =
                u32::from(net.network()).wrapping_add(0x0001_4d02).into();
            if net.contains(&address) { address.into() } else { net.network().into() }
        }
        IpNet::V6(net) => net.network().into(),
    }
}

fn identity(client: &Client, config: &ControllerConfig) -> Option<Identity> {
    if let Some(account) = &client.service_account {
        let (namespace, name) = account.split_once('/').unwrap();
        return Some(Identity::Dns(config.service_account_identity(namespace, name)));
    }
    client.identity.as_deref().map(|name| match name.starts_with("spiffe://") {
        true => Identity::Spiffe(name.into()),
        false => Identity::Dns(name.into()),
    })
}

fn tls_of(client: &Client) -> ClientTls {
    let meshed = client.service_account.is_some() || client.identity.is_some();
    client.tls.unwrap_or(if meshed { ClientTls::Mesh } else { ClientTls::None })
}

/// The request of an expectation, or why the layer does not get it.
fn request(
    expectation: &Expectation,
    config: &ControllerConfig,
) -> Result<Request<Body>, Otherwise> {
    let client = &expectation.from;
    if client.node {
        return Err(Otherwise::Node);
    }
    let tls = match tls_of(client) {
        ClientTls::None => PeerTls::Absent,
        ClientTls::Mesh => PeerTls::Terminated(identity(client, config)),
        ClientTls::Passthrough => return Err(Otherwise::NotHttp),
    };
    let (method, target) = match (&expectation.http, &expectation.grpc) {
        (Some(http), _) => http.split_once(' ').unwrap(),
        (None, Some(call)) => ("POST", &**call),
        (None, None) => return Err(Otherwise::NotHttp),
    };
    let h2 = expectation.grpc.is_some() || expectation.version == Version::H2;
    let to = &expectation.to;
    let host = expectation.host.clone().unwrap_or_else(|| format!("{}.{}", to.name, to.namespace));
    let slash = if expectation.grpc.is_some() { "/" } else { "" };
    let uri = if h2 { format!("http://{host}{slash}{target}") } else { target.to_owned() };
    let mut request = Request::builder().method(method).uri(uri);
    for (name, lines) in &expectation.headers {
        for line in lines.as_slice() {
            let name = HeaderName::try_from(name).unwrap();
            request = request.header(name, HeaderValue::try_from(line).unwrap());
        }
    }
    if h2 {
        request = request.version(HttpVersion::HTTP_2);
    } else {
        request = request.header("host", host);
    }
    if expectation.grpc.is_some() {
        request = request.header("content-type", "application/grpc");
    }
    let address = client.address.unwrap_or_else(|| inside(config));
    let peer = Peer::new(SocketAddr::new(address, 40_000), tls);
    request = request.extension(Arc::new(peer));
    // An HTTP library refuses what is no target at all.
    request.body(Body::default()).map_err(|_| Otherwise::NotHttp)
}

/// One scenario's policies, workload by workload, as they are asked for.
struct Scenario {
    manifests: PathBuf,
    config: ControllerConfig,
    /// Those of each service, because a rate limit counts.
    policies: BTreeMap<(usize, WorkloadKey), Policies>,
}

impl Scenario {
    async fn policies(&mut self, number: usize, key: &WorkloadKey) -> &Policies {
        let of = (number, key.clone());
        if !self.policies.contains_key(&of) {
            let config = self.config.clone();
            let policies = Policies::from_directory_with(&self.manifests, key, config).await;
            let policies = policies.unwrap_or_else(|error| panic!("{:?}: {error}", self.manifests));
            policies.ready().await;
            self.policies.insert(of.clone(), policies);
        }
        &self.policies[&of]
    }

    /// Returns the differences of the services from an expectation.
    async fn decide(&mut self, expectation: &Expectation) -> Result<Vec<String>, Otherwise> {
        request(expectation, &self.config)?;
        let config = self.config.clone();
        let port: NonZeroU16 = expectation.to.port;
        let mut differences = Vec::new();
        for number in 0..KINDS {
            let policies = self.policies(number, &expectation.to.key()).await;
            let decided = Arc::new(Decided::default());
            let layer = policies.layer(port.get()).unwrap();
            let service = &services(layer.with_recorder(decided.clone()))[number];
            let times = expectation.burst.map_or(1, |burst| burst.get());
            let mut found = BTreeSet::new();
            for _ in 0..times {
                found.insert(ask(service, &decided, || request(expectation, &config)).await?);
            }
            let wanted = (expectation.decision.as_str(), expectation.reason.clone());
            let denied = times > 1 && expectation.decision == Verdict::Deny;
            let others = found.iter().filter(|one| (one.0.as_str(), one.1.clone()) != wanted);
            let others: Vec<_> = others.filter(|one| !denied || one.0 == "deny").collect();
            let met = found.iter().any(|one| (one.0.as_str(), one.1.clone()) == wanted);
            if !met || !others.is_empty() {
                differences.push(format!("{number}: {found:?}, expected {wanted:?}"));
            }
        }
        Ok(differences)
    }
}

/// Asks until the policy of the port is there: of one that nothing declares it comes with the first
/// request.
async fn ask(
    service: &Service,
    decided: &Decided,
    request: impl Fn() -> Result<Request<Body>, Otherwise>,
) -> Result<(String, Option<String>), Otherwise> {
    for _ in 0..250 {
        let response = service.clone().oneshot(request()?).await.unwrap();
        let _ = response.into_body().collect().await.unwrap();
        let (verdict, reason) = decided.0.lock().unwrap().take().unwrap();
        if reason.as_deref() != Some("policy_pending") {
            return Ok((verdict.as_str().to_owned(), reason));
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("a port has no policy");
}

/// The scenarios with requests that are decided otherwise by design.
const OTHERWISE: [(&str, Otherwise); 2] = [
    ("http2-carries-http1-for-the-mesh", Otherwise::Protocol),
    ("raw-paths-are-matched-and-forwarded-as-sent", Otherwise::Protocol),
];

/// Runs a scenario. Returns the number of its requests, and each that is decided otherwise, with the reason
/// if there is one.
async fn run(folder: &Path) -> (usize, Vec<(Option<Otherwise>, String)>) {
    let expectations = Expectations::read(&folder.join("requests.yaml")).unwrap();
    let config = expectations.cluster.config().unwrap();
    let manifests = folder.join("manifests");
    let mut scenario = Scenario { manifests, config, policies: BTreeMap::new() };
    let mut found = Vec::new();
    for expectation in &expectations.requests {
        let name = &expectation.name;
        match scenario.decide(expectation).await {
            Ok(differences) if differences.is_empty() => {}
            Ok(differences) => found.push((None, format!("{name}: {differences:?}"))),
            Err(reason) => found.push((Some(reason), name.clone())),
        }
    }
    (expectations.requests.len(), found)
}

#[test]
fn scenarios_are_decided_inside_a_service_as_by_the_sidecar() {
    let runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = { runtime }.worker_threads(2).enable_all().build().unwrap();
    let (mut broken, mut listed) = (Vec::new(), BTreeSet::new());
    let (mut all, mut others) = (0, 0);
    for folder in scenarios() {
        let name = folder.file_name().unwrap().to_str().unwrap();
        let known = OTHERWISE.iter().find(|(scenario, _)| *scenario == name);
        let (asked, found) = runtime.block_on(run(&folder));
        all += asked;
        for (reason, request) in found {
            match (reason, known) {
                (Some(Otherwise::NotHttp | Otherwise::Node), _) => others += 1,
                (None, Some(known)) => drop(listed.insert(*known)),
                (_, _) => broken.push(format!("{name}: {request}")),
            }
        }
    }
    assert!(broken.is_empty(), "{} broken promises\n{}", broken.len(), broken.join("\n"));
    assert_eq!(listed, OTHERWISE.into(), "each is decided otherwise");
    assert!(all > 1000 && others < all / 5, "{others} of {all} requests are none of the layer's");
}
