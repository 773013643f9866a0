//! Tests of `authz` and `status` on directories, and of their errors without a cluster.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "a test fails by panicking"
)]

use serde_json::{Value, json};
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Two pods behind a Server with a route, a probe, a grant that leads nowhere, and a pod of its own.
const MANIFESTS: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: web
        ports: [{name: http, containerPort: 8080}]
        readinessProbe: {httpGet: {path: /ready, port: http}}
---
apiVersion: v1
kind: Pod
metadata: {name: db, namespace: shop, annotations: {config.linkerd.io/default-inbound-policy: deny}}
spec: {containers: [{name: db, ports: [{containerPort: 5432}]}]}
---
apiVersion: policy.linkerd.io/v1beta3
kind: Server
metadata: {name: web, namespace: shop}
spec: {podSelector: {matchLabels: {app: web}}, port: http, proxyProtocol: HTTP/1}
---
apiVersion: policy.linkerd.io/v1beta3
kind: HTTPRoute
metadata: {name: reads, namespace: shop}
spec:
  parentRefs: [{group: policy.linkerd.io, kind: Server, name: web}]
  rules: [{matches: [{method: GET, path: {value: /api}}]}]
---
apiVersion: policy.linkerd.io/v1alpha1
kind: AuthorizationPolicy
metadata: {name: readers, namespace: shop}
spec:
  targetRef: {group: policy.linkerd.io, kind: HTTPRoute, name: reads}
  requiredAuthenticationRefs:
  - {group: policy.linkerd.io, kind: MeshTLSAuthentication, name: fronts}
  - {group: policy.linkerd.io, kind: NetworkAuthentication, name: inside}
---
apiVersion: policy.linkerd.io/v1alpha1
kind: AuthorizationPolicy
metadata: {name: lost, namespace: shop}
spec:
  targetRef: {group: policy.linkerd.io, kind: Server, name: web}
  requiredAuthenticationRefs:
  - {group: policy.linkerd.io, kind: MeshTLSAuthentication, name: missing}
---
apiVersion: policy.linkerd.io/v1alpha1
kind: MeshTLSAuthentication
metadata: {name: fronts, namespace: shop}
spec: {identities: ['front.shop.serviceaccount.identity.portcullis.cluster.local']}
---
apiVersion: policy.linkerd.io/v1alpha1
kind: NetworkAuthentication
metadata: {name: inside, namespace: shop}
spec: {networks: [{cidr: 10.0.0.0/8, except: [10.9.0.0/16]}]}
";

fn portcullis(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_portcullis"));
    command.args(arguments).env("KUBECONFIG", "/nonexistent").env("HOME", "/nonexistent");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.output().unwrap()
}

fn manifests(directory: &Path) -> String {
    std::fs::write(directory.join("shop.yaml"), MANIFESTS).unwrap();
    directory.to_str().unwrap().to_owned()
}

