//! Checks that rows agree with the evaluator: no denied client is shown as admitted, and no
//! admitted client is missing.

use super::*;
use policy_core::testing::{
    any_client, any_policy, any_request, default_policy, object, route, set,
};
use policy_core::testing::{grant, identity as named, policy};
use policy_core::{
    AuthorizationId, Connection, Decision, DefaultPolicy, Denied, Evaluator, HostPattern,
    IdentityMatch, Memo, Origin, PathPattern, RequestMatch, SegmentCondition, Tls,
};
use policy_engine::view::shadowed;
use proptest::prelude::*;

fn shadowed_in(policy: &ServerPolicy) -> Vec<Shadowed> {
    shadowed(&policy.routes.routes, &policy.routes.hosts, policy.paths)
}

/// The rows of a policy.
fn rows(policy: &ServerPolicy) -> (Vec<Access>, Option<String>) {
    super::rows(policy, &shadowed_in(policy))
}

/// True if a client fulfils the requirements of a row, judging by the row's words alone.
fn admits(row: &Access, connection: &Connection<'_>) -> bool {
    row.granted && row.requires.iter().all(|need| fulfils(need, connection))
}

fn fulfils(need: &ClientRequirement, connection: &Connection<'_>) -> bool {
    match (need.tls, need.networks.as_slice(), need.identities.as_slice()) {
        (Some("mesh"), [], []) => matches!(connection.tls, Tls::Terminated(_)),
        (Some("passthrough"), [], []) => connection.tls == Tls::Passthrough,
        (None, [], names) => match connection.tls {
            Tls::Terminated(Some(own)) => names.iter().any(|n| IdentityMatch::parse(n).admits(own)),
            Tls::Terminated(None) | Tls::Passthrough | Tls::Absent => false,
        },
        (None, networks, []) => networks.iter().any(|network| is_inside(network, connection)),
        wrong => panic!("{wrong:?} is more than one thing"),
    }
}

fn is_inside(network: &str, connection: &Connection<'_>) -> bool {
    let contains = |nets: &[ipnet::IpNet]| nets.iter().any(|net| net.contains(&connection.client));
    let read = |text: &str| text.parse::<ipnet::IpNet>().unwrap();
    let (term, except) = network.split_once(" except ").unwrap_or((network, ""));
    let except = except.split(", ").filter(|text| !text.is_empty()).map(read);
    let inside = match term {
        "cluster" => contains(&connection.facts.cluster),
        "node-local" => contains(&connection.facts.node_local),
        net => contains(&[read(net)]),
    };
    inside && !contains(&except.collect::<Vec<_>>())
}

/// Returns the first row that admits the client.
fn credited<'a>(
    rows: impl IntoIterator<Item = &'a Access>,
    connection: &Connection<'_>,
) -> Option<&'a Access> {
    rows.into_iter().find(|row| admits(row, connection))
}

/// Asserts that row and decision agree on the verdict, the object, and the audit flag.
fn same(row: Option<&Access>, evaluator: &Evaluator, decision: Decision) {
    let expected = match decision {
        Decision::Permit(permit) => evaluator
            .authorization(permit.authorization())
            .map(|grant| (Some(grant.source.to_string()), grant.audit)),
        Decision::Deny(_) => None,
    };
    assert_eq!(row.map(|row| (row.by.clone(), row.audited)), expected, "{decision:?}");
}

fn of_connections(row: &&Access, connection: &Connection<'_>) -> bool {
    row.what.iter().any(|what| match what.as_str() {
        "connections" => true,
        "TLS connections" => connection.tls != Tls::Absent,
        _ => false,
    })
}

/// True for rows about requests to `host` that the port's own grants decide.
fn of_other_requests(row: &&Access, name: Option<&str>) -> bool {
    let of_host = |pattern: &String| {
        let pattern = match pattern.strip_prefix("*.") {
            Some(suffix) => HostPattern::Suffix(suffix.into()),
            None => HostPattern::Exact(pattern.as_str().into()),
        };
        name.is_some_and(|name| pattern.admits(name))
    };
    let other = |what: &String| what == "requests" || what == "other requests";
    let here = row.hosts.is_empty() || row.hosts.iter().any(of_host);
    row.route.is_none() && !row.exempt && here && row.what.iter().any(other)
}

