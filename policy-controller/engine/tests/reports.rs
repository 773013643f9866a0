//! Mistakes of public reports about policy that opened, in Linkerd, Istio, Cilium, Kuma, Consul, Traefik,
//! ingress-nginx and implementations of the Gateway API, made in manifests: what a tighter object refused
//! stays refused, and of a mistake that is valid and says something else a remark is made.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::arithmetic_side_effects,
    reason = "a test"
)]

mod common;

use common::{NEIGHBOUR, OUTSIDER, POD, Who, ask, mesh_tls, policy, read_files, server};
use policy_engine::{ControllerConfig, compile_objects};

/// A mistake: a report of its kind, the text, and what it became.
type Mistake = (&'static str, &'static str, &'static str);

/// A manifest, the files beside it, and a request that it refuses.
struct Case {
    beside: Vec<String>,
    manifest: &'static str,
    client: Who,
    request: &'static str,
    mistakes: &'static [Mistake],
}

impl Case {
    fn verdict(&self, manifest: &str) -> String {
        let files: Vec<&str> = self.beside.iter().map(String::as_str).chain([manifest]).collect();
        let compiled = compile_objects(read_files(&files), &ControllerConfig::default());
        ask(&compiled, 8080, self.client, self.request)
    }
}

const ROUTE: &str = "
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata:
  name: admin
  namespace: shop
spec:
  parentRefs:
  - group: policy.linkerd.io
    kind: Server
    name: web
  hostnames: [web]
  rules:
  - matches:
    - path:
        type: PathPrefix
        value: /books/admin
      method: GET
";

const OF_ROUTES: &[Mistake] = &[
    // A filter that is not known, or does not resolve, was left out.
    (
        "kubernetes-sigs/cloud-provider-kind#439",
        "      method: GET",
        "    filters: [{type: ExternalAuth, externalAuth: {protocol: GRPC, backendRef: {name: a}}}]",
    ),
    (
        "kumahq/kuma#18265",
        "      method: GET",
        "    filters: [{type: ExtensionRef, extensionRef: {group: a.b, kind: C, name: d}}]",
    ),
    (
        "envoyproxy/gateway#7604",
        "      method: GET",
        "    filters: [{type: URLRewrite, urlRewrite: {path: {type: ReplaceFullPath}}}]",
    ),
    (
        "kumahq/kuma#18265",
        "      method: GET",
        "    backendRefs: [{name: a, port: 80, filters: [{type: RequestHeaderModifier}]}]",
    ),
    // Of several rules the last alone was looked at.
    (
        "cilium/cilium#38795",
        "      method: GET",
        "      method: get\n  - matches: [{path: {value: /other}}]",
    ),
    // A condition at another level of the object.
    (
        "KanishJebaMathewM/Truxify#11433",
        "  - matches:\n    - path:\n        type: PathPrefix\n        value: /books/admin\n      method: GET",
        "  - path:\n      type: PathPrefix\n      value: /books/admin",
    ),
    (
        "KanishJebaMathewM/Truxify#11433",
        "  rules:\n  - matches:\n    - path:\n        type: PathPrefix\n        value: /books/admin\n      method: GET",
        "  matches:\n  - path: {value: /books/admin}",
    ),
    ("istio/istio.io#9043", "  rules:", "rules:"),
    ("istio/istio.io#9043", "  namespace: shop", "namespace: shop"),
    // The words of another API.
    (
        "hashicorp/consul#10699",
        "        type: PathPrefix\n        value: /books/admin",
        "        exact: /books/admin/x",
    ),
    (
        "hashicorp/consul#10536",
        "        type: PathPrefix\n        value: /books/admin",
        "        prefix: /books/admin",
    ),
    ("istio/istio#45217", "    - path:", "    - uri:"),
    (
        "kubernetes/ingress-nginx#6133",
        "    - path:\n        type: PathPrefix\n        value: /books/admin",
        "    - path: /books/admin",
    ),
    ("googlecloudrobotics/core#680", "PathPrefix", "ImplementationSpecific"),
    (
        "traefik/traefik#10685",
        "        type: PathPrefix\n        value: /books/admin",
        "        type: RegularExpression\n        value: /books/admin/(?!x)",
    ),
    ("istio/istio#45217", "      method: GET", "      method: '*'"),
    ("istio/istio#45217", "      method: GET", "      method: [GET]"),
    // Hosts that are none.
    ("traefik/traefik#11296", "hostnames: [web]", "hostnames: ['*.*.web']"),
    ("kubernetes/ingress-nginx#558", "hostnames: [web]", "hostnames: ['https://web']"),
    ("kubernetes/ingress-nginx#558", "hostnames: [web]", "hostnames: ['web:8080']"),
    ("kubernetes/ingress-nginx#558", "hostnames: [web]", "hostnames: web"),
    // Paths that no request has.
    ("linkerd/linkerd2#8948", "value: /books/admin", "value: books/admin"),
    ("kubernetes-sigs/gateway-api#2055", "value: /books/admin", "value: '/books/admin '"),
    ("hashicorp/consul#21816", "value: /books/admin", "value: /books/%61dmin"),
    ("hashicorp/consul#21816", "value: /books/admin", "value: /books/./admin"),
    // The object, and where it is attached.
    (
        "kubernetes/ingress-nginx#1863",
        "gateway.networking.k8s.io/v1",
        "x.gateway.networking.k8s.io/v1",
    ),
    ("cilium/cilium#3272", "gateway.networking.k8s.io/v1", "gateway.networking.k8s.io/v1alpha1"),
    ("kumahq/kuma#11735", "    kind: Server", "    kind: Service"),
    ("linkerd/linkerd2#7640", "    name: web", "    name: web\n    port: 8080"),
    ("linkerd/linkerd2#7640", "    name: web", "    name: web\n    sectionName: http"),
    ("kumahq/kuma#11735", "  parentRefs:", "  targetRefs:"),
];

const SERVER: &str = "
apiVersion: policy.linkerd.io/v1beta3
kind: Server
metadata:
  name: web
  namespace: shop
spec:
  podSelector:
    matchLabels:
      app: web
  port: 8080
  proxyProtocol: HTTP/1
  accessPolicy: deny
";

const OF_SERVERS: &[Mistake] = &[
    ("linkerd/linkerd2#7640", "port: 8080", "port: '8080'"),
    ("linkerd/linkerd2#7640", "port: 8080", "port: HTTP"),
    ("linkerd/linkerd2#7640", "port: 8080", "port: 8080/TCP"),
    ("cilium/cilium#21184", "port: 8080", "port: 8000-8100"),
    ("cilium/cilium#21184", "port: 8080", "port: '*'"),
    ("cilium/cilium#21184", "port: 8080", "port: 0"),
    ("cilium/cilium#21184", "  port: 8080", "  ports: [8080]"),
    ("cilium/cilium#35558", "    matchLabels:\n      app: web", "    matchLabels: {}"),
    (
        "cilium/cilium#2333",
        "  podSelector:\n    matchLabels:\n      app: web\n",
        "  podSelector:\n",
    ),
    ("kumahq/kuma#1782", "    matchLabels:\n      app: web", "    app: web"),
    ("kumahq/kuma#1782", "app: web", "app: '*'"),
    ("kumahq/kuma#1782", "app: web", "app: [web]"),
    (
        "kumahq/kuma#1782",
        "    matchLabels:\n      app: web",
        "    matchExpressions: [{key: app, operator: in, values: [web]}]",
    ),
    ("istio/istio.io#5915", "accessPolicy: deny", "accessPolicy: Deny"),
    ("istio/istio.io#5915", "accessPolicy: deny", "accessPolicy: none"),
    ("istio/istio.io#6767", "HTTP/1", "http"),
    ("kubernetes/ingress-nginx#1863", "policy.linkerd.io", "servers.policy.linkerd.io"),
    ("cilium/cilium#3272", "v1beta3", "v1"),
];

const POLICY: &str = "
apiVersion: policy.linkerd.io/v1alpha1
kind: AuthorizationPolicy
metadata:
  name: some
  namespace: shop
spec:
  targetRef:
    group: policy.linkerd.io
    kind: Server
    name: web
  requiredAuthenticationRefs:
  - group: policy.linkerd.io
    kind: MeshTLSAuthentication
    name: some
";

const OF_POLICIES: &[Mistake] = &[
    (
        "traefik/mesh#747",
        "  requiredAuthenticationRefs:\n  - group: policy.linkerd.io\n    kind: MeshTLSAuthentication\n    name: some\n",
        "  requiredAuthenticationRefs:\n",
    ),
    (
        "traefik/mesh#747",
        "  - group: policy.linkerd.io\n    kind: MeshTLSAuthentication\n    name: some\n",
        "  - {}\n",
    ),
    ("envoyproxy/gateway#2837", "    name: some\n", "    name: gone\n"),
    ("envoyproxy/gateway#2837", "MeshTLSAuthentication", "MeshTLSAuthentications"),
    ("istio/istio.io#9043", "  requiredAuthenticationRefs:", "requiredAuthenticationRefs:"),
    ("kumahq/kuma#11735", "    kind: Server", "    kind: Namespace"),
];

const NETWORKS: &str = "
apiVersion: policy.linkerd.io/v1beta1
kind: ServerAuthorization
metadata:
  name: some
  namespace: shop
spec:
  server:
    name: web
  client:
    unauthenticated: true
    networks:
    - cidr: 0.0.0.0/0
      except: [203.0.113.0/24]
";

const OF_NETWORKS: &[Mistake] = &[
    (
        "kubernetes/ingress-nginx#11967",
        "except: [203.0.113.0/24]",
        "except: ['203.0.113.0/24 198.51.100.0/24']",
    ),
    ("kubernetes/ingress-nginx#6133", "except: [203.0.113.0/24]", "except: ['203.0.113.0/16/24']"),
    ("kubernetes/ingress-nginx#11967", "except: [203.0.113.0/24]", "except: '203.0.113.0/24,'"),
    (
        "kubernetes/ingress-nginx#4157",
        "except: [203.0.113.0/24]",
        "except: ['::ffff:203.0.113.0/120']",
    ),
    ("kubernetes/ingress-nginx#4157", "except: [203.0.113.0/24]", "except: [203.000.113.0/24]"),
    ("kubernetes/ingress-nginx#4157", "except: [203.0.113.0/24]", "except: [203.0.113.9/24]"),
    ("kubernetes/ingress-nginx#739", "except:", "excluding:"),
    (
        "cilium/cilium#3146",
        "    networks:\n    - cidr: 0.0.0.0/0\n      except: [203.0.113.0/24]",
        "    network: [{cidr: 0.0.0.0/0}]",
    ),
];

const GRANT: &str = "
apiVersion: gateway.networking.k8s.io/v1beta1
kind: ReferenceGrant
metadata:
  name: far
  namespace: shop
spec:
  from:
  - group: policy.linkerd.io
    kind: HTTPRoute
    namespace: far
  to:
  - group: policy.linkerd.io
    kind: Server
";

const OF_GRANTS: &[Mistake] = &[
    ("cilium/cilium#47929", "kind: HTTPRoute", "kind: HttpRoute"),
    ("cilium/cilium#47929", "kind: HTTPRoute", "kind: HTTPRout"),
    ("cilium/cilium#47929", "kind: Server", "kind: server"),
    (
        "cilium/cilium#47929",
        "from:\n  - group: policy.linkerd.io",
        "from:\n  - group: policy.linkerd.io/v1beta3",
    ),
    ("istio/istio.io#9043", "  to:", "to:"),
];

fn cases() -> Vec<Case> {
    let books = "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\n\
                 metadata: {name: books, namespace: shop}\nspec:\n  \
                 parentRefs: [{group: policy.linkerd.io, kind: Server, name: web}]\n  \
                 rules: [{matches: [{path: {value: /books}}]}]\n";
    let open =
        policy("books", "group: gateway.networking.k8s.io, kind: HTTPRoute, name: books", "");
    let far = "apiVersion: policy.linkerd.io/v1beta3\nkind: HTTPRoute\n\
               metadata: {name: admin, namespace: far}\nspec:\n  parentRefs: [{group: \
               policy.linkerd.io, kind: Server, name: web, namespace: shop}]\n  \
               rules: [{matches: [{path: {value: /books/admin}}]}]\n";
    let beside_books = |more: &[&str]| {
        let all = [POD.to_owned(), server("HTTP/1", "deny"), books.to_owned(), open.clone()];
        all.into_iter().chain(more.iter().map(|one| (*one).to_owned())).collect::<Vec<_>>()
    };
    let closed = |more: Option<String>| {
        [POD.to_owned(), server("HTTP/1", "deny")].into_iter().chain(more).collect::<Vec<_>>()
    };
    let admin = "GET /books/admin/x";
    let case = |beside, manifest, client, request, mistakes| Case {
        beside,
        manifest,
        client,
        request,
        mistakes,
    };
    vec![
        case(beside_books(&[]), ROUTE, NEIGHBOUR, admin, OF_ROUTES),
        case(vec![POD.to_owned()], SERVER, NEIGHBOUR, "GET /", OF_SERVERS),
        case(
            closed(Some(mesh_tls("shop", "some", "a.shop.serviceaccount"))),
            POLICY,
            OUTSIDER,
            "GET /",
            OF_POLICIES,
        ),
        case(closed(None), NETWORKS, OUTSIDER, "GET /", OF_NETWORKS),
        case(beside_books(&[far]), GRANT, NEIGHBOUR, admin, OF_GRANTS),
    ]
}

#[test]
fn what_opened_elsewhere_when_an_object_broke_opens_nothing() {
    let mut opened = Vec::new();
    for case in cases() {
        assert_ne!(case.verdict(case.manifest), "allow", "{}", case.manifest);
        for (report, right, wrong) in case.mistakes {
            assert!(case.manifest.contains(right), "{right}");
            if case.verdict(&case.manifest.replacen(right, wrong, 1)) == "allow" {
                opened.push(format!("{report}: {wrong}"));
            }
        }
    }
    assert!(opened.is_empty(), "{}", opened.join("\n"));
}

#[test]
fn a_mistake_that_is_valid_and_says_something_else_is_remarked_on() {
    for (right, wrong, expected) in [
        ("value: /books/admin", "value: /books/admin/*", "`*` is an ordinary character"),
        ("value: /books/admin", "value: /books/:admin", "`:admin` is an ordinary segment"),
        ("value: /books/admin", "value: '/books/{admin}'", "is an ordinary segment"),
        ("PathPrefix", "RegularExpression", "matches this path alone"),
        (
            "PathPrefix\n        value: /books/admin",
            "RegularExpression\n        value: /books/admin/*",
            "`/*` repeats the `/`",
        ),
    ] {
        let [route] = &read_files(&[&ROUTE.replacen(right, wrong, 1)])[..] else {
            panic!("{wrong}: one object")
        };
        let remarks: Vec<String> = route.remarks().iter().map(ToString::to_string).collect();
        assert!(remarks.iter().any(|one| one.contains(expected)), "{wrong}: {remarks:?}");
    }
}
