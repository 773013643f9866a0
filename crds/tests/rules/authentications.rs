//! MeshTLSAuthentication, NetworkAuthentication, rate limits, EgressNetwork, ReferenceGrant.

use crate::support::{check, claims, object, resource};
use policy_crds::resource::{NamespacedName, RateLimitNumbers, RateLimitOverride};
use policy_crds::{Claims, Resource};
use std::num::NonZeroU32;

const V1: &str = "policy.linkerd.io/v1alpha1";

#[test]
#[rustfmt::skip]
fn every_rule_of_a_mesh_tls_authentication_is_checked() {
    let one = "spec: exactly one of `identities` and `identityRefs` is required";
    let domain = "the trust domain may have lower-case letters, digits, `-`, `.` and `_` only";
    let ids = |id: &str| format!("identities: ['{id}']");
    let bad = |id: &str, reason: &str| {
        vec![format!("spec.identities[0]: `{id}` is not a SPIFFE id: {reason}")]
    };
    let dns = "is not an identity: expected `*`, `*.<suffix>` or a lower-case DNS name";
    let not = |id: &str| vec![format!("spec.identities[0]: `{id}` {dns}")];
    let empty_segment = "empty path segments and a trailing `/` are not allowed";
    let of_istio = "; refer to the ServiceAccount `web` of namespace `shop` instead";
    let istio = |id: &str| vec![format!("spec.identities[0]: `{id}` {dns}{of_istio}")];
    let table: Vec<(&str, Vec<String>)> = vec![
        ("*", vec![]),
        ("cluster.local/ns/shop/sa/web", istio("cluster.local/ns/shop/sa/web")),
        ("cluster.local/ns/shop/sa/*", not("cluster.local/ns/shop/sa/*")),
        ("*/ns/*/sa/web", not("*/ns/*/sa/web")),
        ("*.ns.serviceaccount.identity.linkerd.cluster.local", vec![]),
        ("a-b.c1", vec![]),
        ("spiffe://trust.example_1", vec![]),
        ("spiffe://trust/ns/A_b/sa/x.y", vec![]),
        ("spiffe://", bad("spiffe://", domain)),
        ("spiffe://Trust/a", bad("spiffe://Trust/a", domain)),
        ("spiffe://a:1/b", bad("spiffe://a:1/b", domain)),
        ("spiffe://u@a/b", bad("spiffe://u@a/b", domain)),
        ("spiffe://a/b/", bad("spiffe://a/b/", empty_segment)),
        ("spiffe://a//b", bad("spiffe://a//b", empty_segment)),
        ("spiffe://a/./b", bad("spiffe://a/./b", "path segments `.` and `..` are not allowed")),
        ("spiffe://a/..", bad("spiffe://a/..", "path segments `.` and `..` are not allowed")),
        ("spiffe://a/b?c", bad("spiffe://a/b?c", "path segments may have letters, digits, `-`, `.` and `_` only")),
        ("**", not("**")),
        ("*.*.a", not("*.*.a")),
        ("a..b", not("a..b")),
        ("a.", not("a.")),
        (".a", not(".a")),
        ("A", not("A")),
        ("-a", not("-a")),
        ("SPIFFE://a", not("SPIFFE://a")),
        ("a b", not("a b")),
        ("", vec!["spec.identities[0]: must not be empty".into()]),
    ];
    for (id, expected) in table {
        let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
        check(V1, "MeshTLSAuthentication", &[(&ids(id), &expected)]);
    }
    check(
        V1,
        "MeshTLSAuthentication",
        &[
            ("identityRefs: [{kind: ServiceAccount, name: a}, {kind: Namespace, name: b}]", &[]),
            ("identityRefs: [{kind: ServiceAccount, name: a, namespace: b}]", &[]),
            ("{}", &[one]),
            ("identities: [a]\nidentityRefs: [{kind: Namespace, name: b}]", &[one]),
            ("identities: []", &["spec.identities: an empty list grants nobody, name at least one client"]),
            ("identityRefs: []", &["spec.identityRefs: an empty list grants nobody, name at least one client"]),
            ("identities: a", &["spec.identities: expected a list, found the text `a`"]),
            ("identities: [1]", &["spec.identities[0]: expected text, found the number `1`"]),
            ("identityRefs: [{kind: Namespace, name: b, namespace: c}]", &["spec.identityRefs[0].namespace: must be absent: a Namespace is in no namespace, `name` says which one"]),
            ("identityRefs: [{kind: Namespace, name: b.c}]", &["spec.identityRefs[0].name: `b.c` is not a namespace"]),
            ("identityRefs: [{kind: ServiceAccount}]", &["spec.identityRefs[0].name: is required"]),
            ("identityRefs: [{kind: Pod, name: a}]", &["spec.identityRefs[0].kind: `Pod` is not allowed here, expected one of `ServiceAccount`, `Namespace`"]),
        ],
    );
}

