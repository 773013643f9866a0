//! An object of every watched kind, and one that its schema lets through although it breaks a rule.

/// One kind.
pub(crate) struct Manifest {
    /// Every rule holds.
    pub(crate) valid: String,
    /// A rule does not; absent: the API server lets no such object through.
    pub(crate) invalid: Option<String>,
}

fn manifest(valid: String, change: Option<(&str, &str)>) -> Manifest {
    let invalid = change.map(|(from, to)| {
        assert!(valid.contains(from), "{from} is not in {valid}");
        valid.replace(from, to)
    });
    Manifest { valid, invalid }
}

fn object(api_version: &str, kind: &str, namespace: &str, rest: &str) -> String {
    format!(
        "apiVersion: {api_version}\nkind: {kind}\nmetadata:\n  name: one\n  namespace: {namespace}\n  \
         labels: {{app: web}}\n  annotations: {{a: b}}\n{rest}\n"
    )
}

/// A Server on port 80 of everything.
pub(crate) fn server(namespace: &str, name: &str) -> String {
    format!(
        "apiVersion: policy.linkerd.io/v1beta3\nkind: Server\nmetadata: {{name: {name}, namespace: \
         {namespace}}}\nspec: {{podSelector: {{}}, port: 80}}\n"
    )
}

/// A route of a Server.
pub(crate) fn grpc_route(namespace: &str) -> String {
    object(
        "gateway.networking.k8s.io/v1",
        "GRPCRoute",
        namespace,
        "spec: {parentRefs: [{group: policy.linkerd.io, kind: Server, name: s}], rules: [{matches: \
         [{method: {service: a.B, method: C}}]}]}",
    )
}

/// One of each kind.
pub(crate) fn all(namespace: &str) -> Vec<Manifest> {
    let mut all = policies(namespace);
    all.extend(routes(namespace));
    all.extend(trees(namespace));
    all.extend(workloads(namespace));
    all.extend(requests(namespace));
    all.extend(smi(namespace));
    all.extend(discovered(namespace));
    all
}

/// A root, and the policy of the cluster with the rules that hold without it: other tests see it.
fn trees(namespace: &str) -> Vec<Manifest> {
    let version = "portcullis.dev/v1alpha1";
    let root = "spec: {virtualhost: {fqdn: kinds.example, accessList: [{cidr: 10.0.0.0/8}], \
                targetRef: {group: policy.linkerd.io, kind: Server, name: s}}, \
                routes: [{match: /, serve: {}}]}";
    let policy = format!(
        "apiVersion: {version}\nkind: RouteAdmissionPolicy\nmetadata: {{name: default}}\n\
         spec: {{namespaceOwnership: Strict}}\n"
    );
    vec![
        manifest(
            object(version, "InboundRoute", namespace, root),
            Some(("10.0.0.0/8", "10.0.0.0/99")),
        ),
        manifest(policy, None),
    ]
}

fn policies(namespace: &str) -> Vec<Manifest> {
    let policy = |kind: &str, spec: &str, change| {
        let version = if kind == "Server" { "v1beta3" } else { "v1alpha1" };
        let version = if kind == "ServerAuthorization" { "v1beta1" } else { version };
        manifest(
            object(&format!("policy.linkerd.io/{version}"), kind, namespace, spec),
            Some(change),
        )
    };
    vec![
        policy(
            "Server",
            "spec: {podSelector: {matchLabels: {app: web}}, port: http, proxyProtocol: HTTP/1}",
            ("port: http", "port: 0"),
        ),
        policy(
            "ServerAuthorization",
            "spec: {server: {name: s}, client: {networks: [{cidr: 10.0.0.0/8}], unauthenticated: true}}",
            ("10.0.0.0/8", "10.0.0.0/99"),
        ),
        policy(
            "AuthorizationPolicy",
            "spec: {targetRef: {group: policy.linkerd.io, kind: Server, name: s}, \
             requiredAuthenticationRefs: [{kind: ServiceAccount, name: default}]}",
            ("kind: Server,", "kind: Sewer,"),
        ),
        policy(
            "MeshTLSAuthentication",
            "spec: {identities: [a.b.serviceaccount.identity.linkerd.cluster.local]}",
            ("[a.b.serviceaccount.identity.linkerd.cluster.local]", "['a *.b']"),
        ),
        policy(
            "NetworkAuthentication",
            "spec: {networks: [{cidr: 10.0.0.0/8, except: [10.1.0.0/16]}]}",
            ("10.1.0.0/16", "nowhere"),
        ),
        policy(
            "HTTPLocalRateLimitPolicy",
            "spec: {targetRef: {group: policy.linkerd.io, kind: Server, name: s}, \
             total: {requestsPerSecond: 10}}",
            ("kind: Server,", "kind: Sewer,"),
        ),
    ]
}

fn routes(namespace: &str) -> Vec<Manifest> {
    let http = |api_version: &str| {
        let rest = "spec: {parentRefs: [{group: policy.linkerd.io, kind: Server, name: s}], rules: \
             [{matches: [{path: {type: RegularExpression, value: '/a.*'}}]}]}";
        manifest(object(api_version, "HTTPRoute", namespace, rest), Some(("/a.*", "/a(")))
    };
    let grant = object(
        "gateway.networking.k8s.io/v1beta1",
        "ReferenceGrant",
        namespace,
        "spec: {from: [{group: policy.linkerd.io, kind: AuthorizationPolicy, namespace: other}], to: \
         [{group: policy.linkerd.io, kind: MeshTLSAuthentication}]}",
    );
    vec![
        http("policy.linkerd.io/v1beta3"),
        http("gateway.networking.k8s.io/v1"),
        manifest(grpc_route(namespace), Some(("{service:", "{type: RegularExpression, service:"))),
        manifest(grant, None),
    ]
}

