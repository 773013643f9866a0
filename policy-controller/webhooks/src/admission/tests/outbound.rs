//! Outbound policy: passed unread, or reviewed as Linkerd's webhook reviews it where the controller
//! is `--linkerd-compatible` (docs/spec/controller.md 4).

use super::{created, created_as_linkerd, object, review, value, verdict_of};
use policy_crds::Kind;
use serde_json::{Value, json};

const NETWORK: &str = "{group: policy.linkerd.io, kind: EgressNetwork, name: out";
const SERVER: &str = "{group: policy.linkerd.io, kind: Server, name: web}";

fn network(spec: &str) -> String {
    object(Kind::EgressNetwork, spec)
}

fn route(kind: Kind, parents: &str, more: &str) -> String {
    object(kind, &format!("{{parentRefs: [{parents}], rules: [{{{more}}}]}}"))
}

#[test]
fn networks_are_reviewed_where_the_controller_is_linkerd_compatible() {
    let invalid = |what: &str| format!("EgressNetwork one is invalid: {what}");
    let table = [
        ("{trafficPolicy: Allow}", "sound".to_owned()),
        (
            "{trafficPolicy: Deny, networks: [{cidr: 10.0.0.0/8, except: [10.1.0.0/16]}]}",
            "sound".to_owned(),
        ),
        (
            "{trafficPolicy: Allow, networks: []}",
            invalid(
                "spec.networks: an empty list covers nothing, remove the field to cover every network",
            ),
        ),
        (
            "{trafficPolicy: Maybe}",
            invalid("spec.trafficPolicy: unknown value `Maybe`, expected one of `Allow`, `Deny`"),
        ),
        ("{networks: [{cidr: 10.0.0.0/8}]}", invalid("spec.trafficPolicy: is required")),
        (
            "{trafficPolicy: Allow, networks: 7}",
            invalid("spec.networks: expected a list, found the number `7`"),
        ),
        ("7", invalid("spec: expected a mapping, found the number `7`")),
    ];
    for (spec, expected) in table {
        assert_eq!(created_as_linkerd(&network(spec)), expected, "{spec}");
        assert_eq!(created(&network(spec)), "passed", "{spec}");
    }
    for (networks, field) in [
        ("[{cidr: nowhere}]", "spec.networks[0].cidr: "),
        ("[{cidr: 10.0.0.0/8}, {}]", "spec.networks[1].cidr: "),
        ("[{cidr: 10.0.0.0/8, except: [11.0.0.0/8]}]", "spec.networks[0].except[0]: "),
        ("[{cidr: 10.0.0.0/8, except: [10.0.0.0/8]}]", "spec.networks[0].except[0]: "),
        ("[{cidr: 10.0.0.0/8, but: 7}]", "spec.networks[0].but: "),
    ] {
        let spec = format!("{{trafficPolicy: Allow, networks: {networks}}}");
        let said = created_as_linkerd(&network(&spec));
        assert!(said.contains(field), "{networks}: {said}");
    }
    let mut absent = review("CREATE", &value(&network("{}")), &Value::Null);
    absent["request"]["object"] = Value::Null;
    assert_eq!(verdict_of(&absent, true), "the request has no `object`");
    assert_eq!(verdict_of(&absent, false), "passed");
}