fn json_of(arguments: &[&str]) -> Value {
    let output = portcullis(arguments);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn authz_says_who_may_do_what_by_which_object() {
    let directory = tempfile::tempdir().unwrap();
    let path = manifests(directory.path());
    let report = json_of(&["authz", "-o", "json", "-f", &path, "deploy/web"]);
    let probe = json!({
        "route": null, "hosts": [], "what": ["GET /ready"],
        "requires": [{"networks": ["node-local"], "from": "default probe"}],
        "granted": true, "by": "default probe", "audited": false, "exempt": true,
    });
    let readers = json!({
        "route": "HTTPRoute shop/reads", "hosts": [], "what": ["GET /api/…"],
        "requires": [
            {"networks": ["10.0.0.0/8 except 10.9.0.0/16"],
             "from": "NetworkAuthentication shop/inside"},
            {"identities": ["front.shop.serviceaccount.identity.portcullis.cluster.local"],
             "from": "MeshTLSAuthentication shop/fronts"},
        ],
        "granted": true, "by": "AuthorizationPolicy shop/readers", "audited": false,
        "exempt": false,
    });
    let everybody = json!({
        "route": null, "hosts": [], "what": ["other requests"],
        "requires": [{"networks": ["0.0.0.0/0", "::/0"], "from": "default all-unauthenticated"}],
        "granted": true, "by": "default all-unauthenticated", "audited": false, "exempt": false,
    });
    let expected = json!({
        "asked": {"directory": path, "controller": null, "context": null, "server": null,
                  "namespace": null},
        "settings": {"from": "the controller's defaults", "known": true,
                     "defaultPolicy": "all-unauthenticated"},
        "gaps": [],
        "workloads": [{
            "namespace": "shop", "kind": "Pod", "names": ["web-0", "web-1"], "notKnown": [],
            "ports": [{
                "port": 8080, "owner": "Server shop/web", "protocol": "HTTP/1", "denied": null,
                "access": [probe, readers],
                "otherwise": "not found",
                "withheld": [{
                    "route": null, "by": "AuthorizationPolicy shop/lost",
                    "reason": "MeshTLSAuthentication shop/missing does not exist",
                    "notKnown": false,
                }],
            }],
            "otherPorts": {
                "port": null, "owner": "default all-unauthenticated",
                "protocol": "detected within 10 s", "denied": null,
                "access": [json!({"route": null, "hosts": [], "what": ["requests", "connections"],
                    "requires": everybody["requires"], "granted": true,
                    "by": "default all-unauthenticated", "audited": false, "exempt": false})],
                "otherwise": null, "withheld": [],
            },
        }],
    });
    assert_eq!(report, expected, "{report:#}");
}

#[test]
fn authz_is_a_table_for_people() {
    let directory = tempfile::tempdir().unwrap();
    let path = manifests(directory.path());
    let output = portcullis(&["authz", "-f", &path, "server/web"]);
    let expected = format!(
        "manifests of {path}, all namespaces

Pod shop/web-0, shop/web-1

  port 8080  Server shop/web, HTTP/1
    WHAT                    WHO                                                       BY
    GET /ready              from node-local (exempt)                                  default probe
    GET /api/…              front.shop,                                               AuthorizationPolicy shop/readers
    (HTTPRoute shop/reads)  from 10.0.0.0/8 except 10.9.0.0/16
    anything else: not found
    withheld: AuthorizationPolicy shop/lost: MeshTLSAuthentication shop/missing does not exist
"
    );
    let text = String::from_utf8(output.stdout).unwrap();
    let squeeze = |text: &str| {
        let lines = text.lines().map(|l| l.split_whitespace().collect::<Vec<_>>().join(" "));
        lines.collect::<Vec<_>>()
    };
    assert_eq!(squeeze(&text), squeeze(&expected), "{text}");
}

/// What `authz` prints of the example, in the folder of the project.
fn of_the_example(target: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_portcullis"));
    command.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    command.args(["authz", "-f", "examples/request-policies"]).args(target);
    String::from_utf8(command.output().unwrap().stdout).unwrap()
}

#[test]
fn routes_of_bindings_are_told_with_their_paths_grants_and_effects() {
    let text = of_the_example(&[]);
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/authz/request-policies.txt");
    if std::env::var_os("PORTCULLIS_WRITE_CHECK").is_some() {
        std::fs::write(path, &text).unwrap();
    }
    assert_eq!(text, std::fs::read_to_string(path).unwrap_or_default(), "{path} differs");
}

#[test]
fn the_guide_shows_effects_as_they_are_printed() {
    let guide = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/requests.md");
    let guide = std::fs::read_to_string(guide).unwrap();
    let (_, block) = guide.split_once("server/web\n```\n\n```text\n…\n").expect("a block");
    let (block, _) = block.split_once("```").unwrap();
    let printed = of_the_example(&["server/web"]);
    assert!(printed.ends_with(&format!("\n\n{block}")), "{block}\n{printed}");
}

#[test]
fn authz_tells_effects_to_programs_those_of_the_server_last() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/request-policies");
    let report = json_of(&["authz", "-o", "json", "-f", path, "server/web"]);
    let timeout = |bound: &str, after: &str, by: &str| {
        let by = format!("TimeoutPolicy booksapp/{by}");
        json!({"bound": bound, "after": after, "when": [], "by": by})
    };
    let change = |what: &str, when: &str| {
        let by = "HeaderRewritePolicy booksapp/example-headers";
        json!({"what": [what], "when": [when], "required": false, "by": by})
    };
    let reads = json!([timeout("head", "3s", "reads")]);
    let expected = json!([
        {"route": "HttpRouteBinding booksapp/healthchecks", "hosts": [],
         "what": ["GET /live", "HEAD /live", "GET /ready", "HEAD /ready"],
         "timeouts": reads, "changes": []},
        {"route": "HttpRouteBinding booksapp/web", "hosts": [],
         "what": ["GET /", "HEAD /authors/:author-id", "GET /authors/:author-id",
                  "GET /books/:book-id"],
         "timeouts": reads, "changes": []},
        {"route": null, "hosts": [], "what": ["requests"],
         "timeouts": [timeout("complete", "10s", "web"), timeout("idle", "5s", "web")],
         "changes": [
            change("set x-foobar: yahoo", "header content-type In [application/json]"),
            change("clear x-foobar", "header host In [example.com]"),
         ]},
    ]);
    assert_eq!(report["workloads"][0]["ports"][0]["effects"], expected, "{report:#}");
}