fn workloads(namespace: &str) -> Vec<Manifest> {
    let external = object(
        "workload.linkerd.io/v1beta1",
        "ExternalWorkload",
        namespace,
        "spec: {meshTLS: {identity: 'spiffe://a/b', serverName: a.b}, ports: [{name: http, port: 80}], \
         workloadIPs: [{ip: 192.0.2.1}]}",
    );
    let pod = object(
        "v1",
        "Pod",
        namespace,
        "spec: {serviceAccountName: web, nodeName: node-1, initContainers: [{name: i, image: i, \
         restartPolicy: Always, ports: [{containerPort: 4143, name: proxy}]}], containers: [{name: c, \
         image: i, command: [serve], env: [{name: A, value: b}], ports: [{containerPort: 80, name: http}, \
         {containerPort: 53, protocol: UDP}], readinessProbe: {httpGet: {path: /ready, port: http}}, \
         livenessProbe: {tcpSocket: {port: 80}}, lifecycle: {preStop: {exec: {command: [stop]}}}}]}",
    );
    let cluster = |kind: &str, rest: &str| {
        let name = format!("{namespace}-other");
        manifest(
            format!(
                "apiVersion: v1\nkind: {kind}\nmetadata: {{name: {name}, labels: {{kubernetes.io/\
                 metadata.name: {name}}}}}\n{rest}\n"
            ),
            None,
        )
    };
    vec![
        manifest(external, Some(("192.0.2.1", "nowhere"))),
        manifest(pod, None),
        cluster("Namespace", ""),
        cluster("Node", "spec: {podCIDR: 10.9.0.0/24, podCIDRs: [10.9.0.0/24]}"),
        manifest(object("v1", "ServiceAccount", namespace, ""), None),
    ]
}

/// What outbound discovery alone reads. The API server lets through no object that cannot be read, and
/// nothing of the metadata is kept that discovery does not read.
fn discovered(namespace: &str) -> Vec<Manifest> {
    let service = format!(
        "apiVersion: v1\nkind: Service\nmetadata: {{name: one, namespace: {namespace}}}\n\
         spec: {{clusterIP: None, publishNotReadyAddresses: true, sessionAffinity: None, ports: \
         [{{name: http, port: 80, targetPort: http}}, {{name: dns, port: 53, protocol: UDP}}]}}\n"
    );
    let slice = format!(
        "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {{name: one, namespace: \
         {namespace}, labels: {{kubernetes.io/service-name: other}}}}\naddressType: IPv4\nports: \
         [{{name: http, port: 8080, protocol: TCP}}]\nendpoints: [{{addresses: [10.1.2.3], \
         conditions: {{ready: false, serving: true, terminating: true}}, nodeName: node-1, hints: \
         {{forZones: [{{name: a}}]}}}}]\n"
    );
    [service, slice].map(|valid| manifest(valid, None)).into()
}

/// Requests that many policies name, and policies about them.
fn requests(namespace: &str) -> Vec<Manifest> {
    let server = "targetRef: {group: policy.linkerd.io, kind: Server, name: s}";
    let of = |kind: &str, spec: &str, (from, to): (&str, &str)| {
        let spec = format!("spec: {{{}}}", spec.replace("$SERVER", server));
        manifest(object("portcullis.dev/v1alpha1", kind, namespace, &spec), Some((from, to)))
    };
    vec![
        of(
            "HttpRouteGroup",
            "routes: [{path: '/books/:id', methods: [GET], labels: {group: books}}]",
            ("/books/:id", "/books/:id/:id"),
        ),
        of("HttpRouteBinding", "$SERVER, routeRefs: [{name: g}]", ("name: g", "name: G")),
        of(
            "HttpRouteClass",
            "$SERVER, routeSelector: {matchLabels: {http.linkerd.io/method: GET}}",
            ("method: GET", "method: get"),
        ),
        of("GrpcService", "service: a.B, methods: [{name: C}, {name: D}]", ("name: D", "name: C")),
        of("GrpcServiceBinding", "$SERVER, serviceRefs: [{name: b}]", ("name: b", "name: B")),
        of(
            "GrpcServiceClass",
            "targetRef: {kind: GrpcService, name: b}, methodSelector: {matchLabels: {a: b}}",
            ("{a: b}", "{http.linkerd.io/version: HTTP/2}"),
        ),
        of("TimeoutPolicy", "$SERVER, timeouts: {request: 10s}", ("10s", "2h")),
        of("HeaderRewritePolicy", "$SERVER, rules: [{clear: [x-a]}]", ("x-a", "host")),
    ]
}

/// The kinds of SMI.
fn smi(namespace: &str) -> Vec<Manifest> {
    let of = |version: &str, kind: &str, spec: &str, change| {
        let version = format!(
            "{version}.smi-spec.io/{}",
            if kind == "TrafficTarget" { "v1alpha3" } else { "v1alpha4" }
        );
        manifest(object(&version, kind, namespace, &format!("spec: {{{spec}}}")), Some(change))
    };
    vec![
        of(
            "access",
            "TrafficTarget",
            "destination: {kind: ServiceAccount, name: web}, rules: [{kind: TCPRoute, name: web}], \
             sources: [{kind: ServiceAccount, name: cart, namespace: shop}]",
            ("name: cart", "name: Cart"),
        ),
        of("specs", "HTTPRouteGroup", "matches: [{name: a, pathRegex: '/a.*'}]", ("/a.*", "/a(")),
        of("specs", "TCPRoute", "matches: {ports: [8080]}", ("8080", "80800")),
        of(
            "access",
            "IdentityBinding",
            "schemes: {serviceAccount: web}",
            ("Account: web", "Account: Web"),
        ),
    ]
}
