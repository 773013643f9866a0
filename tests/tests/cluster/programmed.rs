//! Counts of `Programmed` over several replicas on a real API server: correct whichever replica leads,
//! unknown while a replica does not answer, and never undone by a replica that lags behind.

mod cut;
mod line;
mod proxy;
mod reasons;
mod restored;
mod unmoved;
mod unsent;
pub(crate) mod watching;

use kube::api::{Api, DynamicObject};
use kube::core::{ApiResource, GroupVersionKind};
use line::Line;
use policy_controller::endpoints::{OwnName, follow_endpoints};
use policy_core::Protocol;
use policy_crds::Kind;
use policy_discovery::peers::Replicas;
use policy_proto::messages::policy_report_client::PolicyReportClient;
use policy_proto::messages::{ObjectsRequest, Undeclared};
use policy_proto::native::PortState;
use policy_testkit::{free_port, wait_until};
use policy_tests::cluster::{Cluster, ControllerProcess, cluster_or_skip};
use proxy::Proxy;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::time::sleep;
use tonic::transport::Endpoint;
use watching::Watch;

/// Most that anything may take that is waited for here.
const PATIENCE: Duration = Duration::from_secs(90);

/// Three addresses that nobody listens on.
fn free() -> [SocketAddr; 3] {
    [(); 3].map(|()| (Ipv4Addr::LOCALHOST, free_port().unwrap()).into())
}

/// Starts the replica at `own` of those at `all`. Leadership lasts five seconds.
async fn replica(
    kubeconfig: &Path,
    home: &str,
    own: SocketAddr,
    all: &[SocketAddr],
) -> ControllerProcess {
    let others: Vec<String> =
        all.iter().filter(|other| **other != own).map(ToString::to_string).collect();
    let started = ControllerProcess::builder(kubeconfig)
        .flags([
            format!("--grpc-addr={own}"),
            format!("--replica-peers={}", others.join(",")),
            "--replica-timeout=5".to_owned(),
            format!("--replica-name=replica-{}", own.port()),
            "--lease-duration=5".to_owned(),
            format!("--control-plane-namespace={home}"),
            "--proxy-ports=".to_owned(),
        ])
        .start();
    let replica = started.await.unwrap();
    replica.wait_ready().await.unwrap();
    replica
}

/// A running pod with a sidecar, of namespace `shop`.
fn pods(shop: &str, names: &[&str]) -> (String, String) {
    let pod = |name: &&str| {
        format!(
            "apiVersion: v1\nkind: Pod\n\
             metadata: {{name: {name}, namespace: {shop}, \
             labels: {{app: web, portcullis.dev/proxy: injected}}}}\n\
             spec: {{containers: [{{name: app, image: app, ports: [{{containerPort: 8080}}]}}]}}\n---\n"
        )
    };
    let status = |name: &&str| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, namespace: {shop}}}\n\
             status: {{phase: Running}}\n---\n"
        )
    };
    (names.iter().map(pod).collect(), names.iter().map(status).collect())
}

fn server(shop: &str, protocol: &str) -> String {
    format!(
        "apiVersion: policy.linkerd.io/v1beta3\nkind: Server\n\
         metadata: {{name: web, namespace: {shop}}}\n\
         spec: {{podSelector: {{matchLabels: {{app: web}}}}, port: 8080, \
         accessPolicy: deny, proxyProtocol: {protocol}}}\n"
    )
}

fn grant(shop: &str) -> String {
    format!(
        "apiVersion: policy.linkerd.io/v1alpha1\nkind: AuthorizationPolicy\n\
         metadata: {{name: everybody, namespace: {shop}}}\n\
         spec: {{targetRef: {{group: policy.linkerd.io, kind: Server, name: web}}, \
         requiredAuthenticationRefs: []}}\n"
    )
}

/// `Status Reason: message` of the Server's condition Programmed, if that is about its generation.
async fn programmed(cluster: &Cluster, shop: &str) -> Option<String> {
    let kind = Kind::Server;
    let gvk = GroupVersionKind::gvk(kind.group(), "v1beta3", kind.as_str());
    let resource = ApiResource::from_gvk_with_plural(&gvk, kind.plural());
    let api: Api<DynamicObject> = Api::namespaced_with(cluster.client(), shop, &resource);
    let object = api.get("web").await.unwrap();
    let conditions = object.data["status"]["conditions"].as_array()?;
    let condition = conditions.iter().find(|condition| condition["type"] == "Programmed")?;
    let text = |field: &str| condition[field].as_str().unwrap_or_default().to_owned();
    let current = condition["observedGeneration"].as_i64() == object.metadata.generation;
    let words = format!("{} {}: {}", text("status"), text("reason"), text("message"));
    current.then_some(words)
}

