//! Every way to take a permission away takes it away: for every kind that policy is made of, and for
//! every kind of event by which the controller learns of it.

use super::live::{CALL, Gate, Live, Question, host_of};
use super::manifests::{
    CLIENT, MESH, ON_SERVER, STRANGER, mesh, node, object, pod, policy, server, shop, web,
};
use policy_core::WorkloadKey;
use policy_crds::Kind;
use policy_tests::cluster::{Cluster, Objects, cluster_or_skip};
use std::collections::BTreeSet;

/// Change that takes the permission away.
enum Change {
    Apply(String),
    Delete(String),
}

/// A permission, and a change after which nobody has it.
struct Case {
    kind: Kind,
    how: &'static str,
    setup: String,
    workload: WorkloadKey,
    asks: Question<'static>,
    change: Change,
}

/// A node's own address, which probes come from.
const NODE: Question<'static> = ("192.0.2.77", None, "/ready");

const CALLER: Question<'static> = ("203.0.113.1", Some("x.y"), CALL);

impl Case {
    fn new(kind: Kind, how: &'static str, namespace: &str, setup: String, change: Change) -> Self {
        Self { kind, how, setup, workload: web(namespace), asks: CLIENT, change }
    }

    fn asked(self, asks: Question<'static>) -> Self {
        Self { asks, ..self }
    }

    async fn change(&self, objects: &Objects) {
        match &self.change {
            Change::Apply(yaml) => objects.apply_with_status(yaml).await.unwrap(),
            Change::Delete(yaml) => objects.delete(yaml).await.unwrap(),
        }
    }

    fn name(&self) -> String {
        format!("{:?} {}", self.kind, self.how)
    }
}

/// A namespace of its own for each case.
struct Namespaces<'a> {
    prefix: &'a str,
    count: usize,
    yaml: String,
}

impl Namespaces<'_> {
    fn next(&mut self) -> String {
        self.annotated("")
    }

    fn annotated(&mut self, annotations: &str) -> String {
        self.count += 1;
        let name = format!("{}-{}", self.prefix, self.count);
        self.yaml.push_str(&namespace(&name, annotations));
        name
    }
}

fn namespace(name: &str, annotations: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Namespace\nmetadata: {{name: {name}, annotations: {{{annotations}}}}}\n---\n"
    )
}

const OPEN: &str = "config.linkerd.io/default-inbound-policy: all-unauthenticated";

fn servers(n: &mut Namespaces<'_>) -> Vec<Case> {
    let kind = Kind::Server;
    let open = "accessPolicy: all-unauthenticated";
    let lone = |ns: &str| format!("{}{}", pod(ns, "web", "web", ""), server(ns, open));
    let mut cases = Vec::new();
    let ns = n.annotated(OPEN);
    let create = Change::Apply(server(&ns, "accessPolicy: deny"));
    cases.push(Case::new(kind, "created", &ns, pod(&ns, "web", "web", ""), create));
    for (how, rest) in [
        ("updated", "accessPolicy: deny"),
        ("made invalid", "accessPolicy: all-unauthenticated, proxyProtocol: nonsense"),
    ] {
        let ns = n.next();
        cases.push(Case::new(kind, how, &ns, lone(&ns), Change::Apply(server(&ns, rest))));
    }
    let ns = n.next();
    cases.push(Case::new(kind, "deleted", &ns, lone(&ns), Change::Delete(server(&ns, open))));
    cases.into_iter().map(|case| case.asked(STRANGER)).collect()
}

