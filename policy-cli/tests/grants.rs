//! Golden tests of `grants` on the manifests of `tests/check/references`.
//! `PORTCULLIS_WRITE_CHECK=1 cargo test -p policy-cli --test grants` rewrites them.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/check")
}

/// `portcullis grants` on a file or directory of `tests/check`.
fn grants(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_portcullis"));
    command.current_dir(folder()).arg("grants").args(arguments).stdin(Stdio::null());
    command.env("KUBECONFIG", "/nonexistent").output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn report(arguments: &[&str]) -> Value {
    let output = grants(&[arguments, &["-o", "json"]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn every_entry_is_shown_with_the_references_that_use_it() {
    let output = grants(&["-f", "references"]);
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
    let path = folder().join("references/grants.txt");
    if std::env::var_os("PORTCULLIS_WRITE_CHECK").is_some() {
        std::fs::write(&path, &output.stdout).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(text(&output.stdout), expected, "{} differs", path.display());
}

#[test]
fn programs_read_the_use_of_each_entry_and_the_grant_that_is_missing() {
    let report = report(&["-f", "references", "-n", "infra"]);
    let usages: Vec<(&str, &str)> = report["grants"]
        .as_array()
        .unwrap()
        .iter()
        .map(|grant| {
            let text = |value: &'static str| grant[value].as_str().unwrap();
            (text("name"), grant["entries"][0]["usage"].as_str().unwrap())
        })
        .collect();
    let expected = [
        ("backends", "notKnown"),
        ("callers", "used"),
        ("forgotten", "unused"),
        ("offered", "unused"),
        ("routes", "used"),
    ];
    assert_eq!(usages, expected, "{report:#}");
    let named = |kind: &str, namespace: &str, name: &str| json!({"group": "policy.linkerd.io", "kind": kind, "namespace": namespace, "name": name});
    let route = json!({
        "object": named("HTTPRoute", "team", "api"), "field": "spec.parentRefs",
        "names": named("Server", "infra", "web"),
    });
    assert_eq!(report["grants"][4]["entries"][0]["references"], json!([route]));
    // Those of team that lead elsewhere are not about infra.
    assert_eq!(report["withoutGrant"], json!([]));
    let team = self::report(&["-f", "references", "-n", "team"]);
    assert_eq!(team["grants"], json!([]));
    let auditors = named("MeshTLSAuthentication", "security", "auditors");
    let missing = &team["withoutGrant"][0];
    assert_eq!((&missing["names"], &missing["followed"]), (&auditors, &json!("refused")));
}

/// The manifest is one that this program reads, and it permits what was refused.
#[test]
fn the_grant_that_is_printed_permits_the_reference() {
    let missing = report(&["-f", "references"])["withoutGrant"][0]["grant"].clone();
    let copy = tempfile::tempdir().unwrap();
    for file in ["infra.yaml", "team.yaml"] {
        std::fs::copy(folder().join("references").join(file), copy.path().join(file)).unwrap();
    }
    std::fs::write(copy.path().join("grant.json"), missing.to_string()).unwrap();
    let after = report(&["-f", copy.path().to_str().unwrap()]);
    assert_eq!(after["withoutGrant"], json!([]), "{after:#}");
    let grants = after["grants"].as_array().unwrap();
    let added = grants.iter().find(|grant| grant["namespace"] == "security").unwrap();
    assert_eq!(added["name"], "authorizationpolicies-of-team-to-auditors");
    let user = &added["entries"][0]["references"][0];
    assert_eq!(user["object"]["name"], "audit");
    assert_eq!(user["problem"], "does not exist", "the authentication itself is missing");
}

#[test]
fn an_invalid_grant_says_why_it_permits_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let grant = "apiVersion: gateway.networking.k8s.io/v1\nkind: ReferenceGrant\n\
                 metadata: {name: g, namespace: auth}\nspec:\n\
                 \x20 from: [{group: policy.linkerd.io, kind: AuthorizationPolicy, namespace: '*'}]\n\
                 \x20 to: [{group: policy.linkerd.io, kind: MeshTLSAuthentication}]\n";
    std::fs::write(folder.path().join("grant.yaml"), grant).unwrap();
    let path = folder.path().to_str().unwrap();
    let error = "spec.from[0].namespace: `*` is not a namespace, each namespace needs an entry";
    assert_eq!(report(&["-f", path])["grants"][0]["errors"], json!([error]));
    let table = text(&grants(&["-f", path]).stdout);
    assert!(table.contains(&format!("invalid, permits nothing: {error}")), "{table}");
}

#[test]
fn nothing_to_show_is_no_failure_and_wrong_input_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    assert_eq!(grants(&["-f", path]).status.code(), Some(1), "nothing was read");
    std::fs::write(
        folder.path().join("a.yaml"),
        "{apiVersion: v1, kind: Namespace, metadata: {name: a}}",
    )
    .unwrap();
    let output = grants(&["-f", path]);
    assert_eq!(output.status.code(), Some(0));
    assert!(text(&output.stdout).ends_with("no ReferenceGrant\n"), "{}", text(&output.stdout));
    assert_eq!(grants(&["-f", "does-not-exist"]).status.code(), Some(1));
    assert_eq!(grants(&["-n", "Not a namespace"]).status.code(), Some(2));
    assert_eq!(grants(&["-n", "a", "-A"]).status.code(), Some(2));
    let output = grants(&["-A"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("no cluster is"), "{}", text(&output.stderr));
}

/// Delegations by name and by label, with and without the consent of the child.
const DELEGATIONS: &str = "
apiVersion: portcullis.dev/v1alpha1
kind: InboundRoute
metadata: {name: www, namespace: site}
spec:
  virtualhost: {fqdn: www.example.com}
  routes:
  - {match: /named, delegate: {name: willing, namespace: team}}
  - {match: /other, delegate: {name: unwilling, namespace: team}}
  - {match: /selected, delegate: {selector: {matchLabels: {part: selected}}, namespace: picks}}
---
apiVersion: portcullis.dev/v1alpha1
kind: InboundRoute
metadata: {name: lost, namespace: site}
spec:
  delegatedFrom: [{fqdn: www.example.com}]
  routes: [{match: /lost, delegate: {name: picked, namespace: picks}}]
---
apiVersion: portcullis.dev/v1alpha1
kind: InboundRoute
metadata: {name: willing, namespace: team}
spec:
  delegatedFrom: [{fqdn: www.example.com}]
  routes: [{match: /named, servers: [{name: web}]}]
---
apiVersion: portcullis.dev/v1alpha1
kind: InboundRoute
metadata: {name: unwilling, namespace: team}
spec:
  delegatedFrom: [{fqdn: elsewhere.example.com}]
  routes: [{match: /other, servers: [{name: web}]}]
---
apiVersion: portcullis.dev/v1alpha1
kind: InboundRoute
metadata: {name: picked, namespace: picks, labels: {part: selected}}
spec:
  delegatedFrom: [{fqdn: www.example.com}]
  routes: [{match: /selected, servers: [{name: web}]}]
---
apiVersion: gateway.networking.k8s.io/v1beta1
kind: ReferenceGrant
metadata: {name: site, namespace: team}
spec:
  from: [{group: portcullis.dev, kind: InboundRoute, namespace: site}]
  to:
  - {group: portcullis.dev, kind: InboundRoute, name: willing}
  - {group: portcullis.dev, kind: InboundRoute, name: unwilling}
  - {group: portcullis.dev, kind: InboundRoute, name: nobody}
---
apiVersion: gateway.networking.k8s.io/v1beta1
kind: ReferenceGrant
metadata: {name: site, namespace: picks}
spec:
  from: [{group: portcullis.dev, kind: InboundRoute, namespace: site}]
  to: [{group: portcullis.dev, kind: InboundRoute}]
";

#[test]
fn delegations_are_uses_of_a_grant_and_say_who_does_not_consent() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("all.yaml"), DELEGATIONS).unwrap();
    let report = report(&["-f", directory.path().to_str().unwrap(), "-A"]);
    let uses = |grant: usize, entry: usize| -> (Value, Vec<Value>) {
        let entry = &report["grants"][grant]["entries"][entry];
        let of = |one: &Value| json!([one["object"]["name"], one["names"]["name"], one["problem"]]);
        let found = entry["references"].as_array().unwrap().iter().map(of).collect();
        (entry["usage"].clone(), found)
    };
    let unreached = "takes no effect: no tree of a root has the rule of InboundRoute site/lost";
    let expected = vec![json!(["lost", "picked", unreached]), json!(["www", "picked", null])];
    assert_eq!(uses(0, 0), (json!("used"), expected), "by label, too: {report:#}");
    assert_eq!(uses(1, 0), (json!("used"), vec![json!(["www", "willing", null])]));
    let expected = vec![json!(["www", "unwilling", "does not consent"])];
    assert_eq!(uses(1, 1), (json!("used"), expected));
    assert_eq!(uses(1, 2), (json!("unused"), vec![]));
}
