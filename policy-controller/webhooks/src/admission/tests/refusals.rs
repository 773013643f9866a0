//! Every rule of docs/spec/controller.md 4, as a pair: an object that is denied, with the
//! message, and the nearest one that is admitted.

mod routes;

use super::{created, object, updated};
use policy_crds::Kind;

const SERVER_REF: &str = "{group: policy.linkerd.io, kind: Server, name: web}";

#[track_caller]
fn sound(kind: Kind, spec: &str) {
    let said = created(&object(kind, spec));
    assert!(said.starts_with("sound"), "{spec}: {said}");
}

#[track_caller]
fn refused(kind: Kind, spec: &str, broken: &str) {
    assert_eq!(
        created(&object(kind, spec)),
        format!("{} one is invalid: {broken}", kind.as_str()),
        "{spec}"
    );
}

#[test]
fn servers() {
    let spec = |more: &str| format!("{{podSelector: {{matchLabels: {{app: web}}}}, {more}}}");
    sound(Kind::Server, &spec("port: 80, proxyProtocol: HTTP/2, accessPolicy: deny"));
    refused(
        Kind::Server,
        &spec("port: 80, proxyProtocol: http/2"),
        "spec.proxyProtocol: unknown value `http/2`, expected one of `unknown`, `HTTP/1`, `HTTP/2`, \
         `gRPC`, `opaque`, `TLS`",
    );
    sound(Kind::Server, &spec("port: 65535"));
    for port in ["0", "65536", "-1", "''"] {
        let found = port.trim_matches('\'');
        let found = if found.is_empty() { "\"\"" } else { found };
        refused(
            Kind::Server,
            &spec(&format!("port: {port}")),
            &format!(
                "spec.port: expected a number from 1 to 65535 or the name of a port, found `{found}`"
            ),
        );
    }
    refused(Kind::Server, &spec("proxyProtocol: TLS"), "spec.port: is required");
    refused(
        Kind::Server,
        "{port: 80}",
        "spec: one of `podSelector`, `externalWorkloadSelector` is required, `podSelector: {}` \
         selects all pods",
    );
    refused(
        Kind::Server,
        &spec("port: 80, externalWorkloadSelector: {}"),
        "spec.externalWorkloadSelector: must be absent where `podSelector` is present: a Server is \
         for one of them",
    );
    refused(
        Kind::Server,
        &spec("port: 80, accessPolicy: allow"),
        "spec.accessPolicy: unknown value `allow`, expected one of `all-unauthenticated`, \
         `all-authenticated`, `cluster-unauthenticated`, `cluster-authenticated`, `deny`, `audit`",
    );
    refused(
        Kind::Server,
        &spec("port: 80, proxyProtocl: TLS"),
        "spec.proxyProtocl: unknown field, did you mean `proxyProtocol`?",
    );
}

#[test]
fn every_broken_rule_is_named_at_once() {
    refused(
        Kind::Server,
        "{podSelector: {}, port: 0, proxyProtocol: HTTP/3}",
        "spec.port: expected a number from 1 to 65535 or the name of a port, found `0`; \
         spec.proxyProtocol: unknown value `HTTP/3`, expected one of `unknown`, `HTTP/1`, \
         `HTTP/2`, `gRPC`, `opaque`, `TLS`",
    );
}

