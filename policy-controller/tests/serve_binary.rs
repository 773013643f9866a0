//! `policy-controller run` as a process: readiness, signals, errors.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test says what it expects by failing"
)]

mod process;

use policy_testkit::wait_until_blocking;
use process::{Controller, MANIFESTS, Program};
use std::io::Write;
use std::process::{Command, Output};
use std::time::Instant;

fn run(flags: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_policy-controller"));
    let command = command.arg("run").args(["--admin-addr", "127.0.0.1:0"]).args(flags);
    command.output().unwrap()
}

/// The output of the binary as it ends with `code`: 1, or 2 where a flag alone is wrong.
fn refusal(code: i32, flags: &[&str]) -> String {
    let output = run(flags);
    assert_eq!(output.status.code(), Some(code), "{output:?}");
    let text = String::from_utf8(output.stderr).unwrap();
    let error = text.lines().find(|line| line.starts_with("error: "));
    error.unwrap_or_else(|| panic!("no error in {text}")).to_owned()
}

#[test]
fn it_becomes_ready_serves_metrics_and_ends_on_sigterm() {
    let manifests = tempfile::tempdir().unwrap();
    std::fs::write(manifests.path().join("base.yaml"), MANIFESTS).unwrap();
    let mut controller = Controller::start(manifests.path(), "127.0.0.1:0", &[]);
    assert_eq!(controller.get("/live").0, 200);
    controller.ready();
    let (status, metrics) = controller.get("/metrics");
    assert_eq!(status, 200);
    assert!(metrics.contains("policy_watch_open_connections 0"), "{metrics}");
    assert!(metrics.ends_with("# EOF\n"), "{metrics}");
    assert_eq!(controller.get("/elsewhere").0, 404);
    controller.program.signal("TERM");
    assert!(controller.program.wait().success());
}

#[test]
fn a_second_signal_does_not_wait_for_connections() {
    let manifests = tempfile::tempdir().unwrap();
    std::fs::write(manifests.path().join("base.yaml"), MANIFESTS).unwrap();
    let mut controller =
        Controller::start(manifests.path(), "127.0.0.1:0", &["--drain-timeout=60"]);
    controller.ready();
    // Half a greeting: the server waits for the rest.
    let mut mute = std::net::TcpStream::connect(controller.grpc).unwrap();
    mute.write_all(b"PRI * HTTP/2.0\r\n").unwrap();
    wait_until_blocking("connected", || {
        controller.get("/metrics").1.contains("policy_watch_open_connections 1")
    });
    let began = Instant::now();
    controller.program.signal("TERM");
    let readiness = || controller.get("/ready");
    wait_until_blocking("stopping", || {
        readiness() == (500, "not ready: shutting down\n".to_owned())
    });
    controller.program.signal("TERM");
    assert_eq!(controller.program.wait().code(), Some(1));
    assert!(began.elapsed() < process::PATIENCE);
    drop(mute);
}

#[test]
fn what_is_wrong_with_a_file_is_logged_once_and_the_rest_is_served() {
    let manifests = tempfile::tempdir().unwrap();
    std::fs::write(manifests.path().join("base.yaml"), MANIFESTS).unwrap();
    std::fs::write(manifests.path().join("bad.yaml"), "kind: [").unwrap();
    let controller = Controller::start(manifests.path(), "127.0.0.1:0", &[]);
    controller.program.find("warning", |line| line.contains("bad.yaml:1:").then_some(()));
    controller.ready();
}

#[test]
fn errors_name_what_is_wrong_and_end_the_program() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_str().unwrap();
    let busy = refusal(1, &["--manifests", path, "--grpc-addr", &address]);
    let flag = format!("error: cannot listen on {address} for gRPC (--grpc-addr): ");
    assert!(busy.starts_with(&flag), "{busy}");
    let free = "--grpc-addr=127.0.0.1:0";
    let missing = refusal(1, &["--manifests", "/nowhere/at/all", free]);
    assert!(missing.starts_with("error: /nowhere/at/all: "), "{missing}");
    let policy = refusal(2, &["--manifests", path, free, "--default-policy", "open"]);
    let flag = "error: invalid value 'open' for '--default-policy <POLICY>': expected one of ";
    assert!(policy.starts_with(flag), "{policy}");
    let level = refusal(1, &["--manifests", path, free, "--log-level", "a=b=c"]);
    assert!(level.starts_with("error: --log-level: `a=b=c`: "), "{level}");
}

#[test]
fn without_a_source_it_says_that_there_is_no_cluster_in_the_termination_log_too() {
    let home = tempfile::tempdir().unwrap();
    let log = home.path().join("termination-log");
    std::fs::write(&log, "").unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_policy-controller"))
        .args(["run", "--admin-addr", "127.0.0.1:0", "--server-addr", "127.0.0.1:0"])
        .env("HOME", home.path())
        .env("PORTCULLIS_TERMINATION_LOG", &log)
        .env_remove("KUBECONFIG")
        .env_remove("KUBERNETES_SERVICE_HOST")
        .output()
        .unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.lines().any(|line| line.starts_with("error: no cluster: ")), "{text}");
    let message = std::fs::read_to_string(&log).unwrap();
    assert!(text.ends_with(&format!("error: {message}\n")), "{message}: {text}");
}

#[test]
fn a_refused_flag_is_told_in_the_termination_log_that_the_same_command_line_names() {
    let home = tempfile::tempdir().unwrap();
    let log = home.path().join("termination-log");
    let named = format!("--termination-log={}", log.display());
    for (command, wrong) in [
        ("run", "--watch-namespace=A"),
        ("run", "--server-tls-key=/k"),
        ("run", "--no-such-flag"),
        ("issuer", "--service-account=A"),
    ] {
        std::fs::write(&log, "").unwrap();
        let mut by_flag = Command::new(env!("CARGO_BIN_EXE_policy-controller"));
        by_flag.args([command, wrong, &named]);
        let mut by_variable = Command::new(env!("CARGO_BIN_EXE_policy-controller"));
        by_variable.args([command, wrong]).env("PORTCULLIS_TERMINATION_LOG", &log);
        for program in [&mut by_flag, &mut by_variable] {
            let output = program.output().unwrap();
            let text = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(2), "{text}");
            assert!(text.starts_with("error: "), "{text}");
            assert_eq!(std::fs::read_to_string(&log).unwrap(), text, "{wrong}");
        }
    }
}

#[test]
fn a_signal_ends_it_while_the_cluster_is_away() {
    let home = tempfile::tempdir().unwrap();
    let kubeconfig = home.path().join("config");
    // Nobody listens on port 1.
    let text = "{apiVersion: v1, kind: Config, current-context: away, \
        clusters: [{name: away, cluster: {server: 'http://127.0.0.1:1'}}], \
        contexts: [{name: away, context: {cluster: away, user: nobody}}], \
        users: [{name: nobody, user: {}}]}";
    std::fs::write(&kubeconfig, text).unwrap();
    let mut program = Program::start_reading_errors(
        Command::new(env!("CARGO_BIN_EXE_policy-controller"))
            .args(["run", "--admin-addr", "127.0.0.1:0", "--server-addr", "127.0.0.1:0"])
            .arg("--kubeconfig")
            .arg(&kubeconfig)
            .env_remove("LINKERD_POLICY_CONTROLLER_LOG"),
    );
    program.find("attempt", |line| line.contains("waiting for the API server").then_some(()));
    program.signal("TERM");
    assert!(program.wait().success());
}
