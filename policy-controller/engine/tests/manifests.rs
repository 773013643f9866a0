//! Manifests as people break them, read as files: what a tighter object refused stays refused.
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

use common::{
    NEIGHBOUR, ON_SERVER, OUTSIDER, POD, Who, ask, mesh_tls, policy, read_files as objects, server,
};
use policy_crds::Body;
use policy_crds::document;
use policy_engine::{ControllerConfig, compile_objects};

const ADMIN: &str = "GET /books/admin/x";
const ELSEWHERE: &str = "GET /books/x";

/// A route for `/books` on these hosts.
fn books(hostnames: &str) -> String {
    format!(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\n\
         metadata: {{name: books, namespace: shop}}\n\
         spec:\n  parentRefs: [{{group: policy.linkerd.io, kind: Server, name: web}}]\n\
         \x20 hostnames: [{hostnames}]\n\
         \x20 rules: [{{matches: [{{path: {{value: /books}}}}]}}]\n"
    )
}

/// The verdicts on `/books/admin/x` and `/books/x`, both of which a wider route permits to everybody,
/// beside a file.
fn verdicts(hostnames: &str, file: &str) -> [String; 2] {
    let open =
        policy("books", "group: gateway.networking.k8s.io, kind: HTTPRoute, name: books", "");
    let found = objects(&[POD, &server("HTTP/1", "deny"), &books(hostnames), &open, file]);
    let compiled = compile_objects(found, &ControllerConfig::default());
    [ADMIN, ELSEWHERE].map(|request| ask(&compiled, 8080, NEIGHBOUR, request))
}

/// A route for `/books/admin` that nobody may use.
const TIGHT: &str = "
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