#[test]
fn server_authorizations() {
    let spec = |client: &str| format!("{{server: {{name: web}}, client: {client}}}");
    sound(Kind::ServerAuthorization, &spec("{unauthenticated: true}"));
    sound(Kind::ServerAuthorization, &spec("{meshTLS: {identities: ['*']}}"));
    refused(
        Kind::ServerAuthorization,
        &spec("{unauthenticated: true, meshTLS: {identities: ['*']}}"),
        "spec.client.meshTLS: must be absent where `unauthenticated` is `true`",
    );
    sound(Kind::ServerAuthorization, &spec("{meshTLS: {unauthenticatedTLS: true}}"));
    for who in ["identities: ['*']", "serviceAccounts: [{name: a}]"] {
        let field = who.split(':').next().unwrap();
        refused(
            Kind::ServerAuthorization,
            &spec(&format!("{{meshTLS: {{unauthenticatedTLS: true, {who}}}}}")),
            &format!(
                "spec.client.meshTLS.{field}: must be absent where `unauthenticatedTLS` is `true`"
            ),
        );
    }
    let from = |networks: &str| spec(&format!("{{unauthenticated: true, networks: {networks}}}"));
    let networks = "[{cidr: 10.0.0.0/8, except: [10.1.0.0/16]}]";
    sound(Kind::ServerAuthorization, &from(networks));
    let negated = created(&object(
        Kind::ServerAuthorization,
        &from("[{cidr: 10.0.0.0/8, except: [10.0.0.0/8]}]"),
    ));
    assert!(negated.contains("spec.client.networks[0].except[0]: "), "{negated}");
    let outside = created(&object(
        Kind::ServerAuthorization,
        &from("[{cidr: 10.0.0.0/8, except: [192.168.0.0/16]}]"),
    ));
    assert!(outside.contains("spec.client.networks[0].except[0]: "), "{outside}");
    refused(
        Kind::ServerAuthorization,
        &spec("{}"),
        "spec.client: grants nobody: one of `meshTLS` and `unauthenticated: true` is required",
    );
}

#[test]
fn authorization_policies() {
    let spec = |target: &str, refs: &str| {
        format!("{{targetRef: {target}, requiredAuthenticationRefs: {refs}}}")
    };
    let mesh = "{group: policy.linkerd.io, kind: MeshTLSAuthentication, name: a}";
    let network = "{group: policy.linkerd.io, kind: NetworkAuthentication, name: b}";
    let account = "{kind: ServiceAccount, name: c}";
    let of = |refs: &str| spec(SERVER_REF, refs);
    sound(Kind::AuthorizationPolicy, &of(&format!("[{mesh}, {network}]")));
    sound(Kind::AuthorizationPolicy, &of(&format!("[{account}, {network}]")));
    sound(Kind::AuthorizationPolicy, &spec("{kind: Namespace, name: shop}", "[]"));
    refused(
        Kind::AuthorizationPolicy,
        &spec("{kind: Namespace, name: other}", "[]"),
        "spec.targetRef.name: `other` is another namespace, only the policy's own, `shop`, can be \
         targeted",
    );
    let one = "at most one MeshTLSAuthentication or ServiceAccount is allowed, list several \
               clients in one MeshTLSAuthentication";
    for (first, second) in [(mesh, mesh), (account, account), (mesh, account)] {
        refused(
            Kind::AuthorizationPolicy,
            &of(&format!("[{first}, {second}]")),
            &format!("spec.requiredAuthenticationRefs[1]: {one}"),
        );
    }
    refused(
        Kind::AuthorizationPolicy,
        &of(&format!("[{network}, {network}]")),
        "spec.requiredAuthenticationRefs[1]: at most one NetworkAuthentication or NetworkSet is \
         allowed, list several networks in one NetworkAuthentication",
    );
    let other = created(&object(
        Kind::AuthorizationPolicy,
        &of("[{group: policy.linkerd.io, kind: Server, name: a}]"),
    ));
    assert!(other.contains("spec.requiredAuthenticationRefs[0]"), "{other}");
    let target =
        created(&object(Kind::AuthorizationPolicy, &spec("{kind: Service, name: a}", "[]")));
    assert!(target.contains("spec.targetRef"), "{target}");
    for kind in ["HTTPRoute", "GRPCRoute"] {
        let target = format!("{{group: gateway.networking.k8s.io, kind: {kind}, name: r}}");
        sound(Kind::AuthorizationPolicy, &spec(&target, "[]"));
    }
}