/// A Server with a group of 250 paths for four methods, policies on its binding, on reads of its first
/// path and on the Server, and an invalid one that keeps its claim on another binding.
fn many_routes() -> String {
    let mut group = "apiVersion: portcullis.dev/v1alpha1\nkind: HttpRouteGroup\n\
                     metadata: {name: many, namespace: shop}\nspec:\n  routes:\n"
        .to_owned();
    for number in 0..250 {
        group.push_str(&format!(
            "  - {{path: \"/p{number}/:id\", methods: [GET, PUT, POST, DELETE]}}\n"
        ));
    }
    format!("{MANIFESTS}---\n{group}---\n{OF_MANY}")
}

const OF_MANY: &str = "
apiVersion: portcullis.dev/v1alpha1
kind: HttpRouteGroup
metadata: {name: closed, namespace: shop}
spec: {routes: [{path: /closed}]}
---
apiVersion: portcullis.dev/v1alpha1
kind: HttpRouteBinding
metadata: {name: many, namespace: shop}
spec: {targetRef: {kind: Server, name: web}, routeRefs: [{name: many}]}
---
apiVersion: portcullis.dev/v1alpha1
kind: HttpRouteBinding
metadata: {name: closed, namespace: shop}
spec: {targetRef: {kind: Server, name: web}, routeRefs: [{name: closed}]}
---
apiVersion: portcullis.dev/v1alpha1
kind: HttpRouteClass
metadata: {name: first, namespace: shop}
spec:
  targetRef: {kind: Server, name: web}
  routeSelector:
    matchLabels: {http.linkerd.io/path: '/p0/:id', http.linkerd.io/method: GET}
    matchExpressions: [{key: path.http.linkerd.io/id, operator: In, values: ['42']}]
---
apiVersion: portcullis.dev/v1alpha1
kind: TimeoutPolicy
metadata: {name: first, namespace: shop}
spec: {targetRef: {kind: HttpRouteClass, name: first}, timeouts: {request: 1s, idle: 9s}}
---
apiVersion: portcullis.dev/v1alpha1
kind: TimeoutPolicy
metadata: {name: many, namespace: shop}
spec: {targetRef: {kind: HttpRouteBinding, name: many}, timeouts: {request: 3s, idle: 8s}}
---
apiVersion: portcullis.dev/v1alpha1
kind: TimeoutPolicy
metadata: {name: web, namespace: shop}
spec: {targetRef: {kind: Server, name: web}, timeouts: {request: 10s, idle: 5s}}
---
apiVersion: portcullis.dev/v1alpha1
kind: HeaderRewritePolicy
metadata: {name: many, namespace: shop}
spec:
  targetRef: {kind: HttpRouteBinding, name: many}
  failure: Deny
  rules: [{clear: [x-a, x-b], set: {x-a: one}, add: {x-c: two}}]