/// An edit, and the verdict on the rest of what the wider route permits.
type Edit = (&'static str, &'static str, &'static str);

const BOTH: [Edit; 31] = [
    ("kind: HTTPRoute", "kind: HTTPRout", "allow"),
    ("kind: HTTPRoute", "kind: httproute", "allow"),
    ("gateway.networking.k8s.io/v1", "gateway.networking.k8s.io", "allow"),
    ("gateway.networking.k8s.io/v1", "gateway.networking.k8s.io/v2", "allow"),
    ("gateway.networking.k8s.io/v1", "gatway.networking.k8s.io/v1", "allow"),
    ("gateway.networking.k8s.io/v1", "networking.k8s.io/v1", "allow"),
    ("gateway.networking.k8s.io/v1", "apps/v1", "allow"),
    ("gateway.networking.k8s.io/v1", "v1", "allow"),
    ("gateway.networking.k8s.io/v1", "policy/v1", "allow"),
    ("gateway.networking.k8s.io/v1", "authorization.k8s.io/v1", "allow"),
    ("  rules:", "  rulez:", "route_invalid"),
    ("  rules:", "  Rules:", "route_invalid"),
    ("  rules:", "  routing:", "route_invalid"),
    ("  hostnames:", "  hostname:", "allow"),
    ("  - matches:", "  - matchs:", "route_invalid"),
    ("  - matches:", "  - conditions:", "route_invalid"),
    ("    - path:", "    - paths:", "route_invalid"),
    ("        type:", "        Type:", "route_invalid"),
    ("PathPrefix", "Prefix", "route_invalid"),
    ("PathPrefix", "pathPrefix", "route_invalid"),
    ("value: /books/admin", "value: books/admin", "route_invalid"),
    ("value: /books/admin", "value: [/books/admin]", "route_invalid"),
    ("value: /books/admin", "value: /books/admin\n        value: /books/admin", "allow"),
    ("type: PathPrefix", "type: PathPrefix\n        type: Exact", "route_invalid"),
    ("method: GET", "method: get", "allow"),
    ("method: GET", "methods: GET", "allow"),
    ("method: GET", "method: GET\n      method: POST", "allow"),
    ("    name: web", "    nam: web", "allow"),
    ("    kind: Server", "    kind: Server\n    kind: Server", "allow"),
    ("group: policy.linkerd.io\n    kind", "kind", "allow"),
    ("hostnames: [web]", "hostnames: ['*']", "allow"),
];

#[test]
fn a_route_that_is_broken_as_people_break_it_opens_nothing() {
    let mut wrong = Vec::new();
    for hostnames in ["", "web"] {
        assert_eq!(verdicts(hostnames, TIGHT), ["unauthorized", "allow"]);
        assert_eq!(verdicts(hostnames, ""), ["allow", "allow"]);
        for (right, mistake, elsewhere) in BOTH {
            assert!(TIGHT.contains(right), "{right}");
            let [admin, rest] = verdicts(hostnames, &TIGHT.replacen(right, mistake, 1));
            if admin == "allow" || rest != elsewhere {
                wrong.push(format!("{mistake} beside [{hostnames}]: {admin}, elsewhere {rest}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The same by the API of Linkerd, whose routes are read strictly.
const OF_LINKERD: &str = "
apiVersion: policy.linkerd.io/v1beta3
kind: HTTPRoute
metadata:
  name: admin
  namespace: shop
spec:
  parentRefs:
  - group: policy.linkerd.io
    kind: Server
    name: web
    namespace: shop
  hostnames:
  - web
  rules:
  - matches:
    - path:
        type: RegularExpression
        value: /books/admin/.*
      method: GET
    filters:
    - type: RequestHeaderModifier
      requestHeaderModifier:
        set:
        - name: x-a
          value: b
    timeouts:
      request: 10s
";

/// A group of routes and its binding.
const GROUP: &str = "
apiVersion: portcullis.dev/v1alpha1
kind: HttpRouteGroup
metadata:
  name: admin
  namespace: shop
spec:
  routes:
  - path: /books/admin/*rest
    methods:
    - GET
    labels:
      team: admin
---
apiVersion: portcullis.dev/v1alpha1
kind: HttpRouteBinding
metadata:
  name: admin
  namespace: shop
spec:
  targetRef:
    group: policy.linkerd.io
    kind: Server
    name: web
  routeRefs:
  - name: admin
  hostnames:
  - web
";

/// Calls of one service.
const CALLS: &str = "
apiVersion: gateway.networking.k8s.io/v1
kind: GRPCRoute
metadata:
  name: admin
  namespace: shop
spec:
  parentRefs:
  - group: policy.linkerd.io
    kind: Server
    name: web
  hostnames:
  - web
  rules:
  - matches:
    - method:
        type: Exact
        service: books
        method: admin
";

/// A tight route was lost whole: its lines were in `metadata`.
#[test]
fn a_spec_within_metadata_opens_nothing() {
    let (head, spec) = TIGHT.split_once("spec:").unwrap();
    let within = spec.replace('\n', "\n  ");
    let within = format!("{head}  spec:{}", within.trim_end());
    for hostnames in ["", "web"] {
        assert_eq!(
            verdicts(hostnames, &within),
            ["unauthorized", "allow"],
            "{hostnames}: {within}"
        );
    }
}

#[test]
fn of_two_objects_of_one_name_the_second_keeps_what_it_refuses() {
    let copied = TIGHT.replace("name: admin", "name: books");
    assert_eq!(verdicts("web", &copied), ["unauthorized", "allow"]);
}

/// Every mistake in one line of a manifest: what it became, and the manifest.
fn mistakes(text: &str) -> Vec<(String, String)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (number, line) in lines.iter().enumerate() {
        let start = line.len() - line.trim_start_matches([' ', '-']).len();
        let (indent, rest) = line.split_at(start);
        let Some((key, value)) = rest.split_once(':') else { continue };
        let mut wrong = Vec::new();
        let (head, tail) = key.split_at(key.len() - 1);
        let swapped =
            format!("{}{tail}{}", &head[..head.len().max(1) - 1], &head[head.len().max(1) - 1..]);
        for key in [head.to_owned(), format!("{key}s"), swapped, key.to_uppercase(), "else".into()]
        {
            wrong.push(format!("{indent}{key}:{value}"));
        }
        if !value.is_empty() {
            let text = value.trim();
            let others = ["5", "true", "[]", "{}", "'*'", "'('", "10.0.0.0/33", "a b", "é", "''"];
            let others = others.map(str::to_owned).into_iter();
            let near = [
                format!("{text}x"),
                text.to_uppercase(),
                text.to_lowercase(),
                format!("[{text}]"),
                format!("{{a: {text}}}"),
                format!("'{text} '"),
                text[1..].to_owned(),
                text.repeat(300),
            ];
            wrong.extend(others.chain(near).map(|value| format!("{indent}{key}: {value}")));
            wrong.push(format!("{line}\n{}{key}: {text}x", " ".repeat(start)));
            wrong.push(format!("{line}\n{}{key}s: {text}", " ".repeat(start)));
        }
        for wrong in wrong {
            let mut changed = lines.clone();
            changed[number] = &wrong;
            found.push((wrong.trim_start().to_owned(), changed.join("\n")));
        }
    }
    found
}

/// A manifest among others, a request that it refuses, and its client.
struct Guarded {
    /// The files beside it.
    beside: Vec<String>,
    /// The manifest.
    manifest: &'static str,
    client: Who,
    request: &'static str,
}

impl Guarded {
    /// True if the request is permitted where the manifest is this, and true if all objects are valid.
    fn permits(&self, manifest: &str) -> (bool, bool) {
        let files: Vec<&str> = self.beside.iter().map(String::as_str).chain([manifest]).collect();
        let found = objects(&files);
        let valid = found.iter().filter(|object| matches!(object.body, Body::Valid(_))).count();
        let declared = files.iter().flat_map(|file| file.split("---"));
        let declared = declared.filter(|document| !document.trim().is_empty()).count();
        let compiled = compile_objects(found, &ControllerConfig::default());
        let verdict = ask(&compiled, 8080, self.client, self.request);
        (verdict == "allow", valid == declared)
    }
}

/// Manifests beside a route of `/books` that is open to everybody.
fn beside_books(protocol: &str, manifest: &'static str, request: &'static str) -> Guarded {
    let open =
        policy("books", "group: gateway.networking.k8s.io, kind: HTTPRoute, name: books", "");
    let beside = [POD.to_owned(), server(protocol, "deny"), books("web"), open].into();
    Guarded { beside, manifest, client: NEIGHBOUR, request }
}

fn guarded() -> Vec<Guarded> {
    let closed = |manifest, more: &[String]| {
        let beside = [&[POD.to_owned(), server("HTTP/1", "deny")][..], more].concat();
        Guarded { beside, manifest, client: OUTSIDER, request: "GET /" }
    };
    let on_server = |refs| policy("some", ON_SERVER, refs);
    let kind = "group: policy.linkerd.io, kind";
    vec![
        beside_books("HTTP/1", TIGHT, ADMIN),
        beside_books("HTTP/1", OF_LINKERD, ADMIN),
        beside_books("HTTP/1", GROUP, ADMIN),
        beside_books("HTTP/2", CALLS, "POST /books/admin"),
        Guarded {
            beside: beside_books("HTTP/2", "", "")
                .beside
                .iter()
                .map(|one| one.replace("hostnames: [web]", "hostnames: []"))
                .collect(),
            ..beside_books("HTTP/2", SERVICE, "POST /books/admin")
        },
        Guarded {
            beside: [&beside_books("HTTP/1", "", "").beside[..], &[FAR.to_owned()]].concat(),
            ..beside_books("HTTP/1", GRANT, ADMIN)
        },
        Guarded {
            beside: vec![POD.to_owned()],
            manifest: A_SERVER,
            client: NEIGHBOUR,
            request: "GET /",
        },
        Guarded {
            beside: vec![POD.to_owned()],
            manifest: NAMESPACE,
            client: NEIGHBOUR,
            request: "GET /",
        },
        closed(A_POLICY, &[mesh_tls("shop", "some", "a.shop.serviceaccount")]),
        closed(NETWORKS, &[on_server(&format!("{{{kind}: NetworkAuthentication, name: some}}"))]),
        closed(IDENTITIES, &[on_server(&format!("{{{kind}: MeshTLSAuthentication, name: some}}"))]),
        closed(AUTHORIZATION, &[]),
    ]
}

const SERVICE: &str = "
apiVersion: portcullis.dev/v1alpha1
kind: GrpcService
metadata:
  name: admin
  namespace: shop
spec:
  service: books
  methods:
  - name: admin
    labels:
      team: admin
---
apiVersion: portcullis.dev/v1alpha1
kind: GrpcServiceBinding
metadata:
  name: admin
  namespace: shop
spec:
  targetRef:
    group: policy.linkerd.io
    kind: Server
    name: web
  serviceRefs:
  - name: admin
";

/// A tight route of another namespace, and the grant by which it is attached.
const FAR: &str = "
apiVersion: policy.linkerd.io/v1beta3
kind: HTTPRoute
metadata: {name: admin, namespace: far}
spec:
  parentRefs: [{group: policy.linkerd.io, kind: Server, name: web, namespace: shop}]
  hostnames: [web]
  rules: [{matches: [{path: {value: /books/admin}}]}]
";
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
    name: web
";

const A_SERVER: &str = "
apiVersion: policy.linkerd.io/v1beta3
kind: Server
metadata:
  name: web
  namespace: shop
spec:
  podSelector:
    matchLabels:
      app: web
    matchExpressions:
    - key: app
      operator: In
      values:
      - web
  port: 8080
  proxyProtocol: HTTP/1
  accessPolicy: deny
";

const NAMESPACE: &str = "
apiVersion: v1
kind: Namespace
metadata:
  name: shop
  annotations:
    config.linkerd.io/default-inbound-policy: deny
";

const A_POLICY: &str = "
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
    namespace: shop
";

const NETWORKS: &str = "
apiVersion: policy.linkerd.io/v1alpha1
kind: NetworkAuthentication
metadata:
  name: some
  namespace: shop
spec:
  networks:
  - cidr: 0.0.0.0/0
    except:
    - 203.0.113.0/24
";

const IDENTITIES: &str = "
apiVersion: policy.linkerd.io/v1alpha1
kind: MeshTLSAuthentication
metadata:
  name: some
  namespace: shop
spec:
  identities:
  - a.shop.serviceaccount.identity.linkerd.cluster.local
";

const AUTHORIZATION: &str = "
apiVersion: policy.linkerd.io/v1beta1
kind: ServerAuthorization
metadata:
  name: some
  namespace: shop
spec:
  server:
    selector:
      matchLabels:
        app: web
  client:
    networks:
    - cidr: 0.0.0.0/0
      except:
      - 203.0.113.0/24
    meshTLS:
      identities:
      - a.shop
";

/// True where nobody knows what the object was: no YAML, kind or namespace is left, or not the name by
/// which others refer to it.
fn is_nobodys(mistake: &str, manifest: &str, kind: &str) -> bool {
    let (key, value) = mistake.split_once(':').unwrap_or_default();
    let mut documents = document::read(manifest).into_iter();
    let is_unreadable = documents.any(|one| one.value.is_err() && one.salvaged.is_none());
    let is_referred_to = ["HttpRouteGroup", "GrpcService", "Namespace"].contains(&kind);
    is_unreadable
        || ["apiVersion", "kind", "else"].contains(&key)
        || (key == "namespace" && !value.trim().eq_ignore_ascii_case("shop"))
        || (key == "name" && is_referred_to)
}

#[test]
fn a_mistake_in_one_line_opens_nothing_while_an_object_is_invalid() {
    let mut opened = Vec::new();
    for guarded in guarded() {
        assert_eq!(guarded.permits(guarded.manifest), (false, true), "{}", guarded.manifest);
        let kind = guarded.manifest.lines().nth(2).unwrap().trim_start_matches("kind: ");
        for (mistake, changed) in mistakes(guarded.manifest) {
            let line = || format!("{kind}: {}", mistake.chars().take(70).collect::<String>());
            match guarded.permits(&changed) {
                // It says something else, and means it.
                (true, true) => {}
                (true, false) if !is_nobodys(&mistake, &changed, kind) => opened.push(line()),
                (true | false, _) => {}
            }
        }
    }
    assert!(opened.is_empty(), "{}", opened.join("\n"));
}
