//! `portcullis why` and `portcullis tap` on what a real sidecar recorded, has in force and decides.

#![allow(
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test stops at the first surprise"
)]

mod sidecars {
    pub(crate) mod sidecar;
}

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Empty;
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use policy_enforce::record::{DecisionMode, OutboundRefusal};
use serde_json::{Value, json};
use sidecars::sidecar::{RealSidecar, answer_all, run_async};
use std::convert::Infallible;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Instant;
use tempfile::TempDir;
use tokio::net::TcpListener;

const SHOP: &str = "apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: v1
kind: Pod
metadata: {name: web-0, namespace: shop, labels: {app: web}}
spec: {containers: [{name: a, image: a, ports: [{name: http, containerPort: 8080}]}]}
---
apiVersion: policy.linkerd.io/v1beta3
kind: Server
metadata: {name: web, namespace: shop}
spec: {podSelector: {matchLabels: {app: web}}, port: 8080, proxyProtocol: HTTP/1}
---
apiVersion: policy.linkerd.io/v1alpha1
kind: NetworkAuthentication
metadata: {name: office, namespace: shop}
spec: {networks: [{cidr: NETWORK}]}
---
apiVersion: policy.linkerd.io/v1alpha1
kind: AuthorizationPolicy
metadata: {name: office-may-order, namespace: shop}
spec:
  targetRef: {group: policy.linkerd.io, kind: Server, name: web}
  requiredAuthenticationRefs:
  - {group: policy.linkerd.io, kind: NetworkAuthentication, name: office}
";

