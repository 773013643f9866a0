//! Tests of the labels of routes.

use super::{facts, port};
use crate::telemetry::cumulative::MAX_RETIRED;
use crate::telemetry::route_labels::{MAX_LABELS, MAX_LEN};
use crate::telemetry::{Counters, Telemetry};
use policy_core::decision::RuleId;
use policy_core::testing::{self, OwnedConnection, OwnedRequest};
use policy_core::{
    Decision, DefaultPolicy, Denial, Denied, Evaluator, Memo, ObjectRef, Origin, PathPattern,
    RequestMatch, Route, RouteLabel, ServerPolicy, Tls,
};
use std::sync::Arc;
use std::time::Duration;

/// A route of one binding, for a path.
fn bound(path: &str, label: Option<&str>) -> Arc<Route> {
    let binding = ObjectRef::new("portcullis.dev", "HttpRouteBinding", "shop", "books");
    Arc::new(Route {
        origin: Origin::Objects([binding].into()),
        label: label.map(RouteLabel::new),
        ..testing::route("books", vec![RequestMatch::path(PathPattern::exact(path))])
    })
}

fn policy(routes: Vec<Arc<Route>>) -> Arc<ServerPolicy> {
    let mut policy = testing::policy();
    policy.authorizations = DefaultPolicy::AllUnauthenticated.authorizations();
    policy.routes.routes = routes;
    Arc::new(policy)
}

/// Puts a policy in force and counts a request for each path.
fn serve(telemetry: &Telemetry, policy: &Arc<ServerPolicy>, paths: &[&str]) -> Arc<Counters> {
    let counters = telemetry.counters(port(), policy, &facts());
    let evaluator = Evaluator::build(Arc::clone(policy)).unwrap();
    let client = OwnedConnection::plaintext([10, 9, 9, 9]);
    let caller = telemetry.caller(&Tls::Absent);
    for path in paths {
        let request = OwnedRequest::get(path);
        match evaluator.decide_request(&client.view(), &mut Memo::new(), &request.view()) {
            Decision::Permit(permit) => {
                counters.http_permitted(0, caller, &permit);
                counters.series(0, counters.series_of(0, caller, &permit)).unwrap().request();
            }
            Decision::Deny(denial) => panic!("{path}: {denial:?}"),
        }
    }
    counters
}

/// The lines of a scrape that count something in a policy.
fn counted(telemetry: &Telemetry) -> Vec<String> {
    let text = telemetry.encode(&[]).unwrap();
    let idle = |line: &str| line.ends_with(" 0") || line.ends_with(" 0.0");
    let own = |line: &&str| !["#", "process_", "proxy_"].iter().any(|head| line.starts_with(head));
    text.lines().filter(|line| own(line) && !idle(line)).map(str::to_owned).collect()
}

/// The lines of a scrape about requests permitted on these routes.
fn permitted(routes: &[(&str, u64)]) -> Vec<String> {
    const TARGET: &str = r#"target_addr="10.1.2.3:8080",target_ip="10.1.2.3",target_port="8080""#;
    const SERVER: &str =
        r#"srv_group="policy.linkerd.io",srv_kind="server",srv_name="web",srv_port="8080""#;
    const PARENT: &str = concat!(
        r#"parent_group="policy.linkerd.io",parent_kind="server",parent_name="web","#,
        r#"parent_port="8080""#
    );
    const AUTHZ: &str = r#"authz_group="",authz_kind="default",authz_name="all-unauthenticated""#;
    const TLS: &str = r#"tls="no_identity",no_tls_reason="no_tls_from_remote""#;
    let each = |line: &dyn Fn(String) -> String| -> Vec<String> {
        let counted = |(label, count): &(&str, u64)| format!("{} {count}", line(route(label)));
        routes.iter().map(counted).collect()
    };
    [
        each(&|route| {
            format!("inbound_http_authz_allow_total{{{TARGET},{route},{AUTHZ},{SERVER},{TLS}}}")
        }),
        each(&|route| {
            format!(
                "request_total{{direction=\"inbound\",{TARGET},{SERVER},{route},{AUTHZ},{TLS}}}"
            )
        }),
        each(&|route| format!("inbound_http_requests_total{{{PARENT},{route}}}")),
    ]
    .concat()
}

