//! The examples' expectations hold.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "a test fails by panicking"
)]

use policy_cli::expect::{run_evaluator, run_pipeline};
use std::path::{Path, PathBuf};

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples").join(name)
}

fn holds_for_the_evaluator(name: &str) {
    let directory = example(name);
    let report = run_evaluator(&directory, &directory.join("expectations.yaml")).unwrap();
    assert!(report.is_as_expected(), "{report}");
}

#[test]
fn emojivoto_is_as_expected_by_the_evaluator() {
    holds_for_the_evaluator("emojivoto");
}

#[test]
fn audit_mode_is_as_expected_by_the_evaluator() {
    holds_for_the_evaluator("audit-mode");
}

#[test]
fn per_route_is_as_expected_by_the_evaluator() {
    holds_for_the_evaluator("per-route");
}

#[test]
fn shop_is_as_expected_by_the_evaluator() {
    holds_for_the_evaluator("shop");
}

#[test]
fn delegation_is_as_expected_by_the_evaluator() {
    holds_for_the_evaluator("delegation");
}

/// A Server for everybody, with a policy that looks at headers as the application may not see them.
const HEADERS: &str = "
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop, labels: {app: web}}
spec: {serviceAccountName: web, containers: [{name: app, image: app, ports: [{containerPort: 8080}]}]}
---
apiVersion: policy.linkerd.io/v1beta3
kind: Server
metadata: {name: web, namespace: shop}
spec: {podSelector: {matchLabels: {app: web}}, port: 8080, accessPolicy: all-unauthenticated}
---
apiVersion: portcullis.dev/v1alpha1
kind: HeaderRewritePolicy
metadata: {name: web, namespace: shop}
spec:
  targetRef: {kind: Server, name: web}
  rules:
  - match: [{header: {key: cookie, op: In, values: ['a=1; b=2']}}]
    set: {x-cookie: joined}
  - match: [{header: {key: x-hop, op: Exists}}]
    set: {x-seen: hop}
";

const REQUESTS: &str = "
requests:
- name: cookies are joined, and what concerns the connection is gone
  from: {}
  to: shop/web:8080
  http: GET /
  headers: {cookie: [a=1, b=2], connection: x-hop, x-hop: '1'}
  decision: allow
  received: {headers: {x-cookie: joined, x-seen: null, x-hop: null, cookie: a=1; b=2}}
- name: what concerns the stream alone stays
  from: {}
  to: shop/web:8080
  http: GET /
  headers: {cookie: [a=1, b=3], x-hop: '1'}
  decision: allow
  received: {headers: {x-cookie: null, x-seen: hop, x-hop: '1', cookie: a=1; b=3}}
";

/// Folder with manifests and requests.
fn written(manifests: &str, requests: &str) -> (tempfile::TempDir, PathBuf, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("manifests");
    std::fs::create_dir(&directory).unwrap();
    std::fs::write(directory.join("all.yaml"), manifests).unwrap();
    let expectations = folder.path().join("requests.yaml");
    std::fs::write(&expectations, requests).unwrap();
    (folder, directory, expectations)
}

#[tokio::test]
async fn the_evaluator_sees_headers_as_the_sidecar_does() {
    let (_folder, manifests, requests) = written(HEADERS, REQUESTS);
    let report = run_evaluator(&manifests, &requests).unwrap();
    assert!(report.is_as_expected(), "{report}");
    let report = run_pipeline(&manifests, &requests).await.unwrap();
    assert!(report.is_as_expected(), "{report}");
}

#[test]
fn the_evaluator_expects_no_arrival_of_what_an_effect_answers() {
    let invalid = HEADERS.replace("rules:", "failure: Deny\n  rules:\n  - {clear: [host]}");
    let (_folder, manifests, requests) = written(&invalid, REQUESTS);
    let report = run_evaluator(&manifests, &requests).unwrap().to_string();
    let expected = "the application receives nothing: HeaderRewritePolicy shop/web answers";
    assert_eq!(report.matches(expected).count(), 2, "{report}");
}

async fn holds_in_the_pipeline(name: &str) {
    let directory = example(name);
    let report = run_pipeline(&directory, &directory.join("expectations.yaml")).await.unwrap();
    assert!(report.is_as_expected(), "{report}");
}