#[test]
#[rustfmt::skip]
fn every_rule_of_networks_is_checked() {
    const FORM: &str = "is not an address or network such as `10.0.0.0/8` or `fd00::/8`";
    let cidr = |text: &str| format!("networks: [{{cidr: '{text}'}}]");
    let table: Vec<(&str, String)> = vec![
        ("10.0.0.1/8", "has bits set beyond the first 8, write `10.0.0.0/8`".into()),
        ("fd00::1/8", "has bits set beyond the first 8, write `fd00::/8`".into()),
        ("010.0.0.0/8", "has leading zeros, which some programs read as octal".into()),
        ("10.0.0.0/08", "has no valid length after `/`, expected 0 to 32 without leading zeros".into()),
        ("10.0.0.0/33", "has no valid length after `/`, expected 0 to 32 without leading zeros".into()),
        ("10.0.0.0/", "has no valid length after `/`, expected 0 to 32 without leading zeros".into()),
        ("10.0.0.0/+8", "has no valid length after `/`, expected 0 to 32 without leading zeros".into()),
        ("fd00::/129", "has no valid length after `/`, expected 0 to 128 without leading zeros".into()),
        ("10.0.0.0 /8", "contains spaces".into()),
        (" 10.0.0.0/8", "contains spaces".into()),
        ("fe80::1%eth0", "names a zone, which means nothing to another host".into()),
        ("10.0.0", FORM.into()),
        ("10.0.0.256", FORM.into()),
        ("web", FORM.into()),
        ("", FORM.into()),
        ("::ffff:10.0.0.0/104", "is IPv4 in IPv6 notation, which matches nobody, write `10.0.0.0/8`".into()),
    ];
    for (text, reason) in table {
        let expected = format!("spec.networks[0].cidr: `{text}` {reason}");
        check(V1, "NetworkAuthentication", &[(&cidr(text), &[expected.as_str()])]);
    }
    for good in ["0.0.0.0/0", "::/0", "10.1.2.3", "fd00::5", "192.168.0.0/16", "10.0.0.0/32"] {
        check(V1, "NetworkAuthentication", &[(&cidr(good), &[])]);
    }
    check(
        V1,
        "NetworkAuthentication",
        &[
            ("networks: [{cidr: 10.0.0.0/8, except: [10.1.0.0/16, 10.2.0.1]}]", &[]),
            ("networks: [{cidr: 10.0.0.0/8, except: []}]", &[]),
            ("{}", &["spec.networks: is required"]),
            ("networks: []", &["spec.networks: an empty list grants nobody, name at least one network"]),
            ("networks: [10.0.0.0/8]", &["spec.networks[0]: expected a mapping, found the text `10.0.0.0/8`"]),
            ("networks: [{cidr: 10.0.0.0/8, except: [10.0.0.0/8]}]", &["spec.networks[0].except[0]: the exception `10.0.0.0/8` negates `10.0.0.0/8` completely"]),
            ("networks: [{cidr: 10.0.0.0/8, except: [0.0.0.0/0]}]", &["spec.networks[0].except[0]: the exception `0.0.0.0/0` negates `10.0.0.0/8` completely"]),
            ("networks: [{cidr: 10.0.0.0/8, except: [192.168.0.0/16]}]", &["spec.networks[0].except[0]: the exception `192.168.0.0/16` is not inside `10.0.0.0/8`"]),
            ("networks: [{cidr: 10.0.0.0/8, except: ['fd00::/8']}]", &["spec.networks[0].except[0]: the exception `fd00::/8` is not inside `10.0.0.0/8`"]),
            ("networks: [{cidr: 10.0.0.0/8, except: [10.0.0.0/9, 10.128.0.0/9]}]", &["spec.networks[0].cidr: `10.0.0.0/8` is negated completely by its exceptions together"]),
            ("networks: [{cidr: 10.0.0.0/8, expect: []}]", &["spec.networks[0].expect: unknown field, did you mean `except`?"]),
            ("networks: [web, {cidr: 10.0.0.0/33}, {}]", &[
                "spec.networks[0]: expected a mapping, found the text `web`",
                "spec.networks[1].cidr: `10.0.0.0/33` has no valid length after `/`, expected 0 to 32 without leading zeros",
                "spec.networks[2].cidr: is required",
            ]),
            ("networks: [{cidr: 10}]", &["spec.networks[0].cidr: expected text, found the number `10`"]),
        ],
    );
}