/// Policies without conditions on requests, whose rows name clients alone.
fn any_policy_by_connection() -> impl Strategy<Value = ServerPolicy> {
    let plain = |grant: &Arc<Authorization>| grant.scope() == Scope::Connection;
    any_policy().prop_map(move |mut policy| {
        let kept = |set: &[Arc<Authorization>]| set.iter().filter(|g| plain(g)).cloned().collect();
        policy.authorizations = kept(&policy.authorizations);
        policy.exemptions.retain(|exemption| plain(&exemption.authorization));
        for route in &mut policy.routes.routes {
            let route = Arc::make_mut(route);
            route.authorizations = kept(&route.authorizations);
        }
        policy
    })
}

proptest! {
    #[test]
    fn connections_agree_with_decisions(policy in any_policy_by_connection(), client in any_client()) {
        let (access, _) = rows(&policy);
        let evaluator = Evaluator::build(Arc::new(policy)).unwrap();
        let connection = client.view();
        let decision = evaluator.decide_connection(&connection);
        let about = access.iter().filter(|row| of_connections(row, &connection));
        same(credited(about, &connection), &evaluator, decision);
    }

    #[test]
    fn requests_agree_with_decisions(
        policy in any_policy_by_connection(), client in any_client(), sent in any_request(),
    ) {
        let (access, otherwise) = rows(&policy);
        let evaluator = Evaluator::build(Arc::new(policy.clone())).unwrap();
        let (connection, sent) = (client.view(), sent.view());
        let decision = evaluator.decide_request(&connection, &mut Memo::new(), &sent);
        let (matched, reason) = match decision {
            Decision::Permit(permit) => (permit.route(), None),
            Decision::Deny(denial) => (denial.route, Some(denial.reason)),
        };
        if let Decision::Permit(permit) = decision
            && let AuthorizationId::Exemption(own) = permit.authorization()
        {
            let exemption = &policy.exemptions[usize::try_from(own).unwrap()];
            // One without a request admits whole connections of TLS that is passed through.
            let what = exemption.request.as_ref().map(ToString::to_string);
            let is_own = |row: &&Access| what.as_ref().is_none_or(|what| row.what == [what.as_str()]);
            let own = access.iter().filter(|row| row.exempt).filter(is_own);
            prop_assert!(credited(own, &connection).is_some());
        } else if matches!(reason, Some(Denied::CannotTell | Denied::Target(_))) {
            // Such a request is denied for every client.
        } else if let Some((route, rule)) = matched.and_then(|id| evaluator.rule(id)) {
            let number = policy.routes.routes.iter().position(|own| std::ptr::eq(&**own, route));
            let told = route_rows(&policy, number.unwrap(), &shadowed_in(&policy));
            prop_assert!(told.iter().all(|row| access.contains(row)));
            // At least one of the rule's matches is shown as reachable.
            let requests: Vec<String> = rule.matches.iter().map(ToString::to_string).collect();
            let all = ["requests".to_owned()];
            let requests = if requests.is_empty() { &all[..] } else { &requests };
            let reached = |row: &&Access| requests.iter().any(|one| row.what.contains(one));
            prop_assert!(told.iter().any(|row| reached(&row)));
            same(credited(&told, &connection), &evaluator, decision);
        } else if matches!(reason, None | Some(Denied::Unauthorized)) {
            let about = access.iter().filter(|row| of_other_requests(row, sent.host));
            same(credited(about, &connection), &evaluator, decision);
        } else if policy.deny.is_some() || !policy.protocol.is_http() {
            prop_assert!(access.iter().all(|row| row.what.iter().all(|w| w.ends_with("connections"))));
        } else {
            prop_assert!(otherwise.is_some(), "{decision:?}");
        }
    }
}

#[test]
fn a_tls_port_is_not_told_as_open_to_plaintext() {
    let mut policy = default_policy(DefaultPolicy::AllUnauthenticated);
    policy.protocol = Protocol::Tls;
    let what = |policy: &ServerPolicy| rows(policy).0.into_iter().map(|row| row.what).collect();
    let told: Vec<_> = what(&policy);
    assert_eq!(told, [["TLS connections"]]);
    policy.protocol = Protocol::Detect { timeout: std::time::Duration::from_secs(1) };
    let told: Vec<_> = what(&policy);
    assert_eq!(told, [["requests", "connections"]]);
}