#[tokio::test]
async fn emojivoto_is_as_expected_in_the_pipeline() {
    holds_in_the_pipeline("emojivoto").await;
}

#[tokio::test]
async fn audit_mode_is_as_expected_in_the_pipeline() {
    holds_in_the_pipeline("audit-mode").await;
}

#[tokio::test]
async fn per_route_is_as_expected_in_the_pipeline() {
    holds_in_the_pipeline("per-route").await;
}

#[tokio::test]
async fn shop_is_as_expected_in_the_pipeline() {
    holds_in_the_pipeline("shop").await;
}

#[tokio::test]
async fn delegation_is_as_expected_in_the_pipeline() {
    holds_in_the_pipeline("delegation").await;
}

#[test]
fn every_example_has_expectations_and_reads_without_complaint() {
    let examples = std::fs::read_dir(example("")).unwrap();
    let mut count = 0;
    for entry in examples.map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()) {
        assert!(entry.join("expectations.yaml").is_file(), "{}", entry.display());
        let limits = policy_engine::config::Limits::default();
        let loaded = policy_engine::source::directory::load(&entry, limits).unwrap();
        assert!(loaded.diagnostics.is_empty(), "{}", loaded.diagnostics[0]);
        count += 1;
    }
    assert!(count >= 4, "{count} examples");
}

/// The audit-mode example with every expectation inverted.
fn contrary(directory: &Path) -> PathBuf {
    let text = std::fs::read_to_string(example("audit-mode").join("expectations.yaml")).unwrap();
    let text = text.replace("decision: allow", "decision: deny\n  reason: unauthorized");
    let file = directory.join("contrary.yaml");
    std::fs::write(&file, text.replace("decision: audit", "decision: allow")).unwrap();
    file
}

#[tokio::test]
async fn what_is_not_as_expected_is_reported_by_both_runners() {
    let directory = tempfile::tempdir().unwrap();
    let file = contrary(directory.path());
    let evaluator = run_evaluator(&example("audit-mode"), &file).unwrap();
    let pipeline = run_pipeline(&example("audit-mode"), &file).await.unwrap();
    for report in [evaluator, pipeline] {
        assert!(report.cases.iter().all(|case| !case.differences.is_empty()), "{report}");
        let text = report.to_string();
        let expected = "`the storefront is authorized`: decision is allow, expected deny";
        assert!(text.contains(expected), "{text}");
    }
}

const TLS_SERVER: &str = "apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop, labels: {app: web}}
spec:
  containers:
  - name: app
    ports: [{name: https, containerPort: 8443}, {name: any, containerPort: 9000}]
---
apiVersion: policy.linkerd.io/v1beta3
kind: Server
metadata: {name: web, namespace: shop}
spec:
  podSelector: {matchLabels: {app: web}}
  port: https
  proxyProtocol: TLS
  accessPolicy: cluster-unauthenticated
";

const TLS_REQUESTS: &str = "requests:
- name: the application's own TLS passes
  from: {address: 10.1.2.3, tls: passthrough}
  to: shop/web:8443
  tcp: true
  decision: allow
- name: also where HTTP is inside, which nobody reads
  from: {address: 10.1.2.3, tls: passthrough}
  to: shop/web:8443
  http: GET /
  decision: allow
- name: not from elsewhere
  from: {address: 203.0.113.9, tls: passthrough}
  to: shop/web:8443
  tcp: true
  decision: deny
  reason: unauthorized
- name: nor without TLS
  from: {address: 10.1.2.3}
  to: shop/web:8443
  tcp: true
  decision: deny
  reason: tls_required
- name: a port that detects passes it too
  from: {address: 203.0.113.9, tls: passthrough}
  to: shop/web:9000
  http: GET /
  decision: allow
  authorization: default all-unauthenticated
";

#[tokio::test]
async fn tls_for_the_application_is_passed_through_to_it() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("web.yaml"), TLS_SERVER).unwrap();
    let file = directory.path().join("expectations.yaml");
    std::fs::write(&file, TLS_REQUESTS).unwrap();
    let evaluator = run_evaluator(directory.path(), &file).unwrap();
    assert!(evaluator.is_as_expected(), "{evaluator}");
    let pipeline = run_pipeline(directory.path(), &file).await.unwrap();
    assert!(pipeline.is_as_expected(), "{pipeline}");
}