---
apiVersion: portcullis.dev/v1alpha1
kind: HeaderRewritePolicy
metadata: {name: closed, namespace: shop}
spec:
  targetRef: {kind: HttpRouteBinding, name: closed}
  failure: Deny
  rules: [{clear: [host]}]
---
apiVersion: policy.linkerd.io/v1alpha1
kind: AuthorizationPolicy
metadata: {name: many, namespace: shop}
spec:
  targetRef: {group: portcullis.dev, kind: HttpRouteBinding, name: many}
  requiredAuthenticationRefs: [{group: policy.linkerd.io, kind: MeshTLSAuthentication, name: fronts}]
";

/// The lines that are left without those that name a route of the large group alone.
const FOLDED: &str = "
port 8080 Server shop/web, HTTP/1
WHAT WHO BY
GET /ready from node-local (exempt) default probe
* /closed nobody
(HttpRouteBinding shop/closed)
(HttpRouteBinding shop/many) front.shop AuthorizationPolicy shop/many
GET /api/… front.shop, AuthorizationPolicy shop/readers
(HTTPRoute shop/reads) from 10.0.0.0/8 except 10.9.0.0/16
anything else: not found

PERMITTED EFFECT BY
* /closed answer with 500 HeaderRewritePolicy shop/closed
(HttpRouteBinding shop/closed)
GET /p0/:id at most 3s from the request to the end of the response TimeoutPolicy shop/many
(HttpRouteBinding shop/many)
at most 1s from the request to the end of the response TimeoutPolicy shop/first
where path parameter id In [42]
clear x-a HeaderRewritePolicy shop/many
clear x-b
set x-a: one
add x-c: two
or the request is refused
(HttpRouteBinding shop/many) at most 3s from the request to the end of the response TimeoutPolicy shop/many
clear x-a HeaderRewritePolicy shop/many
clear x-b
set x-a: one
add x-c: two
or the request is refused
every request at most 10s from the request to the end of the response TimeoutPolicy shop/web
at most 5s without a byte of either body TimeoutPolicy shop/web
withheld: AuthorizationPolicy shop/lost: MeshTLSAuthentication shop/missing does not exist
";

#[test]
fn a_thousand_routes_are_folded_by_their_grants_and_by_their_effects() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("shop.yaml"), many_routes()).unwrap();
    let path = directory.path().to_str().unwrap();
    let output = portcullis(&["authz", "-f", path, "server/web"]);
    let text = String::from_utf8(output.stdout).unwrap();
    let squeezed = text.lines().map(|l| l.split_whitespace().collect::<Vec<_>>().join(" "));
    let (of_many, rest): (Vec<_>, Vec<_>) = squeezed
        .skip(4)
        .partition(|line| line.contains(" /p") && !line.starts_with("GET /p0/:id "));
    // Those with the same grants once, and those with the same effects once, but for the first.
    let all = (0..250).flat_map(|number| {
        ["GET", "PUT", "POST", "DELETE"].map(|method| format!("{method} /p{number}/:id"))
    });
    let all: Vec<String> = all.collect();
    let sorted = |mut lines: Vec<String>| {
        lines.sort_unstable();
        lines
    };
    assert_eq!(sorted(of_many), sorted([&all[..], &all[1..]].concat()), "{text}");
    let expected: Vec<&str> = FOLDED.trim().lines().collect();
    assert_eq!(rest, expected, "{text}");
}