async fn until_programmed(cluster: &Cluster, shop: &str, expected: &str) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let found = programmed(cluster, shop).await;
        if found.as_deref() == Some(expected) {
            return;
        }
        assert!(Instant::now() < deadline, "{found:?} instead of `{expected}`");
        sleep(Duration::from_millis(100)).await;
    }
}

/// True if a replica's metrics say that it leads.
async fn leads(replica: &ControllerProcess) -> bool {
    replica.metrics().await.lines().any(|line| line == "lease_leader 1")
}

/// Waits until one leads; its place.
async fn leader(replicas: &[ControllerProcess]) -> usize {
    let deadline = Instant::now() + PATIENCE;
    loop {
        for (place, replica) in replicas.iter().enumerate() {
            if leads(replica).await {
                return place;
            }
        }
        assert!(Instant::now() < deadline, "nobody leads");
        sleep(Duration::from_millis(100)).await;
    }
}

/// Namespaces of the control plane and of an application with these pods and a Server.
async fn shop(cluster: &Cluster, names: &[&str]) -> (String, String) {
    let home = cluster.namespace("home").await.unwrap();
    let shop = cluster.namespace("shop").await.unwrap();
    let (pods, status) = pods(&shop, names);
    cluster.apply(&(pods + &server(&shop, "HTTP/1"))).await.unwrap();
    cluster.apply_status(&status).await.unwrap();
    (home, shop)
}

/// Any replica tells viewers the same.
async fn told_by_each(replicas: &[SocketAddr], shop: &str) {
    for at in replicas {
        let endpoint = Endpoint::from_shared(format!("http://{at}")).unwrap();
        let mut client = PolicyReportClient::new(endpoint.connect().await.unwrap());
        let told = client.objects(ObjectsRequest { namespace: shop.to_owned() }).await.unwrap();
        let told = told.into_inner();
        let server = told.objects.iter().find(|object| object.kind == "Server").unwrap();
        let count = server.programmed.as_ref().unwrap();
        assert_eq!((count.in_force, count.concerned, count.refused), (3, 3, 0), "{at}");
    }
}

#[tokio::test]
async fn counts_in_status_are_those_of_all_replicas_whoever_leads() {
    let Some(cluster) = cluster_or_skip(Cluster::builder()).await else { return };
    cluster.install_crds().await.unwrap();
    let (home, shop) = shop(&cluster, &["a", "b", "c"]).await;
    let all = free();
    let mut replicas = Vec::new();
    for own in all {
        replicas.push(replica(cluster.kubeconfig(), &home, own, &all).await);
    }
    let leader = leader(&replicas).await;
    until_programmed(&cluster, &shop, "False Pending: in force on 0 of 3 proxies").await;

    // One client at each replica.
    let proxies = ["a", "b", "c"].map(|name| {
        let place = usize::from(name.as_bytes()[0] - b'a');
        Proxy::of(&format!("{shop}:{name}"), &[all[place]])
    });
    until_programmed(&cluster, &shop, "True Programmed: in force on 3 of 3 proxies").await;

    // A partitioned proxy is in m and not in n. It is none of the leader's.
    let partitioned = (leader + 1) % 3;
    proxies[partitioned].pause(true);
    cluster.apply(&server(&shop, "gRPC")).await.unwrap();
    until_programmed(&cluster, &shop, "False Pending: in force on 2 of 3 proxies").await;

    // The leader dies, and its client goes elsewhere: whoever leads then counts the same. Until the
    // dead one is given up it is a replica that does not answer.
    replicas[leader].kill();
    let left: Vec<SocketAddr> = all.iter().filter(|at| **at != all[leader]).copied().collect();
    for proxy in &proxies {
        proxy.knows(&left);
    }
    let unknown = format!(
        "Unknown ReplicaUnreachable: replica replica-{0} (127.0.0.1:{0}) does not answer",
        all[leader].port()
    );
    let nameless = format!("Unknown ReplicaUnreachable: replica {} does not answer", all[leader]);
    let deadline = Instant::now() + PATIENCE;
    loop {
        let found = programmed(&cluster, &shop).await;
        if [Some(&*unknown), Some(&*nameless)].contains(&found.as_deref()) {
            break;
        }
        assert!(Instant::now() < deadline, "{found:?} instead of `{unknown}`");
        sleep(Duration::from_millis(100)).await;
    }
    replicas[leader] = replica(cluster.kubeconfig(), &home, all[leader], &all).await;
    until_programmed(&cluster, &shop, "False Pending: in force on 2 of 3 proxies").await;
    proxies[partitioned].pause(false);
    until_programmed(&cluster, &shop, "True Programmed: in force on 3 of 3 proxies").await;

    told_by_each(&all, &shop).await;

    // A frozen replica has its connections open and says nothing.
    let frozen = (self::leader(&replicas).await + 1) % 3;
    replicas[frozen].freeze();
    let port = all[frozen].port();
    let unknown = format!(
        "Unknown ReplicaUnreachable: replica replica-{port} (127.0.0.1:{port}) does not answer"
    );
    until_programmed(&cluster, &shop, &unknown).await;
    replicas[frozen].thaw();
    until_programmed(&cluster, &shop, "True Programmed: in force on 3 of 3 proxies").await;

    // A pod that ends, or loses its mark, is not waited for any more.
    let (_, ended) = pods(&shop, &["b"]);
    cluster.apply_status(&ended.replace("Running", "Succeeded")).await.unwrap();
    until_programmed(&cluster, &shop, "True Programmed: in force on 2 of 2 proxies").await;
}

