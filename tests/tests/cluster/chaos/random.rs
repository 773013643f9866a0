//! Thousands of random edits, the way to the API server cut now and then, and a controller that has
//! seen them all serves to the byte what one serves that has seen none.

use super::live::{Gate, Live, PORTS};
use super::manifests::{node, object, pod};
use policy_testkit::long_or;
use policy_tests::cluster::{Cluster, Objects, cluster_or_skip};
use std::time::Duration;
use tokio::time::sleep;

/// Edits between two comparisons, and how often.
const EDITS: usize = 400;

/// Number of editors at the same time.
const EDITORS: usize = 8;

/// A generator of numbers that is the same every time (splitmix64).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }
}

/// The namespaces that objects come and go in.
struct Places {
    shop: String,
    auth: String,
    strange: String,
}

const GATEWAY: &str = "gateway.networking.k8s.io";

/// Every object that may come and go, several versions of some.
fn catalogue(places: &Places) -> Vec<String> {
    let mut all = workloads(places);
    all.extend(servers_and_routes(places));
    all.extend(grants(places));
    all
}

fn workloads(Places { shop, strange, .. }: &Places) -> Vec<String> {
    let default = "config.linkerd.io/default-inbound-policy";
    let namespace = |annotation: &str| {
        format!(
            "apiVersion: v1\nkind: Namespace\nmetadata: {{name: {shop}, annotations: {{{annotation}}}}}\n"
        )
    };
    vec![
        pod(shop, "p0", "a", ""),
        pod(shop, "p0", "b", &format!("{default}: deny")),
        pod(shop, "p1", "a", "config.linkerd.io/opaque-ports: '8080'"),
        pod(shop, "p2", "a", ""),
        pod(strange, "p3", "a", ""),
        namespace(&format!("{default}: cluster-authenticated")),
        namespace(&format!("{default}: all-unauthenticated, {default}s: other")),
        node(shop, "192.0.2.77"),
        node(shop, "192.0.2.78"),
    ]
}

fn servers_and_routes(Places { shop, strange, .. }: &Places) -> Vec<String> {
    let server = |name: &str, app: &str, port: &str, rest: &str| {
        let spec = format!("podSelector: {{matchLabels: {{app: {app}}}}}, port: {port}, {rest}");
        object("Server", shop, name, &spec)
    };
    let route = |kind: &str, ns: &str, rule: &str| {
        let spec = format!(
            "parentRefs: [{{group: policy.linkerd.io, kind: Server, name: a, namespace: {shop}}}], \
             rules: [{{matches: [{rule}]}}]"
        );
        let route = object(kind, ns, "r", &spec);
        route.replace("policy.linkerd.io/v1beta3", "gateway.networking.k8s.io/v1")
    };
    let limit = format!("targetRef: {{{}}}, total: {{requestsPerSecond: 5}}", on("a"));
    vec![
        server("a", "a", "http", "proxyProtocol: HTTP/2"),
        server("a", "a", "9090", "proxyProtocol: opaque"),
        server("a", "a", "http", "proxyProtocol: nonsense"),
        server("b", "b", "8080", "accessPolicy: cluster-authenticated"),
        server("c", "a", "8080", "proxyProtocol: HTTP/1"),
        route("HTTPRoute", shop, "{path: {value: /get}}"),
        route("HTTPRoute", shop, "{path: {type: RegularExpression, value: '/a('}}"),
        route("HTTPRoute", strange, "{path: {value: /get}}"),
        route("GRPCRoute", shop, "{method: {service: s}}"),
        object("HTTPLocalRateLimitPolicy", shop, "l", &limit),
    ]
}

fn on(server: &str) -> String {
    format!("group: policy.linkerd.io, kind: Server, name: {server}")
}

