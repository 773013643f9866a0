//! Effects of the built-in policy, and of policies that replace it.

use super::*;
use crate::args::SelfPolicyArgs;
use crate::testing::objects;
use http::Request;
use policy_core::{
    Authorization, DefaultPolicy, Denied, Facts, Identity, Owner, Requirement, ServerPolicy,
    Source, UndeclaredPorts, WorkloadKey,
};
use policy_discovery::testing::{Index, port};
use policy_enforce::{PolicyStore, StoreConfig, Telemetry};
use policy_engine::compile_objects;
use policy_engine::config::ControllerConfig;
use policy_server::DefaultGateways;
use policy_tls::peer::{Peer, PeerTls};
use policy_webhooks::admission::PortGuard as _;
use std::sync::Arc;
use std::time::Duration;

const ANY: &str = "anybody.anywhere.serviceaccount.identity.linkerd.cluster.local";

fn ports() -> OwnPorts {
    OwnPorts { grpc: port(8090), admission: Some(port(9443)), admin: port(8080) }
}

fn settings() -> SelfPolicySettings {
    SelfPolicyArgs::default().settings(Some("policy-controller-0"), "ns")
}

/// A guard under a cluster whose default policy is to deny.
fn guard() -> SelfPolicy {
    let config = ControllerConfig { default_policy: DefaultPolicy::Deny, ..Default::default() };
    SelfPolicy::new(&settings(), ports(), &config).unwrap()
}

fn peer(address: &str, tls: PeerTls) -> Peer {
    Peer::new(format!("{address}:4711").parse().unwrap(), tls)
}

fn meshed(name: &str) -> PeerTls {
    PeerTls::Terminated(Some(Identity::Dns(name.into())))
}

/// The decision on a request for a policy.
fn grpc(guard: &SelfPolicy, tls: PeerTls, token: Option<&str>) -> Result<(), Denied> {
    let path = "http://policy/portcullis.policy.v1.PolicyDiscovery/Watch";
    let mut request = Request::post(path).version(http::Version::HTTP_2).body(()).unwrap();
    let headers = request.headers_mut();
    headers.insert("content-type", "application/grpc".parse().unwrap());
    if let Some(token) = token {
        headers.insert("authorization", token.parse().unwrap());
    }
    let handle = guard.shared.store.port(guard.shared.ports.grpc);
    admin::request(&handle, &peer("10.9.9.9", tls), &request)
}

fn metrics(guard: &SelfPolicy, address: &str, tls: PeerTls) -> Result<(), Refusal> {
    get(guard, address, tls, "/metrics")
}

fn get(guard: &SelfPolicy, address: &str, tls: PeerTls, path: &str) -> Result<(), Refusal> {
    guard.admin(&peer(address, tls), &Request::get(path).header("host", "pod").body(()).unwrap())
}

const FORBIDDEN: Refusal = Refusal { status: http::StatusCode::FORBIDDEN, text: "unauthorized" };

#[test]
fn the_policy_port_is_for_identities_and_tokens_whatever_the_default_is() {
    let guard = guard();
    let spiffe = PeerTls::Terminated(Some(Identity::Spiffe("spiffe://other/vm".into())));
    for tls in [meshed(ANY), spiffe] {
        assert_eq!(grpc(&guard, tls.clone(), None), Ok(()));
        assert_eq!(grpc(&guard, tls, Some("Bearer t")), Ok(()));
    }
    for tls in [PeerTls::Terminated(None), PeerTls::Passthrough, PeerTls::Absent] {
        assert_eq!(grpc(&guard, tls.clone(), None), Err(Denied::Unauthorized));
        assert_eq!(grpc(&guard, tls, Some("Basic t")), Err(Denied::Unauthorized));
    }
    assert_eq!(grpc(&guard, PeerTls::Terminated(None), Some("Bearer t")), Ok(()));
    assert_eq!(grpc(&guard, PeerTls::Terminated(None), Some("bearer t")), Ok(()));
}

#[test]
fn webhooks_are_for_whoever_speaks_tls_there() {
    let guard = guard();
    assert_eq!(guard.admission("192.0.2.1:1".parse().unwrap()), Ok(()));
    let off = OwnPorts { admission: None, ..ports() };
    let off = SelfPolicy::new(&settings(), off, &ControllerConfig::default()).unwrap();
    assert_eq!(off.admission("192.0.2.1:1".parse().unwrap()), Err(Denied::PortUndeclared));
}