#[test]
fn authz_takes_nobody_for_somebody() {
    let directory = tempfile::tempdir().unwrap();
    let path = manifests(directory.path());
    let report = json_of(&["authz", "-o", "json", "-f", &path, "pod/db"]);
    let access = &report["workloads"][0]["ports"][0]["access"];
    let expected = json!([{
        "route": null, "hosts": [], "what": ["requests", "connections"], "requires": [],
        "granted": false, "by": null, "audited": false, "exempt": false,
    }]);
    assert_eq!(*access, expected, "{report:#}");
}

/// Extracts the ports, as numbers or ranges, and their grants.
fn told(ports: &Value) -> Vec<(Value, Vec<Value>)> {
    let told = |port: &Value| {
        let grants = port["access"].as_array().unwrap().iter().map(|row| row["by"].clone());
        let which = if port["port"].is_null() { &port["ranges"] } else { &port["port"] };
        (which.clone(), grants.collect())
    };
    ports.as_array().unwrap().iter().map(told).collect()
}

#[test]
fn authz_tells_ports_that_only_annotations_name_apart() {
    let directory = tempfile::tempdir().unwrap();
    let pod = |name: &str, ports: &str| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata:\n  name: {name}\n  namespace: shop\n  \
             annotations:\n    config.linkerd.io/proxy-require-identity-inbound-ports: \"{ports}\"\n\
             spec: {{containers: [{{name: c, ports: [{{containerPort: 9001}}]}}]}}\n"
        )
    };
    let pods = format!("{}---\n{}", pod("some", "9000-9003"), pod("all", "oops"));
    std::fs::write(directory.path().join("pods.yaml"), pods).unwrap();
    let path = directory.path().to_str().unwrap();
    let report = json_of(&["authz", "-o", "json", "-f", path]);
    let [every, some] = [&report["workloads"][0], &report["workloads"][1]];
    assert_eq!((&every["names"][0], &some["names"][0]), (&json!("all"), &json!("some")));
    let (open, meshed) = (json!("default all-unauthenticated"), json!("default all-authenticated"));
    assert_eq!(told(&some["ports"]), [(json!(9001), vec![meshed.clone()])]);
    let ranges = json!(["9000", "9002-9003"]);
    assert_eq!(told(&some["annotatedPorts"]), [(ranges, vec![meshed.clone()])]);
    assert_eq!(some["otherPorts"]["access"][0]["by"], open);
    // What cannot be read names every port, so that there are no others.
    let ranges = json!(["1-9000", "9002-65535"]);
    assert_eq!(told(&every["annotatedPorts"]), [(ranges, vec![meshed])]);
    assert_eq!(every.get("otherPorts"), None, "{every:#}");
    let text = String::from_utf8(portcullis(&["authz", "-f", path]).stdout).unwrap();
    assert!(text.contains("ports 9000, 9002-9003 (named by annotations only)  def"), "{text}");
}

#[test]
fn a_server_whose_port_cannot_be_read_is_reported_as_owning_every_port() {
    let directory = tempfile::tempdir().unwrap();
    let manifests = "
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop}
spec: {containers: [{name: c, ports: [{containerPort: 80}]}]}
---
apiVersion: policy.linkerd.io/v1beta3
kind: Server
metadata: {name: broken, namespace: shop}
spec: {podSelector: {}, port: 70000}
";
    std::fs::write(directory.path().join("a.yaml"), manifests).unwrap();
    let path = directory.path().to_str().unwrap();
    let report = json_of(&["authz", "-o", "json", "-f", path, "server/broken"]);
    let workload = &report["workloads"][0];
    for port in [&workload["ports"][0], &workload["otherPorts"]] {
        let told = (&port["owner"], &port["denied"], &port["access"]);
        let expected = (&json!("Server shop/broken"), &json!("server_invalid"), &json!([]));
        assert_eq!(told, expected, "{workload:#}");
    }
}

