//! `portcullis edges` as people run it, against an API server that knows two namespaces with pods.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use policy_enforce::telemetry::{OutboundTarget, OutboundTls, Telemetry};
use serde_json::{Value, json};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::process::Command;

/// The metrics of a sidecar whose pod talks to `cart`, to the outside, and in vain to `gone`.
fn metrics() -> String {
    let telemetry = Telemetry::new(1);
    let target = |service: &str, owner: &str| OutboundTarget {
        namespace: "shop".into(),
        service: service.into(),
        port: NonZeroU16::new(80),
        owner: owner.into(),
    };
    let mesh = OutboundTls::Mesh("cart.shop.id".into());
    let cart = target("cart", "deployment/cart");
    let meter = telemetry.outbound(cart.clone(), mesh.clone(), 0);
    meter.passed(1500, 20);
    drop(meter);
    let outside = OutboundTls::Plaintext("external");
    drop(telemetry.outbound(OutboundTarget::default(), outside, 0));
    telemetry.outbound_refused(target("gone", ""), "no_endpoint");
    telemetry.outbound_failed(cart, "connect");
    telemetry.encode(&[]).unwrap()
}

/// A pod of a workload, given as `(namespace, owner)`, with a sidecar whose mark says what it carries.
fn pod((namespace, owner): (&str, &str), name: &str, mark: Option<&str>) -> Value {
    let mark = mark.map(|outbound| {
        json!({
            "version": "0.1.0", "inboundPort": 4143, "outbound": outbound,
            "identity": "web.shop.id", "capture": "init-container",
        })
        .to_string()
    });
    let annotations = mark.map(|mark| json!({"portcullis.dev/sidecar": mark}));
    let owners = json!([{
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": format!("{owner}-1"), "uid": "u",
        "controller": true,
    }]);
    json!({
        "metadata": {
            "name": name, "namespace": namespace, "annotations": annotations,
            "ownerReferences": owners, "labels": {"pod-template-hash": "1"},
        },
        "spec": {"containers": [{"name": "app"}]},
        "status": {"phase": "Running"},
    })
}

/// What the API server answers: status, content type, body.
fn answer(path: &str) -> (u16, &'static str, String) {
    let list = |items: Value| json!({"metadata": {}, "items": items}).to_string();
    let owned = json!([{"metadata": {
        "name": "web-1", "ownerReferences": [{"kind": "Deployment", "name": "web"}],
    }}]);
    let of_shop = [
        pod(("shop", "web"), "web-1-c", None),
        pod(("shop", "web"), "web-1-a", Some("on")),
        pod(("shop", "web"), "web-1-b", Some("mesh-only")),
        pod(("shop", "web"), "web-1-d", Some("none")),
    ];
    let of_bank = [
        pod(("bank", "till"), "till-1-a", Some("on")),
        pod(("bank", "till"), "till-1-b", Some("on")),
        pod(("bank", "vault"), "vault-1-a", None),
    ];
    let text = "text/plain";
    match path {
        "/api/v1/pods" => {
            (200, "application/json", list(json!([of_shop.as_slice(), &of_bank].concat())))
        }
        "/api/v1/namespaces/bank/pods/till-1-a:4191/proxy/metrics"
        | "/api/v1/namespaces/bank/pods/till-1-b:4191/proxy/metrics" => (200, text, metrics()),
        "/api/v1/namespaces/empty/pods" => (200, "application/json", list(json!([]))),
        "/apis/apps/v1/namespaces/shop/replicasets" => (200, "application/json", list(owned)),
        "/api/v1/namespaces/shop/pods" => (200, "application/json", list(json!(of_shop))),
        "/api/v1/namespaces/shop/pods/web-1-a:4191/proxy/metrics" => (200, "text/plain", metrics()),
        "/api/v1/namespaces/shop/pods/web-1-b:4191/proxy/metrics" => {
            (403, "text/plain", String::new())
        }
        _ => {
            let status = json!({
                "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404,
                "reason": "NotFound", "message": "nothing here",
            });
            (404, "application/json", status.to_string())
        }
    }
}

async fn respond(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let (status, kind, body) = answer(request.uri().path());
    let response = Response::builder().status(status).header("content-type", kind);
    Ok(response.body(Full::new(body.into())).unwrap())
}

/// Starts the API server. It ends with the test.
fn api_server() -> SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    listener.set_nonblocking(true).unwrap();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            while let Ok((stream, _)) = listener.accept().await {
                let http = hyper::server::conn::http1::Builder::new();
                tokio::spawn(http.serve_connection(TokioIo::new(stream), service_fn(respond)));
            }
        });
    });
    address
}