#[test]
fn metrics_are_for_the_node_and_for_identities_and_probes_for_all_until_the_node_is_known() {
    let args =
        SelfPolicyArgs { host_ips: vec!["10.0.0.5".parse().unwrap()], ..SelfPolicyArgs::default() };
    let settings = args.settings(Some("policy-controller-0"), "ns");
    let guard = SelfPolicy::new(&settings, ports(), &ControllerConfig::default()).unwrap();
    assert_eq!(metrics(&guard, "10.0.0.5", PeerTls::Absent), Ok(()));
    assert_eq!(metrics(&guard, "127.0.0.1", PeerTls::Absent), Ok(()));
    assert_eq!(metrics(&guard, "10.0.0.6", meshed(ANY)), Ok(()));
    for tls in [PeerTls::Absent, PeerTls::Terminated(None)] {
        assert_eq!(metrics(&guard, "10.0.0.6", tls.clone()), Err(FORBIDDEN));
        assert_eq!(get(&guard, "10.0.0.6", tls.clone(), "/debug/policy"), Err(FORBIDDEN));
        assert_eq!(get(&guard, "10.0.0.6", tls.clone(), "/live"), Ok(()));
        assert_eq!(get(&guard, "10.0.0.6", tls.clone(), "/ready"), Ok(()));
        let ambiguous = get(&guard, "10.0.0.5", tls, "/metrics/%2e%2e/live").unwrap_err();
        assert_eq!(ambiguous.status, http::StatusCode::BAD_REQUEST);
    }
}

fn with_file(text: &str) -> Result<SelfPolicy, String> {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("local.yaml");
    std::fs::write(&file, text).unwrap();
    let local = SelfPolicySettings { local_policy: Some(file.clone()), ..settings() };
    let guard = SelfPolicy::new(&local, ports(), &ControllerConfig::default());
    let shown = file.display().to_string();
    guard.map_err(|error| error.to_string().replace(&shown, "FILE"))
}

const BUILT_IN: &str = include_str!("../../manifests/control-plane.yaml");

#[test]
fn another_file_takes_the_built_in_ones_place() {
    let narrow = BUILT_IN.replace("identities: [\"*\"]", "identities: [only.example]");
    let guard = with_file(&narrow).unwrap();
    assert_eq!(grpc(&guard, meshed(ANY), None), Err(Denied::Unauthorized));
    assert_eq!(grpc(&guard, meshed("only.example"), None), Ok(()));
}

#[test]
fn a_file_that_forgets_a_port_or_breaks_a_rule_is_refused_at_start() {
    assert_eq!(
        with_file("").unwrap_err(),
        "--local-policy: `FILE`: no valid Server selects port `grpc` (8090) of pods with the label \
         portcullis.dev/component: policy-controller"
    );
    let without = BUILT_IN.replace("port: admission", "port: other");
    assert!(with_file(&without).unwrap_err().contains("selects port `admission` (9443)"));
    let wrong = BUILT_IN.replace("proxyProtocol: TLS", "proxyProtocol: SSL");
    let error = with_file(&wrong).unwrap_err();
    assert!(error.contains("Server ns/portcullis-admission: spec.proxyProtocol: "), "{error}");
    let broken = with_file("a: [").unwrap_err();
    assert!(broken.starts_with("--local-policy: `FILE`: document at line 1: "), "{broken}");
    let absent =
        SelfPolicySettings { local_policy: Some("/nowhere/local.yaml".into()), ..settings() };
    let error = SelfPolicy::new(&absent, ports(), &ControllerConfig::default()).unwrap_err();
    assert!(error.to_string().starts_with("--local-policy: cannot read `/nowhere/local.yaml`: "));
}

/// A policy of the cluster for an own port: for one identity, or for all that prove one, or nobody.
fn cluster_policy(owner: Owner, identity: Option<&str>) -> Arc<ServerPolicy> {
    let mut policy = ServerPolicy::without_grants(owner, policy_core::Protocol::Grpc);
    if let Some(identity) = identity {
        let condition = policy_core::Condition {
            source: Source::Default("test".into()),
            test: policy_core::Predicate::Identity(
                [policy_core::IdentityMatch::parse(identity)].into(),
            ),
        };
        let grant = Authorization {
            source: Source::Default("test".into()),
            requirement: Requirement::All([condition].into()),
            audit: false,
        };
        policy.authorizations = [Arc::new(grant)].into();
    }
    policy.routes.otherwise = policy_core::Unmatched::DefaultRoute;
    Arc::new(policy)
}

