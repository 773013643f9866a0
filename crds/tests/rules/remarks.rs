//! Remarks on manifests that are legal but may surprise.

use crate::support::{object, value};
use policy_crds::{Body, document, parse};

fn of(api_version: &str, kind: &str, spec: &str) -> Vec<String> {
    object(api_version, kind, spec).remarks().iter().map(ToString::to_string).collect()
}

#[test]
fn what_may_surprise_is_said_in_words() {
    let server = |spec: &str| of("policy.linkerd.io/v1beta3", "Server", spec);
    assert_eq!(
        server("podSelector: {}\nport: 80"),
        ["spec.podSelector: is empty: selects every pod of the namespace"]
    );
    assert_eq!(
        server("externalWorkloadSelector: {}\nport: 80"),
        [
            "spec.externalWorkloadSelector: is empty: selects every ExternalWorkload of the namespace"
        ]
    );
    assert_eq!(
        of(
            "policy.linkerd.io/v1beta1",
            "ServerAuthorization",
            "server: {name: a}\nclient: {unauthenticated: true}"
        ),
        ["spec.client.networks: absent or empty: only clients in the cluster's networks are \
          admitted; `0.0.0.0/0` and `::/0` stand for every network"]
    );
    let target = "targetRef: {group: policy.linkerd.io, kind: Server, name: a}\n";
    assert_eq!(
        of(
            "policy.linkerd.io/v1alpha1",
            "AuthorizationPolicy",
            &format!("{target}requiredAuthenticationRefs: []")
        ),
        ["spec.requiredAuthenticationRefs: is empty: asks for nothing, every client is admitted"]
    );
    assert_eq!(
        of("policy.linkerd.io/v1alpha1", "HTTPLocalRateLimitPolicy", target),
        ["spec: none of `total`, `identity` and `overrides` is set: limits nothing"]
    );
    assert_eq!(
        of(
            "policy.linkerd.io/v1beta3",
            "HTTPRoute",
            "rules: [{matches: [{method: GET}, {path: {value: /a/*}}]}]"
        ),
        [
            "spec.parentRefs: names no parent: the route has no effect",
            "spec.rules[0].matches[1].path.value: `*` is an ordinary character here, not a wildcard",
        ]
    );
    let root = "virtualhost: {fqdn: a, accessList: []}\n";
    assert_eq!(
        of(
            "portcullis.dev/v1alpha1",
            "InboundRoute",
            &format!(
                "{root}routes: [{{match: /, servers: [{{name: w}}]}}, {{match: /a/*, servers: [{{name: w}}]}}]"
            )
        ),
        [
            "spec.virtualhost.accessList: is empty: no client is admitted",
            "spec.routes[1].match: `*` is an ordinary character here, not a wildcard: a match holds \
             for everything below it",
        ]
    );
}

#[test]
fn good_and_invalid_manifests_get_no_remarks() {
    for document in document::read(include_str!("good.yaml")) {
        assert_eq!(parse(&document.value.unwrap()).unwrap().remarks(), []);
    }
    let invalid = "{apiVersion: policy.linkerd.io/v1beta3, kind: Server, metadata: {name: a}, spec: {podSelector: {}}}";
    assert_eq!(parse(&value(invalid)).unwrap().remarks(), []);
}

#[test]
fn a_match_on_host_that_no_canonical_host_has_is_an_error() {
    let errors = |kind: &str, value: &str| {
        let spec = format!(
            "parentRefs: [{{group: policy.linkerd.io, kind: Server, name: a}}]\n\
             rules: [{{matches: [{{headers: [{{name: host, type: {kind}, value: {value:?}}}]}}]}}]"
        );
        let object = object("gateway.networking.k8s.io/v1", "HTTPRoute", &spec);
        let errors: Vec<String> = match &object.body {
            Body::Valid(_) => Vec::new(),
            Body::Invalid(invalid) => invalid.errors.iter().map(ToString::to_string).collect(),
        };
        errors
    };
    let never = |value: &str| {
        format!(
            "spec.rules[0].matches[0].headers[0].value: `{value}` matches no host: the header `host` \
             is compared with the canonical host, in lower case and without a port; name hosts in \
             `hostnames`"
        )
    };
    for value in [r"a\.example:8080", r"\d:80", "a|b:80"] {
        assert_eq!(errors("RegularExpression", value), [never(value)], "{value}");
    }
    for value in ["*.a.example", "a b"] {
        assert_eq!(errors("Exact", value), [never(value)], "{value}");
    }
    let some =
        [r"a\.example", r"a\.example(:80)?", r"[A-Za-z]+\.example", r"\D+", r"Admin\.example"];
    for value in some {
        assert_eq!(errors("RegularExpression", value), [""; 0], "{value}");
    }
    assert_eq!(errors("Exact", "A.example:80"), [""; 0]);
}

#[test]
fn the_form_in_which_an_expression_is_matched_is_remarked_on() {
    let path = |value: &str| {
        let spec = format!(
            "parentRefs: [{{group: policy.linkerd.io, kind: Server, name: a}}]\n\
             rules: [{{matches: [{{path: {{type: RegularExpression, value: {value:?}}}}}]}}]"
        );
        of("gateway.networking.k8s.io/v1", "HTTPRoute", &spec)
    };
    assert_eq!(
        path("/ru/café/[0-9]"),
        ["spec.rules[0].matches[0].path.value: is matched as `/ru/caf%C3%A9/[0-9]`, because \
          paths are compared percent-encoded"]
    );
    assert_eq!(path("/ru/caf%C3%A9/[0-9]+"), [""; 0]);
}

#[test]
fn a_grant_for_what_nearly_has_the_name_of_a_known_kind_is_reported() {
    let grant = |from: &str| {
        let spec = format!(
            "from: [{{{from}, namespace: a}}]\nto: [{{group: policy.linkerd.io, kind: Server}}]"
        );
        of("gateway.networking.k8s.io/v1", "ReferenceGrant", &spec)
    };
    assert_eq!(
        grant("group: gateway.networking.k8s.io, kind: HTTPRout"),
        ["spec.from[0].kind: is nothing that is known here, did you mean `HTTPRoute`?"]
    );
    assert_eq!(
        grant("group: gateway.networking.k8s.oi, kind: HTTPRoute"),
        ["spec.from[0].group: is nothing that is known here, did you mean \
          `gateway.networking.k8s.io`?"]
    );
    assert_eq!(grant("group: gateway.networking.k8s.io, kind: TLSRoute"), [""; 0]);
    assert_eq!(grant("group: example.com, kind: HTTPRoute"), [""; 0]);
}
