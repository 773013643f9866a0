//! Golden tests of `routes` on the manifests of `tests/routes`, which have a rule for each effect.
//! `PORTCULLIS_WRITE_CHECK=1 cargo test -p policy-cli --test routes` rewrites them.

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
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests")
}

/// `portcullis routes` with these arguments, without a cluster.
fn routes(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_portcullis"));
    command.current_dir(folder()).arg("routes").args(arguments).stdin(Stdio::null());
    command.env("KUBECONFIG", "/nonexistent").output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Compares the output with a file.
#[track_caller]
fn golden(name: &str, arguments: &[&str]) {
    let output = routes(arguments);
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
    let path = folder().join("routes").join(name);
    if std::env::var_os("PORTCULLIS_WRITE_CHECK").is_some() {
        std::fs::write(&path, &output.stdout).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(text(&output.stdout), expected, "{} differs", path.display());
}

fn report(arguments: &[&str]) -> Value {
    let output = routes(&[arguments, &["-o", "json"]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The rule of a path among those of an object.
#[track_caller]
fn rule<'v>(object: &'v Value, path: &str) -> &'v Value {
    let rules = object["rules"].as_array().unwrap();
    rules.iter().find(|rule| rule["path"] == path).unwrap()
}

#[test]
fn the_tree_of_a_host_says_what_each_rule_does() {
    golden("tree.txt", &["-f", "routes", "www.google.com"]);
    golden("tree.mmd", &["-f", "routes", "www.google.com", "-o", "mermaid"]);
}

#[test]
fn an_alias_that_children_do_not_consent_to_is_denied_there() {
    golden("alias.txt", &["-f", "routes", "google.com"]);
}

#[test]
fn all_hosts_are_a_table_with_their_owners() {
    golden("hosts.txt", &["-f", "routes"]);
    let of_mail = report(&["-f", "routes", "-n", "mail"]);
    let hosts: Vec<&str> =
        of_mail["hosts"].as_array().unwrap().iter().map(|h| h["host"].as_str().unwrap()).collect();
    assert_eq!(hosts, ["google.com", "*.mail.example"], "those that its roots claim");
}

#[test]
fn programs_read_effects_grants_and_what_is_missing() {
    let report = report(&["-f", "routes", "www.google.com"]);
    let host = &report["hosts"][0];
    assert_eq!(host["owners"][0]["name"], "google");
    let tree = &host["trees"][0];
    assert_eq!(tree["requires"][0]["networks"], json!(["10.0.0.0/8"]));
    assert_eq!(tree["requires"][1]["tls"], "mesh");
    // The grants of the object and of the Server, with what the root requires.
    let by = |rule: &Value| -> Vec<Value> {
        let grants = rule["servers"][0]["grants"].as_array().unwrap();
        grants.iter().map(|grant| json!([grant["by"], grant["inherited"]])).collect()
    };
    let own = json!(["AuthorizationPolicy prod/browsers", false]);
    let of_server = json!(["AuthorizationPolicy prod/operators", true]);
    assert_eq!(by(rule(tree, "/")), [own.clone(), of_server]);
    assert_eq!(by(rule(tree, "/static")), [own], "the Server's are ignored");
    let required = &rule(tree, "/")["servers"][0]["grants"][0]["requires"];
    assert_eq!(required.as_array().unwrap().len(), 3, "the client, its network and TLS");
    let effects = |object: &Value| -> Vec<Value> {
        let rules = object["rules"].as_array().unwrap();
        rules.iter().map(|rule| json!([rule["path"], rule["effect"]])).collect()
    };
    assert_eq!(
        effects(tree),
        [
            json!(["/", "serves"]),
            json!(["/static", "serves"]),
            json!(["/finance", "delegates"]),
            json!(["/finance/admin", "serves"]),
            json!(["/mail", "denied"]),
            json!(["/maps", "denied"]),
            json!(["/news", "delegates"]),
            json!(["/search", "denied"]),
            json!(["/other", "denied"]),
            json!(["/gone", "denied"]),
        ]
    );
    let finance = &rule(tree, "/finance")["children"][0];
    assert_eq!(
        effects(finance),
        [json!(["/finance", "serves"]), json!(["/finance/admin", "shadowed"])]
    );
    let inactive = host["claims"].as_array().unwrap().iter().filter(|c| c["active"] == false);
    let lost: Vec<_> = inactive.map(|c| json!([c["path"], c["reason"]])).collect();
    assert_eq!(lost, [json!(["/static", "HostAlreadyClaimed"])], "{host:#}");
}

/// The snippets are ones that this program reads, and with them the path is delegated.
#[test]
fn what_is_missing_completes_the_delegation() {
    let before = report(&["-f", "routes", "www.google.com"]);
    let mail = rule(&before["hosts"][0]["trees"][0], "/mail");
    let missing = mail["refused"][0]["missing"].as_array().unwrap();
    let (grant, consent) = (&missing[0]["manifest"], &missing[1]["manifest"]);
    assert_eq!((&grant["kind"], missing.len()), (&json!("ReferenceGrant"), 2), "{mail:#}");
    assert_eq!(consent["metadata"], json!({"name": "mail", "namespace": "mail"}));
    let copy = tempfile::tempdir().unwrap();
    let teams = std::fs::read_to_string(folder().join("routes/teams.yaml")).unwrap();
    let own = "  - fqdn: mail.google.com\n";
    assert!(teams.contains(own));
    let entry = format!("{own}  - {}\n", consent["spec"]["delegatedFrom"][0]);
    std::fs::write(copy.path().join("teams.yaml"), teams.replace(own, &entry)).unwrap();
    std::fs::copy(folder().join("routes/prod.yaml"), copy.path().join("prod.yaml")).unwrap();
    std::fs::write(copy.path().join("grant.json"), grant.to_string()).unwrap();
    let after = report(&["-f", copy.path().to_str().unwrap(), "www.google.com"]);
    let mail = rule(&after["hosts"][0]["trees"][0], "/mail");
    assert_eq!((&mail["effect"], &mail["refused"]), (&json!("delegates"), &Value::Null));
}

#[test]
fn every_spelling_of_a_host_is_the_same_host() {
    let canonical = report(&["-f", "routes", "www.google.com"]);
    assert_eq!(report(&["-f", "routes", "WWW.Google.com."]), canonical);
}

#[test]
fn a_wildcard_that_is_not_allowed_says_so_below_it_too() {
    let report = report(&["-f", "routes", "a.mail.example"]);
    let host = &report["hosts"][0];
    assert_eq!(
        (&host["host"], &host["coveredBy"]),
        (&json!("a.mail.example"), &json!("*.mail.example"))
    );
    assert_eq!((&host["owners"], &host["trees"]), (&json!([]), &json!([])));
    assert_eq!(host["claims"][0]["reason"], "WildcardNotAllowed", "{host:#}");
}

#[test]
fn wrong_input_says_what_is_wrong() {
    let failed = |arguments: &[&str], code: i32, words: &str| {
        let output = routes(arguments);
        let errors = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {errors}");
        assert!(errors.contains(words), "{arguments:?}: {errors}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
    };
    let none = "no InboundRoute claims `ww.google.com`";
    failed(&["-f", "routes", "ww.google.com"], 1, none);
    failed(&["-f", "routes", "ww.google.com"], 1, "did you mean `www.google.com`?");
    let consents = "InboundRoute mail/mail consents to it";
    failed(&["-f", "routes", "mail.google.com"], 1, consents);
    failed(&["-f", "routes", "https://www.google.com"], 2, "without a scheme");
    failed(&["-f", "routes", "www.google.com:443"], 2, "has a port");
    failed(&["-f", "routes", "a..b"], 2, "neither a host name nor an IP address");
    failed(&["-f", "does-not-exist"], 1, "does-not-exist");
    failed(&["-n", "a", "-A"], 2, "cannot be used with");
    failed(&["www.google.com"], 1, "no cluster is");
    failed(&["-f", "routes", "-o", "yaml"], 2, "mermaid");
}

#[test]
fn nothing_to_show_is_no_failure() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    assert_eq!(routes(&["-f", path]).status.code(), Some(1), "nothing was read");
    std::fs::write(
        folder.path().join("a.yaml"),
        "{apiVersion: v1, kind: Namespace, metadata: {name: a}}",
    )
    .unwrap();
    let output = routes(&["-f", path]);
    assert_eq!(output.status.code(), Some(0));
    let shown = text(&output.stdout);
    assert!(shown.ends_with("no InboundRoute claims a host\n"), "{shown}");
}