#[test]
fn mesh_tls_authentications() {
    for good in ["*", "*.a.b", "a.b", "spiffe://td/a/b", "spiffe://td"] {
        sound(Kind::MeshTlsAuthentication, &format!("{{identities: ['{good}']}}"));
    }
    for bad in [
        "A.b",
        "a.*.b",
        "**",
        "spiffe://",
        "spiffe://TD/a",
        "spiffe://td/",
        "spiffe://td/../a",
        "spiffe://td:8/a",
    ] {
        let said = created(&object(
            Kind::MeshTlsAuthentication,
            &format!("{{identities: ['ok', '{bad}']}}"),
        ));
        let expected = format!("spec.identities[1]: `{bad}` is not a");
        assert!(said.contains(&expected), "{said}");
    }
    let refs = |reference: &str| format!("{{identityRefs: [{reference}]}}");
    sound(Kind::MeshTlsAuthentication, &refs("{kind: ServiceAccount, name: a, namespace: b}"));
    sound(Kind::MeshTlsAuthentication, &refs("{kind: Namespace, name: a}"));
    refused(
        Kind::MeshTlsAuthentication,
        &refs("{kind: Namespace, name: a, namespace: b}"),
        "spec.identityRefs[0].namespace: must be absent: a Namespace is in no namespace, `name` \
         says which one",
    );
    let pod = created(&object(Kind::MeshTlsAuthentication, &refs("{kind: Pod, name: a}")));
    assert!(pod.contains("spec.identityRefs[0]"), "{pod}");
    refused(
        Kind::MeshTlsAuthentication,
        "{identities: []}",
        "spec.identities: an empty list grants nobody, name at least one client",
    );
}

#[test]
fn network_authentications() {
    let spec = |networks: &str| format!("{{networks: {networks}}}");
    sound(Kind::NetworkAuthentication, &spec("[{cidr: 10.0.0.0/8}, {cidr: 'fd00::1'}]"));
    for bad in [
        "[]",
        "[{cidr: 10.0.0.0/33}]",
        "[{cidr: 010.0.0.1}]",
        "[{cidr: 10.0.0.0/8, except: [11.0.0.0/8]}]",
    ] {
        let said = created(&object(Kind::NetworkAuthentication, &spec(bad)));
        assert!(said.starts_with("NetworkAuthentication one is invalid: spec.networks"), "{said}");
    }
}

#[test]
fn rate_limits() {
    let spec = |more: &str| format!("{{targetRef: {SERVER_REF}, {more}}}");
    let client = "clientRefs: [{kind: ServiceAccount, name: a}]";
    sound(
        Kind::HttpLocalRateLimitPolicy,
        &spec(&format!(
            "total: {{requestsPerSecond: 9}}, identity: {{requestsPerSecond: 9}}, \
             overrides: [{{requestsPerSecond: 9, {client}}}]"
        )),
    );
    refused(
        Kind::HttpLocalRateLimitPolicy,
        &spec("total: {requestsPerSecond: 9}, identity: {requestsPerSecond: 10}"),
        "spec.identity.requestsPerSecond: 10 is more than `total` allows (9)",
    );
    refused(
        Kind::HttpLocalRateLimitPolicy,
        &spec(&format!(
            "total: {{requestsPerSecond: 9}}, overrides: [{{requestsPerSecond: 10, {client}}}]"
        )),
        "spec.overrides[0].requestsPerSecond: 10 is more than `total` allows (9)",
    );
    for bad in ["0", "4294967296", "-1", "1.5"] {
        for field in ["total", "identity"] {
            let said = created(&object(
                Kind::HttpLocalRateLimitPolicy,
                &spec(&format!("{field}: {{requestsPerSecond: {bad}}}")),
            ));
            assert!(said.contains(&format!("spec.{field}.requestsPerSecond: ")), "{said}");
        }
    }
    let other = created(&object(
        Kind::HttpLocalRateLimitPolicy,
        "{targetRef: {group: policy.linkerd.io, kind: HTTPRoute, name: a}}",
    ));
    assert!(other.contains("spec.targetRef"), "{other}");
    let pod = "overrides: [{requestsPerSecond: 1, clientRefs: [{kind: Pod, name: a}]}]";
    let pod = created(&object(Kind::HttpLocalRateLimitPolicy, &spec(pod)));
    assert!(pod.contains("spec.overrides[0].clientRefs[0]"), "{pod}");
}

#[test]
fn annotations_of_servers_and_external_workloads() {
    let server = |value: &str| {
        format!(
            "{{apiVersion: policy.linkerd.io/v1beta3, kind: Server, metadata: {{name: one, \
              namespace: shop, annotations: {{portcullis.dev/path-normalization: {value}}}}}, \
              spec: {{podSelector: {{matchLabels: {{a: b}}}}, port: 80}}}}"
        )
    };
    assert_eq!(created(&server("raw")), "sound");
    let refusal = "Server one is invalid: metadata.annotations[\"portcullis.dev/path-normalization\"]: \
                   unknown value `rare`, which is read as `canonical`; expected one of \
                   `canonical`, `raw`";
    assert_eq!(created(&server("rare")), refusal);
    assert_eq!(updated(&server("raw"), &server("rare")), refusal);
    let machine = |value: &str| {
        format!(
            "{{apiVersion: workload.linkerd.io/v1beta1, kind: ExternalWorkload, metadata: \
              {{name: one, namespace: shop, annotations: \
              {{config.linkerd.io/default-inbound-policy: {value}}}}}, \
              spec: {{meshTLS: {{identity: a.b, serverName: a.b}}}}}}"
        )
    };
    assert_eq!(created(&machine("deny")), "sound");
    assert!(created(&machine("denny")).contains("did you mean `deny`?"));
}