fn grants(Places { shop, auth, strange }: &Places) -> Vec<String> {
    let policy = |name: &str, target: &str, refs: &str| {
        let spec = format!("targetRef: {{{target}}}, requiredAuthenticationRefs: [{refs}]");
        object("AuthorizationPolicy", shop, name, &spec)
    };
    let mesh = |identity: &str| {
        object("MeshTLSAuthentication", auth, "m", &format!("identities: ['{identity}']"))
    };
    let grant = |ns: &str, group: &str, from: &str, from_ns: &str, to: &str| {
        let spec = format!(
            "from: [{{group: {group}, kind: {from}, namespace: {from_ns}}}], to: [{{group: \
             policy.linkerd.io, kind: {to}}}]"
        );
        object("ReferenceGrant", ns, "g", &spec)
    };
    let by_mesh = format!(
        "{{group: policy.linkerd.io, kind: MeshTLSAuthentication, name: m, namespace: {auth}}}"
    );
    let to_namespace = format!("kind: Namespace, name: {shop}");
    let to_route = format!("group: {GATEWAY}, kind: HTTPRoute, name: r");
    let anyone = "server: {selector: {matchLabels: {app: web}}}, client: {unauthenticated: true}";
    vec![
        policy("on-server", &on("a"), &by_mesh),
        policy("on-server", &on("b"), ""),
        policy("on-namespace", &to_namespace, "{kind: ServiceAccount, name: c}"),
        policy("on-route", &to_route, ""),
        mesh("*"),
        mesh("x.y"),
        mesh("a *.b"),
        object("ServerAuthorization", shop, "z", anyone),
        grant(auth, "policy.linkerd.io", "AuthorizationPolicy", shop, "MeshTLSAuthentication"),
        grant(shop, GATEWAY, "HTTPRoute", strange, "Server"),
    ]
}

/// One editor's edits. Editors meet: what is deleted under the hands of another is an error of that
/// edit alone.
async fn edit(objects: Objects, catalogue: Vec<String>, mut numbers: Numbers, edits: usize) {
    for _ in 0..edits {
        let yaml = &catalogue[numbers.below(catalogue.len())];
        let edited = match numbers.below(3) {
            0 if !yaml.contains("kind: Namespace\nmetadata") => objects.delete(yaml).await,
            _ => objects.apply_with_status(yaml).await,
        };
        if let Err(error) = edited {
            let met = error.chain().any(|cause| match cause.downcast_ref::<kube::Error>() {
                Some(kube::Error::Api(status)) => status.code == 409 || status.code == 404,
                _ => false,
            });
            assert!(met, "{yaml}: {error:#}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn after_thousands_of_random_edits_every_port_is_what_a_fresh_start_serves() {
    let Some(cluster) = cluster_or_skip(Cluster::builder()).await else { return };
    cluster.install_crds().await.unwrap();
    let gate = Gate::to(cluster.kubeconfig()).await;
    let live = Live::start(gate.client(cluster.kubeconfig()).await).await;
    let places = Places {
        shop: cluster.namespace("shop").await.unwrap(),
        auth: cluster.namespace("auth").await.unwrap(),
        strange: cluster.namespace("strange").await.unwrap(),
    };
    let catalogue = catalogue(&places);
    let mut numbers = Numbers(4);
    let mut compared = 0;
    let rounds = long_or("ROUNDS", 6);
    for round in 0..rounds {
        let editors = (0..EDITORS).map(|_| {
            let numbers = Numbers(numbers.next());
            edit(cluster.objects(), catalogue.clone(), numbers, EDITS / EDITORS)
        });
        let cut = async {
            // Half of the rounds lose the API server in the middle.
            if round % 2 == 1 {
                sleep(Duration::from_millis(300)).await;
                gate.close();
                sleep(Duration::from_millis(500)).await;
            }
        };
        tokio::join!(futures_util::future::join_all(editors), cut);
        if round == 3 {
            cluster.compact().await.unwrap();
        }
        gate.open();
        live.until_healthy().await;
        live.converges(cluster.client()).await;
        compared += live.dump().await.len();
    }
    assert!(live.metric("kube_watch_relists_total") > 0);
    // Pods come and go like everything else, but not all of them every time.
    assert!(compared > rounds * PORTS.len(), "only {compared} ports were compared");
}