fn edges(arguments: &[&str]) -> (i32, String, String) {
    portcullis("edges", arguments)
}

/// Runs a command with these arguments: the exit code, standard output with the server's name for its
/// address, and standard error.
fn portcullis(command: &str, arguments: &[&str]) -> (i32, String, String) {
    let server = format!("http://{}", api_server());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config");
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "test",
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "test", "context": {"cluster": "c", "user": "u", "namespace": "shop"}}],
    });
    std::fs::write(&file, config.to_string()).unwrap();
    let mut program = Command::new(env!("CARGO_BIN_EXE_portcullis"));
    program.arg(command).arg("--kubeconfig").arg(&file).args(arguments);
    let output = program.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap().replace(&server, "SERVER");
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

const TABLES: &str = "\
context test at SERVER, namespace shop

Deployment shop/web as web.shop.id
1 of 4 pods answer
not known of pod web-1-b: its sidecar answers /metrics with HTTP status 403
not known of pod web-1-c: it has no sidecar with an outbound half
not known of pod web-1-d: its sidecar has no outbound half

TO                      PODS OF          TLS           IDENTITY      OPEN  OPENED  SENT    RECEIVED
outside of the cluster  -                no: external  -             0     1       0 B     0 B
cart.shop:80            deployment/cart  yes           cart.shop.id  0     1       1.5 kB  20 B

Refused and failed
TO            PODS OF          REASON       REFUSED  ATTEMPTS FAILED
cart.shop:80  deployment/cart  connect      0        1
gone.shop:80  -                no_endpoint  1        0
";

#[test]
fn a_workloads_connections_are_a_table_for_people() {
    assert_eq!(edges(&["deploy/web"]), (0, TABLES.to_owned(), String::new()));
}

const NAMESPACE: &str = "\
context test at SERVER, namespace shop

1 of 4 pods answer
not known of pod web-1-c: it has no sidecar with an outbound half
not known of pod web-1-b: its sidecar answers /metrics with HTTP status 403
not known of pod web-1-d: its sidecar has no outbound half

FROM            TO                      PODS OF          TLS           IDENTITY      OPEN  OPENED  SENT    RECEIVED
deployment/web  outside of the cluster  -                no: external  -             0     1       0 B     0 B
deployment/web  cart.shop:80            deployment/cart  yes           cart.shop.id  0     1       1.5 kB  20 B

Refused and failed
FROM            TO            PODS OF          REASON       REFUSED  ATTEMPTS FAILED
deployment/web  cart.shop:80  deployment/cart  connect      0        1
deployment/web  gone.shop:80  -                no_endpoint  1        0
";

#[test]
fn the_connections_of_a_namespace_are_one_table_and_name_what_they_lack() {
    assert_eq!(edges(&[]), (0, NAMESPACE.to_owned(), String::new()));
}

const CLUSTER: &str = "\
context test at SERVER, all namespaces

3 of 7 pods answer
not known of 2 pods: it has no sidecar with an outbound half (bank/vault-1-a, shop/web-1-c)
not known of pod shop/web-1-b: its sidecar answers /metrics with HTTP status 403
not known of pod shop/web-1-d: its sidecar has no outbound half

FROM                  TO                      PODS OF          TLS           IDENTITY      OPEN  OPENED  SENT    RECEIVED
bank/deployment/till  outside of the cluster  -                no: external  -             0     2       0 B     0 B
bank/deployment/till  cart.shop:80            deployment/cart  yes           cart.shop.id  0     2       3.0 kB  40 B
shop/deployment/web   outside of the cluster  -                no: external  -             0     1       0 B     0 B
shop/deployment/web   cart.shop:80            deployment/cart  yes           cart.shop.id  0     1       1.5 kB  20 B

Refused and failed
FROM                  TO            PODS OF          REASON       REFUSED  ATTEMPTS FAILED
bank/deployment/till  cart.shop:80  deployment/cart  connect      0        2
bank/deployment/till  gone.shop:80  -                no_endpoint  2        0
shop/deployment/web   cart.shop:80  deployment/cart  connect      0        1
shop/deployment/web   gone.shop:80  -                no_endpoint  1        0
";

#[test]
fn the_connections_of_a_cluster_are_summed_up_by_workload() {
    assert_eq!(edges(&["-A"]), (0, CLUSTER.to_owned(), String::new()));
}