#[test]
fn a_route_that_only_denies_is_reported_as_nobodys() {
    let mut policy = policy();
    policy.authorizations = set(vec![grant("all", Vec::new())]);
    let mut denied = route("r", vec![RequestMatch::path(PathPattern::prefix("/"))]);
    denied.origin = Origin::Deny(Denied::ProxyUnsupported);
    policy.routes.routes.push(Arc::new(denied));
    let (access, otherwise) = rows(&policy);
    let told: Vec<_> = access.iter().map(|r| (r.route.as_deref(), r.granted)).collect();
    assert_eq!(told, [(Some("deny proxy_unsupported"), false)]);
    assert_eq!(otherwise.as_deref(), Some("not found"));
}

#[test]
fn what_an_earlier_route_matches_is_nobodys_by_a_later_one() {
    let mut policy = policy();
    let wanted = || RequestMatch::path(PathPattern::prefix("/a"));
    let mut first = route("first", vec![wanted()]);
    first.authorizations = set(vec![grant("few", vec![named("front")])]);
    let mut second = route("second", vec![wanted(), RequestMatch::path(PathPattern::prefix("/b"))]);
    second.authorizations = set(vec![grant("all", Vec::new())]);
    policy.routes.routes = vec![Arc::new(first), Arc::new(second)];
    let (access, _) = rows(&policy);
    let told: Vec<_> = access.iter().map(|row| (row.what.join(""), row.granted)).collect();
    let expected = [("* /a/…", true), ("* /b/…", true), ("* /a/… (never reached)", false)];
    assert_eq!(told, expected.map(|(what, granted)| (what.to_owned(), granted)));
}

#[test]
fn a_host_that_leaves_the_rest_to_the_ports_grants_has_a_row_of_its_own() {
    let mut policy = policy();
    policy.authorizations = set(vec![grant("fronts", vec![named("front")])]);
    let host = HostPattern::Exact("a.example.com".into());
    policy.routes.hosts.insert(host, Unmatched::DefaultRoute);
    policy.routes.routes.push(Arc::new(route("r", Vec::new())));
    let by = |row: &Access| (row.hosts.clone(), row.what.clone(), row.by.clone());
    let fronts = object("AuthorizationPolicy", "fronts").to_string();
    let (access, otherwise) = rows(&policy);
    let expected = [
        (Vec::new(), vec!["requests".to_owned()], Some(fronts.clone())),
        (vec!["a.example.com".to_owned()], vec!["other requests".to_owned()], Some(fronts)),
    ];
    assert_eq!(access.iter().map(by).collect::<Vec<_>>(), expected);
    assert_eq!(otherwise.as_deref(), Some("not found"));
}

#[test]
fn a_condition_on_a_path_parameter_is_a_requirement_that_no_connection_meets() {
    let mut policy = default_policy(DefaultPolicy::Deny);
    let on = |values: &[&str]| {
        let condition = SegmentCondition::new("book", 1, SegmentOperator::In, values);
        set(vec![grant("one", vec![named("front"), Predicate::Segment(condition)])])
    };
    policy.authorizations = on(&["42"]);
    policy.protocol = Protocol::Detect { timeout: std::time::Duration::from_secs(1) };
    let (access, _) = rows(&policy);
    let [row] = access.as_slice() else { panic!("{access:?}") };
    assert_eq!((row.what.as_slice(), row.granted), (&["requests".to_owned()][..], true));
    assert_eq!(row.requires[1].request.as_deref(), Some("path parameter book In [42]"));
    policy.protocol = Protocol::Opaque;
    let nobody = |policy: &ServerPolicy| {
        let told = |row: Access| (row.what.join(""), row.granted);
        rows(policy).0.into_iter().map(told).collect::<Vec<_>>()
    };
    assert_eq!(nobody(&policy), [("connections".to_owned(), false)]);
    policy.protocol = Protocol::Http1;
    policy.authorizations = on(&[]);
    assert_eq!(nobody(&policy), [("requests".to_owned(), false)]);
}

#[test]
fn an_empty_list_is_reported_as_nobody() {
    let mut policy = policy();
    policy.routes.otherwise = Unmatched::DefaultRoute;
    policy.authorizations = set(vec![grant("none", vec![Predicate::Identity(Vec::new())])]);
    let (access, _) = rows(&policy);
    assert_eq!(access.iter().map(|row| row.granted).collect::<Vec<_>>(), [false]);
}