fn authorizations(n: &mut Namespaces<'_>) -> Vec<Case> {
    let kind = Kind::ServerAuthorization;
    let grant = |ns: &str, client: &str| {
        object(kind.as_str(), ns, "g", &format!("server: {{name: web}}, client: {{{client}}}"))
    };
    let anyone = "unauthenticated: true, networks: [{cidr: 0.0.0.0/0}]";
    let base = |ns: &str| {
        [pod(ns, "web", "web", ""), server(ns, "proxyProtocol: HTTP/1"), grant(ns, anyone)].concat()
    };
    let mut cases = Vec::new();
    for (how, client) in [
        ("updated", "unauthenticated: true, networks: [{cidr: 10.0.0.0/8}]"),
        ("made invalid", "unauthenticated: true, networks: [{cidr: 0.0.0.0/99}]"),
    ] {
        let ns = n.next();
        let change = Change::Apply(grant(&ns, client));
        cases.push(Case::new(kind, how, &ns, base(&ns), change).asked(STRANGER));
    }
    let ns = n.next();
    let change = Change::Delete(grant(&ns, anyone));
    cases.push(Case::new(kind, "deleted", &ns, base(&ns), change).asked(STRANGER));

    let kind = Kind::AuthorizationPolicy;
    let ns = n.next();
    let other = policy(&ns, &ON_SERVER.replace("web", "other"), MESH);
    cases.push(Case::new(kind, "updated", &ns, shop(&ns), Change::Apply(other)));
    let ns = n.next();
    let invalid = policy(&ns, &ON_SERVER.replace("Server", "Sewer"), MESH);
    cases.push(Case::new(kind, "made invalid", &ns, shop(&ns), Change::Apply(invalid)));
    let ns = n.next();
    let gone = policy(&ns, ON_SERVER, MESH);
    cases.push(Case::new(kind, "deleted", &ns, shop(&ns), Change::Delete(gone)));
    cases
}

fn authentications(n: &mut Namespaces<'_>) -> Vec<Case> {
    let mut cases = Vec::new();
    let kind = Kind::MeshTlsAuthentication;
    for (how, identity) in [("updated", "z.w"), ("made invalid", "a *.b")] {
        let ns = n.next();
        cases.push(Case::new(kind, how, &ns, shop(&ns), Change::Apply(mesh(&ns, identity))));
    }
    let ns = n.next();
    cases.push(Case::new(kind, "deleted", &ns, shop(&ns), Change::Delete(mesh(&ns, "x.y"))));

    let kind = Kind::NetworkAuthentication;
    let office = |ns: &str, cidr: &str| {
        object(kind.as_str(), ns, "office", &format!("networks: [{{cidr: {cidr}}}]"))
    };
    let base = |ns: &str| {
        let by = format!("{{group: policy.linkerd.io, kind: {}, name: office}}", kind.as_str());
        [
            pod(ns, "web", "web", ""),
            server(ns, "proxyProtocol: HTTP/1"),
            policy(ns, ON_SERVER, &by),
            office(ns, "203.0.113.0/24"),
        ]
        .concat()
    };
    for (how, cidr) in [("updated", "10.0.0.0/8"), ("made invalid", "nowhere")] {
        let ns = n.next();
        let change = Change::Apply(office(&ns, cidr));
        cases.push(Case::new(kind, how, &ns, base(&ns), change).asked(STRANGER));
    }
    let ns = n.next();
    let change = Change::Delete(office(&ns, "203.0.113.0/24"));
    cases.push(Case::new(kind, "deleted", &ns, base(&ns), change).asked(STRANGER));
    cases
}

/// A route grants what its own policy grants; one that leads elsewhere closes its Server.
fn routes(n: &mut Namespaces<'_>) -> Vec<Case> {
    let parent = "parentRefs: [{group: policy.linkerd.io, kind: Server, name: web}]";
    let http = |ns: &str, group: &str, path: &str| {
        let spec = format!("{parent}, rules: [{{matches: [{{path: {{value: {path}}}}}]}}]");
        let route = object("HTTPRoute", ns, "r", &spec);
        match group {
            "gateway.networking.k8s.io" => {
                route.replace("policy.linkerd.io/v1beta3", "gateway.networking.k8s.io/v1")
            }
            _ => route,
        }
    };
    let grpc = |ns: &str, _: &str, path: &str| {
        let service = if path == "/get" { "shop.Carts" } else { "other" };
        let spec = format!("{parent}, rules: [{{matches: [{{method: {{service: {service}}}}}]}}]");
        object("GRPCRoute", ns, "r", &spec)
    };
    type Route<'a> = &'a dyn Fn(&str, &str, &str) -> String;
    let kinds: [(Kind, &str, Route<'_>, Question<'static>); 3] = [
        (Kind::PolicyHttpRoute, "HTTP/1", &http, CLIENT),
        (Kind::GatewayHttpRoute, "HTTP/1", &http, CLIENT),
        (Kind::GrpcRoute, "gRPC", &grpc, CALLER),
    ];
    let mut cases = Vec::new();
    for (kind, protocol, route, asks) in kinds {
        let protocol = format!("proxyProtocol: {protocol}");
        let on_route = format!("group: {}, kind: {}, name: r", kind.group(), kind.as_str());
        let base = |ns: &str, target: &str| {
            [
                pod(ns, "web", "web", ""),
                server(ns, &protocol),
                mesh(ns, "x.y"),
                policy(ns, target, MESH),
            ]
            .concat()
        };
        let granted =
            |ns: &str| format!("{}{}", base(ns, &on_route), route(ns, kind.group(), "/get"));
        let ns = n.next();
        let created = Change::Apply(route(&ns, kind.group(), "/other"));
        cases.push(Case::new(kind, "created", &ns, base(&ns, ON_SERVER), created).asked(asks));
        let ns = n.next();
        let updated = Change::Apply(route(&ns, kind.group(), "/other"));
        cases.push(Case::new(kind, "updated", &ns, granted(&ns), updated).asked(asks));
        let ns = n.next();
        let deleted = Change::Delete(route(&ns, kind.group(), "/get"));
        cases.push(Case::new(kind, "deleted", &ns, granted(&ns), deleted).asked(asks));
    }
    cases
}

