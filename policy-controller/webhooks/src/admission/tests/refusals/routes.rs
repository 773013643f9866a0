//! Every rule for routes.

use super::super::{created, object};
use super::{SERVER_REF, refused, sound};
use policy_crds::Kind;

const ROUTES: [Kind; 2] = [Kind::PolicyHttpRoute, Kind::GatewayHttpRoute];

fn route(rule: &str) -> String {
    format!("{{parentRefs: [{SERVER_REF}], rules: [{rule}]}}")
}

#[test]
fn matches_of_http_routes() {
    let pairs = [
        ("path: {type: PathPrefix, value: /a}", "path: {type: PathPrefix, value: a}", "path.value"),
        ("path: {type: Exact, value: /a}", "path: {type: Exact, value: a}", "path.value"),
        (
            "path: {type: RegularExpression, value: '/a+'}",
            "path: {type: RegularExpression, value: '/a('}",
            "path.value",
        ),
        ("headers: [{name: a, value: b}]", "headers: [{name: 'a b', value: b}]", "headers[0].name"),
        (
            "headers: [{name: a, type: RegularExpression, value: 'b+'}]",
            "headers: [{name: a, type: RegularExpression, value: 'b('}]",
            "headers[0].value",
        ),
        (
            "queryParams: [{name: a, type: RegularExpression, value: 'b+'}]",
            "queryParams: [{name: a, type: RegularExpression, value: 'b('}]",
            "queryParams[0].value",
        ),
        ("method: GET", "method: get", "method"),
    ];
    for kind in ROUTES {
        for (good, bad, field) in pairs {
            sound(kind, &route(&format!("{{matches: [{{{good}}}]}}")));
            let said = created(&object(kind, &route(&format!("{{matches: [{{{bad}}}]}}"))));
            let expected = format!("HTTPRoute one is invalid: spec.rules[0].matches[0].{field}: ");
            assert!(said.starts_with(&expected), "{bad}: {said}");
        }
    }
}

#[test]
fn filters_of_http_routes() {
    let redirect = |path: &str| {
        format!("{{filters: [{{type: RequestRedirect, requestRedirect: {{path: {path}}}}}]}}")
    };
    let header = |name: &str| {
        format!(
            "{{filters: [{{type: RequestHeaderModifier, requestHeaderModifier: \
              {{set: [{{name: '{name}', value: b}}]}}}}]}}"
        )
    };
    for kind in ROUTES {
        sound(kind, &route(&redirect("{type: ReplaceFullPath, replaceFullPath: /b}")));
        let relative = created(&object(
            kind,
            &route(&redirect("{type: ReplaceFullPath, replaceFullPath: b}")),
        ));
        let field = "spec.rules[0].filters[0].requestRedirect.path.replaceFullPath: ";
        assert!(relative.contains(field), "{relative}");
        sound(kind, &route(&header("x-a")));
        let name = created(&object(kind, &route(&header("x a"))));
        let field = "spec.rules[0].filters[0].requestHeaderModifier.set[0].name: ";
        assert!(name.contains(field), "{name}");
    }
}

#[test]
fn timeouts_of_policy_routes() {
    let timeouts = |request: &str, backend: &str| {
        route(&format!("{{timeouts: {{request: {request}, backendRequest: {backend}}}}}"))
    };
    sound(Kind::PolicyHttpRoute, &timeouts("2s", "1s"));
    refused(
        Kind::PolicyHttpRoute,
        &timeouts("1s", "2s"),
        "spec.rules[0].timeouts.backendRequest: must not be longer than `request`",
    );
    let negative = created(&object(Kind::PolicyHttpRoute, &timeouts("-1s", "0s")));
    assert!(negative.contains("spec.rules[0].timeouts.request: `-1s` "), "{negative}");
}

#[test]
fn backends_of_gateway_routes() {
    let backend = |more: &str| route(&format!("{{backendRefs: [{{name: b{more}}}]}}"));
    for kind in [Kind::GatewayHttpRoute, Kind::GrpcRoute] {
        sound(kind, &backend(", port: 80"));
        sound(kind, &backend(", group: example.com, kind: Bucket"));
        refused(
            kind,
            &backend(""),
            "spec.rules[0].backendRefs[0].port: is required where the backend is a Service",
        );
        let zero = created(&object(kind, &backend(", port: 0")));
        assert!(zero.contains("spec.rules[0].backendRefs[0].port: "), "{zero}");
    }
}

#[test]
fn grpc_routes() {
    let method = |method: &str| route(&format!("{{matches: [{{method: {method}}}]}}"));
    sound(Kind::GrpcRoute, &method("{service: a.B, method: C}"));
    refused(
        Kind::GrpcRoute,
        &method("{type: RegularExpression, service: a}"),
        "spec.rules[0].matches[0].method.type: `RegularExpression` is not supported for gRPC \
         calls, only `Exact` is",
    );
    let header = "{matches: [{headers: [{name: a, type: RegularExpression, value: '('}]}]}";
    let said = created(&object(Kind::GrpcRoute, &route(header)));
    assert!(said.contains("spec.rules[0].matches[0].headers[0].value: "), "{said}");
}

#[test]
fn annotations_of_routes_that_are_for_outbound_traffic_too() {
    let manifest = |parents: &str, annotation: &str| {
        format!(
            "{{apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, \
              metadata: {{name: one, namespace: shop, annotations: {{{annotation}}}}}, \
              spec: {{parentRefs: [{SERVER_REF}, {parents}]}}}}"
        )
    };
    let service = "{group: '', kind: Service, name: a, port: 80}";
    assert_eq!(created(&manifest(service, "retry.linkerd.io/limit: '3'")), "sound");
    let said = created(&manifest(service, "retry.linkerd.io/limit: many"));
    assert_eq!(
        said,
        "HTTPRoute one is invalid: metadata.annotations[\"retry.linkerd.io/limit\"]: `many` is not a \
         number from 0 to 65535"
    );
    let egress = "{group: policy.linkerd.io, kind: EgressNetwork, name: a}";
    assert_eq!(
        created(&manifest(egress, "")),
        "HTTPRoute one is invalid: spec.parentRefs[1].port: is required where the parent is an \
         EgressNetwork"
    );
}

#[test]
fn expressions_that_are_short_and_dear_are_few() {
    let items = |count: usize| {
        let item =
            |i: usize| format!("{{type: RegularExpression, name: n{i}, value: '[a-z]{{3}}'}}");
        (0..count).map(item).collect::<Vec<_>>().join(", ")
    };
    let spec = |last: usize| {
        let request = format!("{{headers: [{}]}}", items(16));
        let requests = [vec![request; 7], vec![format!("{{headers: [{}]}}", items(last))]].concat();
        let rule = format!("{{matches: [{}]}}", requests.join(", "));
        format!("{{parentRefs: [{SERVER_REF}], rules: [{rule}]}}")
    };
    sound(Kind::PolicyHttpRoute, &spec(16));
    let one_more =
        spec(16).replace("matches: [", "matches: [{path: {type: RegularExpression, value: /a}}, ");
    refused(
        Kind::GatewayHttpRoute,
        &one_more,
        "spec.rules[0].matches[8].headers[15].value: regular expression number 129, at most 128 are \
         allowed in one object",
    );
}
