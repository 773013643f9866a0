//! Manifests for each row of the list, with the message of Linkerd's controller and with ours.

use crate::messages::*;
use linkerd2_proxy_api::grpc_route::GrpcRpcMatch;
use linkerd2_proxy_api::inbound::{GrpcRoute, Server};

/// Manifests in the namespaces `shop` and `bank`, and the messages for the pod `web` of `shop`.
pub(crate) struct Case {
    /// Name of the row.
    pub(crate) row: &'static str,
    /// Flags of every run, so that rows do not meet.
    pub(crate) settings: &'static [&'static str],
    /// The documents.
    pub(crate) manifests: &'static [&'static str],
    /// The port of the message.
    pub(crate) port: u32,
    /// Linkerd's message.
    pub(crate) linkerd: fn() -> Server,
    /// The message with the difference.
    pub(crate) ours: fn() -> Server,
}

pub(crate) const POD: &str = "
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop, labels: {app: web, linkerd.io/control-plane-ns: linkerd}}
spec: {containers: [{name: web, image: x, ports: [{name: http, containerPort: 8080}]}]}
";

/// The same, annotated.
macro_rules! annotated {
    ($annotation:literal) => {
        concat!(
            "
apiVersion: v1
kind: Pod
metadata:
  {name: web, namespace: shop, labels: {app: web, linkerd.io/control-plane-ns: linkerd},
   annotations: {",
            $annotation,
            "}}
spec: {containers: [{name: web, image: x, ports: [{name: http, containerPort: 8080}]}]}
"
        )
    };
}

/// The same, with this in its container and its status.
macro_rules! container {
    ($container:literal) => {
        container!($container, "{}")
    };
    ($container:literal, $status:literal) => {
        concat!(
            "
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop, labels: {app: web, linkerd.io/control-plane-ns: linkerd}}
spec: {containers: [{name: web, image: x, ports: [{name: http, containerPort: 8080}], ",
            $container,
            "}]}
status: ",
            $status,
            "
"
        )
    };
}

/// The Server `web`, open to everybody, with this protocol.
macro_rules! server {
    ($protocol:literal) => {
        server!($protocol, "all-unauthenticated")
    };
    ($protocol:literal, $access:literal) => {
        concat!(
            "
apiVersion: policy.linkerd.io/v1beta3
kind: Server
metadata: {name: web, namespace: shop}
spec: {podSelector: {matchLabels: {app: web}}, port: 8080, proxyProtocol: '",
            $protocol,
            "', accessPolicy: ",
            $access,
            "}
"
        )
    };
}

/// The HTTPRoute `web` on the Server, with these rules.
macro_rules! route {
    ($rules:literal) => {
        route!("{kind: Server, group: policy.linkerd.io, name: web}", $rules)
    };
    ($parents:literal, $rules:literal) => {
        concat!(
            "
apiVersion: policy.linkerd.io/v1beta3
kind: HTTPRoute
metadata: {name: web, namespace: shop}
spec: {parentRefs: [",
            $parents,
            "], rules: [",
            $rules,
            "]}
"
        )
    };
}

/// The GRPCRoute `calls` of this namespace on the Server, with these matches.
macro_rules! calls {
    ($namespace:literal, $matches:literal) => {
        concat!(
            "
apiVersion: gateway.networking.k8s.io/v1
kind: GRPCRoute
metadata: {name: calls, namespace: ",
            $namespace,
            "}
spec:
  parentRefs: [{kind: Server, group: policy.linkerd.io, name: web, namespace: shop}]
  rules: [{matches: [",
            $matches,
            "]}]
"
        )
    };
}

const PREFIX: &str = route!("{matches: [{path: {type: PathPrefix, value: /}}]}");

/// The networks of [`NEAR`].
const NETWORKS: &[&str] = &["192.0.2.0/24"];
const NEAR: &[&str] = &["--probe-networks=192.0.2.0/24"];

fn open_port() -> Server {
    default_port("all-unauthenticated", detect(vec![default_route()]), vec![everybody()])
}

fn closed_port() -> Server {
    default_port("deny", detect(vec![default_route()]), Vec::new())
}

fn get(path: &str) -> linkerd2_proxy_api::http_route::HttpRouteMatch {
    with_method(exact(path), http::Method::GET)
}

fn default_http1() -> Server {
    owned_port(http1(vec![default_route()]), vec![everybody()])
}

fn routed_http1() -> Server {
    owned_port(http1(vec![web_route(vec![rule(vec![prefix("/")])])]), vec![everybody()])
}

fn denied_http1() -> Server {
    owned_port(http1(vec![denied("routes_invalid")]), Vec::new())
}

pub(crate) use {annotated, server};

/// Every row of the list that reaches messages, at least once.
pub(crate) const CASES: &[Case] = &[
    Case {
        row: "probe-networks",
        settings: &[],
        manifests: &[container!(
            "readinessProbe: {httpGet: {path: /ready, port: http}}",
            "{hostIP: 192.0.2.9}"
        )],
        port: 8080,
        linkerd: || probed(&EVERYWHERE),
        ours: || probed(&["192.0.2.9/32"]),
    },
    Case {
        row: "probe-routes",
        settings: NEAR,
        manifests: &[
            container!("readinessProbe: {httpGet: {path: /ready, port: 8080}}"),
            server!("HTTP/1"),
            PREFIX,
        ],
        port: 8080,
        linkerd: routed_http1,
        ours: || {
            let route = web_route(vec![rule(vec![prefix("/")])]);
            let routes = vec![probes(NETWORKS, vec![get("/ready")]), route];
            owned_port(http1(routes), vec![everybody()])
        },
    },
    Case {
        row: "probe-kinds",
        settings: NEAR,
        manifests: &[container!(
            "livenessProbe: {grpc: {port: 8080}},
             readinessProbe: {httpGet: {path: /tls, port: 8080, scheme: HTTPS}},
             startupProbe: {httpGet: {path: '/start?full=1', port: HTTP, host: 198.51.100.1}},
             lifecycle: {preStop: {httpGet: {path: /bye, port: 8080}}}"
        )],
        port: 8080,
        linkerd: || probed_port(vec![get("/start"), get("/tls")]),
        ours: || {
            let check = with_method(exact("/grpc.health.v1.Health/Check"), http::Method::POST);
            probed_port(vec![get("/bye"), check])
        },
    },
    Case {
        row: "invalid-servers",
        settings: &[],
        manifests: &[POD, server!("HTTP/9")],
        port: 8080,
        linkerd: open_port,
        ours: || owned_port(detect(vec![denied("server_invalid")]), Vec::new()),
    },
    // An unsupported filter, a parent's section, and parents that cannot be read.
    Case {
        row: "invalid-routes",
        settings: &[],
        manifests: &[
            POD,
            server!("HTTP/1"),
            "
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: web, namespace: shop}
spec:
  parentRefs: [{kind: Server, group: policy.linkerd.io, name: web}]
  rules: [{filters: [{type: URLRewrite, urlRewrite: {hostname: other.example.org}}]}]
",
        ],
        port: 8080,
        linkerd: default_http1,
        ours: denied_http1,
    },
    Case {
        row: "invalid-routes",
        settings: &[],
        manifests: &[
            POD,
            server!("HTTP/1"),
            route!(
                "{kind: Server, group: policy.linkerd.io, name: web, sectionName: a}",
                "{matches: [{path: {type: PathPrefix, value: /}}]}"
            ),
        ],
        port: 8080,
        linkerd: default_http1,
        ours: denied_http1,
    },
    Case {
        row: "invalid-routes",
        settings: &[],
        manifests: &[POD, server!("HTTP/1"), route!("{kind: Server, name: 7}", "{}")],
        port: 8080,
        linkerd: default_http1,
        ours: denied_http1,
    },
    Case {
        row: "mismatched-routes",
        settings: &[],
        manifests: &[POD, server!("opaque"), PREFIX],
        port: 8080,
        linkerd: || owned_port(opaque(), vec![everybody()]),
        ours: || owned_port(opaque(), Vec::new()),
    },
    Case {
        row: "mismatched-routes",
        settings: &[],
        manifests: &[POD, server!("gRPC"), PREFIX],
        port: 8080,
        linkerd: || owned_port(grpc(vec![default_calls()]), vec![everybody()]),
        ours: || owned_port(grpc(vec![denied_calls("routes_invalid")]), Vec::new()),
    },
    Case {
        row: "grpc-routes",
        settings: &[],
        manifests: &[POD, server!("HTTP/2"), calls!("shop", "{method: {service: s, method: m}}")],
        port: 8080,
        linkerd: || owned_port(http2(vec![default_route()]), vec![everybody()]),
        ours: || {
            let call = with_method(exact("/s/m"), http::Method::POST);
            let route = gateway_route("GRPCRoute", "calls", vec![rule(vec![call])]);
            owned_port(http2(vec![route]), vec![everybody()])
        },
    },
    Case {
        row: "route-conflicts",
        settings: &["--grpc-routes=linkerd"],
        manifests: &[
            POD,
            server!("HTTP/2"),
            PREFIX,
            calls!("shop", "{method: {service: s, method: m}}"),
        ],
        port: 8080,
        linkerd: || owned_port(http2(vec![default_route()]), vec![everybody()]),
        ours: || {
            let route = web_route(vec![rule(vec![prefix("/")])]);
            owned_port(http2(vec![route]), vec![everybody()])
        },
    },
    Case {
        row: "cross-namespace-routes",
        settings: &[],
        manifests: &[
            POD,
            server!("HTTP/1"),
            route!(
                "{kind: Server, group: policy.linkerd.io, name: web},
                 {kind: Server, group: policy.linkerd.io, name: till, namespace: bank}",
                "{matches: [{path: {type: PathPrefix, value: /}}]}"
            ),
        ],
        port: 8080,
        linkerd: default_http1,
        ours: routed_http1,
    },
    Case {
        row: "route-matches",
        settings: &[],
        manifests: &[
            POD,
            server!("HTTP/1"),
            route!(
                "{matches: [{path: {type: RegularExpression, value: '/a|/ab'}},
                            {path: {type: PathPrefix, value: /b/},
                             headers: [{type: RegularExpression, name: x-y, value: 'a|ab'}]},
                            {path: {type: Exact, value: /c%2ad}}]},
                 {matches: []}"
            ),
        ],
        port: 8080,
        linkerd: || {
            let header = with_header(prefix("/b/"), "x-y", "a|ab");
            let first = rule(vec![regex("/a|/ab"), header, exact("/c%2ad")]);
            owned_port(http1(vec![web_route(vec![first, rule(Vec::new())])]), vec![everybody()])
        },
        ours: || {
            let header = with_header(prefix("/b"), "x-y", "^(?:a|ab)$");
            let first = rule(vec![regex("^(?:/a|/ab)$"), header, exact("/c%2Ad")]);
            let rules = vec![first, rule(vec![prefix("/")])];
            owned_port(http1(vec![web_route(rules)]), vec![everybody()])
        },
    },
    Case {
        row: "connection-secure-header",
        settings: &[],
        manifests: &[POD, server!("HTTP/1"), PREFIX],
        port: 8080,
        linkerd: routed_http1,
        ours: || {
            let mut removing = rule(vec![prefix("/")]);
            removing.filters = vec![removal()];
            owned_port(http1(vec![web_route(vec![removing])]), vec![everybody()])
        },
    },
    Case {
        row: "reference-grants",
        settings: &[],
        manifests: &[
            POD,
            server!("opaque", "deny"),
            "
apiVersion: policy.linkerd.io/v1alpha1
kind: MeshTLSAuthentication
metadata: {name: clients, namespace: bank}
spec: {identities: [till.example.org]}
---
apiVersion: policy.linkerd.io/v1alpha1
kind: AuthorizationPolicy
metadata: {name: till, namespace: shop}
spec:
  targetRef: {group: policy.linkerd.io, kind: Server, name: web}
  requiredAuthenticationRefs:
  - {group: policy.linkerd.io, kind: MeshTLSAuthentication, name: clients, namespace: bank}
",
        ],
        port: 8080,
        linkerd: || owned_port(opaque(), vec![by_policy("till", Some("till.example.org"))]),
        ours: || owned_port(opaque(), Vec::new()),
    },
    // The worked example of the contract: the port of the proxy itself.
    Case {
        row: "admin-port",
        settings: &["--probe-networks=0.0.0.0/0,::/0"],
        manifests: &["
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop, labels: {app: web, linkerd.io/control-plane-ns: linkerd}}
spec:
  containers:
  - name: linkerd-proxy
    image: x
    ports: [{name: linkerd-admin, containerPort: 4191}]
    readinessProbe: {httpGet: {path: /ready, port: 4191}}
    livenessProbe: {httpGet: {path: /live, port: 4191}}
"],
        port: 4191,
        linkerd: || admin_port("all-unauthenticated", everybody()),
        ours: || admin_port("all-authenticated", any_identity("all-authenticated")),
    },
    Case {
        row: "unknown-default-policies",
        settings: &[],
        manifests: &[annotated!("config.linkerd.io/default-inbound-policy: open")],
        port: 8080,
        linkerd: open_port,
        ours: closed_port,
    },
    Case {
        row: "default-policy-annotations",
        settings: &[],
        manifests: &[annotated!("polixy.linkerd.io/default-allow: deny")],
        port: 8080,
        linkerd: open_port,
        ours: closed_port,
    },
    Case {
        row: "namespace-annotations",
        settings: &[],
        manifests: &[
            POD,
            "
apiVersion: v1
kind: Namespace
metadata: {name: shop, annotations: {config.linkerd.io/default-inbound-policy: deny}}
",
        ],
        port: 8080,
        linkerd: open_port,
        ours: closed_port,
    },
    Case {
        row: "port-lists",
        settings: &[],
        manifests: &[annotated!("config.linkerd.io/opaque-ports: '25,http'")],
        port: 8080,
        linkerd: open_port,
        ours: || default_port("all-unauthenticated", opaque(), vec![everybody()]),
    },
    Case {
        row: "port-lists",
        settings: &[],
        manifests: &[annotated!(
            "config.linkerd.io/proxy-require-identity-inbound-ports: '8080,nowhere'"
        )],
        port: 8080,
        linkerd: open_port,
        ours: || {
            let name = "all-authenticated";
            default_port(name, detect(vec![default_route()]), vec![any_identity(name)])
        },
    },
    Case {
        row: "pod-addresses",
        settings: &[],
        manifests: &[container!("env: []", "{podIPs: [{ip: 10.0.0.7}, {ip: 'fd00::7'}]}")],
        port: 8080,
        linkerd: open_port,
        ours: || {
            let server_ips = vec![address("10.0.0.7"), address("fd00::7")];
            Server { server_ips, ..open_port() }
        },
    },
    // Rows without a flag.
    Case {
        row: "refused-values",
        settings: &[],
        manifests: &[
            POD,
            server!("HTTP/1"),
            route!("{matches: [{path: {type: Exact, value: /a//b}}]}"),
        ],
        port: 8080,
        linkerd: || {
            let route = web_route(vec![rule(vec![exact("/a//b")])]);
            owned_port(http1(vec![route]), vec![everybody()])
        },
        ours: default_http1,
    },
    Case {
        row: "refused-values",
        settings: &[],
        manifests: &[
            POD,
            server!("opaque", "deny"),
            "
apiVersion: policy.linkerd.io/v1beta1
kind: ServerAuthorization
metadata: {name: near, namespace: shop}
spec: {server: {name: web}, client: {unauthenticated: true, networks: [{cidr: 10.1.2.3/16}]}}
",
        ],
        port: 8080,
        linkerd: || {
            let everybody = everybody().authentication.unwrap();
            let near = by_server_authorization("near", &["10.1.2.3/16"], everybody);
            owned_port(opaque(), vec![near])
        },
        ours: || owned_port(opaque(), Vec::new()),
    },
    Case {
        row: "refused-objects",
        settings: &[],
        manifests: &[
            POD,
            server!("opaque", "deny"),
            "
apiVersion: policy.linkerd.io/v1alpha1
kind: AuthorizationPolicy
metadata: {name: all, namespace: shop}
spec: {targetRef: {kind: Namespace, name: elsewhere}, requiredAuthenticationRefs: []}
",
        ],
        port: 8080,
        linkerd: || owned_port(opaque(), vec![by_policy("all", None)]),
        ours: || owned_port(opaque(), Vec::new()),
    },
    Case {
        row: "calls-without-a-method",
        settings: &[],
        manifests: &[POD, server!("gRPC"), calls!("shop", "{headers: [{name: x, value: a}]}")],
        port: 8080,
        linkerd: || owned_port(grpc(vec![calls(call_with_header(None))]), vec![everybody()]),
        ours: || {
            let every_call = call_with_header(Some(GrpcRpcMatch::default()));
            owned_port(grpc(vec![calls(every_call)]), vec![everybody()])
        },
    },
    Case {
        row: "redirects-without-a-status",
        settings: &[],
        manifests: &[
            POD,
            server!("HTTP/1"),
            route!(
                "{filters: [{type: RequestRedirect, requestRedirect: {hostname: a.example.org}}],
                  matches: [{path: {type: PathPrefix, value: /}}]}"
            ),
        ],
        port: 8080,
        linkerd: || {
            let route = web_route(vec![redirecting("a.example.org", 200)]);
            owned_port(http1(vec![route]), vec![everybody()])
        },
        ours: || {
            let route = web_route(vec![redirecting("a.example.org", 302)]);
            owned_port(http1(vec![route]), vec![everybody()])
        },
    },
    Case {
        row: "relative-probe-paths",
        settings: NEAR,
        manifests: &[container!("readinessProbe: {httpGet: {path: ready, port: 8080}}")],
        port: 8080,
        linkerd: || probed_port(vec![get("")]),
        ours: || probed_port(vec![get("/ready")]),
    },
    Case {
        row: "strangers-routes",
        settings: &[],
        manifests: &[
            POD,
            server!("HTTP/1"),
            PREFIX,
            calls!("bank", "{method: {service: s, method: m}}"),
        ],
        port: 8080,
        linkerd: default_http1,
        ours: routed_http1,
    },
    // No status says that Linkerd's controller has accepted the route.
    Case {
        row: "route-acceptance",
        settings: &[],
        manifests: &[POD, server!("HTTP/1"), PREFIX],
        port: 8080,
        linkerd: default_http1,
        ours: routed_http1,
    },
    Case {
        row: "route-acceptance",
        settings: &[],
        manifests: &[
            POD,
            server!("HTTP/2"),
            "
apiVersion: policy.linkerd.io/v1alpha1
kind: HTTPLocalRateLimitPolicy
metadata: {name: limit, namespace: shop}
spec: {targetRef: {group: policy.linkerd.io, kind: Server, name: web}, total: {requestsPerSecond: 5}}
",
        ],
        port: 8080,
        linkerd: || owned_port(http2(vec![default_route()]), vec![everybody()]),
        ours: || owned_port(limited_http2(vec![default_route()], "limit", 5), vec![everybody()]),
    },
    // One of two calls is accepted.
    Case {
        row: "route-acceptance",
        settings: &[],
        manifests: &[
            POD,
            server!("gRPC"),
            "
apiVersion: gateway.networking.k8s.io/v1
kind: GRPCRoute
metadata: {name: calls, namespace: shop}
spec:
  parentRefs: [{kind: Server, group: policy.linkerd.io, name: web}]
  rules: [{matches: [{method: {service: a}}]}]
status:
  parents:
  - controllerName: linkerd.io/policy-controller
    parentRef: {group: policy.linkerd.io, kind: Server, namespace: shop, name: web}
    conditions: [{type: Accepted, status: 'True'}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: GRPCRoute
metadata: {name: more, namespace: shop}
spec:
  parentRefs: [{kind: Server, group: policy.linkerd.io, name: web}]
  rules: [{matches: [{method: {service: b}}]}]
",
        ],
        port: 8080,
        linkerd: || owned_port(grpc(vec![calls(call_of("a"))]), vec![everybody()]),
        ours: || {
            let metadata = Some(resource("gateway.networking.k8s.io", "GRPCRoute", "more"));
            let more = GrpcRoute { metadata, ..calls(call_of("b")) };
            owned_port(grpc(vec![calls(call_of("a")), more]), vec![everybody()])
        },
    },
];

/// A port without a Server, with a probe from these networks.
fn probed(networks: &[&str]) -> Server {
    let routes = vec![default_route(), probes(networks, vec![get("/ready")])];
    default_port("all-unauthenticated", detect(routes), vec![everybody()])
}

/// A port without a Server, with probes of these requests.
fn probed_port(requests: Vec<linkerd2_proxy_api::http_route::HttpRouteMatch>) -> Server {
    let routes = vec![default_route(), probes(NETWORKS, requests)];
    default_port("all-unauthenticated", detect(routes), vec![everybody()])
}

fn admin_port(policy: &str, authorization: linkerd2_proxy_api::inbound::Authz) -> Server {
    let probes = probes(&EVERYWHERE, vec![get("/live"), get("/ready")]);
    default_port(policy, detect(vec![default_route(), probes]), vec![authorization])
}
