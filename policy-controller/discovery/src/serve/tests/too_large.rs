//! Policies that are too large for a message.

use crate::serve::ServeConfig;
use crate::testing::client::{Client, hello};
use crate::testing::{Harness, routed, soon};
use linkerd2_proxy_api::inbound::PortSpec;
use linkerd2_proxy_api::inbound::inbound_server_policies_client::InboundServerPoliciesClient;
use policy_core::{
    DelegatedPath, Denied, Exemption, HeaderMatch, HostPattern, ObjectRef, Origin, PathPattern,
    Pattern, RequestMatch, Route, Rule, ServerPolicy, Unmatched, ValueMatch,
};
use policy_proto::messages::policy_report_client::PolicyReportClient;
use policy_proto::messages::{InForceRequest, ObjectUnsent};
use policy_proto::native::PortState;
use std::sync::Arc;

/// A route of a tree: what `team` has of the host that the namespace of the Server owns, with this many
/// matches of a kilobyte.
fn handed_to(team: &str, path: &str, matches: usize) -> Arc<Route> {
    let like = &routed("web", &["a"]).routes.routes[0];
    let object =
        |namespace, name| ObjectRef::new("portcullis.dev", "InboundRoute", namespace, name);
    let chain = vec![object("ns", "www"), object(team, team)].into();
    let wanted = |n: usize| {
        let value = ValueMatch::Exact(format!("{n:01000}").into_bytes().into());
        let header = HeaderMatch { name: http::HeaderName::from_static("x"), value };
        RequestMatch::path(PathPattern::prefix(path)).with_headers(vec![header])
    };
    let rule = Rule { matches: (0..matches).map(wanted).collect(), effects: Vec::new().into() };
    Arc::new(Route {
        origin: Origin::Delegated(Arc::new(DelegatedPath { chain, prefix: path.into() })),
        hosts: vec![host()].into(),
        rules: vec![rule].into(),
        ..Route::clone(like)
    })
}

fn host() -> HostPattern {
    HostPattern::Exact("www.io".into())
}

/// A port with an exempted probe, a route of the Server's own namespace, and what two teams were handed.
fn shared(matches: usize) -> Arc<ServerPolicy> {
    let mut policy = ServerPolicy::clone(&routed("web", &["own"]));
    policy.routes.hosts.insert(host(), Unmatched::Deny(Denied::NotDelegated));
    let authorization = policy.authorizations[0].clone();
    let request = Some(RequestMatch::path(PathPattern::exact("/ready")).into());
    policy.exemptions.push(Exemption { request, authorization });
    policy
        .routes
        .routes
        .extend([handed_to("bb", "/finance", matches), handed_to("legal", "/legal", 1)]);
    Arc::new(policy)
}

/// The port that is expected in place of [`shared`].
fn without_bb() -> ServerPolicy {
    let mut policy = ServerPolicy::clone(&shared(1));
    policy.routes.routes.remove(1);
    policy
}

async fn told(harness: &Harness) -> Vec<ObjectUnsent> {
    let request = InForceRequest { replica: "test".into() };
    let mut client = PolicyReportClient::new(harness.channel().await);
    let mut stream = client.in_force(request).await.unwrap().into_inner();
    loop {
        let update = soon(stream.message()).await.unwrap().unwrap();
        if !update.unsent.is_empty() {
            return update.unsent;
        }
    }
}

/// The port of the owner was denied as a whole, with its probes, for what one child had.
#[tokio::test]
async fn a_contribution_that_is_too_large_is_left_out_and_the_owners_part_is_sent() {
    let config = ServeConfig { max_update_bytes: 16_384, ..ServeConfig::default() };
    let harness = Harness::with(config).await;
    let pod = harness.index.pod("web-0", &[80]);
    harness.index.set(&pod, 80, &shared(20), 1);
    let mut client = Client::open(&harness, hello("ns:web-0")).await;
    client.workload().await;
    let mut state = PortState::default();
    assert_eq!(*state.apply(&client.port().await).unwrap(), without_bb());
    let told = told(&harness).await;
    let of: Vec<String> = told.iter().map(|one| format!("{} {}", one.kind, one.name)).collect();
    assert_eq!(of, ["Server web", "InboundRoute bb"]);
    for one in &told {
        let [words] = &one.denied[..] else { panic!("{one:?}") };
        assert!(
            words.starts_with("sidecars: 2") && words.contains(" of 16384 that an update"),
            "{words}"
        );
        assert!(
            words.contains("namespace bb: some 20") && words.ends_with("InboundRoute bb/bb"),
            "{words}"
        );
    }
    // It fits again.
    harness.index.set(&pod, 80, &shared(2), 2);
    assert_eq!(*state.apply(&client.port().await).unwrap(), *shared(2));
}

