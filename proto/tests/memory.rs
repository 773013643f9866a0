//! Memory of a rule on the client, in bytes, from the message to the compiled policy.

#![allow(
    clippy::unwrap_used,
    clippy::arithmetic_side_effects,
    reason = "a test stops at the first surprise"
)]

use policy_core::authorization::{Authorization, Condition, Requirement};
use policy_core::policy::{Route, Rule};
use policy_core::testing::{self, network, route};
use policy_core::{
    AuthorizationSet, Evaluator, Feature, ObjectRef, Origin, PathPattern, RequestMatch, Revision,
    ServerPolicy, Source,
};
use policy_proto::messages::PortUpdate;
use policy_proto::native::{PortState, encode_port};
use std::num::NonZeroU16;
use std::sync::Arc;

const PORT: NonZeroU16 = NonZeroU16::new(8080).unwrap();

/// Routes as users have them: a path, a name, and a grant of their own that asks what others ask.
fn policy(rules: usize) -> ServerPolicy {
    let mut made = testing::policy();
    let anybody = Source::Object(testing::object("NetworkAuthentication", "anybody"));
    let asked = [Condition { source: anybody, test: network("127.0.0.0/8") }];
    let requirement = Requirement::All(asked.into());
    let rule = |number: usize| {
        let name = format!("http1-{number}");
        let path = RequestMatch::path(PathPattern::prefix(&format!("/svc{number}/")));
        Arc::new(Route {
            authorizations: [Arc::new(Authorization {
                source: Source::Object(testing::object(
                    "AuthorizationPolicy",
                    &format!("{name}-grant"),
                )),
                requirement: requirement.clone(),
                audit: false,
            })]
            .into(),
            ..route(&name, vec![path])
        })
    };
    made.routes.routes = (0..rules).map(rule).collect();
    made
}

fn update(rules: usize) -> PortUpdate {
    let encoded = encode_port(&policy(rules), &Feature::ALL.into());
    encoded.full(PORT, &Revision::default())
}

/// Retained memory of an update, in bytes.
fn kept(update: &PortUpdate) -> i64 {
    let mut held = None;
    let counted = allocation_counter::measure(|| {
        let mut state = PortState::new();
        let policy = state.apply(update).unwrap();
        held = Some((state, Evaluator::build(policy).unwrap()));
    });
    assert!(held.is_some());
    counted.bytes_current
}

#[test]
fn a_rule_with_a_grant_of_its_own_takes_less_than_450_bytes() {
    let (few, many) = (update(1_000), update(11_000));
    let each = (kept(&many) - kept(&few)) / 10_000;
    assert!(each < 450, "{each} bytes each");
}

#[test]
fn what_every_rule_has_is_as_large_as_it_was_measured_with() {
    let sizes = [
        size_of::<Route>(),
        size_of::<Rule>(),
        size_of::<RequestMatch>(),
        size_of::<Authorization>(),
        size_of::<AuthorizationSet>(),
        size_of::<Origin>(),
        size_of::<Source>(),
        size_of::<ObjectRef>(),
    ];
    // A route and its counters take 160 bytes, a grant 64, without room to spare.
    assert_eq!(sizes, [144, 48, 40, 48, 16, 32, 24, 24]);
}
