//! Agreements with Linkerd: manifests whose messages are Linkerd's with and without the preset.

use crate::cases::{POD, annotated, server};
use crate::messages::*;
use crate::{PRESET, messages as messages_of};
use linkerd2_proxy_api::http_route::host_match::{Match, Suffix};
use linkerd2_proxy_api::http_route::{HostMatch, RequestHeaderModifier};
use linkerd2_proxy_api::http_types::{Headers, headers};
use linkerd2_proxy_api::inbound::http_local_rate_limit::{Limit, Override, r#override};
use linkerd2_proxy_api::inbound::proxy_protocol::{Http1, Kind, Tls};
use linkerd2_proxy_api::inbound::{
    HttpLocalRateLimit, HttpRoute, Identity, Network, Server, http_route,
};

/// Manifests, and the message for port 8080 of the pod `web`.
struct Agreement {
    name: &'static str,
    manifests: &'static [&'static str],
    message: fn() -> Server,
}

/// The networks that `cluster` stands for by default, as Linkerd's chart has them.
const CLUSTER: [&str; 5] =
    ["10.0.0.0/8", "100.64.0.0/10", "172.16.0.0/12", "192.168.0.0/16", "fd00::/8"];

const AGREEMENTS: &[Agreement] = &[
    Agreement {
        name: "a ServerAuthorization without networks is for the cluster",
        manifests: &[
            POD,
            server!("opaque", "deny"),
            "
apiVersion: policy.linkerd.io/v1beta1
kind: ServerAuthorization
metadata: {name: friends, namespace: shop}
spec:
  server: {name: web}
  client: {meshTLS: {identities: ['*.friends.example.org', '*', a.example.org]}}
",
        ],
        message: || {
            let authorization = by_server_authorization(
                "friends",
                &CLUSTER,
                clients(&["a.example.org"], &[&["friends", "example", "org"], &[]]),
            );
            owned_port(opaque(), vec![authorization])
        },
    },
    Agreement {
        name: "a policy of networks and identities asks for both",
        manifests: &[
            POD,
            server!("TLS", "deny"),
            "
apiVersion: policy.linkerd.io/v1alpha1
kind: NetworkAuthentication
metadata: {name: near, namespace: shop}
spec: {networks: [{cidr: 10.1.0.0/16, except: [10.1.4.0/24]}, {cidr: 'fd00::1'}]}
---
apiVersion: policy.linkerd.io/v1alpha1
kind: MeshTLSAuthentication
metadata: {name: known, namespace: shop}
spec:
  identityRefs:
  - {kind: ServiceAccount, name: till, namespace: friends}
  - {kind: Namespace, name: friends}
---
apiVersion: policy.linkerd.io/v1alpha1
kind: AuthorizationPolicy
metadata: {name: both, namespace: shop}
spec:
  targetRef: {group: POLICY.linkerd.io, kind: server, name: web}
  requiredAuthenticationRefs:
  - {group: policy.linkerd.io, kind: NetworkAuthentication, name: near}
  - {group: policy.linkerd.io, kind: MeshTLSAuthentication, name: known}
",
        ],
        message: || {
            let suffix = "friends.serviceaccount.identity.linkerd.cluster.local";
            let parts: Vec<&str> = suffix.split('.').collect();
            let account = format!("till.{suffix}");
            let mut authorization = by_policy("both", None);
            authorization.authentication = Some(clients(&[&account], &[&parts]));
            let except = vec![network("10.1.4.0/24")];
            authorization.networks = vec![
                Network { net: Some(network("10.1.0.0/16")), except },
                Network { net: Some(network("fd00::1/128")), except: Vec::new() },
            ];
            owned_port(Kind::Tls(Tls {}), vec![authorization])
        },
    },
    Agreement {
        name: "the oldest rate limit counts, with its overrides",
        manifests: &[
            POD,
            server!("HTTP/1"),
            "
apiVersion: policy.linkerd.io/v1alpha1
kind: HTTPLocalRateLimitPolicy
metadata: {name: later, namespace: shop, creationTimestamp: '2026-02-01T00:00:00Z'}
spec: {targetRef: {group: policy.linkerd.io, kind: Server, name: web}, total: {requestsPerSecond: 1}}
---
apiVersion: policy.linkerd.io/v1alpha1
kind: HTTPLocalRateLimitPolicy
metadata: {name: first, namespace: shop, creationTimestamp: '2026-01-01T00:00:00Z'}
spec:
  targetRef: {group: policy.linkerd.io, kind: Server, name: web}
  total: {requestsPerSecond: 100}
  identity: {requestsPerSecond: 20}
  overrides:
  - requestsPerSecond: 50
    clientRefs: [{kind: ServiceAccount, name: z, namespace: near}, {kind: ServiceAccount, name: a, namespace: near}]
",
        ],
        message: || {
            let limit = |requests_per_second| Some(Limit { requests_per_second });
            let identity = |name: &str| Identity {
                name: format!("{name}.near.serviceaccount.identity.linkerd.cluster.local"),
            };
            let identities = vec![identity("z"), identity("a")];
            let limits = HttpLocalRateLimit {
                metadata: Some(resource("policy.linkerd.io", "HTTPLocalRateLimitPolicy", "first")),
                total: limit(100),
                identity: limit(20),
                overrides: vec![Override {
                    limit: limit(50),
                    clients: Some(r#override::ClientIdentities { identities }),
                }],
            };
            let routes = vec![default_route()];
            let protocol = Kind::Http1(Http1 { routes, local_rate_limit: Some(limits) });
            owned_port(protocol, vec![everybody()])
        },
    },
    Agreement {
        name: "routes are in the order of their age, with hosts, filters and their own policies",
        manifests: &[
            POD,
            server!("unknown"),
            "
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: undated, namespace: shop}
spec:
  parentRefs: [{kind: Server, group: policy.linkerd.io, name: web}]
  rules: [{matches: [{path: {type: PathPrefix, value: /}}]}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: dated, namespace: shop, creationTimestamp: '2026-01-01T00:00:00Z'}
spec:
  parentRefs: [{kind: Server, group: policy.linkerd.io, name: web}]
  hostnames: ['*.example.org', shop.example.org]
  rules:
  - matches: [{path: {type: Exact, value: /a}, method: GET}]
    filters:
    - type: RequestHeaderModifier
      requestHeaderModifier: {set: [{name: X-A, value: b}], remove: [X-C]}
---
apiVersion: policy.linkerd.io/v1alpha1
kind: AuthorizationPolicy
metadata: {name: all, namespace: shop}
spec:
  targetRef: {group: gateway.networking.k8s.io, kind: HttpRoute, name: dated}
  requiredAuthenticationRefs: []
",
        ],
        message: || {
            let set = headers::Header { name: "x-a".to_owned(), value: b"b".to_vec() };
            let change = RequestHeaderModifier {
                add: Some(Headers { headers: Vec::new() }),
                set: Some(Headers { headers: vec![set] }),
                remove: vec!["x-c".to_owned()],
            };
            let kind = Some(http_route::filter::Kind::RequestHeaderModifier(change));
            let matches = vec![with_method(exact("/a"), http::Method::GET)];
            let rule_a = http_route::Rule { matches, filters: vec![http_route::Filter { kind }] };
            let reverse_labels = ["org", "example"].map(str::to_owned).to_vec();
            let hosts = [
                Match::Suffix(Suffix { reverse_labels }),
                Match::Exact("shop.example.org".to_owned()),
            ];
            let hosts = hosts.map(|host| HostMatch { r#match: Some(host) }).to_vec();
            let dated = gateway_route("HTTPRoute", "dated", vec![rule_a]);
            let authorizations = vec![by_policy("all", None)];
            let dated = HttpRoute { hosts, authorizations, ..dated };
            let undated = gateway_route("HTTPRoute", "undated", vec![rule(vec![prefix("/")])]);
            owned_port(detect(vec![dated, undated]), vec![everybody()])
        },
    },
    Agreement {
        name: "calls are matched by service and method",
        manifests: &[
            POD,
            server!("gRPC"),
            "
apiVersion: gateway.networking.k8s.io/v1
kind: GRPCRoute
metadata: {name: calls, namespace: shop}
spec:
  parentRefs: [{kind: Server, group: policy.linkerd.io, name: web}]
  rules: [{matches: [{method: {service: a.B}}]}]
",
        ],
        message: || {
            owned_port(grpc(vec![calls(call_of("a.B"))]), vec![everybody()])
        },
    },
    Agreement {
        name: "a port that requires identities changes the default, by name too",
        manifests: &[annotated!(
            "config.linkerd.io/default-inbound-policy: cluster-unauthenticated,
             config.linkerd.io/proxy-require-identity-inbound-ports: '80,8000-8100'"
        )],
        message: || {
            let name = "cluster-authenticated";
            let mut authorization = any_identity(name);
            let networks = CLUSTER.map(|net| Network { net: Some(network(net)), except: Vec::new() });
            authorization.networks = networks.to_vec();
            default_port(name, detect(vec![default_route()]), vec![authorization])
        },
    },
    Agreement {
        name: "an audited port that is opaque",
        manifests: &[annotated!(
            "config.linkerd.io/default-inbound-policy: audit, config.linkerd.io/opaque-ports: '8080'"
        )],
        message: || default_port("audit", opaque(), vec![unauthenticated("audit", &EVERYWHERE)]),
    },
];

#[tokio::test]
async fn where_nothing_differs_messages_are_linkerds_with_and_without_the_preset() {
    let manifests: Vec<_> = AGREEMENTS.iter().map(|it| (it.manifests, 8080)).collect();
    for flags in [&[][..], &[PRESET]] {
        let found = messages_of(&manifests, flags).await;
        for (agreement, found) in AGREEMENTS.iter().zip(found) {
            let found = without_removal(found);
            assert_eq!(found, (agreement.message)(), "{} with {flags:?}", agreement.name);
        }
    }
}
