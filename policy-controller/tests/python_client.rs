//! The documented API from another language: docs/examples/python/watch.py against the binary.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test says what it expects by failing"
)]

mod process;

use policy_testkit::wait_until_blocking;
use process::{Controller, MANIFESTS, Program, route};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// A Python that can import grpcio and its tools, as `make python` installs it.
fn python() -> PathBuf {
    let cache = std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache")));
    let candidates = [
        std::env::var_os("PORTCULLIS_PYTHON").map(PathBuf::from),
        cache.map(|cache| cache.join("portcullis/python/bin/python")),
        Some(PathBuf::from("python3")),
    ];
    let able = |python: &PathBuf| {
        let mut import = Command::new(python);
        import.args(["-c", "import grpc, grpc_tools"]).stderr(Stdio::null());
        import.status().is_ok_and(|status| status.success())
    };
    candidates.into_iter().flatten().find(able).expect(
        "no Python with grpcio and grpcio-tools was found: run `make python` (or `make test`), \
         or set PORTCULLIS_PYTHON",
    )
}

fn watch(controller: &Controller, arguments: &[&str]) -> Program {
    Program::start(
        Command::new(python())
            .arg(root().join("docs/examples/python/watch.py"))
            .args(["--controller", &controller.grpc.to_string()])
            .args(arguments)
            .env("PYTHONDONTWRITEBYTECODE", "1"),
    )
}

/// The next event of this name.
fn event(watch: &Program, name: &str) -> Value {
    watch.find(name, |line| {
        let event: Value = serde_json::from_str(line).unwrap();
        (event["event"] == name).then_some(event)
    })
}

#[test]
fn the_example_client_follows_acknowledges_and_comes_back() {
    let manifests = tempfile::tempdir().unwrap();
    std::fs::write(manifests.path().join("base.yaml"), MANIFESTS).unwrap();
    std::fs::write(manifests.path().join("a.yaml"), route("a")).unwrap();
    let alone = ["--proxy-ports="];
    let mut controller = Controller::start(manifests.path(), "127.0.0.1:0", &alone);
    controller.ready();
    let watch = watch(&controller, &["shop:web", "--ack"]);
    let workload = event(&watch, "workload");
    assert_eq!(workload["name"], "shop/web");
    assert_eq!(workload["declared_ports"], serde_json::json!([8080]));
    let port = event(&watch, "port");
    assert_eq!((&port["owner"], &port["full"]), (&"web".into(), &true.into()));
    assert_eq!(port["routes"], serde_json::json!(["a"]));

    // One more route: a change that carries that route alone.
    std::fs::write(manifests.path().join("b.yaml"), route("b")).unwrap();
    let port = event(&watch, "port");
    assert_eq!(port["routes"], serde_json::json!(["a", "b"]));
    assert_eq!((&port["full"], &port["routes_changed"]), (&false.into(), &1.into()));
    wait_until_blocking("acknowledged", || {
        controller.get("/metrics").1.contains("\npolicy_watch_ack_seconds_count 2\n")
    });

    // A restart: the stream ends with OK, and the client comes back with what it has.
    controller.program.signal("TERM");
    assert_eq!(event(&watch, "ended")["code"], "OK");
    assert!(controller.program.wait().success());
    std::fs::remove_file(manifests.path().join("a.yaml")).unwrap();
    let again = Controller::start(manifests.path(), &controller.grpc.to_string(), &alone);
    let port = event(&watch, "port");
    assert_eq!(port["routes"], serde_json::json!(["b"]));
    wait_until_blocking("acknowledged", || {
        again.get("/metrics").1.contains("\npolicy_watch_ack_seconds_count 1\n")
    });
}

#[test]
fn the_example_client_gives_up_on_a_token_that_is_none() {
    let manifests = tempfile::tempdir().unwrap();
    std::fs::write(manifests.path().join("base.yaml"), MANIFESTS).unwrap();
    let controller = Controller::start(manifests.path(), "127.0.0.1:0", &[]);
    controller.ready();
    let mut watch = watch(&controller, &["web"]);
    let ended = event(&watch, "ended");
    assert_eq!(ended["code"], "INVALID_ARGUMENT");
    let details = ended["details"].as_str().unwrap();
    assert!(details.starts_with("hello.workload: expected `namespace:pod`"), "{details}");
    assert_eq!(watch.wait().code(), Some(1));
}
