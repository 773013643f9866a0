//! `check`, `watch` and the command line as people run them.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "a test fails by panicking"
)]

use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

fn portcullis(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_portcullis"));
    command.args(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn run(arguments: &[&str]) -> Output {
    portcullis(arguments).output().unwrap()
}

fn example(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples").join(name);
    path.to_str().unwrap().to_owned()
}

/// A process that is killed when dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // SIGINT lets it remove its files; it may have exited by itself.
        let _ = Command::new("kill").args(["-INT", &self.0.id().to_string()]).status();
        let _ = self.0.wait();
    }
}

impl Running {
    fn start(arguments: &[&str]) -> (Self, impl Iterator<Item = Value> + use<>) {
        let mut child = portcullis(arguments).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let values = lines.map(|line| serde_json::from_str(&line.unwrap()).unwrap());
        (Self(child), values)
    }
}

#[test]
fn check_finds_nothing_in_the_examples() {
    for name in ["emojivoto", "audit-mode", "per-route", "shop", "delegation"] {
        let output = run(&["check", "--deny-warnings", &example(name)]);
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(0), "{text}");
        assert!(text.contains(" read: 0 errors, 0 warnings"), "{text}");
    }
}

#[test]
fn check_shows_the_place_and_fails() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("server.yaml");
    let text = "apiVersion: policy.linkerd.io/v1beta3\nkind: Server\n\
                metadata: {name: web, namespace: shop}\n\
                spec: {podSelector: {matchLabels: {a: b}}, port: 0}\n";
    std::fs::write(&file, text).unwrap();
    let path = directory.path().to_str().unwrap();
    let output = run(&["check", path]);
    assert_eq!(output.status.code(), Some(1));
    let shown = String::from_utf8(output.stdout).unwrap();
    assert!(shown.contains(&format!("{}:4:50", file.display())), "{shown}");
    let output = run(&["check", "-o", "json", path]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["findings"][0]["field"], "spec.port", "{report:#}");
    let yaml = String::from_utf8(run(&["check", "-o", "yaml", path]).stdout).unwrap();
    assert!(yaml.contains("field: spec.port"), "{yaml}");
}

#[test]
fn check_of_nothing_fails() {
    let directory = tempfile::tempdir().unwrap();
    assert_eq!(run(&["check", directory.path().to_str().unwrap()]).status.code(), Some(1));
}

#[test]
fn watch_prints_the_policy_and_each_change() {
    let directory = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(example("audit-mode")).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), directory.path().join(entry.file_name())).unwrap();
    }
    let path = directory.path().to_str().unwrap();
    let (_up, mut events) = Running::start(&["up", "-o", "json", path]);
    let ready = events.next().unwrap();
    let controller = ready["controller"].as_str().unwrap();
    let target = "bookshop/catalogue-0:8080";
    let arguments = ["watch", "--controller", controller, "-o", "json", target];
    let (_watch, mut policies) = Running::start(&arguments);
    let policy = policies.next().unwrap();
    assert_eq!(policy["policy"]["owner"], "Server bookshop/catalogue", "{policy:#}");
    let grants = |policy: &Value| policy["policy"]["authorizations"].as_array().unwrap().len();
    assert_eq!(grants(&policy), 2, "{policy:#}");

    let file = directory.path().join("bookshop.yaml");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("  accessPolicy: audit\n", "")).unwrap();
    let policy = policies.next().unwrap();
    assert_eq!(grants(&policy), 1, "{policy:#}");

    let once = run(&["watch", "--controller", controller, "--once", target]);
    assert_eq!(once.status.code(), Some(0));
    let text = String::from_utf8(once.stdout).unwrap();
    let grant =
        "allow      identity storefront.bookshop.serviceaccount.identity.portcullis.cluster.local";
    assert!(text.contains(grant), "{text}");

    let missing = run(&["watch", "--controller", controller, "bookshop/nobody:1"]);
    assert_eq!(missing.status.code(), Some(1));
    let text = String::from_utf8(missing.stderr).unwrap();
    assert!(text.contains("bookshop/nobody"), "{text}");
}

#[test]
fn request_tells_its_outcome_by_its_exit_code() {
    let (_echo, address) = {
        let mut child = portcullis(&["echo", "--listen", "127.0.0.1:0"]).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().trim_start_matches("listening on ").to_owned();
        (Running(child), address)
    };
    let code = |arguments: &[&str]| run(arguments).status.code().unwrap();
    let url = format!("http://{address}/");
    assert_eq!(code(&["request", &url]), 0);
    assert_eq!(code(&["request", "-H", "echo-status: 403", &url]), 3);
    assert_eq!(code(&["request", "-H", "echo-status: 500", &url]), 4);
    assert_eq!(code(&["request", "-H", "echo-delay-ms: 9000", "--timeout", "0.1", &url]), 1);
    assert_eq!(code(&["request", "nonsense"]), 2);
    assert_eq!(code(&["request", &format!("grpc://{address}/grpc.health.v1.Health/Check")]), 0);
    assert_eq!(code(&["request", &format!("tcp://{address}")]), 0);
}

#[test]
fn an_error_about_a_missing_argument_ends_with_an_example() {
    let output = run(&["watch"]);
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), &*output.stdout), (Some(2), &b""[..]));
    assert!(error.starts_with("error: the following required arguments"), "{error}");
    assert!(error.ends_with("\n\nexample: portcullis watch -n emojivoto web-0:8080\n"), "{error}");
    let help = run(&["watch", "--help"]);
    assert_eq!((help.status.code(), &*help.stderr), (Some(0), &b""[..]));
}
