//! Groups as children of InboundRoutes: parameters stand for nothing that the delegator lists itself, and
//! for all else.

use super::compiled;
use policy_core::{
    Connection, Decision, Origin, RequestView, ServerPolicy, Tls, WorkloadKey, canonical_path,
    naive,
};
use policy_engine::testing::groups::path_matches;
use policy_engine::testing::objects;
use proptest::prelude::*;
use std::num::NonZeroU16;

/// The paths that the root may list itself, beside `/a`, which it hands to the group.
const OWN: [&str; 7] = ["/", "/a/b", "/a/42", "/a/b/42", "/a/42/b", "/a/b/c/d", "/b"];

/// A path below `/a`: segments, and whether it ends with a rest.
fn path() -> impl Strategy<Value = String> {
    let segment = prop::sample::select(vec![":x", "b", "42", ":x"]);
    (prop::collection::vec(segment, 0..4), any::<bool>()).prop_map(|(segments, rest)| {
        let mut path = "/a".to_owned();
        for (place, segment) in segments.into_iter().enumerate() {
            // Each parameter has a name of its own.
            let name = if segment.starts_with(':') { format!(":x{place}") } else { segment.into() };
            path.push('/');
            path.push_str(&name);
        }
        if rest { path + "/*rest" } else { path }
    })
}

fn request() -> impl Strategy<Value = String> {
    let segment = prop::sample::select(vec!["a", "b", "42", "c", "d", "%62", "4%32"]);
    let below = prop::collection::vec(segment, 0..5);
    (any::<bool>(), below, any::<bool>()).prop_map(|(inside, segments, slash)| {
        let all = inside.then_some("a").into_iter().chain(segments);
        let path: String = all.flat_map(|segment| ["/", segment]).collect();
        if slash || path.is_empty() { path + "/" } else { path }
    })
}

fn objects_of(own: &[&str], paths: &[String]) -> String {
    let rules = own.iter().map(|path| format!("{{match: {path}, serve: {{}}}}, "));
    let routes: Vec<String> = paths.iter().map(|path| format!("{{path: '{path}'}}")).collect();
    format!(
        "{{apiVersion: v1, kind: Pod, metadata: {{name: web, namespace: shop}}, \
           spec: {{containers: [{{name: c, ports: [{{containerPort: 8080}}]}}]}}}}\n---\n\
         {{apiVersion: policy.linkerd.io/v1beta3, kind: Server, \
           metadata: {{name: web, namespace: shop}}, spec: {{podSelector: {{}}, port: 8080, \
           proxyProtocol: HTTP/1, accessPolicy: all-unauthenticated}}}}\n---\n\
         {{apiVersion: portcullis.dev/v1alpha1, kind: InboundRoute, \
           metadata: {{name: root, namespace: shop}}, spec: {{virtualhost: {{fqdn: a.io, targetRef: \
           {{group: policy.linkerd.io, kind: Server, name: web}}}}, routes: [{} \
           {{match: /a, delegate: {{kind: HttpRouteGroup, name: g}}}}]}}}}\n---\n\
         {{apiVersion: portcullis.dev/v1alpha1, kind: HttpRouteGroup, \
           metadata: {{name: g, namespace: shop}}, \
           spec: {{delegatedFrom: [{{fqdn: a.io}}], routes: [{}]}}}}",
        rules.collect::<String>(),
        routes.join(", ")
    )
}

/// The object that answers a request: the path of a rule of the root, or `group`; `None` if it is denied.
fn answerer(policy: &ServerPolicy, facts: &policy_core::Facts, path: &str) -> Option<String> {
    let client = "10.9.9.9".parse().unwrap();
    let connection = Connection { client, tls: Tls::Absent, facts };
    let headers = http::HeaderMap::new();
    let path = &*canonical_path(path).unwrap();
    let method = &http::Method::GET;
    let view = RequestView { method, host: Some("a.io"), path, query: None, headers: &headers };
    let Decision::Permit(permit) = naive::decide_request(policy, &connection, &view) else {
        return None;
    };
    let route = &policy.routes.routes[permit.route()?.route as usize];
    Some(match &route.origin {
        Origin::Delegated(own) if own.chain.len() == 1 => own.prefix.to_string(),
        Origin::Delegated(_) => "group".to_owned(),
        Origin::Objects(_)
        | Origin::Default
        | Origin::Probe
        | Origin::Guard
        | Origin::Deny(_)
        | Origin::Undelegated(_)
        | Origin::Unreadable(_) => format!("{:?}", route.origin),
    })
}

/// The longest rule that has a path, by whole segments, once the path is decoded.
fn longest<'r>(rules: &[&'r str], path: &str) -> Option<&'r str> {
    let segments = |path: &str| -> Vec<String> {
        let plain = path.replace("%62", "b").replace("%32", "2");
        plain.split('/').filter(|segment| !segment.is_empty()).map(str::to_owned).collect()
    };
    let has = |rule: &&&str| segments(path).starts_with(&segments(rule));
    rules.iter().filter(has).max_by_key(|rule| segments(rule).len()).copied()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_group_answers_nothing_that_its_delegator_lists(
        own in prop::sample::subsequence(OWN.to_vec(), 0..=OWN.len()),
        paths in prop::collection::vec(path(), 1..5),
        requests in prop::collection::vec(request(), 24),
    ) {
        let mut paths = paths;
        paths.sort();
        paths.dedup();
        let compiled = compiled(objects(&objects_of(&own, &paths)));
        let key = WorkloadKey::pod("shop", "web");
        let policy = compiled.port(&key, NonZeroU16::new(8080).unwrap()).unwrap();
        let facts = &compiled.workloads[&key].state.facts;
        let rules: Vec<&str> = own.iter().copied().chain(["/a"]).collect();
        for request in &requests {
            let found = answerer(&policy, facts, request);
            match longest(&rules, request) {
                Some("/a") => {
                    let its = paths.iter().any(|path| path_matches(path, request));
                    let wanted = its.then_some("group");
                    prop_assert_eq!(found.as_deref(), wanted, "{} {:?} {:?}", request, own, paths);
                }
                rule => {
                    prop_assert_eq!(found.as_deref(), rule, "{} {:?} {:?}", request, own, paths);
                }
            }
        }
    }
}