#[test]
fn routes_to_a_network_name_a_port_where_the_controller_is_linkerd_compatible() {
    for kind in Kind::routes() {
        let with_port = format!("{NETWORK}, port: 443}}");
        let without = format!("{NETWORK}}}");
        assert_eq!(created_as_linkerd(&route(kind, &with_port, "")), "sound", "{kind:?}");
        let refused = format!(
            "{} one is invalid: spec.parentRefs[0].port: is required where the parent is an \
             EgressNetwork",
            kind.as_str()
        );
        for network in [&without, &without.to_lowercase()] {
            assert_eq!(created_as_linkerd(&route(kind, network, "")), refused, "{kind:?}");
            assert_eq!(created(&route(kind, network, "")), "passed", "{kind:?}");
        }
        let second = format!("{{name: gateway}}, {without}");
        let said = created_as_linkerd(&route(kind, &second, ""));
        assert!(said.contains("spec.parentRefs[1].port: is required"), "{kind:?}: {said}");
        let zero = created_as_linkerd(&route(kind, &format!("{NETWORK}, port: 0}}"), ""));
        assert!(zero.contains("spec.parentRefs[0].port: expected a whole number"), "{zero}");
        // A Server beside it brings the review of routes on Servers, whatever the flag.
        let both = route(kind, &format!("{SERVER}, {without}"), "");
        assert!(created(&both).contains("spec.parentRefs[1].port: is required"), "{kind:?}");
    }
    let route = "{apiVersion: policy.linkerd.io/v1beta3, kind: HTTPRoute, metadata: {name: one, \
                 namespace: shop}, spec: {parentRefs: [{kind: EgressNetwork, name: out}]}}";
    let said = created_as_linkerd(route);
    assert!(said.contains("spec.parentRefs[0].port: is required"), "the group's default: {said}");
}

#[test]
fn of_a_route_to_a_network_the_port_and_the_annotations_are_reviewed() {
    let parents = format!("{NETWORK}, port: 443}}");
    for kind in Kind::routes() {
        // The schema and the controller that uses the route have rules for the rest.
        for rules in ["7", "[]", "[{matches: [{path: {value: x}}]}]", "[{filters: [{type: New}]}]"]
        {
            let spec = format!("{{parentRefs: [{parents}], rules: {rules}}}");
            assert_eq!(created_as_linkerd(&object(kind, &spec)), "sound", "{kind:?} {rules}");
        }
        let star = route(kind, &parents, "matches: [{path: {value: '/a*'}}]");
        assert_eq!(created_as_linkerd(&star), "sound", "remarks are about our decisions");
        let annotated = |limit: &str| {
            let mut route = value(&route(kind, &parents, ""));
            route["metadata"]["annotations"] = json!({"retry.linkerd.io/limit": limit});
            verdict_of(&review("CREATE", &route, &Value::Null), true)
        };
        assert_eq!(annotated("3"), "sound");
        let said = annotated("many");
        assert!(
            said.contains("metadata.annotations[\"retry.linkerd.io/limit\"]: `many`"),
            "{said}"
        );
    }
}

#[test]
fn other_routes_pass_unread_for_both() {
    for kind in Kind::routes() {
        for parents in [
            "{name: gateway}",
            "{group: '', kind: Service, name: a}",
            "{group: example.com, kind: EgressNetwork, name: a}",
        ] {
            let broken = object(kind, &format!("{{parentRefs: [{parents}], rules: 7}}"));
            assert_eq!(created(&broken), "passed", "{kind:?} {parents}");
            assert_eq!(created_as_linkerd(&broken), "passed", "{kind:?} {parents}");
        }
        let gone = object(kind, "{rules: 7}");
        assert_eq!(created_as_linkerd(&gone), "passed", "{kind:?}");
    }
}

#[test]
fn a_network_stored_before_stays_changeable_in_all_other_parts() {
    let old = value(&network("{trafficPolicy: Allow, networks: []}"));
    let mut labelled = old.clone();
    labelled["metadata"]["labels"] = json!({"team": "a"});
    assert_eq!(verdict_of(&review("UPDATE", &labelled, &old), true), "passed");
    let mut worse = old.clone();
    worse["spec"]["trafficPolicy"] = json!("Deny");
    let said = verdict_of(&review("UPDATE", &worse, &old), true);
    assert!(said.contains("spec.networks: an empty list"), "{said}");
    let mut ending = worse.clone();
    ending["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    assert_eq!(verdict_of(&review("UPDATE", &ending, &old), true), "passed");
}