/// Routes of another namespace that are attached, each with a grant of its own there.
fn attached_from_elsewhere(n: &mut Namespaces<'_>) -> Vec<Case> {
    let mut case = |how, change: fn(&str, &str) -> Change| {
        let (ns, other) = (n.next(), n.next());
        let spec = format!(
            "parentRefs: [{{group: policy.linkerd.io, kind: Server, name: web, namespace: {ns}}}], \
             rules: [{{matches: [{{path: {{value: /get}}}}]}}]"
        );
        let on_route = "group: policy.linkerd.io, kind: HTTPRoute, name: r";
        let setup = [
            pod(&ns, "web", "web", ""),
            server(&ns, "proxyProtocol: HTTP/1"),
            object("HTTPRoute", &other, "r", &spec),
            mesh(&other, "x.y"),
            policy(&other, on_route, MESH),
            routes_grant(&ns, &other),
        ];
        Case::new(Kind::ReferenceGrant, how, &ns, setup.concat(), change(&ns, &other))
    };
    vec![
        case("of a route updated", |ns, _| Change::Apply(routes_grant(ns, "elsewhere"))),
        case("of a route deleted", |ns, other| Change::Delete(routes_grant(ns, other))),
    ]
}

fn routes_grant(namespace: &str, from: &str) -> String {
    let spec = format!(
        "from: [{{group: policy.linkerd.io, kind: HTTPRoute, namespace: {from}}}], to: [{{group: \
         policy.linkerd.io, kind: Server, name: web}}]"
    );
    object("ReferenceGrant", namespace, "g", &spec)
}

fn across_namespaces(n: &mut Namespaces<'_>) -> Vec<Case> {
    let grant = |ns: &str, from: &str| {
        let spec = format!(
            "from: [{{group: policy.linkerd.io, kind: AuthorizationPolicy, namespace: {from}}}], to: \
             [{{group: policy.linkerd.io, kind: MeshTLSAuthentication}}]"
        );
        object("ReferenceGrant", ns, "g", &spec)
    };
    let base = |ns: &str, other: &str| {
        let by = MESH.replace('}', &format!(", namespace: {other}}}"));
        [
            pod(ns, "web", "web", ""),
            server(ns, "proxyProtocol: HTTP/1"),
            policy(ns, ON_SERVER, &by),
            mesh(other, "x.y"),
            grant(other, ns),
        ]
        .concat()
    };
    let mut cases = attached_from_elsewhere(n);
    let kind = Kind::ReferenceGrant;
    let mut add = |kind, how, change: &dyn Fn(&str, &str) -> Change| {
        let (ns, other) = (n.next(), n.next());
        cases.push(Case::new(kind, how, &ns, base(&ns, &other), change(&ns, &other)));
    };
    add(kind, "updated", &|_, other| Change::Apply(grant(other, "elsewhere")));
    add(kind, "deleted", &|ns, other| Change::Delete(grant(other, ns)));
    add(Kind::Namespace, "deleted with what is in it", &|ns, other| {
        Change::Delete([mesh(other, "x.y"), grant(other, ns), namespace(other, "")].concat())
    });
    cases
}

