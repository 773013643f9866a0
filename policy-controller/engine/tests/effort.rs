//! The work an event causes is proportional to what it changes.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "a test"
)]

mod common;

use common::{ON_SERVER, mesh_tls, objects, policy, port, server};
use policy_core::{Denied, WorkloadKey};
use policy_engine::{ControllerConfig, History};

/// Pods `p0`, `p1`, … of an application of their own each hundred, all watched.
fn history(pods: usize) -> History {
    let mut history = History::new(&ControllerConfig::default());
    let refs = "{group: policy.linkerd.io, kind: MeshTLSAuthentication, name: m}";
    let documents =
        [server("HTTP/1", "deny"), policy("p", ON_SERVER, refs), mesh_tls("shop", "m", "'*'")];
    let mut all: Vec<_> = documents.iter().flat_map(|text| objects(&[text])).map(Ok).collect();
    all.extend((0..pods).flat_map(|i| pod(i, "x")).map(Ok));
    history.apply(all);
    for i in 0..pods {
        let key = WorkloadKey::pod("shop", &format!("p{i}"));
        assert!(history.followed_port(&key, port(8080)).is_some());
        assert!(history.followed_state(&key).is_some());
    }
    history
}

fn pod(i: usize, note: &str) -> Vec<policy_crds::Object> {
    let app = if i < 100 { "web".to_owned() } else { format!("app-{}", i / 100) };
    objects(&[&format!(
        "{{apiVersion: v1, kind: Pod, metadata: {{name: p{i}, namespace: shop, labels: {{app: {app}, pod: p{i}}}, \
         annotations: {{note: {note}}}}}, \
         spec: {{containers: [{{name: a, ports: [{{name: http, containerPort: 8080}}]}}]}}}}"
    )])
}

fn cost(history: &mut History, changes: Vec<policy_crds::Object>) -> u64 {
    let before = history.effort().1;
    history.apply(changes.into_iter().map(Ok).collect());
    history.effort().1 - before
}

#[test]
fn an_event_costs_the_same_however_many_pods_it_does_not_concern() {
    let (mut small, mut large) = (history(200), history(1_000));
    let other = mesh_tls("shop", "m", "'a.b'");
    let event = || objects(&[&other]);
    let (few, many) = (cost(&mut small, event()), cost(&mut large, event()));
    assert_eq!(few, many);
    assert!(few < 12, "{few} answers for one change of an authentication");
    let own = cost(&mut large, pod(700, "z"));
    assert!(own <= 1, "a pod concerns itself alone, not {own} answers");
    let unrelated = mesh_tls("elsewhere", "m", "'*'");
    assert!(cost(&mut large, objects(&[&unrelated])) <= 1);
    let closed = server("HTTP/1", "audit");
    assert!(cost(&mut large, objects(&[&closed])) < 24);
}

/// Policies on routes of their own, and a Server that the routes have.
fn routes(count: usize) -> History {
    let mut history = History::new(&ControllerConfig::default());
    let all = (0..count).flat_map(|i| [route("shop", i, "/"), on_route(i)]);
    let pod = pod(0, "x").into_iter().map(Ok);
    let server = objects(&[&server("HTTP/1", "deny")]).into_iter().map(Ok);
    history.apply(pod.chain(server).collect());
    history.apply(all.flat_map(|text| objects(&[&text])).map(Ok).collect());
    assert!(history.followed_port(&WorkloadKey::pod("shop", "p0"), port(8080)).is_some());
    history
}

fn route(namespace: &str, i: usize, path: &str) -> String {
    format!(
        "apiVersion: policy.linkerd.io/v1beta3\nkind: HTTPRoute\n\
         metadata: {{name: r{i}, namespace: {namespace}}}\nspec:\n  parentRefs: \
         [{{group: policy.linkerd.io, kind: Server, name: web, namespace: shop}}]\n\
         \x20 rules: [{{matches: [{{path: {{value: '{path}'}}}}]}}]"
    )
}

fn on_route(i: usize) -> String {
    policy(&format!("p{i}"), &format!("group: policy.linkerd.io, kind: HTTPRoute, name: r{i}"), "")
}

/// Every policy looked up its route among all routes of the namespace.
#[test]
fn a_route_concerns_the_policies_that_name_it_however_many_name_others() {
    let (mut small, mut large) = (routes(10), routes(5_000));
    // Of a route on no Server, so that those of the Server's routes stay as they are.
    let event = || {
        let elsewhere = route("shop", 7_000, "/a").replace("name: web", "name: none");
        objects(&[&elsewhere])
    };
    let (few, many) = (cost(&mut small, event()), cost(&mut large, event()));
    assert_eq!(few, many);
    assert!(many <= 2, "{many} answers for one route that nobody names");
    let gone = objects(&[&route("shop", 3, "/")]).remove(0).meta.key;
    let told = |history: &History| {
        let about = history.conditions().iter().find(|(key, _)| &*key.name == "p3");
        let about = about.unwrap().1;
        (about.iter().all(|condition| condition.status), format!("{about:?}"))
    };
    let (fine, about) = told(&large);
    assert!(fine, "{about}");
    large.apply(vec![Err(gone)]);
    assert!(!told(&large).0, "its route is gone");
}

