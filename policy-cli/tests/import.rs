//! `portcullis import` as people run it.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use prost::Message;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// The services of the issuer's API, compiled.
fn identity_api() -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../proto");
    let source = folder.join("linkerd/identity.proto");
    protox::compile([source], [folder]).unwrap().encode_to_vec()
}

fn import(arguments: &[&str], input: &[u8]) -> Output {
    import_of("grpc", arguments, input)
}

fn import_of(format: &str, arguments: &[&str], input: &[u8]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_portcullis"));
    command.args(["import", format]).args(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // The program may exit before it has read its input.
    let _ = child.stdin.take().unwrap().write_all(input);
    child.wait_with_output().unwrap()
}

fn texts(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

const YAML: &str = "\
apiVersion: portcullis.dev/v1alpha1
kind: GrpcService
metadata:
  name: io.linkerd.proxy.identity.identity
  namespace: shop
spec:
  methods:
  - name: Certify
  service: io.linkerd.proxy.identity.Identity
";

/// The table of the one service.
const REPORT: &str = "\
LINE  SOURCE                                                                    TRANSLATED  NOTE
-     service `io.linkerd.proxy.identity.Identity` of `linkerd/identity.proto`  exact       GrpcService `io.linkerd.proxy.identity.identity`
1 exact, 0 narrower, 0 not at all
";

#[test]
fn a_file_and_standard_input_become_manifests_that_check_takes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("identity.binpb");
    std::fs::write(&path, identity_api()).unwrap();
    let file = path.to_str().unwrap();
    let expected = (Some(0), YAML.to_owned(), REPORT.to_owned());
    assert_eq!(texts(&import(&["-n", "shop", file], b"")), expected);
    assert_eq!(texts(&import(&["-n", "shop", "-"], &identity_api())), expected);
    let manifests = tempfile::tempdir().unwrap();
    std::fs::write(manifests.path().join("identity.yaml"), YAML).unwrap();
    let mut check = Command::new(env!("CARGO_BIN_EXE_portcullis"));
    let (code, told, _) = texts(&check.arg("check").arg(manifests.path()).output().unwrap());
    assert_eq!(code, Some(0), "{told}");
    assert!(told.contains("1 object read: 0 errors, "), "{told}");
}

#[test]
fn json_is_one_list() {
    let (code, json, told) = texts(&import(&["-o", "json", "--name", "ca", "-"], &identity_api()));
    assert_eq!(code, Some(0), "{told}");
    assert!(told.ends_with("\n1 exact, 0 narrower, 0 not at all\n"), "{told}");
    let found: serde_json::Value = serde_json::from_str(&json).unwrap();
    let item = serde_json::json!({
        "apiVersion": "portcullis.dev/v1alpha1",
        "kind": "GrpcService",
        "metadata": {"name": "ca"},
        "spec": {
            "service": "io.linkerd.proxy.identity.Identity",
            "methods": [{"name": "Certify"}],
        },
    });
    let list = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": [item]});
    assert_eq!(found, list);
}

#[test]
fn where_something_is_wrong_nothing_is_written() {
    let fails = |arguments: &[&str], input: &[u8], expected: (i32, &str)| {
        let (code, out, told) = texts(&import(arguments, input));
        assert_eq!((code, out.as_str()), (Some(expected.0), ""), "{told}");
        assert!(told.contains(expected.1), "{told}");
    };
    let set = identity_api();
    let absent = "nothing was written:\nstandard input: declares no service `Identity`; did you mean \
                  `io.linkerd.proxy.identity.Identity`?";
    fails(&["--service", "Identity", "-"], &set, (1, absent));
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../proto/linkerd/identity.proto");
    fails(&[source], b"", (1, "it looks like text: compile `.proto` files first, with `protoc "));
    fails(&["absent.binpb"], b"", (1, "cannot read `absent.binpb`"));
    fails(&[env!("CARGO_MANIFEST_DIR")], b"", (1, "cannot read `"));
    fails(&["-n", "Shop", "-"], &set, (2, "expected up to 63 lower-case letters"));
    fails(&["--name", "a_b", "-"], &set, (2, "expected lower-case letters, digits, `-` and `.`"));
    fails(&[], &set, (2, "<FILE>"));
}

/// An API with an operation that no group says.
const API: &str = "\
openapi: 3.1.0
info: {title: Books, version: v1}
servers:
- url: https://books.example.com/v1
paths:
  /books/{id}:
    get: {operationId: getBook, tags: [Reading], x-linkerd-timeout: 2s}
  /books/{id}.json:
    get: {}
";

const BOOKS: &str = "\
apiVersion: portcullis.dev/v1alpha1
kind: HttpRouteGroup
metadata:
  name: books
spec:
  routes:
  - labels:
      operation: getBook
      tag.reading: \"true\"
      timeout: \"2s\"
    methods:
    - GET
    path: \"/v1/books/:id\"
";

#[test]
fn an_api_becomes_a_group_and_a_table_with_lines() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("books.yaml");
    std::fs::write(&file, BOOKS).unwrap();
    let file = file.to_str().unwrap();
    let (code, manifests, told) =
        texts(&import_of("openapi", &["--previous", file, "-"], API.as_bytes()));
    assert_eq!((code, manifests.as_str()), (Some(0), BOOKS), "{told}");
    let lines: Vec<&str> = told.lines().collect();
    let [head, narrower, omitted, counts, unchanged] = lines[..] else { panic!("{told}") };
    assert!(head.starts_with("LINE "), "{told}");
    assert!(narrower.starts_with("standard input:7  GET /books/{id} "), "{told}");
    assert!(narrower.contains(" narrower    /v1/books/:id; its timeout has no Server"), "{told}");
    assert!(omitted.starts_with("standard input:9  GET /books/{id}.json "), "{told}");
    assert!(omitted.contains(" not at all  has a parameter that is a part"), "{told}");
    assert_eq!(counts, "0 exact, 1 narrower, 1 not at all");
    assert_eq!(unchanged, "nothing is added or removed");
    let former = BOOKS.replace("books/:id", "book/:id");
    std::fs::write(file, former).unwrap();
    let (_, _, told) = texts(&import_of("openapi", &["--previous", file, "-"], API.as_bytes()));
    assert!(told.contains("\n- HttpRouteGroup books routes: {"), "{told}");
    assert!(told.contains("\n+ HttpRouteGroup books routes: {"), "{told}");
}