fn server(name: &str) -> Owner {
    Owner::Server(policy_core::ObjectRef::new("policy.linkerd.io", "Server", "ns", name))
}

async fn until(condition: impl Fn() -> bool) {
    let waited = tokio::time::timeout(Duration::from_secs(20), async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    waited.await.expect("the condition never held");
}

#[tokio::test]
async fn a_server_of_the_cluster_takes_over_and_a_default_never_does() {
    let (index, policies) = Index::start();
    let pod = index.pod("policy-controller-0", &[8090, 9443, 8080]);
    let denied = cluster_policy(Owner::Default(DefaultPolicy::Deny), None);
    for number in [8090, 9443, 8080] {
        index.set(&pod, number, &denied, 1);
    }
    let guard = guard();
    let following = tokio::spawn(guard.clone().follow(policies));
    let follows = |guard: &SelfPolicy| guard.metrics().is_following();
    until(|| follows(&guard)).await;
    // The namespace's default is to deny, and proxies get their policy all the same.
    assert_eq!(grpc(&guard, meshed(ANY), None), Ok(()));
    index.set(&pod, 8090, &cluster_policy(server("narrow"), Some("only.example")), 2);
    until(|| grpc(&guard, meshed(ANY), None).is_err()).await;
    assert_eq!(grpc(&guard, meshed("only.example"), None), Ok(()));
    // An invalid one says nothing of whom it was to admit, and leaves the port as it was without it.
    let mut invalid = ServerPolicy::clone(&cluster_policy(server("narrow"), None));
    invalid.deny = Some(Denied::ServerInvalid);
    index.set(&pod, 8090, &Arc::new(invalid), 3);
    until(|| grpc(&guard, meshed(ANY), None).is_ok()).await;
    index.set(&pod, 8090, &denied, 4);
    until(|| grpc(&guard, meshed(ANY), None).is_ok()).await;
    // What a Server opens is open on that port; nobody gets to the service without TLS.
    assert_eq!(metrics(&guard, "10.0.0.6", PeerTls::Absent), Err(FORBIDDEN));
    index.set(&pod, 8090, &cluster_policy(server("narrow"), None), 5);
    until(|| grpc(&guard, meshed(ANY), None).is_err()).await;
    index.delete(&pod);
    until(|| grpc(&guard, meshed(ANY), None).is_ok()).await;
    following.abort();
}

#[tokio::test]
async fn once_our_node_is_known_probes_are_for_it_alone() {
    let (index, policies) = Index::start();
    let pod = index.pod("policy-controller-0", &[8080]);
    let denied = cluster_policy(Owner::Default(DefaultPolicy::Deny), None);
    for number in [8090, 9443, 8080] {
        index.set(&pod, number, &denied, 1);
    }
    let guard = guard();
    let following = tokio::spawn(guard.clone().follow(policies));
    until(|| guard.metrics().is_following()).await;
    assert_eq!(get(&guard, "10.0.0.6", PeerTls::Absent, "/live"), Ok(()));
    index.change(&pod, |state| {
        let node_local = vec!["10.0.0.5/32".parse().unwrap()];
        state.facts = Arc::new(Facts { node_local, ..Facts::clone(&state.facts) });
    });
    until(|| get(&guard, "10.0.0.6", PeerTls::Absent, "/live").is_err()).await;
    assert_eq!(get(&guard, "10.0.0.5", PeerTls::Absent, "/live"), Ok(()));
    assert_eq!(metrics(&guard, "10.0.0.5", PeerTls::Absent), Ok(()));
    assert_eq!(metrics(&guard, "127.0.0.1", PeerTls::Absent), Ok(()));
    following.abort();
}

#[tokio::test]
async fn an_address_that_is_proposed_for_our_node_counts_where_it_is_our_default_gateway() {
    let (index, policies) = Index::start();
    let pod = index.pod("policy-controller-0", &[8080]);
    let denied = cluster_policy(Owner::Default(DefaultPolicy::Deny), None);
    for number in [8090, 9443, 8080] {
        index.set(&pod, number, &denied, 1);
    }
    index.change(&pod, |state| {
        let node_local = vec!["10.0.0.5/32".parse().unwrap()];
        let pod_gateways = ["10.42.1.1", "10.42.2.1"].map(|address| address.parse().unwrap());
        let facts = Facts::clone(&state.facts);
        state.facts = Arc::new(Facts { node_local, pod_gateways: pod_gateways.into(), ..facts });
    });
    // Its one default route leads to the first.
    let folder = tempfile::tempdir().unwrap();
    let gateway = u32::from_ne_bytes([10, 42, 1, 1]);
    let route = format!("eth0\t00000000\t{gateway:08X}\t0003\t0\t0\t0\t00000000\n");
    std::fs::write(folder.path().join("route"), route).unwrap();
    let gateways = DefaultGateways::in_folder(folder.path());
    let config = ControllerConfig { default_policy: DefaultPolicy::Deny, ..Default::default() };
    let guard =
        SelfPolicy::new(&SelfPolicySettings { gateways, ..settings() }, ports(), &config).unwrap();
    let following = tokio::spawn(guard.clone().follow(policies));
    until(|| guard.metrics().is_following()).await;
    let live = |address| get(&guard, address, PeerTls::Absent, "/live");
    assert_eq!([live("10.0.0.5"), live("10.42.1.1")], [Ok(()), Ok(())]);
    assert_eq!(live("10.42.2.1"), Err(FORBIDDEN));
    following.abort();
}

/// The shipped file as objects of a cluster whose default is to deny, with the pods it is for.
#[test]
fn applied_to_a_cluster_that_denies_the_file_lets_a_mesh_begin() {
    let pod = |name: &str, ports: &str| {
        format!(
            "---\n{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, namespace: default, \
             labels: {{portcullis.dev/component: {name}}}}}, spec: {{containers: [{{name: c, \
             ports: [{ports}]}}]}}}}\n"
        )
    };
    let named = "{name: grpc, containerPort: 8090}, {name: admin, containerPort: 8080}";
    let webhook = ", {name: admission, containerPort: 9443}";
    let text = format!(
        "{BUILT_IN}{}{}",
        pod("policy-controller", &format!("{named}{webhook}")),
        pod("issuer", named)
    );
    let config = ControllerConfig { default_policy: DefaultPolicy::Deny, ..Default::default() };
    let compiled = compile_objects(objects(&text), &config);
    let decide = |pod: &str, number: u16, tls: PeerTls| {
        let key = WorkloadKey::pod("default", pod);
        let policy = compiled.port(&key, port(number)).unwrap();
        let store = PolicyStore::new(StoreConfig::default(), Arc::new(Telemetry::new(1))).unwrap();
        store.declare(&[port(number)].into(), UndeclaredPorts::Deny);
        let http = policy.protocol.is_http();
        store.apply(port(number), policy, policy_core::Revision::default()).unwrap();
        let (handle, peer) = (store.port(port(number)), peer("10.9.9.9", tls));
        let request = match number {
            8090 => Request::post("http://c/s.S/M").version(http::Version::HTTP_2),
            _ => Request::get("/metrics").header("host", "c"),
        };
        match http {
            true => admin::request(&handle, &peer, &request.body(()).unwrap()),
            false => admin::connection(&handle, &peer),
        }
    };
    let nobody = || PeerTls::Terminated(None);
    let refused = Err(Denied::Unauthorized);
    assert_eq!(decide("policy-controller", 8090, meshed(ANY)), Ok(()));
    assert_eq!(decide("policy-controller", 8090, nobody()), refused);
    assert_eq!(decide("policy-controller", 8090, PeerTls::Absent), refused);
    assert_eq!(decide("policy-controller", 9443, PeerTls::Passthrough), Ok(()));
    assert_eq!(decide("policy-controller", 9443, PeerTls::Absent), Err(Denied::TlsRequired));
    // Who asks the issuer for an identity has none yet.
    assert_eq!(decide("issuer", 8090, nobody()), Ok(()));
    assert_eq!(decide("issuer", 8090, meshed(ANY)), Ok(()));
    assert_eq!(decide("issuer", 8090, PeerTls::Absent), refused);
    for name in ["policy-controller", "issuer"] {
        assert_eq!(decide(name, 8080, meshed(ANY)), Ok(()));
        assert_eq!(decide(name, 8080, nobody()), refused);
    }
}