#[test]
fn the_default_policy_of_the_command_line_holds_for_manifests_too() {
    let directory = tempfile::tempdir().unwrap();
    let path = manifests(directory.path());
    let asked = ["authz", "-o", "json", "--default-policy", "deny", "-f", &path, "deploy/web"];
    assert_eq!(json_of(&asked)["workloads"][0]["otherPorts"]["access"][0]["granted"], json!(false));
}

#[test]
fn plaintext_goes_to_this_machine_only() {
    for command in [&["status"][..], &["watch", "shop/web-0:80"]] {
        let arguments = [command, &["--controller", "192.0.2.1:8090"]].concat();
        let output = portcullis(&arguments);
        let said = String::from_utf8(output.stderr).unwrap();
        let expected =
            "error: --controller: `192.0.2.1:8090` is 192.0.2.1, which is not on loopback";
        assert!(said.starts_with(expected) && output.status.code() == Some(1), "{said}");
    }
}

#[test]
fn watch_ends_where_no_controller_answers() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    // Ends with the test process.
    std::thread::spawn(move || {
        use std::io::{Read, Write};
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 1024]);
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n");
        }
    });
    let output = portcullis(&["watch", "--controller", &address, "shop/web-0:80"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.starts_with("error: ") && output.status.code() == Some(1), "{said}");
}

#[test]
fn a_kubeconfig_that_cannot_be_used_is_not_told_as_none() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("config");
    let said = |text: &str| {
        std::fs::write(&file, text).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_portcullis"));
        command.arg("check").env("KUBECONFIG", &file).env("HOME", "/nonexistent");
        String::from_utf8(command.output().unwrap().stderr).unwrap()
    };
    let broken = said("contexts: [");
    assert!(broken.starts_with("error: no cluster is available: the file that $KUB"), "{broken}");
    let empty = said("{apiVersion: v1, kind: Config, current-context: gone}");
    assert!(empty.contains("no cluster is available") && empty.contains("gone"), "{empty}");
}

#[test]
fn status_of_manifests_says_what_the_controller_would() {
    let directory = tempfile::tempdir().unwrap();
    let path = manifests(directory.path());
    let arguments = ["status", "-o", "json", "-f", &path, "authorizationpolicy/lost"];
    let condition = |kind: &str, status: &str, reason: &str, message: &str, parent: Value| {
        json!({
            "type": kind, "status": status, "reason": reason, "message": message,
            "parent": parent, "section": null, "source": "computed",
        })
    };
    let missing = "MeshTLSAuthentication shop/missing does not exist";
    let expected = json!({
        "asked": {"directory": path, "controller": null, "context": null, "server": null,
                  "namespace": null},
        "controller": null, "noController": null, "missing": [], "gaps": [],
        "objects": [{
            "group": "policy.linkerd.io", "kind": "AuthorizationPolicy", "namespace": "shop",
            "name": "lost", "generation": null, "programmed": null,
            "conditions": [
                condition("Accepted", "True", "Accepted", "", json!("Server shop/web")),
                condition("ResolvedRefs", "False", "RefNotFound", missing, Value::Null),
            ],
        }],
        "withoutSidecar": [], "outsideNetworks": [],
    });
    let report = json_of(&arguments);
    assert_eq!(report, expected, "{report:#}");
    let text = String::from_utf8(portcullis(&["status", "-f", &path]).stdout).unwrap();
    assert!(text.contains("ResolvedRefs=False (RefNotFound): MeshTLSAuth"), "{text}");
}

#[test]
fn what_is_not_there_is_said_with_its_nearest_neighbour() {
    let directory = tempfile::tempdir().unwrap();
    let path = manifests(directory.path());
    let said = |arguments: &[&str]| {
        let output = portcullis(arguments);
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8(output.stderr).unwrap()
    };
    let expected = format!(
        "error: no pod of Deployment wbe was found in manifests of {path}, all namespaces; is it \
         web?\n"
    );
    assert_eq!(said(&["authz", "-f", &path, "deploy/wbe"]), expected);
    let expected = format!(
        "error: no pod of StatefulSet web was found in manifests of {path}, all namespaces; is it \
         deployment/web?\n"
    );
    assert_eq!(said(&["authz", "-f", &path, "sts/web"]), expected);
    let expected = format!(
        "error: there is no workload in manifests of {path}, namespace shopp; is namespace shop \
         meant?\n"
    );
    assert_eq!(said(&["authz", "-f", &path, "-n", "shopp"]), expected);
    let expected = format!("error: not found in manifests of {path}, all namespaces: server/db\n");
    assert_eq!(said(&["status", "-f", &path, "server/db"]), expected);
}