/// Forty HTTPRoutes of a child took 170 MB of the owner's sidecar.
#[tokio::test]
async fn expressions_that_take_too_much_are_left_out_and_those_of_the_owner_stay() {
    let expressions = |policy: &ServerPolicy, places: std::ops::Range<usize>| {
        let mut policy = policy.clone();
        for route in &mut policy.routes.routes[places] {
            let one = |n: usize| {
                let pattern = Pattern::parse(&format!(r"\pL{{3}}x{n}")).unwrap();
                let value = ValueMatch::Regex(pattern);
                HeaderMatch { name: http::HeaderName::from_static("x"), value }
            };
            let path = route.rules[0].matches[0].path.clone();
            let wanted = |n| RequestMatch::path(path.clone()).with_headers(vec![one(n)]);
            let matches = (0..20).map(wanted).collect();
            let rule = Rule { matches, effects: Vec::new().into() };
            *route = Arc::new(Route { rules: vec![rule].into(), ..Route::clone(route) });
        }
        Arc::new(policy)
    };
    let config = ServeConfig { max_expression_bytes: 500_000, ..ServeConfig::default() };
    let harness = Harness::with(config).await;
    let pod = harness.index.pod("web-0", &[80]);
    harness.index.set(&pod, 80, &expressions(&shared(1), 1..2), 1);
    let mut client = Client::open(&harness, hello("ns:web-0")).await;
    client.workload().await;
    let mut state = PortState::default();
    assert_eq!(*state.apply(&client.port().await).unwrap(), without_bb());
    let told = told(&harness).await;
    assert!(
        told[0].denied[0].contains("of 500000 that the expressions of a port may take"),
        "{told:?}"
    );
    // The owner's own are its own affair.
    let own = expressions(&without_bb(), 0..1);
    harness.index.set(&pod, 80, &own, 2);
    let sent = state.apply(&client.port().await).unwrap();
    assert_eq!((sent.deny, sent.routes.routes[0].rules.len()), (None, 1));
    assert_eq!(sent.routes.routes[0], own.routes.routes[0]);
}

#[tokio::test]
async fn where_the_owners_part_is_too_large_the_port_is_denied() {
    let config = ServeConfig { max_update_bytes: 256, ..ServeConfig::default() };
    let harness = Harness::with(config).await;
    let pod = harness.index.pod("web-0", &[80]);
    harness.index.set(&pod, 80, &shared(20), 1);
    let mut client = Client::open(&harness, hello("ns:web-0")).await;
    client.workload().await;
    let sent = PortState::default().apply(&client.port().await).unwrap();
    assert_eq!(sent.deny, Some(Denied::ProxyUnsupported));
}

/// Linkerd's proxies have a bound on bytes, and one on the matches of trees.
#[tokio::test]
async fn linkerds_proxies_keep_the_owners_part_too() {
    let config = ServeConfig { max_policy_bytes: 16_384, ..ServeConfig::default() };
    for (config, matches) in [(config, 20), (ServeConfig::default(), 4100)] {
        let harness = Harness::with(config).await;
        let pod = harness.index.pod("web-0", &[80]);
        let get = async |policy: Arc<ServerPolicy>| {
            harness.index.set(&pod, 80, &policy, 1);
            let spec = PortSpec { workload: "ns:web-0".into(), port: 80 };
            let mut client = InboundServerPoliciesClient::new(harness.channel().await);
            client.get_port(spec).await.unwrap().into_inner()
        };
        let sent = get(shared(matches)).await;
        assert_eq!(sent.protocol, get(Arc::new(without_bb())).await.protocol);
        let denied = ServerPolicy { deny: Some(Denied::ProxyUnsupported), ..without_bb() };
        assert_ne!(sent.protocol, get(Arc::new(denied)).await.protocol);
    }
}