#[test]
fn a_server_puts_routes_and_bounds_in_force() {
    let arguments = ["-n", "shop", "--server", "web", "-o", "json", "-"];
    let (code, json, told) = texts(&import_of("openapi", &arguments, API.as_bytes()));
    assert_eq!(code, Some(0), "{told}");
    let list: serde_json::Value = serde_json::from_str(&json).unwrap();
    let kinds: Vec<&str> =
        list["items"].as_array().unwrap().iter().map(|it| it["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["HttpRouteGroup", "HttpRouteBinding", "HttpRouteClass", "TimeoutPolicy"]);
}

#[test]
fn what_is_broken_is_named_with_file_line_and_field() {
    let fails = |format: &str, input: &str, expected: &str| {
        let (code, out, told) = texts(&import_of(format, &["-"], input.as_bytes()));
        assert_eq!((code, out.as_str()), (Some(1), ""), "{told}");
        let start = "nothing was written:\n`standard input`: ";
        assert!(told.contains(&format!("{start}{expected}")), "{told}");
    };
    fails("openapi", "openapi: 3.0.0\npaths: [\n", "line ");
    let versions = "OpenAPI 3.0 and 3.1 and Swagger 2.0 are imported";
    fails("openapi", "a: 1\nopenapi: 4.0.0\n", &format!("line 2: openapi: `4.0.0`: {versions}"));
    let paths = "openapi: 3.0.0\ninfo: {title: a}\npaths:\n  /a:\n    get: [1]\n";
    let message = "line 5: paths[\"/a\"].get: expected a mapping, found a list";
    fails("openapi", paths, message);
    let kinds = "has no ServiceProfile: `kind: ServiceProfile` is imported";
    fails("serviceprofile", "kind: ConfigMap\n", kinds);
    fails("smi", "kind: ConfigMap\n", "no TrafficTarget: ");
}

/// A pod, and a Server that one ServiceAccount may use.
const CLOSED: &str = "\
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop, labels: {app: web}}
spec:
  serviceAccountName: web
  containers: [{name: app, image: app, ports: [{containerPort: 8080}]}]
---
apiVersion: policy.linkerd.io/v1beta3
kind: Server
metadata: {name: web, namespace: shop}
spec: {podSelector: {matchLabels: {app: web}}, port: 8080, proxyProtocol: HTTP/1}
---
apiVersion: policy.linkerd.io/v1alpha1
kind: AuthorizationPolicy
metadata: {name: web, namespace: shop}
spec:
  targetRef: {group: policy.linkerd.io, kind: Server, name: web}
  requiredAuthenticationRefs: [{kind: ServiceAccount, name: cart}]
";

const TRAFFIC: &str = "\
apiVersion: specs.smi-spec.io/v1alpha4
kind: TCPRoute
metadata:
  name: web.8080
  namespace: shop
spec:
  matches:
    ports:
    - 8080
---
apiVersion: specs.smi-spec.io/v1alpha4
kind: HTTPRouteGroup
metadata:
  name: web.8080
  namespace: shop
spec:
  matches:
  - methods:
    - \"*\"
    name: m1
    pathRegex: \".*\"
---
apiVersion: access.smi-spec.io/v1alpha3
kind: TrafficTarget
metadata:
  name: web.8080.1
  namespace: shop
spec:
  destination:
    kind: ServiceAccount
    name: web
    namespace: shop
  rules:
  - kind: TCPRoute
    name: web.8080
  - kind: HTTPRouteGroup
    matches:
    - m1
    name: web.8080
  sources:
  - kind: ServiceAccount
    name: cart
    namespace: shop
";

const EXPORT_REPORT: &str = "\
LINE  SOURCE                                  TRANSLATED  NOTE
-     port 8080 of ServiceAccount shop/web    exact       TrafficTarget `web.8080.1`
-     other ports of ServiceAccount shop/web  not at all  what is granted on ports that nobody declares is left out
1 exact, 0 narrower, 1 not at all
";

fn export_smi(arguments: &[&str], input: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_portcullis"));
    command.args(["export", "smi"]).args(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // The program may exit before it has read its input.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

#[test]
fn policies_are_exported_to_smi_and_what_it_cannot_say_is_listed() {
    let expected = (Some(0), TRAFFIC.to_owned(), EXPORT_REPORT.to_owned());
    assert_eq!(texts(&export_smi(&["-"], CLOSED)), expected);
    let (code, json, _) = texts(&export_smi(&["-o", "json", "-"], CLOSED));
    let list: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((code, list["items"].as_array().unwrap().len()), (Some(0), 3));
    let (code, out, told) = texts(&export_smi(&["-"], "kind: [\n"));
    assert_eq!((code, out.as_str()), (Some(1), ""), "{told}");
}