#[test]
fn grants_on_our_kinds() {
    let grant = |from: &str| {
        let to = "{group: policy.linkerd.io, kind: MeshTLSAuthentication}";
        object(Kind::ReferenceGrant, &format!("{{from: [{from}], to: [{to}]}}"))
    };
    let from = "group: policy.linkerd.io, kind: AuthorizationPolicy, namespace";
    assert_eq!(created(&grant(&format!("{{{from}: other}}"))), "sound");
    assert_eq!(
        created(&grant(&format!("{{{from}: '*'}}"))),
        "ReferenceGrant one is invalid: spec.from[0].namespace: `*` is not a namespace, each \
         namespace needs an entry"
    );
}

#[test]
fn grants_to_delegate() {
    let grant = |namespace: &str| {
        let from = format!("{{group: portcullis.dev, kind: InboundRoute, namespace: {namespace}}}");
        let to = "{group: gateway.networking.k8s.io, kind: HTTPRoute}";
        created(&object(Kind::ReferenceGrant, &format!("{{from: [{from}], to: [{to}]}}")))
    };
    assert!(grant("other").starts_with("sound"));
    assert!(grant("'*'").contains("is invalid: spec.from[0].namespace: "));
    let to = "{from: [{group: a, kind: B, namespace: '*'}], to: [{group: portcullis.dev, kind: InboundRoute}]}";
    assert!(created(&object(Kind::ReferenceGrant, to)).contains("is invalid: "));
}

#[test]
fn delegation() {
    let rule = |rule: &str| {
        let own =
            "{fqdn: shop.example, targetRef: {group: policy.linkerd.io, kind: Server, name: web}}";
        format!("{{virtualhost: {own}, routes: [{rule}]}}")
    };
    sound(Kind::InboundRoute, &rule("{match: /, serve: {}}"));
    refused(
        Kind::InboundRoute,
        &rule("{match: /a/../b, serve: {}}"),
        "spec.routes[0].match: `/a/../b` has the segment `..`: such requests are refused",
    );
    refused(
        Kind::InboundRoute,
        &rule("{match: /, serve: {}, servers: [{name: a}]}"),
        "spec.routes[0]: only one of `servers`, `serve`, `delegate` is allowed in one route",
    );
    refused(
        Kind::RouteAdmissionPolicy,
        "{}",
        "metadata.name: `one` has no effect: the one that counts is named `default`",
    );
}

#[test]
fn requests_that_many_policies_name() {
    let routes = |routes: &str| format!("{{routes: [{routes}]}}");
    sound(Kind::HttpRouteGroup, &routes("{path: '/books/:id', methods: [GET]}"));
    refused(
        Kind::HttpRouteGroup,
        &routes("{path: '/books/:id/:id'}"),
        "spec.routes[0].path: `/books/:id/:id` has the parameter `id` twice",
    );
    refused(
        Kind::HttpRouteGroup,
        &routes("{path: /a, labels: {http.linkerd.io/path: /b}}"),
        "spec.routes[0].labels[\"http.linkerd.io/path\"]: `http.linkerd.io/path` is automatic: every \
         route has it by itself",
    );
    refused(
        Kind::TimeoutPolicy,
        "{targetRef: {kind: Server, name: web}, timeouts: {request: 0s}}",
        "spec.timeouts.request: `0s` is out of bounds: from `1ms` to `1h` is allowed",
    );
    refused(
        Kind::HeaderRewritePolicy,
        "{targetRef: {kind: Server, name: web}, rules: [{clear: [host]}]}",
        "spec.rules[0].clear[0]: `host` belongs to the connection and cannot be changed",
    );
}