fn route(label: &str) -> String {
    let binding = r#"route_kind="HttpRouteBinding",route_name="books""#;
    format!(r#"route_group="portcullis.dev",{binding},http_route="{label}""#)
}

#[test]
fn routes_of_one_object_are_told_apart_by_their_labels() {
    let telemetry = Telemetry::new(1);
    let policy = policy(vec![
        bound("/books/1", Some("/books/:id")),
        bound("/books/new", Some("/books/new")),
        bound("/other", None),
    ]);
    let paths = ["/books/1", "/books/1", "/books/new", "/other"];
    let counters = serve(&telemetry, &policy, &paths);
    let expected = [("", 1), ("/books/:id", 2), ("/books/new", 1)];
    assert_eq!(counted(&telemetry), permitted(&expected));

    let route = Some(RuleId { route: 1, rule: 0 });
    let denial = Denial { reason: Denied::Unauthorized, route };
    counters.http_denied(0, telemetry.caller(&Tls::Absent), &denial);
    let denied = concat!(
        r#"inbound_http_authz_deny_total{target_addr="10.1.2.3:8080",target_ip="10.1.2.3","#,
        r#"target_port="8080",route_group="portcullis.dev",route_kind="HttpRouteBinding","#,
        r#"route_name="books",http_route="/books/new",reason="unauthorized","#,
        r#"srv_group="policy.linkerd.io",srv_kind="server",srv_name="web",srv_port="8080","#,
        r#"tls="no_identity",no_tls_reason="no_tls_from_remote"} 1"#,
    );
    let mut all = permitted(&expected);
    all.insert(expected.len(), denied.to_owned());
    assert_eq!(counted(&telemetry), all);
}

#[test]
fn labels_beyond_the_limits_are_one() {
    let telemetry = Telemetry::new(1);
    let long = "/".repeat(MAX_LEN + 1);
    let longest = "a".repeat(MAX_LEN);
    let labels: Vec<String> =
        (1..MAX_LABELS + 3).map(|number| format!("/{number:04}/:id")).collect();
    let first = [long.as_str(), longest.as_str()];
    let all = first.into_iter().chain(labels.iter().map(String::as_str));
    let paths: Vec<String> = all.clone().enumerate().map(|(at, _)| format!("/{at}")).collect();
    let routes = paths.iter().zip(all).map(|(path, label)| bound(path, Some(label)));
    // A second route with a label that is shown takes no room.
    let routes = routes.chain([bound("/again", Some("/0001/:id"))]).collect();
    let paths: Vec<&str> = paths.iter().map(String::as_str).chain(["/again"]).collect();
    let _counters = serve(&telemetry, &policy(routes), &paths);

    // `longest` and all but three of the others; `long` is too long.
    let shown = labels.iter().take(MAX_LABELS - 1).map(|label| (label.as_str(), 1));
    let mut expected: Vec<(&str, u64)> = shown.collect();
    expected[0].1 = 2;
    expected.extend([(longest.as_str(), 1), ("other", 4)]);
    assert_eq!(counted(&telemetry), permitted(&expected));
}

#[test]
fn labels_of_routes_that_are_gone_are_removed() {
    let idle = Duration::from_millis(20);
    let telemetry = Telemetry::with_retain_idle(1, idle);
    let (books, authors) = (bound("/b", Some("/books/:id")), bound("/a", Some("/authors/:id")));
    let both = policy(vec![books, Arc::clone(&authors)]);
    drop(serve(&telemetry, &both, &["/a", "/b", "/b"]));
    let shown = [("/authors/:id", 1), ("/books/:id", 2)];
    assert_eq!(counted(&telemetry), permitted(&shown));

    std::thread::sleep(idle);
    drop(serve(&telemetry, &policy(vec![authors]), &["/a"]));
    assert_eq!(counted(&telemetry), permitted(&[("/authors/:id", 2)]));

    // It was forgotten, too: it begins anew.
    drop(serve(&telemetry, &both, &["/a", "/b"]));
    let shown = [("/authors/:id", 3), ("/books/:id", 1)];
    assert_eq!(counted(&telemetry), permitted(&shown));
}

#[test]
fn a_controller_that_renames_routes_for_ever_fills_no_memory() {
    const ROUTES: usize = 100;
    let telemetry = Telemetry::new(1);
    let paths: Vec<String> = (0..ROUTES).map(|number| format!("/{number}")).collect();
    let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
    for round in 0..MAX_RETIRED / ROUTES {
        let named = |path: &&str| bound(path, Some(&format!("{path}/{round}")));
        drop(serve(&telemetry, &policy(paths.iter().map(named).collect()), &paths));
    }
    // Each request counts in three series. Those of two policies may not have been added up yet.
    let lines = counted(&telemetry).len();
    assert!(lines <= MAX_RETIRED + 2 * 3 * ROUTES, "{lines} series");
    let last = MAX_RETIRED / ROUTES - 1;
    assert!(counted(&telemetry).iter().any(|line| line.contains(&format!("\"/7/{last}\""))));
}