#[test]
fn a_kind_alone_names_the_pods_that_its_objects_make() {
    for (kind, words) in [("deploy", "any Deployment"), ("rs", "any ReplicaSet")] {
        let expected = TABLES.replace("Deployment shop/web", words);
        assert_eq!(edges(&[kind]), (0, expected, String::new()), "{kind}");
    }
    let none = "error: no pod of any Job was found in context test at SERVER, namespace shop\n";
    assert_eq!(edges(&["job"]), (1, String::new(), none.to_owned()));
}

#[test]
fn a_workload_is_in_one_namespace_and_an_empty_namespace_is_no_answer() {
    let wrong = "error: a workload is in one namespace: name it with -n instead of -A\n";
    for command in ["edges", "tap"] {
        let answer = portcullis(command, &["-A", "deploy/web"]);
        assert_eq!(answer, (2, String::new(), wrong.to_owned()), "{command}");
    }
    let none = "error: no pod was found in context test at SERVER, namespace empty\n";
    assert_eq!(edges(&["-n", "empty"]), (1, String::new(), none.to_owned()));
}

#[test]
fn programs_get_the_workload_of_each_connection_and_whether_all_is_known() {
    let (code, out, _) = edges(&["-A", "-o", "json"]);
    let report: Value = serde_json::from_str(&out).unwrap();
    let seen = |list: &str, field: &str| {
        report[list].as_array().unwrap().iter().map(|it| it[field].clone()).collect::<Vec<_>>()
    };
    assert_eq!((code, &report["workload"], &report["complete"]), (0, &json!(null), &json!(false)));
    let [till, web] = [("bank", "deployment/till"), ("shop", "deployment/web")]
        .map(|(namespace, owner)| json!({"namespace": namespace, "owner": owner}));
    assert_eq!(seen("edges", "from"), [&till, &till, &web, &web].map(Clone::clone));
    assert_eq!(seen("edges", "opened"), [2, 2, 1, 1]);
    assert_eq!(seen("failures", "from"), [&till, &till, &web, &web].map(Clone::clone));
    let pods = ["till-1-a", "till-1-b", "vault-1-a", "web-1-a", "web-1-b", "web-1-c", "web-1-d"];
    assert_eq!(seen("pods", "name"), pods);
}

#[test]
fn programs_get_whole_numbers_and_every_pod() {
    let (code, out, _) = edges(&["pod/web-1-a", "-o", "json"]);
    let from = json!({"namespace": "shop", "owner": "pod/web-1-a"});
    let expected = json!({
        "asked": {
            "directory": null, "controller": null, "context": "test", "server": "SERVER",
            "namespace": "shop",
        },
        "workload": "Pod shop/web-1-a",
        "complete": true,
        "pods": [{"namespace": "shop", "name": "web-1-a", "identity": "web.shop.id", "outbound": "on", "problem": null}],
        "edges": [
            {
                "from": from, "namespace": null, "service": null, "port": null, "owner": null, "tls": false,
                "identity": null, "reason": "external", "opened": 1, "closed": 1, "sent": 0,
                "received": 0,
            },
            {
                "from": from, "namespace": "shop", "service": "cart", "port": 80, "owner": "deployment/cart",
                "tls": true, "identity": "cart.shop.id", "reason": null, "opened": 1, "closed": 1,
                "sent": 1500, "received": 20,
            },
        ],
        "failures": [
            {
                "from": from, "namespace": "shop", "service": "cart", "port": 80, "owner": "deployment/cart",
                "reason": "connect", "refused": 0, "attempts": 1,
            },
            {
                "from": from, "namespace": "shop", "service": "gone", "port": 80, "owner": null,
                "reason": "no_endpoint", "refused": 1, "attempts": 0,
            },
        ],
    });
    assert_eq!((code, serde_json::from_str::<Value>(&out).unwrap()), (0, expected));
}

#[test]
fn where_nothing_is_known_the_command_fails() {
    let (code, out, _) = edges(&["pod/web-1-d"]);
    let expected = "\
context test at SERVER, namespace shop

Pod shop/web-1-d
0 of 1 pods answer
not known of pod web-1-d: its sidecar has no outbound half
";
    assert_eq!((code, out.as_str()), (1, expected));
    let (code, out, error) = edges(&["pod/web-1"]);
    let there = "there is no Pod web-1 in context test at SERVER, namespace shop; is it web-1-c?";
    assert_eq!((code, out.as_str(), error.as_str()), (1, "", &*format!("error: {there}\n")));
}