/// Manifests that admit the clients of a network.
fn admitting(folder: &TempDir, network: &str) -> PathBuf {
    let file = folder.path().join(format!("{}.yaml", network.replace(['.', '/'], "-")));
    fs::write(&file, SHOP.replace("NETWORK", network)).unwrap();
    file
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

async fn json_of(sidecar: &RealSidecar, arguments: &[&str]) -> Value {
    let arguments = [arguments, &["-o", "json"]].concat();
    let (code, out, errors) = sidecar.run(&arguments).await;
    assert_eq!(code, 0, "{arguments:?}: {errors}");
    serde_json::from_str(&out).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recorded_refusal_is_found_by_its_id_and_explained_by_the_objects_and_the_sidecar() {
    let folder = TempDir::new().unwrap();
    let closed = admitting(&folder, "10.0.0.0/8");
    let sidecar = RealSidecar::new(&closed, DecisionMode::Full).await;
    assert_eq!(sidecar.get("/orders?secret=1").await, 403);
    let report = json_of(&sidecar, &["why", "--last", "3", "-f", text(&closed)]).await;
    let [decision] = report["decisions"].as_array().unwrap().as_slice() else {
        panic!("{report:#}")
    };
    let recorded = &decision["recorded"];
    let facts = ["workload", "port", "decision", "reason", "subject", "method", "path", "count"];
    let facts: Vec<&Value> = facts.iter().map(|field| &recorded[*field]).collect();
    let expected =
        json!(["shop/web-0", 8080, "deny", "unauthorized", "127.0.0.0/24", "GET", "/orders", 1]);
    assert_eq!(json!(facts), expected);
    let answer = &decision["why"]["answers"][0];
    let cause = answer["causes"][0]["summary"].as_str().unwrap();
    let expected = "AuthorizationPolicy shop/office-may-order asks for an address in 10.0.0.0/8 (set by \
                    NetworkAuthentication shop/office); the client has 127.0.0.1";
    assert_eq!(cause, expected);
    let in_force = &answer["inForce"];
    let told = ["state", "revision", "decision", "reason", "differs"].map(|field| &in_force[field]);
    let expected = json!(["current", "0000000000000001", "deny", "unauthorized", false]);
    assert_eq!(json!(told), expected);
    assert_eq!(in_force["explanation"], answer["explanation"]);
    // The id is enough, and without objects the sidecar's own explanation is there.
    let id = recorded["id"].as_str().unwrap();
    let again = json_of(&sidecar, &["why", id, "-f", text(&closed)]).await;
    let mut again = again["decisions"][0]["recorded"].clone();
    let explained = again.as_object_mut().unwrap().remove("explanation").unwrap();
    assert_eq!((&again, &explained["asDecided"]), (recorded, &json!(true)));
    let (code, out, errors) = sidecar.run(&["why", id]).await;
    assert_eq!(code, 0, "{errors}");
    let first = out.lines().next().unwrap();
    assert!(first.starts_with("denied, unauthorized: AuthorizationPolicy shop/office"), "{out}");
    assert!(out.contains("the sidecar's own explanation"), "{out}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_in_force_and_what_was_recorded_come_first_where_the_objects_say_otherwise() {
    let folder = TempDir::new().unwrap();
    let (closed, open) = (admitting(&folder, "10.0.0.0/8"), admitting(&folder, "127.0.0.0/8"));
    let sidecar = RealSidecar::new(&closed, DecisionMode::Full).await;
    assert_eq!(sidecar.get("/orders").await, 403);
    let arguments = [
        "why",
        "-f",
        text(&open),
        "--from",
        "127.0.0.1",
        "--to",
        "shop/web-0:8080",
        "GET",
        "/orders",
    ];
    let (code, out, errors) = sidecar.run(&arguments).await;
    assert_eq!(code, 0, "{errors}");
    let mut lines = out.lines();
    let first = lines.next().unwrap();
    assert!(first.starts_with("in force otherwise: the sidecar of 127.0.0.1:"), "{out}");
    assert!(first.contains("decides denied, unauthorized (revision 0000000000000001"), "{out}");
    assert!(first.contains("shop/office-may-order asks for"), "{out}");
    assert!(lines.next().unwrap().starts_with("allowed: "), "{out}");
    // The sidecar follows, and the record is what was.
    sidecar.apply(&open, 2).await;
    let (code, out, errors) = sidecar.run(&["why", "--last", "1", "-f", text(&open)]).await;
    assert_eq!(code, 0, "{errors}");
    let mut lines = out.lines();
    let first = lines.next().unwrap();
    assert!(first.starts_with("recorded otherwise: it was denied, unauthorized"), "{out}");
    assert!(lines.next().unwrap().starts_with("allowed: "), "{out}");
    assert!(out.contains("not in force any more"), "{out}");
}

#[tokio::test(flavor = "multi_thread")]
async fn ids_that_are_not_there_say_since_when_the_record_reaches_back() {
    let folder = TempDir::new().unwrap();
    let closed = admitting(&folder, "10.0.0.0/8");
    let sidecar = RealSidecar::new(&closed, DecisionMode::Full).await;
    assert_eq!(sidecar.get("/orders").await, 403);
    let id = sidecar.decisions.groups()[0].id.to_string();
    let process = &id[4..5];
    let left = format!("kwy4{process}zzzzz");
    let other_process = if process == "0" { "1" } else { "0" };
    let restarted = format!("kwy4{other_process}00001");
    for (id, words) in [
        (left.as_str(), "its group has left the record, which reaches back to 20"),
        (&restarted, "the sidecar started again since, and records since 20"),
        ("0000000000", "it is the id of another pod"),
    ] {
        let (code, out, errors) = sidecar.run(&["why", id]).await;
        assert_eq!((code, out.as_str()), (1, ""), "{id}: {errors}");
        assert!(errors.contains(words), "{id}: {errors}");
    }
    let (code, _, errors) = sidecar.run(&["why", &left, "/path"]).await;
    assert_eq!(code, 2, "{errors}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_connection_of_the_workload_itself_is_explained_by_its_reason() {
    let folder = TempDir::new().unwrap();
    let closed = admitting(&folder, "10.0.0.0/8");
    let sidecar = RealSidecar::new(&closed, DecisionMode::Counts).await;
    let (namespace, name) = (Arc::from("bank"), Arc::from("ledger"));
    let address = Some("10.96.0.7:443".parse().unwrap());
    let service = Some((&namespace, &name));
    let refused = OutboundRefusal { service, address, reason: "identity" };
    let id = sidecar.decisions.outbound(&refused, Instant::now()).unwrap().to_string();
    let (code, out, errors) = sidecar.run(&["why", &id]).await;
    assert_eq!(code, 0, "{errors}");
    let first = out.lines().next().unwrap();
    assert!(first.starts_with("denied, identity: the sidecar of shop/web-0 refused"), "{out}");
    assert!(first.contains("certificate has expired, is of other roots"), "{out}");
    assert!(out.contains("connection of shop/web-0 to ledger.bank, port 443"), "{out}");
    // Counts alone have no request.
    assert_eq!(sidecar.get("/orders").await, 403);
    let (_, out, _) = sidecar.run(&["why", "--last", "1", "-f", text(&closed)]).await;
    assert!(out.contains("(--decisions=counts)") || out.contains("is not recorded"), "{out}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sidecar_of_the_version_before_is_named_as_one() {
    let folder = TempDir::new().unwrap();
    let closed = admitting(&folder, "10.0.0.0/8");
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let admin = listener.local_addr().unwrap().to_string();
    let old =
        "HTTP/1.1 404 Not Found\r\ncontent-length: 10\r\nconnection: close\r\n\r\nnot found\n";
    tokio::spawn(answer_all(listener, old));
    let question =
        ["why", "-f", text(&closed), "--from", "10.1.2.3", "--to", "shop/web-0:8080", "GET", "/"];
    let (code, out, errors) =
        run_async(&[&question[..], &["--admin-address", &admin]].concat()).await;
    assert_eq!(code, 0, "{errors}");
    assert!(
        out.contains("in force  not known") && out.contains("of a version that does not"),
        "{out}"
    );
    assert!(out.starts_with("allowed: "), "the objects are answered by: {out}");
    for arguments in [vec!["why", "kwy4000001"], vec!["why", "--last", "1"]] {
        let (code, _, errors) =
            run_async(&[&arguments[..], &["--admin-address", &admin]].concat()).await;
        assert_eq!(code, 1, "{errors}");
        assert!(errors.contains("of a version that does not record decisions"), "{errors}");
    }
    let (code, out, errors) = run_async(&["tap", "--admin-address", &admin]).await;
    assert_eq!((code, out.as_str()), (1, ""), "{errors}");
    assert!(errors.contains("of a version that does not stream decisions"), "{errors}");
}

/// Answers every call as a gRPC server that does not have it.
async fn serve_no_method(listener: TcpListener) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let answer = service_fn(|_: Request<Incoming>| async {
            let head = [("content-type", "application/grpc"), ("grpc-status", "12")];
            let head = head
                .iter()
                .fold(Response::builder(), |head, (name, value)| head.header(*name, *value));
            Ok::<_, Infallible>(head.body(Empty::<Bytes>::new()).unwrap())
        });
        let server = http2::Builder::new(TokioExecutor::new());
        tokio::spawn(server.serve_connection(TokioIo::new(stream), answer));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_controller_that_does_not_know_what_is_refused_is_named_as_one() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(serve_no_method(listener));
    let (code, out, errors) = run_async(&["denied", "-A", "--controller", &address]).await;
    assert_eq!((code, out.as_str()), (1, ""), "{errors}");
    let words = "it is of a version that does not know what sidecars refuse";
    assert!(errors.contains(words), "{errors}");
    // Nobody listens any more.
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().to_string();
    let (code, out, errors) = run_async(&["denied", "-A", "--controller", &free]).await;
    assert_eq!((code, out.as_str()), (1, ""), "{errors}");
    assert!(errors.contains(&format!("cannot connect to the controller at `{free}`")), "{errors}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_is_explained_and_its_broken_lines_are_counted() {
    let folder = TempDir::new().unwrap();
    let closed = admitting(&folder, "10.0.0.0/8");
    let line = |pod: &str, path: &str| {
        json!({
            "client.addr": "192.168.7.7:40112", "client.id": "-", "timestamp": "2026-01-01T00:00:00Z",
            "method": "GET", "uri": path, "host": "web", "workload": pod, "port": 8080,
            "verdict": "deny", "reason": "unauthorized",
        })
        .to_string()
    };
    let log = [
        line("shop/web-7d9f8c6b5-x2x4z", "/a?b=1"),
        line("shop/web-7d9f8c6b5-x2x4z", "/a?b=1"),
        "{\"client.addr\":\"192.16".to_owned(),
        line("shop/elsewhere", "/b"),
        "[proxy] started".to_owned(),
    ]
    .join("\n");
    let file = folder.path().join("sidecar.log");
    fs::write(&file, &log).unwrap();
    let question = ["why", "-f", text(&closed), "--log", text(&file)];
    let (code, out, errors) = run_async(&question).await;
    assert_eq!(code, 0, "{errors}");
    let first = out.lines().next().unwrap();
    assert!(first.contains("asks for an address in 10.0.0.0/8"), "{out}");
    assert!(out.contains("2 requests of 192.168.7.7 to shop/web-7d9f8c6b5-x2x4z"), "{out}");
    assert!(out.contains("shop/web-0 stands in its place"), "{out}");
    assert!(out.contains("there is no workload shop/elsewhere"), "{out}");
    assert!(
        errors.contains("of 5 lines: 1 lines begin as those of a sidecar and cannot"),
        "{errors}"
    );
    // The same from standard input, as JSON.
    let mut command = Command::new(env!("CARGO_BIN_EXE_portcullis"));
    let mut child = command
        .args(["why", "-f", text(&closed), "--log", "-", "--last", "1", "-o", "json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(log.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["decisions"].as_array().unwrap().len(), 1);
    assert_eq!(report["decisions"][0]["recorded"]["count"], 2);
    let problems = report["problems"].to_string();
    assert!(problems.contains("1 further kinds of refusals"), "{problems}");
}

#[tokio::test(flavor = "multi_thread")]
async fn tap_shows_decisions_as_a_table_and_as_lines_and_says_what_it_left_out() {
    let folder = TempDir::new().unwrap();
    let closed = admitting(&folder, "10.0.0.0/8");
    let sidecar = RealSidecar::new(&closed, DecisionMode::Full).await;
    let tapped = async |arguments: &[&str]| {
        let run = sidecar.run(arguments);
        let load = async {
            loop {
                sidecar.get("/orders?secret=1").await;
            }
        };
        tokio::select! {
            run = run => run,
            () = load => unreachable!("the load has no end"),
        }
    };
    let (code, out, errors) = tapped(&["tap", "--limit", "2", "--decision", "deny"]).await;
    assert_eq!(code, 0, "{errors}");
    let rows: Vec<Vec<&str>> = out.lines().map(|line| line.split_whitespace().collect()).collect();
    let [header, rows @ ..] = rows.as_slice() else { panic!("{out}") };
    assert_eq!(header[..2], ["TIME", "DECISION"]);
    assert_eq!(rows.len(), 2, "{out}");
    for row in rows {
        assert_eq!(row[1], "deny", "{out}");
        assert_eq!(row[4..7], ["GET", "/orders", "403"], "{out}");
        assert_eq!(row[7], "reason=unauthorized", "{out}");
    }
    // More than one a second comes, and one is shown.
    let arguments = ["tap", "--limit", "3", "--rate", "1", "-o", "json"];
    let (code, out, errors) = tapped(&arguments).await;
    assert_eq!(code, 0, "{errors}");
    let lines: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 3, "{out}");
    for line in &lines {
        let facts = ["workload", "side", "decision", "reason"].map(|field| &line[field]);
        assert_eq!(json!(facts), json!(["shop/web-0", "inbound", "deny", "unauthorized"]));
        assert_eq!(line["request"]["path"], "/orders");
        assert_eq!(line["sidecar"], sidecar.admin.to_string());
    }
    assert!(errors.contains("more decisions were left out"), "{errors}");
}