#[tokio::test]
async fn a_replica_that_lags_behind_never_undoes_a_revocation() {
    // Two installations in one cluster both lead, and each would tell the objects of the other test
    // how many of its own clients have them.
    let Some(cluster) = cluster_or_skip(Cluster::builder()).await else { return };
    cluster.install_crds().await.unwrap();
    let (home, shop) = shop(&cluster, &["a"]).await;
    cluster.apply(&grant(&shop)).await.unwrap();
    let [current, lagging, _] = free();
    let all = [current, lagging];
    let line = Line::to(cluster.kubeconfig(), cluster.folder()).await;
    let _first = replica(cluster.kubeconfig(), &home, current, &all).await;
    let _second = replica(line.kubeconfig(), &home, lagging, &all).await;

    let workload = format!("{shop}:a");
    let mut watch = Watch::open(&workload, current, &BTreeMap::new()).await.unwrap();
    let mut state = PortState::default();
    let (mut revision, policy) = watch.next(8080, &mut state, PATIENCE).await.unwrap();
    assert_eq!(policy.authorizations.len(), 1, "everybody is let in");

    // The grant goes, and one replica does not hear of it.
    line.freeze();
    cluster.delete(&grant(&shop)).await.unwrap();
    let mut policy = policy;
    while !policy.authorizations.is_empty() {
        (revision, policy) = watch.next(8080, &mut state, PATIENCE).await.unwrap();
    }
    drop(watch);

    // Whoever has nothing gets what the lagging replica has: it cannot know better.
    let mut fresh = Watch::open(&workload, lagging, &BTreeMap::new()).await.unwrap();
    let (_, old) = fresh.next(8080, &mut PortState::default(), PATIENCE).await.unwrap();
    assert_eq!(old.authorizations.len(), 1, "it lags behind");

    // Whoever has the revocation gets nothing, until it has caught up.
    let has = BTreeMap::from([(8080, revision)]);
    let mut moved = Watch::open(&workload, lagging, &has).await.unwrap();
    let mut state = PortState::default();
    let sent = moved.next(8080, &mut state, Duration::from_secs(5)).await;
    assert!(sent.is_none(), "an older policy was sent: {sent:?}");
    line.thaw();
    // From here on nothing older is sent to it, up to the next change.
    let mut moved = Watch::open(&workload, lagging, &has).await.unwrap();
    wait_until("the replica that lagged behind has caught up", async || {
        let mut fresh = Watch::open(&workload, lagging, &BTreeMap::new()).await.unwrap();
        let (_, policy) = fresh.next(8080, &mut PortState::default(), PATIENCE).await.unwrap();
        policy.authorizations.is_empty()
    })
    .await;
    cluster.apply(&server(&shop, "HTTP/2")).await.unwrap();
    let mut state = PortState::default();
    let mut protocol = Protocol::Http1;
    while protocol != Protocol::Http2 {
        let (_, next) = moved.next(8080, &mut state, PATIENCE).await.expect("the next change");
        assert!(next.authorizations.is_empty(), "an older policy was sent: {next:?}");
        protocol = next.protocol;
    }
}