#[test]
#[rustfmt::skip]
fn every_rule_of_a_rate_limit_is_checked() {
    let limit = |text: &str| {
        format!("targetRef: {{group: policy.linkerd.io, kind: Server, name: web}}\n{text}")
    };
    let whole = "expected a whole number from 1 to 4294967295, found the number";
    let table: Vec<(&str, Vec<String>)> = vec![
        ("", vec![]),
        ("total: {requestsPerSecond: 10}\nidentity: {requestsPerSecond: 10}", vec![]),
        ("identity: {requestsPerSecond: 10}\noverrides: [{requestsPerSecond: 99, clientRefs: [{kind: ServiceAccount, name: a}]}]", vec![]),
        ("overrides: []", vec![]),
        ("total: {requestsPerSecond: 0}", vec![format!("spec.total.requestsPerSecond: {whole} `0`")]),
        ("total: {requestsPerSecond: 4294967296}", vec![format!("spec.total.requestsPerSecond: {whole} `4294967296`")]),
        ("total: {requestsPerSecond: 1.5}", vec![format!("spec.total.requestsPerSecond: {whole} `1.5`")]),
        ("total: {}", vec!["spec.total.requestsPerSecond: is required".into()]),
        ("identity: {requestsPerSecond: 0}", vec![format!("spec.identity.requestsPerSecond: {whole} `0`")]),
        ("total: {requestsPerSecond: 5}\nidentity: {requestsPerSecond: 6}", vec!["spec.identity.requestsPerSecond: 6 is more than `total` allows (5)".into()]),
        ("total: {requestsPerSecond: 5}\noverrides: [{requestsPerSecond: 6, clientRefs: [{kind: ServiceAccount, name: a}]}]", vec!["spec.overrides[0].requestsPerSecond: 6 is more than `total` allows (5)".into()]),
        ("overrides: [{requestsPerSecond: 0, clientRefs: [{kind: ServiceAccount, name: a}]}]", vec![format!("spec.overrides[0].requestsPerSecond: {whole} `0`")]),
        ("overrides: [{requestsPerSecond: 1, clientRefs: []}]", vec!["spec.overrides[0].clientRefs: an empty list names nobody, name at least one client".into()]),
        ("overrides: [{requestsPerSecond: 1}]", vec!["spec.overrides[0].clientRefs: is required".into()]),
        ("overrides: [{requestsPerSecond: 1, clientRefs: [{kind: Namespace, name: a}]}]", vec!["spec.overrides[0].clientRefs[0].kind: `Namespace` is not allowed here, expected `ServiceAccount`".into()]),
        ("burst: 3", vec!["spec.burst: unknown field, expected one of `targetRef`, `total`, `identity`, `overrides`".into()]),
    ];
    for (text, expected) in table {
        let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
        check(V1, "HTTPLocalRateLimitPolicy", &[(&limit(text), &expected)]);
    }
    check(
        V1,
        "HTTPLocalRateLimitPolicy",
        &[
            ("total: {requestsPerSecond: 1}", &["spec.targetRef: is required"]),
            ("targetRef: {group: policy.linkerd.io, kind: HTTPRoute, name: a}", &["spec.targetRef.kind: `HTTPRoute` is not allowed here, expected `Server (policy.linkerd.io)`"]),
        ],
    );
}

#[test]
fn an_invalid_rate_limit_still_claims_its_server() {
    let limit = |text: &str| claims(object(V1, "HTTPLocalRateLimitPolicy", text));
    let server = "targetRef: {group: policy.linkerd.io, kind: Server, name: web}\nburst: 3";
    let nothing = RateLimitNumbers::default();
    let web = || Some("web".into());
    assert_eq!(limit(server), Claims::RateLimit { server: web(), numbers: nothing.clone() });
    assert_eq!(
        limit("targetRef: {}"),
        Claims::RateLimit { server: None, numbers: nothing.clone() }
    );
    assert_eq!(limit("7"), Claims::RateLimit { server: None, numbers: nothing });
}