/// An InboundRoute.
fn inbound_route(ns: &str, name: &str, spec: &str) -> String {
    object("InboundRoute", ns, name, spec).replace("policy.linkerd.io/v1alpha1", OWN)
}

const OWN: &str = "portcullis.dev/v1alpha1";

fn root_of(ns: &str, host: &str, more: &str, routes: &str) -> String {
    let target = "targetRef: {group: policy.linkerd.io, kind: Server, name: web}";
    let host = format!("fqdn: {}, {target}{more}", host_of(host));
    inbound_route(ns, "root", &format!("virtualhost: {{{host}}}, routes: [{routes}]"))
}

fn vertex_of(ns: &str, host: &str, more: &str) -> String {
    let consent = format!("delegatedFrom: [{{fqdn: {}{more}}}]", host_of(host));
    let routes = "routes: [{match: /get, servers: [{name: web}]}]";
    inbound_route(ns, "vertex", &format!("{consent}, {routes}"))
}

fn root_namespaces(names: &str) -> String {
    format!(
        "apiVersion: {OWN}\nkind: RouteAdmissionPolicy\nmetadata: {{name: default}}\n\
         spec: {{rootNamespaces: [{names}]}}\n---\n"
    )
}

/// What a tree answers, in its own namespace and handed to another.
fn trees(n: &mut Namespaces<'_>) -> Vec<Case> {
    let kind = Kind::InboundRoute;
    let root = |ns: &str, more: &str, path: &str| {
        root_of(ns, ns, more, &format!("{{match: {path}, serve: {{}}}}"))
    };
    let mut cases = Vec::new();
    let ns = n.next();
    let other = Change::Apply(root(&ns, "", "/other"));
    cases.push(Case::new(kind, "created", &ns, shop(&ns), other));
    for (how, more, path) in [
        ("updated", "", "/other"),
        ("with fewer networks", ", accessList: [{cidr: 10.0.0.0/8}]", "/get"),
        ("made invalid", ", accessList: [{cidr: 10.0.0.0/99}]", "/get"),
    ] {
        let ns = n.next();
        let setup = format!("{}{}", shop(&ns), root(&ns, "", "/get"));
        cases.push(Case::new(kind, how, &ns, setup, Change::Apply(root(&ns, more, path))));
    }
    let grant = |ns: &str, from: &str| {
        let spec = format!(
            "from: [{{group: portcullis.dev, kind: InboundRoute, namespace: {from}}}], \
             to: [{{group: portcullis.dev, kind: InboundRoute}}]"
        );
        object("ReferenceGrant", ns, "g", &spec)
    };
    let mut handed = |kind, how, change: &dyn Fn(&str, &str) -> Change| {
        let (ns, other) = (n.next(), n.next());
        let delegation = format!("{{match: /get, delegate: {{name: vertex, namespace: {ns}}}}}");
        let setup = [
            shop(&ns),
            root_of(&other, &ns, "", &delegation),
            vertex_of(&ns, &ns, ""),
            grant(&ns, &other),
        ];
        cases.push(Case::new(kind, how, &ns, setup.concat(), change(&ns, &other)));
    };
    handed(kind, "that delegates deleted", &|ns, other| {
        Change::Delete(root_of(other, ns, "", "{match: /get, serve: {}}"))
    });
    handed(kind, "without a delegation", &|ns, other| {
        Change::Apply(root_of(other, ns, "", "{match: /get, serve: {}}"))
    });
    handed(kind, "without consent", &|ns, _| {
        Change::Apply(vertex_of(ns, ns, ", parent: {namespace: elsewhere, name: root}"))
    });
    let grants = Kind::ReferenceGrant;
    handed(grants, "of a delegation updated", &|ns, _| Change::Apply(grant(ns, "elsewhere")));
    handed(grants, "of a delegation deleted", &|ns, other| Change::Delete(grant(ns, other)));

    // It is about every root, so it is the last one.
    let ns = n.next();
    let setup = [shop(&ns), root(&ns, "", "/get"), root_namespaces("")].concat();
    let elsewhere = Change::Apply(root_namespaces("elsewhere"));
    cases.push(Case::new(Kind::RouteAdmissionPolicy, "updated", &ns, setup, elsewhere));
    cases
}