#[tokio::test]
async fn a_replica_that_lags_behind_never_opens_undeclared_ports_again() {
    let Some(cluster) = cluster_or_skip(Cluster::builder()).await else { return };
    cluster.install_crds().await.unwrap();
    let (home, shop) = shop(&cluster, &["a"]).await;
    let [current, lagging, _] = free();
    let all = [current, lagging];
    let line = Line::to(cluster.kubeconfig(), cluster.folder()).await;
    let _first = replica(cluster.kubeconfig(), &home, current, &all).await;
    let _second = replica(line.kubeconfig(), &home, lagging, &all).await;

    let (workload, nothing) = (format!("{shop}:a"), BTreeMap::new());
    let mut watch = Watch::open(&workload, current, &nothing).await.unwrap();
    let told = watch.workload(PATIENCE).await.unwrap();
    assert_eq!(told.undeclared(), Undeclared::Default);

    // The namespace closes what nothing declares, and one replica does not hear of it.
    line.freeze();
    let deny = format!(
        "apiVersion: v1\nkind: Namespace\nmetadata: {{name: {shop}, \
         annotations: {{portcullis.dev/undeclared-ports: deny}}}}\n"
    );
    cluster.apply(&deny).await.unwrap();
    let mut told = told;
    while told.undeclared() != Undeclared::Deny {
        told = watch.workload(PATIENCE).await.unwrap();
    }
    drop(watch);

    // Whoever has nothing gets what the lagging replica has: it cannot know better.
    let mut fresh = Watch::open(&workload, lagging, &nothing).await.unwrap();
    let old = fresh.workload(PATIENCE).await.unwrap();
    assert_eq!(old.undeclared(), Undeclared::Default, "it lags behind");

    // Whoever has the denial gets nothing, until it has caught up.
    let has = told.revision.unwrap();
    let open = async || Watch::open_with(&workload, lagging, &nothing, Some(&has)).await.unwrap();
    let sent = open().await.workload(Duration::from_secs(5)).await;
    assert!(sent.is_none(), "an older workload was sent: {sent:?}");
    line.thaw();
    let caught_up = open().await.workload(PATIENCE).await.unwrap();
    assert_eq!(caught_up.undeclared(), Undeclared::Deny);
}

#[tokio::test]
async fn replicas_are_found_through_the_endpoints_of_their_service() {
    let Some(cluster) = crate::shared().await else { return };
    let home = cluster.namespace("home").await.unwrap();
    let slice = |name: &str, service: &str, port: u16, endpoints: &str| {
        format!(
            "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\n\
             metadata: {{name: {name}, namespace: {home}, \
             labels: {{kubernetes.io/service-name: {service}}}}}\n\
             addressType: IPv4\nports: [{{name: grpc, port: {port}}}]\nendpoints: [{endpoints}]\n---\n"
        )
    };
    let endpoint = |address: &str, pod: &str, ready: bool| {
        format!(
            "{{addresses: [{address}], conditions: {{ready: {ready}}}, \
              targetRef: {{kind: Pod, name: {pod}, namespace: {home}}}}}"
        )
    };
    let first = [endpoint("10.0.0.1", "policy-1", true), endpoint("10.0.0.9", "policy-0", true)];
    let second = endpoint("10.0.0.2", "policy-2", false);
    cluster
        .apply(
            &[
                slice("a", "policy", 8090, &first.join(", ")),
                slice("b", "policy", 8091, &second),
                slice("c", "other", 8090, &endpoint("10.0.0.3", "other", true)),
            ]
            .concat(),
        )
        .await
        .unwrap();
    let unknown = Arc::new(Replicas::Unknown("not yet".into()));
    let (sender, mut known) = watch::channel(unknown);
    let own = OwnName { name: "policy-0".into(), address: None };
    let client = cluster.client();
    tokio::spawn(follow_endpoints(client, home.as_str().into(), "policy".into(), own, sender));
    let mut until = async |expected: &[&str]| {
        let found = known.wait_for(|known| match &**known {
            Replicas::Known(known) => {
                known.iter().map(ToString::to_string).collect::<Vec<_>>() == expected
            }
            Replicas::Unknown(_) => false,
        });
        _ = tokio::time::timeout(PATIENCE, found).await.expect("they were not found").unwrap();
    };
    until(&["policy-1 (10.0.0.1:8090)", "policy-2 (10.0.0.2:8091)"]).await;
    cluster.delete(&slice("b", "policy", 8091, &second)).await.unwrap();
    until(&["policy-1 (10.0.0.1:8090)"]).await;
}
