//! Facts of a request decide on that request alone.

use crate::authorization::{Authorization, Predicate, Requirement, Scope};
use crate::condition::{SegmentCondition, SegmentOperator};
use crate::decision::{AuthorizationId, Decision, Denied};
use crate::evaluator::{Evaluator, Memo};
use crate::explain::explain;
use crate::matching::RequestMatch;
use crate::naive;
use crate::policy::{Exemption, Protocol, ServerPolicy, Unmatched};
use crate::testing::{
    OwnedConnection, OwnedRequest, any_client, any_policy, any_request, grant, identity, policy,
    route, set,
};
use proptest::prelude::*;
use std::sync::Arc;

const CLIENT: &str = "c.ns.mesh";

fn build(policy: &ServerPolicy) -> Evaluator {
    Evaluator::build(Arc::new(policy.clone())).unwrap()
}

fn one(text: &str) -> SegmentCondition {
    SegmentCondition::new("p", 0, SegmentOperator::In, [text])
}

fn of_request(name: &str) -> Arc<Authorization> {
    grant(name, vec![identity(CLIENT), Predicate::Segment(one("a"))])
}

/// Grants for other clients, so many that the set is indexed.
fn others() -> impl Iterator<Item = Arc<Authorization>> {
    (0..9).map(|number| grant("other", vec![identity(&format!("{number}.mesh"))]))
}

/// A policy in which a grant that depends on the request is the Server's, a route's or one of many.
fn policies() -> Vec<(&'static str, ServerPolicy)> {
    let mut server = policy();
    server.authorizations = set(vec![of_request("a")]);
    server.routes.otherwise = Unmatched::DefaultRoute;
    let mut many = server.clone();
    many.authorizations = others().chain([of_request("a")]).chain(others()).collect();
    let mut own = policy();
    let mut only = route("all", vec![RequestMatch::everything()]);
    only.authorizations = set(vec![of_request("a")]);
    own.routes.routes = vec![Arc::new(only)];
    let mut exempt = server.clone();
    exempt.authorizations = set(Vec::new());
    exempt.exemptions = vec![Exemption {
        request: Some(RequestMatch::everything().into()),
        authorization: of_request("a"),
    }];
    vec![("server", server), ("many", many), ("route", own), ("exemption", exempt)]
}

fn is_permit(decision: Decision) -> bool {
    matches!(decision, Decision::Permit(_))
}

#[test]
fn a_second_request_is_never_decided_by_what_the_first_said() {
    let client = OwnedConnection::meshed(CLIENT);
    let of_a = OwnedRequest::get("/a");
    let of_b = OwnedRequest::get("/b");
    for (name, policy) in policies() {
        let evaluator = build(&policy);
        for order in [[&of_a, &of_b, &of_a], [&of_b, &of_a, &of_b]] {
            let mut memo = Memo::new();
            for request in order {
                let decision = evaluator.decide_request(&client.view(), &mut memo, &request.view());
                assert_eq!(is_permit(decision), request.path == "/a", "{name}: {order:?}");
            }
        }
    }
}

#[test]
fn the_first_grant_counts_whichever_half_it_depends_on() {
    let lasting = || grant("lasting", vec![identity(CLIENT)]);
    for more in [0, 9] {
        let mut made = policy();
        made.routes.otherwise = Unmatched::DefaultRoute;
        let grants = [of_request("before"), lasting(), of_request("after")];
        made.authorizations = grants.into_iter().chain(others().take(more)).collect();
        let (evaluator, mut memo) = (build(&made), Memo::new());
        let client = OwnedConnection::meshed(CLIENT);
        for (path, index) in [("/a", 0), ("/b", 1), ("/a", 0)] {
            let request = OwnedRequest::get(path);
            match evaluator.decide_request(&client.view(), &mut memo, &request.view()) {
                Decision::Permit(permit) => {
                    assert_eq!(permit.authorization(), AuthorizationId::Server(index));
                }
                Decision::Deny(denial) => panic!("{denial:?}"),
            }
        }
    }
}

#[test]
fn a_grant_that_needs_a_request_permits_no_connection() {
    let client = OwnedConnection::meshed(CLIENT);
    for (name, mut policy) in policies() {
        policy.protocol = Protocol::Opaque;
        policy.exemptions.iter_mut().for_each(|exemption| exemption.request = None);
        let decision = build(&policy).decide_connection(&client.view());
        assert!(
            matches!(decision, Decision::Deny(denial) if denial.reason == Denied::Unauthorized),
            "{name}: {decision:?}"
        );
        let explained = explain(&policy, &client.view(), None);
        assert_eq!(explained.decision, decision, "{name}");
        assert!(explained.considered.iter().all(|grant| grant.failed.is_some()), "{name}");
    }
}

#[test]
fn a_grant_lasts_as_long_as_its_shortest_condition() {
    assert_eq!(grant("none", Vec::new()).scope(), Scope::Connection);
    assert_eq!(grant("one", vec![Predicate::MeshTls]).scope(), Scope::Connection);
    assert_eq!(of_request("both").scope(), Scope::Request);
    let nobody = Authorization {
        requirement: Requirement::All([].into()),
        ..Authorization::clone(&of_request("nobody"))
    };
    assert_eq!(nobody.scope(), Scope::Connection);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn no_request_is_decided_by_what_another_one_of_its_connection_said(
        policy in any_policy(),
        client in any_client(),
        requests in prop::collection::vec(any_request(), 2..8),
    ) {
        let evaluator = build(&policy);
        let connection = client.view();
        prop_assert_eq!(
            evaluator.decide_connection(&connection),
            naive::decide_connection(&policy, &connection)
        );
        let mut memo = Memo::new();
        for request in &requests {
            let indexed = evaluator.decide_request(&connection, &mut memo, &request.view());
            let naive = naive::decide_request(&policy, &connection, &request.view());
            prop_assert_eq!(indexed, naive, "{:?}", request);
        }
    }
}