/// An object of this project's kinds.
fn own(kind: Kind, ns: &str, name: &str, spec: &str) -> String {
    object(kind.as_str(), ns, name, spec).replace("policy.linkerd.io/v1alpha1", OWN)
}

/// What describes requests, binds them to the Server and selects among them, for one kind of API.
struct Described {
    protocol: &'static str,
    asks: Question<'static>,
    group: Kind,
    /// The group or service with the requests that are asked about, with others, and with one twice.
    described: [&'static str; 3],
    /// The binding, and the list in which it names the group.
    binding: (Kind, &'static str),
    class: Kind,
    /// The class but for its selector, which is by path, and the paths of the requests that are asked
    /// about, of others, and of none.
    selector: &'static str,
    paths: [&'static str; 3],
}

const DESCRIBED: [Described; 2] = [
    Described {
        protocol: "HTTP/1",
        asks: CLIENT,
        group: Kind::HttpRouteGroup,
        described: [
            "routes: [{path: /get}, {path: /b}]",
            "routes: [{path: /a}, {path: /b}]",
            "routes: [{path: /get}, {path: /get}]",
        ],
        binding: (Kind::HttpRouteBinding, "routeRefs"),
        class: Kind::HttpRouteClass,
        selector: "targetRef: {group: policy.linkerd.io, kind: Server, name: web}, routeSelector",
        paths: ["/get", "/b", "no-path"],
    },
    Described {
        protocol: "gRPC",
        asks: CALLER,
        group: Kind::GrpcService,
        described: [
            "service: shop.Carts, methods: [{name: Add}, {name: B}]",
            "service: shop.Carts, methods: [{name: A}, {name: B}]",
            "service: shop.Carts, methods: [{name: Add}, {name: Add}]",
        ],
        binding: (Kind::GrpcServiceBinding, "serviceRefs"),
        class: Kind::GrpcServiceClass,
        selector: "targetRef: {group: portcullis.dev, kind: GrpcService, name: group}, \
                   methodSelector",
        paths: ["/shop.Carts/Add", "/shop.Carts/B", "no-path"],
    },
];

/// What a policy grants on a binding or on a class goes with every object on which it depends. A binding
/// that comes, too, takes away what the Server grants besides.
fn requests(n: &mut Namespaces<'_>) -> Vec<Case> {
    DESCRIBED.iter().flat_map(|described| of_requests(described, n)).collect()
}

fn of_requests(of: &Described, n: &mut Namespaces<'_>) -> Vec<Case> {
    let [asked, others, twice] = of.described;
    let (binding_kind, refs) = of.binding;
    let [selected, unselected, none] = of.paths;
    let group = |ns: &str, spec: &str| own(of.group, ns, "group", spec);
    let class = |ns: &str, path: &str| {
        let selector = format!("{{matchLabels: {{http.linkerd.io/path: {path}}}}}");
        own(of.class, ns, "class", &format!("{}: {selector}", of.selector))
    };
    let binding = |ns: &str, named: &str| {
        let target = "targetRef: {group: policy.linkerd.io, kind: Server, name: web}";
        own(binding_kind, ns, "binding", &format!("{target}, {refs}: [{{name: {named}}}]"))
    };
    let on = |kind: Kind, name: &str| {
        format!("group: {}, kind: {}, name: {name}", kind.group(), kind.as_str())
    };
    let base = |ns: &str, target: &str| {
        let protocol = format!("proxyProtocol: {}", of.protocol);
        let port = format!("{}{}", pod(ns, "web", "web", ""), server(ns, &protocol));
        [port, mesh(ns, "x.y"), policy(ns, target, MESH), group(ns, asked)].concat()
    };
    let on_binding =
        |ns: &str| format!("{}{}", base(ns, &on(binding_kind, "binding")), binding(ns, "group"));
    let on_class = |ns: &str| {
        let bound = format!("{}{}", base(ns, &on(of.class, "class")), binding(ns, "group"));
        format!("{bound}{}", class(ns, selected))
    };
    type Text<'a> = &'a dyn Fn(&str) -> String;
    let invalid = |ns: &str| binding(ns, "group").replace("kind: Server", "kind: Sewer");
    let unbound = |ns: &str| base(ns, ON_SERVER);
    let ways: [(Kind, &str, Text<'_>, Text<'_>, bool); 11] = [
        (of.group, "updated", &on_binding, &|ns| group(ns, others), false),
        (of.group, "made invalid", &on_binding, &|ns| group(ns, twice), false),
        (of.group, "deleted", &on_binding, &|ns| group(ns, asked), true),
        (binding_kind, "created", &unbound, &|ns| binding(ns, "missing"), false),
        (binding_kind, "updated", &on_binding, &|ns| binding(ns, "missing"), false),
        (binding_kind, "made invalid", &on_binding, &invalid, false),
        (binding_kind, "deleted", &on_binding, &|ns| binding(ns, "group"), true),
        (of.class, "updated", &on_class, &|ns| class(ns, unselected), false),
        (of.class, "made invalid", &on_class, &|ns| class(ns, none), false),
        (of.class, "deleted", &on_class, &|ns| class(ns, selected), true),
        (
            Kind::AuthorizationPolicy,
            "on a class deleted",
            &on_class,
            &|ns| policy(ns, &on(of.class, "class"), MESH),
            true,
        ),
    ];
    let case = |(kind, how, setup, change, deletes): (Kind, _, Text<'_>, Text<'_>, bool)| {
        let ns = n.next();
        let change = change(&ns);
        let change = if deletes { Change::Delete(change) } else { Change::Apply(change) };
        Case::new(kind, how, &ns, setup(&ns), change).asked(of.asks)
    };
    ways.into_iter().map(case).collect()
}

/// A group of another namespace, which a grant lets this one bind.
fn groups_from_elsewhere(n: &mut Namespaces<'_>) -> Vec<Case> {
    let grant = |ns: &str, from: &str| {
        let spec = format!(
            "from: [{{group: portcullis.dev, kind: HttpRouteBinding, namespace: {from}}}], \
             to: [{{group: portcullis.dev, kind: HttpRouteGroup, name: group}}]"
        );
        object("ReferenceGrant", ns, "g", &spec)
    };
    let mut case = |how, change: &dyn Fn(&str, &str) -> Change| {
        let (ns, other) = (n.next(), n.next());
        let binding = format!(
            "targetRef: {{group: policy.linkerd.io, kind: Server, name: web}}, \
             routeRefs: [{{name: group, namespace: {other}}}]"
        );
        let setup = [
            shop(&ns),
            own(Kind::HttpRouteBinding, &ns, "binding", &binding),
            own(Kind::HttpRouteGroup, &other, "group", "routes: [{path: /get}]"),
            grant(&other, &ns),
        ];
        Case::new(Kind::ReferenceGrant, how, &ns, setup.concat(), change(&ns, &other))
    };
    vec![
        case("of a group updated", &|_, other| Change::Apply(grant(other, "elsewhere"))),
        case("of a group deleted", &|ns, other| Change::Delete(grant(other, ns))),
    ]
}

fn workloads(n: &mut Namespaces<'_>) -> Vec<Case> {
    let mut cases = Vec::new();
    let ns = n.annotated(OPEN);
    let closed = Change::Apply(namespace(&ns, "config.linkerd.io/default-inbound-policy: deny"));
    let setup = pod(&ns, "web", "web", "");
    cases.push(Case::new(Kind::Namespace, "updated", &ns, setup, closed).asked(STRANGER));

    let kind = Kind::Pod;
    let ns = n.next();
    let relabelled = Change::Apply(pod(&ns, "web", "other", ""));
    cases.push(Case::new(kind, "updated", &ns, shop(&ns), relabelled));
    let ns = n.next();
    let gone = Change::Delete(pod(&ns, "web", "web", ""));
    cases.push(Case::new(kind, "deleted", &ns, shop(&ns), gone));

    let kind = Kind::Node;
    let base = |ns: &str| format!("{}{}", node(ns, NODE.0), shop(ns));
    let ns = n.next();
    let moved = Change::Apply(node(&ns, "192.0.2.78"));
    cases.push(Case::new(kind, "updated", &ns, base(&ns), moved).asked(NODE));
    let ns = n.next();
    let gone = Change::Delete(node(&ns, NODE.0));
    cases.push(Case::new(kind, "deleted", &ns, base(&ns), gone).asked(NODE));

    let kind = Kind::ExternalWorkload;
    let machine = |ns: &str, app: &str| {
        let spec = "meshTLS: {identity: a.b, serverName: a.b}, ports: [{port: 8080}], workloadIPs: \
                    [{ip: 192.0.2.1}]";
        object(kind.as_str(), ns, "web", spec).replace("app: web", &format!("app: {app}"))
    };
    let base = |ns: &str| {
        let server = object(
            "Server",
            ns,
            "web",
            "externalWorkloadSelector: {matchLabels: {app: web}}, port: 8080",
        );
        [machine(ns, "web"), server, policy(ns, ON_SERVER, MESH), mesh(ns, "x.y")].concat()
    };
    for how in ["updated", "deleted"] {
        let ns = n.next();
        let change = match how {
            "updated" => Change::Apply(machine(&ns, "other")),
            _ => Change::Delete(machine(&ns, "web")),
        };
        let case = Case::new(kind, how, &ns, base(&ns), change);
        cases.push(Case { workload: WorkloadKey::external(&ns, "web"), ..case });
    }
    cases
}

/// The account that TrafficTargets grant to.
const CART: Question<'static> =
    ("203.0.113.1", Some("cart.shop.serviceaccount.identity.linkerd.cluster.local"), "/get");

/// What SMI grants, in namespaces that are closed without it.
fn smi(n: &mut Namespaces<'_>) -> Vec<Case> {
    let target = |ns: &str, source: &str| {
        let spec = format!(
            "destination: {{kind: IdentityBinding, name: web}}, sources: [{{kind: ServiceAccount, \
             name: {source}, namespace: shop}}], rules: [{{kind: HTTPRouteGroup, name: web}}, \
             {{kind: TCPRoute, name: web}}]"
        );
        object("TrafficTarget", ns, "web", &spec)
    };
    let group = |ns: &str, path: &str| {
        object("HTTPRouteGroup", ns, "web", &format!("matches: [{{name: a, pathRegex: '{path}'}}]"))
    };
    let tcp = |ns: &str, port: &str| {
        object("TCPRoute", ns, "web", &format!("matches: {{ports: [{port}]}}"))
    };
    let binding = |ns: &str, account: &str| {
        object("IdentityBinding", ns, "web", &format!("schemes: {{serviceAccount: {account}}}"))
    };
    type Text<'a> = &'a dyn Fn(&str, &str) -> String;
    let kinds: [(Kind, Text<'_>, [&str; 3]); 4] = [
        (Kind::TrafficTarget, &target, ["cart", "other", "Cart"]),
        (Kind::SmiHttpRouteGroup, &group, ["/get", "/other", "/get("]),
        (Kind::SmiTcpRoute, &tcp, ["8080", "81", "80800"]),
        (Kind::IdentityBinding, &binding, ["default", "other", "Default"]),
    ];
    let mut cases = Vec::new();
    for (kind, text, [granted, other, invalid]) in kinds {
        for how in ["updated", "made invalid", "deleted"] {
            let ns = n.annotated("config.linkerd.io/default-inbound-policy: deny");
            let setup = [
                pod(&ns, "web", "web", ""),
                target(&ns, "cart"),
                group(&ns, "/get"),
                tcp(&ns, "8080"),
                binding(&ns, "default"),
            ];
            let change = match how {
                "updated" => Change::Apply(text(&ns, other)),
                "made invalid" => Change::Apply(text(&ns, invalid)),
                _ => Change::Delete(text(&ns, granted)),
            };
            cases.push(Case::new(kind, how, &ns, setup.concat(), change).asked(CART));
        }
    }
    cases
}

fn cases(prefix: &str) -> (String, Vec<Case>) {
    let mut namespaces = Namespaces { prefix, count: 0, yaml: String::new() };
    let of = [
        servers,
        authorizations,
        authentications,
        routes,
        requests,
        groups_from_elsewhere,
        across_namespaces,
        workloads,
        trees,
        smi,
    ];
    let cases: Vec<Case> = of.iter().flat_map(|of| of(&mut namespaces)).collect();
    // What permits nothing takes nothing away: a rate limit's requests are refused by number, effects
    // are on what is permitted, and references to a ServiceAccount name who it stands for, whether it
    // exists or not.
    let none = [
        Kind::HttpLocalRateLimitPolicy,
        Kind::TimeoutPolicy,
        Kind::HeaderRewritePolicy,
        Kind::ServiceAccount,
    ];
    let watched = Kind::watched();
    let expected: BTreeSet<Kind> = watched.filter(|kind| !none.contains(kind)).collect();
    assert_eq!(cases.iter().map(|case| case.kind).collect::<BTreeSet<_>>(), expected);
    (namespaces.yaml, cases)
}

/// Every case permits.
async fn set_up(cluster: &Cluster, live: &Live, prefix: &str) -> Vec<Case> {
    let (namespaces, cases) = cases(prefix);
    let objects = cluster.objects();
    objects.apply(&namespaces).await.unwrap();
    for case in &cases {
        objects.apply_with_status(&case.setup).await.unwrap();
    }
    for case in &cases {
        let what = format!("{} permits before", case.name());
        live.until(&what, &case.workload, case.asks, true).await;
    }
    cases
}

#[tokio::test(flavor = "multi_thread")]
async fn what_takes_a_permission_away_is_seen_for_every_kind_and_way() {
    let Some(cluster) = cluster_or_skip(Cluster::builder()).await else { return };
    cluster.install_crds().await.unwrap();
    let gate = Gate::to(cluster.kubeconfig()).await;
    let live = Live::start(gate.client(cluster.kubeconfig()).await).await;
    let objects = cluster.objects();

    // As it happens.
    for case in set_up(&cluster, &live, "followed").await {
        case.change(&objects).await;
        live.until(&case.name(), &case.workload, case.asks, false).await;
    }
    live.converges(cluster.client()).await;

    // While nobody looked, and then either from history or, where that is forgotten, from a list.
    for forgotten in [false, true] {
        let prefix = if forgotten { "listed" } else { "resumed" };
        let cases = set_up(&cluster, &live, prefix).await;
        gate.close();
        for case in &cases {
            case.change(&objects).await;
        }
        if forgotten {
            cluster.compact().await.unwrap();
        }
        gate.open();
        for case in &cases {
            let what = format!("{prefix}: {}", case.name());
            live.until(&what, &case.workload, case.asks, false).await;
        }
        live.until_healthy().await;
        live.converges(cluster.client()).await;
    }
}

/// The Gateway API may be removed from a cluster while the controller runs. Nobody decided about the
/// single grants then; an administrator ends them, and the objects of all namespaces at once by the
/// namespace of the control plane.
#[tokio::test(flavor = "multi_thread")]
async fn grants_whose_definition_is_gone_stay_until_an_administrator_ends_them() {
    let Some(cluster) = cluster_or_skip(Cluster::builder()).await else { return };
    cluster.install_crds().await.unwrap();
    let live = Live::start(cluster.client()).await;
    let objects = cluster.objects();
    let mut namespaces = Namespaces { prefix: "undefined", count: 0, yaml: String::new() };
    let cases = across_namespaces(&mut namespaces);
    objects.apply(&namespaces.yaml).await.unwrap();
    objects.apply(&namespace("linkerd", "")).await.unwrap();
    for case in &cases {
        objects.apply_with_status(&case.setup).await.unwrap();
    }
    for case in &cases {
        live.until("the grant permits", &case.workload, case.asks, true).await;
    }
    let definition = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n\
                      metadata: {name: referencegrants.gateway.networking.k8s.io}\n";
    objects.delete(definition).await.unwrap();
    // Longer than the second look at a kind that is absent.
    tokio::time::sleep(std::time::Duration::from_secs(6)).await;
    for case in &cases {
        live.until("the grant is kept", &case.workload, case.asks, true).await;
    }
    objects.apply(&namespace("linkerd", "portcullis.dev/end-kept-objects: once")).await.unwrap();
    for case in &cases {
        live.until("ended", &case.workload, case.asks, false).await;
    }
}