#[test]
fn the_readable_numbers_of_an_invalid_rate_limit_hold() {
    let numbers = |text: &str| {
        let web = "targetRef: {group: policy.linkerd.io, kind: Server, name: web}\n";
        match claims(object(V1, "HTTPLocalRateLimitPolicy", &format!("{web}{text}"))) {
            Claims::RateLimit { server: Some(_), numbers } => numbers,
            other => panic!("{other:?}"),
        }
    };
    let client = |name: &str| NamespacedName { name: name.into(), namespace: None };
    let one = |rate: u32, clients: &[&str]| RateLimitOverride {
        requests_per_second: NonZeroU32::new(rate).unwrap(),
        clients: clients.iter().map(|name| client(name)).collect(),
    };
    let of = |total: u32, identity: u32, overrides: Vec<RateLimitOverride>| RateLimitNumbers {
        total: NonZeroU32::new(total),
        identity: NonZeroU32::new(identity),
        overrides,
    };
    let table = [
        ("total: {requestsPerSecond: 9}\nidentity: {requestsPerSecond: x}", of(9, 0, vec![])),
        ("total: {requestsPerSecond: 1}\nidentity: {requestsPerSecond: 2}", of(1, 2, vec![])),
        ("total: 3\nidentity: {requestsPerSecond: 2}\noverrides: {}", of(0, 2, vec![])),
        ("totals: {requestsPerSecond: 1}", of(0, 0, vec![])),
        (
            "overrides: [{requestsPerSecond: 4, clientRefs: [{kind: ServiceAccount, name: a}, \
             {kind: User, name: b}]}, {requestsPerSecond: 0, clientRefs: [{kind: ServiceAccount, \
             name: c}]}, {requestsPerSecond: 5, clientRefs: []}, 7]",
            of(0, 0, vec![one(4, &["a"])]),
        ),
    ];
    for (text, expected) in table {
        assert_eq!(numbers(text), expected, "{text}");
    }
}

#[test]
fn every_rule_of_an_egress_network_is_checked() {
    check(
        V1,
        "EgressNetwork",
        &[
            ("trafficPolicy: Allow", &[]),
            ("trafficPolicy: Deny\nnetworks: [{cidr: 0.0.0.0/0, except: [10.0.0.0/8]}]", &[]),
            (
                "trafficPolicy: allow",
                &["spec.trafficPolicy: unknown value `allow`, expected one of `Allow`, `Deny`"],
            ),
            ("{}", &["spec.trafficPolicy: is required"]),
            (
                "trafficPolicy: Allow\nnetworks: []",
                &[
                    "spec.networks: an empty list covers nothing, remove the field to cover every network",
                ],
            ),
        ],
    );
}

#[test]
#[rustfmt::skip]
fn every_rule_of_a_reference_grant_is_checked() {
    let grant = "from: [{group: policy.linkerd.io, kind: AuthorizationPolicy, namespace: a}]\n";
    let to = format!("{grant}to: [{{group: policy.linkerd.io, kind: MeshTLSAuthentication}}]");
    check(
        "gateway.networking.k8s.io/v1beta1",
        "ReferenceGrant",
        &[
            (&to, &[]),
            (grant, &["spec.to: is required"]),
            (&format!("{grant}to: []"), &["spec.to: an empty list grants nothing, at least one entry is required"]),
            (&format!("{grant}to: [{{kind: Server}}]"), &["spec.to[0].group: is required"]),
            (&format!("{grant}to: [{{group: '', kind: ''}}]"), &["spec.to[0].kind: must not be empty"]),
            (&format!("{grant}to: [{{group: '', kind: S, only: 1}}]"), &["spec.to[0].only: unknown field, expected one of `group`, `kind`, `name`"]),
            (&format!("{grant}to: [{{group: '', kind: S, name: ''}}]"), &["spec.to[0].name: must not be empty"]),
            (&format!("{grant}to: [{{group: policy.linkerd.io/v1beta3, kind: Server}}]"), &["spec.to[0].group: `policy.linkerd.io/v1beta3` is not a group, its version is left out"]),
            (&format!("{grant}to: [{{group: policy.linkerd.io, kind: server}}]"), &["spec.to[0].kind: unknown kind `server`, did you mean `Server`?"]),
            (&format!("{grant}to: [{{group: policy.linkerd.io, kind: Servr}}]"), &["spec.to[0].kind: unknown kind `Servr`, did you mean `Server`?"]),
            ("from: [{group: gateway.networking.k8s.io, kind: HttpRoute, namespace: a}]\nto: [{group: '', kind: S}]", &["spec.from[0].kind: unknown kind `HttpRoute`, did you mean `HTTPRoute`?"]),
            ("from: [{group: gateway.networking.k8s.io, kind: Gateway, namespace: a}]\nto: [{group: '', kind: Secret}]", &[]),
            ("from: [{group: '', kind: K, namespace: '*'}]\nto: [{group: '', kind: S}]", &["spec.from[0].namespace: `*` is not a namespace, each namespace needs an entry"]),
            ("from: [{group: '', kind: K, namespace: ''}]\nto: [{group: '', kind: S}]", &["spec.from[0].namespace: must not be empty"]),
        ],
    );
    let core =
        "from: [{group: core, kind: K, namespace: a}]\nto: [{group: core, kind: S}]";
    let Resource::ReferenceGrant(grant) =
        resource(object("gateway.networking.k8s.io/v1", "ReferenceGrant", core))
    else {
        panic!()
    };
    assert_eq!(&*grant.from[0].group, "");
    assert_eq!(&*grant.to[0].group, "");
    assert_eq!(grant.to[0].name, None);
}
