//! `portcullis denied` from end to end: a sidecar reports what it refuses with its stream, the controller
//! keeps it for as long as the stream is open, and the command shows it. All three are programs.

use crate::kills::programs::{Application, Programs};
use crate::kills::{MANIFESTS, connect, status};
use crate::world::{HTTP, RAW};
use policy_testkit::free_port;
use serde_json::{Value, json};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Command, Stdio};
use std::time::Duration;
use tokio::io::AsyncWriteExt as _;
use tokio::time::{Instant, sleep};

/// A sidecar reports after five seconds, and then every thirty.
const PATIENCE: Duration = Duration::from_secs(90);

const CLIENT: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// What `portcullis denied` prints of the controller at an address.
async fn denied(controller: SocketAddr, arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_portcullis-under-test"));
    command.arg("denied").arg(format!("--controller={controller}")).args(arguments);
    command.env("NO_COLOR", "1").env("KUBECONFIG", "/nonexistent").stdin(Stdio::null());
    let output = tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// The report about every namespace, as soon as it is as wanted.
async fn denied_until(controller: SocketAddr, is_wanted: impl Fn(&Value) -> bool) -> Value {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let report = denied(controller, &["-A", "-o", "json"]).await;
        let report: Value = serde_json::from_str(&report).unwrap();
        if is_wanted(&report) {
            return report;
        }
        assert!(Instant::now() < deadline, "{report:#}");
        sleep(Duration::from_millis(200)).await;
    }
}

async fn get(to: SocketAddr) -> std::io::Result<String> {
    let mut stream = connect(CLIENT, to).await?;
    stream.write_all(b"GET /orders HTTP/1.1\r\nhost: web\r\n\r\n").await?;
    status(&mut stream).await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_sidecar_refuses_is_shown_for_as_long_as_it_runs() {
    let application = Application::start("orders").await;
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("base.yaml"), MANIFESTS).unwrap();
    let free = || SocketAddr::from((Ipv4Addr::LOCALHOST, free_port().unwrap()));
    let (controller, http, raw) = (free(), free(), free());
    let ports = [(http, HTTP), (raw, RAW)];
    let mut programs = Programs::start(folder.path(), controller, &ports, application.address);
    let deadline = Instant::now() + PATIENCE;
    let mut refused = 0;
    while refused < 3 {
        assert!(Instant::now() < deadline, "nothing is refused");
        match get(http).await.as_deref() {
            Ok("403") => refused += 1,
            Ok("503") | Err(_) => sleep(Duration::from_millis(50)).await,
            Ok(other) => panic!("an answer {other}"),
        }
    }
    let of_policy = |report: &Value| -> Vec<Value> {
        let rows = report["rows"].as_array().unwrap();
        // The policy may have come late.
        rows.iter().filter(|row| row["reason"] == "unauthorized").cloned().collect()
    };
    let are_told = |report: &Value| of_policy(report).iter().any(|row| row["count"] == 3);
    let report = denied_until(controller, are_told).await;
    let mut rows = of_policy(&report);
    let [row] = rows.as_mut_slice() else { panic!("{report:#}") };
    let row = row.as_object_mut().unwrap();
    let (id, age) = (row.remove("id").unwrap(), row.remove("ageSeconds").unwrap());
    let id = id.as_str().unwrap().to_owned();
    assert!(id.len() == 10 && age.as_u64().unwrap() < PATIENCE.as_secs(), "{id} {age}");
    let expected = json!({
        "namespace": "shop", "workload": "pod/web", "side": "inbound", "port": HTTP,
        "client": "127.0.0.0/24", "on": "request", "reason": "unauthorized", "route": null,
        "count": 3, "pods": 1,
    });
    assert_eq!((json!(row), &report["sidecars"]), (expected, &json!(1)));
    let text = denied(controller, &["-n", "shop"]).await;
    let line = text.lines().find(|line| line.ends_with(&id)).unwrap_or_else(|| panic!("{text}"));
    assert!(line.contains("pod/web") && line.contains("unauthorized"), "{text}");
    let elsewhere = denied(controller, &["-n", "bank"]).await;
    assert!(elsewhere.contains("nothing was refused, as far as 0 sidecars say"), "{elsewhere}");
    programs.kill_sidecar();
    let after = denied_until(controller, |report| report["sidecars"] == 0).await;
    assert_eq!(after["rows"], json!([]));
    assert_eq!(application.reached(), 0);
}