#[test]
fn without_a_cluster_every_command_says_what_to_give() {
    let expected = "error: no cluster is configured: $KUBECONFIG and ~/.kube/config name none and \
                    this is no pod; give --kubeconfig FILE, or a directory of manifests\n";
    for command in [&["check"][..], &["status"], &["authz"], &["watch", "shop/web-0:80"]] {
        let output = portcullis(command);
        assert_eq!(output.status.code(), Some(1), "{command:?}");
        assert_eq!(String::from_utf8(output.stderr).unwrap(), expected, "{command:?}");
    }
}

#[test]
fn a_directory_and_a_cluster_are_not_asked_at_once() {
    for command in [
        &["check", "--context", "x", "."][..],
        &["check", "--as", "x", "."],
        &["authz", "-f", ".", "--as", "x"],
        &["authz", "-f", ".", "--kubeconfig", "x"],
        &["status", "-f", ".", "--context", "x"],
        &["watch", "--controller", "127.0.0.1:1", "--context", "x", "a/b:1"],
        &["authz", "-n", "a", "-A"],
    ] {
        assert_eq!(portcullis(command).status.code(), Some(2), "{command:?}");
    }
}

#[test]
fn an_api_server_that_is_not_reached_is_reported_in_one_message_of_our_own() {
    // A port without a listener.
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config");
    let kubeconfig = format!(
        "{{apiVersion: v1, kind: Config, current-context: gone, \
          clusters: [{{name: gone, cluster: {{server: 'https://{nobody}'}}}}], \
          users: [{{name: me, user: {{token: t}}}}], \
          contexts: [{{name: gone, context: {{cluster: gone, user: me}}}}]}}"
    );
    std::fs::write(&file, kubeconfig).unwrap();
    for command in ["check", "status", "authz"] {
        let mut portcullis = Command::new(env!("CARGO_BIN_EXE_portcullis"));
        portcullis.arg(command).arg("--kubeconfig").arg(&file).env_remove("PORTCULLIS_LOG");
        let output = portcullis.output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.starts_with("error: ") && said.contains(&nobody.to_string()), "{said}");
        assert_eq!(said.lines().count(), 1, "{command}: {said}");
    }
}

/// Nothing of these ports is refused, whatever policy says: no sidecar is there to do it.
#[test]
fn a_port_that_anybody_can_reach_is_never_shown_as_refused() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/check/unguarded");
    let mut command = Command::new(env!("CARGO_BIN_EXE_portcullis"));
    command.args(["authz", "-A", "-f"]).arg(&folder).stdin(Stdio::null());
    let text = String::from_utf8(command.output().unwrap().stdout).unwrap();
    let port = |number: u16| {
        let (_, after) = text.split_once(&format!("port {number}  ")).unwrap();
        after.lines().nth(1).unwrap_or_default().trim().to_owned()
    };
    let host =
        "the pod has hostNetwork: true; its connections cannot be distinguished from its node's";
    let skipped = "connections to it go around the sidecar, because skip-inbound-ports names it";
    assert_eq!(port(9100), format!("everybody: {host}"));
    assert_eq!(port(9104), format!("everybody: {skipped}"));
    assert!(text.contains(&format!("no sidecar: nothing of this holds: {host}")), "{text}");
    assert!(text.contains("the pod's os is windows"), "{text}");
    // The one port that a sidecar guards.
    assert_eq!(text.matches("every request to these ports is refused").count(), 1, "{text}");
}