/// A stranger can make as many routes as it likes.
#[test]
fn routes_of_a_namespace_that_is_not_permitted_cost_the_server_nothing() {
    let mut history = routes(10);
    let strangers = (0..10_000).flat_map(|i| objects(&[&route("strange", i, "/x")]));
    history.apply(strangers.map(Ok).collect());
    let key = WorkloadKey::pod("shop", "p0");
    let before = history.followed_port(&key, port(8080)).unwrap();
    assert_eq!(before.routes.routes.len(), 10);
    // Its own conditions, and nothing of the Server.
    let answers = cost(&mut history, objects(&[&route("strange", 7, "/y")]));
    assert!(answers <= 1, "{answers} answers for a route that nobody here asked for");
    let own = cost(&mut history, objects(&[&route("shop", 7, "/y")]));
    assert!(own < 20, "{own} answers for one of its own routes");
    // Once they have been queried they count.
    let grant = "apiVersion: gateway.networking.k8s.io/v1\nkind: ReferenceGrant\n\
                 metadata: {name: g, namespace: shop}\nspec:\n\
                 \x20 from: [{group: policy.linkerd.io, kind: HTTPRoute, namespace: strange}]\n\
                 \x20 to: [{group: policy.linkerd.io, kind: Server}]";
    history.apply(objects(&[grant]).into_iter().map(Ok).collect());
    let after = history.followed_port(&key, port(8080)).unwrap();
    assert_eq!(after.routes.routes.len(), 10_010);
}

/// A Pod may list tens of thousands of ports; each that is declared is a policy to every watch of it.
#[test]
fn ports_that_a_workload_declares_are_bounded_and_those_beyond_count_as_undeclared() {
    let ports: Vec<String> =
        (1..=40_000).map(|number| format!("{{containerPort: {number}}}")).collect();
    let pod = format!(
        "{{apiVersion: v1, kind: Pod, metadata: {{name: p0, namespace: shop, labels: {{app: web}}, \
         annotations: {{portcullis.dev/undeclared-ports: deny}}}}, spec: {{containers: \
         [{{name: a, ports: [{}], readinessProbe: {{tcpSocket: {{port: 39000}}}}}}]}}}}",
        ports.join(", ")
    );
    let mut history = History::new(&ControllerConfig::default());
    let owned = server("HTTP/1", "deny").replace("port: http", "port: 38000");
    history.apply(objects(&[&owned, &pod]).into_iter().map(Ok).collect());
    let key = WorkloadKey::pod("shop", "p0");
    let declared = history.followed_state(&key).unwrap().declared.clone();
    let beyond: Vec<u16> = declared.iter().map(|port| port.get()).filter(|p| *p > 1024).collect();
    assert_eq!((declared.len(), beyond), (1026, vec![38_000, 39_000]));
    let deny =
        |history: &mut History, number| history.followed_port(&key, port(number)).unwrap().deny;
    assert_eq!(deny(&mut history, 1024), None);
    assert_eq!(deny(&mut history, 1025), Some(Denied::PortUndeclared));
}

#[test]
fn what_nobody_follows_is_forgotten() {
    let mut churned = history(200);
    churned.sweep();
    let before = churned.effort().0;
    for round in 0..5 {
        let pods = 0..200;
        let gone = pods.clone().flat_map(|i| pod(i, "x")).map(|object| Err(object.meta.key));
        churned.apply(gone.collect());
        let note = format!("round-{round}");
        churned.apply(pods.flat_map(|i| pod(i, &note)).map(Ok).collect());
        for i in 0..200 {
            let key = WorkloadKey::pod("shop", &format!("p{i}"));
            assert!(churned.followed_port(&key, port(8080)).is_some());
            assert!(churned.followed_state(&key).is_some());
        }
    }
    churned.sweep();
    assert_eq!(churned.effort().0, before);
}

/// Servers `s0`, `s1`, … of a pod each, all watched.
fn servers(count: usize) -> History {
    let mut history = History::new(&ControllerConfig::default());
    let own = |i: usize| {
        let text = server("HTTP/1", "deny").replace("name: web", &format!("name: s{i}"));
        [objects(&[&text.replace("app: web", &format!("pod: p{i}"))]), pod(i, "x")].concat()
    };
    history.apply((0..count).flat_map(own).map(Ok).collect());
    for i in 0..count {
        let key = WorkloadKey::pod("shop", &format!("p{i}"));
        assert!(history.followed_port(&key, port(8080)).is_some());
    }
    history
}

/// Any policy of a namespace may be about each of its Servers, if it cannot be read.
#[test]
fn a_policy_about_headers_costs_its_own_server_alone() {
    let (mut small, mut large) = (servers(10), servers(500));
    let on = |target: &str, header: &str| {
        format!(
            "{{apiVersion: portcullis.dev/v1alpha1, kind: HeaderRewritePolicy, \
              metadata: {{name: h, namespace: shop}}, spec: {{targetRef: {{kind: Server, name: {target}}}, \
              failure: Deny, rules: [{{clear: [{header}]}}]}}}}"
        )
    };
    for event in [on("s3", "x-a"), on("s4", "x-a"), on("s4", "host")] {
        let (few, many) =
            (cost(&mut small, objects(&[&event])), cost(&mut large, objects(&[&event])));
        assert_eq!(few, many, "{event}");
        assert!(many < 20, "{many} answers for {event}");
    }
    let unread = objects(&[&on("[]", "x-a")]);
    assert!(cost(&mut large, unread) > 500, "it may be about any of them");
}
