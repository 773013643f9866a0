//! `portcullis up` as people run it: a process, its tables, its decisions, and manifests that change.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "a test fails by panicking"
)]

mod calls;
mod refusals;

use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(20);

struct Up {
    child: Child,
    events: mpsc::Receiver<Value>,
    ready: Value,
}

impl Drop for Up {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

/// Ends a process so that it takes its files along: the second signal does not wait.
fn end(child: &mut Child) {
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        match child.try_wait() {
            Ok(None) => {
                let _ = Command::new("kill").arg(child.id().to_string()).status();
                std::thread::sleep(Duration::from_millis(50));
            }
            Ok(Some(_)) | Err(_) => return,
        }
    }
    let _ = child.kill();
    let _ = child.wait();
}

fn portcullis() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_portcullis"));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn read(stdout: ChildStdout) -> mpsc::Receiver<Value> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines() {
            let Ok(line) = line else { return };
            if sender.send(serde_json::from_str(&line).expect(&line)).is_err() {
                return;
            }
        }
    });
    receiver
}

impl Up {
    fn start(directory: &Path) -> Self {
        Self::start_as(portcullis(), directory)
    }

    fn start_as(mut command: Command, directory: &Path) -> Self {
        command.args(["up", "-o", "json"]).arg(directory);
        let mut child = command.spawn().unwrap();
        let events = read(child.stdout.take().unwrap());
        let mut up = Self { child, events, ready: Value::Null };
        up.ready = up.event("ready");
        up
    }

    /// The next event of this kind; others are passed over.
    fn event(&self, kind: &str) -> Value {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let event = self.events.recv_timeout(left).unwrap_or_else(|_| panic!("no `{kind}`"));
            if event["event"] == kind {
                return event;
            }
        }
    }

    fn client(&self, name: &str) -> &Value {
        let clients = self.ready["clients"].as_array().unwrap();
        let found = clients.iter().find(|client| client["name"] == name);
        found.unwrap_or_else(|| panic!("no client `{name}` in {clients:#?}"))
    }

    fn port(&self, workload: &str, port: u16) -> &Value {
        let ports = self.ready["ports"].as_array().unwrap();
        let found = ports.iter().find(|row| row["workload"] == workload && row["port"] == port);
        found.unwrap_or_else(|| panic!("no port {workload}:{port} in {ports:#?}"))
    }

    /// Sends a request as this client would; returns the exit code and the response.
    fn ask(&self, client: &str, to: (&str, u16), scheme: &str, path: &str) -> (i32, Value) {
        self.ask_with(&[], client, to, (scheme, path))
    }

    fn ask_with(
        &self,
        more: &[&str],
        client: &str,
        to: (&str, u16),
        (scheme, path): (&str, &str),
    ) -> (i32, Value) {
        answer(self.command(client, to, (scheme, path)).args(more).output().unwrap())
    }

    /// The command line that sends the request.
    fn command(&self, client: &str, to: (&str, u16), (scheme, path): (&str, &str)) -> Command {
        let (client, row) = (self.client(client), self.port(to.0, to.1));
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let mut command = portcullis();
        command.args(["request", "-o", "json", "--from", &text(&client["address"])]);
        if client.get("identity").is_some() {
            command.args(["--cert", &text(&client["certificate"]), "--key", &text(&client["key"])]);
            command.args(["--roots", &text(&self.ready["roots"])]);
            command.args(["--server-name", &text(&row["serverName"])]);
        }
        let url = format!("{scheme}://{}{path}", text(&row["address"]));
        command.arg(url);
        command
    }

    fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
    }
}

/// Returns the exit code and the response.
fn answer(output: Output) -> (i32, Value) {
    (output.status.code().unwrap(), serde_json::from_slice(&output.stdout).unwrap())
}

fn example(name: &str) -> tempfile::TempDir {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples").join(name);
    let copy = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(source).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), copy.path().join(entry.file_name())).unwrap();
    }
    copy
}

#[test]
fn clients_get_what_their_policies_say_and_each_decision_is_reported() {
    let directory = example("emojivoto");
    let up = Up::start(directory.path());
    let (code, answer) =
        up.ask("emojivoto/vote-bot", ("emojivoto/web-0", 8080), "http", "/api/vote");
    assert_eq!((code, &answer["status"]), (0, &200.into()), "{answer:#}");
    let decision = up.event("decision");
    assert_eq!(decision["client"], "emojivoto/vote-bot");
    assert_eq!(decision["decision"], "allow");
    assert_eq!(decision["route"], "HTTPRoute emojivoto/api");
    let grant = "AuthorizationPolicy emojivoto/vote-bot-may-use-the-api";
    assert_eq!(decision["authorization"], grant);

    let (code, answer) = up.ask("outside", ("emojivoto/web-0", 8080), "http", "/");
    assert_eq!((code, &answer["status"]), (3, &403.into()), "{answer:#}");
    let decision = up.event("decision");
    assert_eq!(
        (&decision["client"], &decision["reason"]),
        (&"outside".into(), &"unauthorized".into())
    );

    let path = "/emojivoto.v1.EmojiService/ListAll";
    let (code, answer) = up.ask("emojivoto/web", ("emojivoto/emoji-0", 8080), "grpc", path);
    assert_eq!((code, &answer["grpcStatus"]), (0, &0.into()), "{answer:#}");
    let (code, answer) = up.ask("emojivoto/vote-bot", ("emojivoto/emoji-0", 8080), "grpc", path);
    assert_eq!((code, &answer["grpcStatus"]), (3, &7.into()), "{answer:#}");
}

/// `--direct` connects to the sidecar's own port, as Linkerd's proxies do.
#[test]
fn meshed_clients_are_decided_alike_on_the_direct_path() {
    let directory = example("emojivoto");
    let up = Up::start(directory.path());
    let direct = ["--direct"];
    let web = ("emojivoto/web-0", 8080);
    let (code, answer) = up.ask_with(&direct, "emojivoto/vote-bot", web, ("http", "/api/vote"));
    assert_eq!((code, &answer["status"]), (0, &200.into()), "{answer:#}");
    let decision = up.event("decision");
    assert_eq!(decision["route"], "HTTPRoute emojivoto/api");
    let grant = "AuthorizationPolicy emojivoto/vote-bot-may-use-the-api";
    assert_eq!(decision["authorization"], grant);
    let (emoji, path) = (("emojivoto/emoji-0", 8080), "/emojivoto.v1.EmojiService/ListAll");
    let (code, answer) = up.ask_with(&direct, "emojivoto/web", emoji, ("grpc", path));
    assert_eq!((code, &answer["grpcStatus"]), (0, &0.into()), "{answer:#}");
    let (code, answer) = up.ask_with(&direct, "emojivoto/vote-bot", emoji, ("grpc", path));
    assert_eq!((code, &answer["grpcStatus"]), (3, &7.into()), "{answer:#}");
    // The application's own port is none where a transport header is negotiated.
    let port = ["--direct=8080"];
    let (code, answer) = up.ask_with(&port, "emojivoto/vote-bot", web, ("http", "/api/vote"));
    assert_eq!(code, 1);
    let error = answer["error"].as_str().unwrap();
    assert!(error.contains("does not negotiate the transport header"), "{error}");
}

#[test]
fn a_decision_on_a_delegated_path_names_its_chain() {
    let directory = example("delegation");
    let up = Up::start(directory.path());
    let site = ("site/site-0", 8080);
    let more = ["-H", "host: www.example.com"];
    let (code, answer) = up.ask_with(&more, "legal/counsel", site, ("http", "/legal/contracts"));
    assert_eq!((code, &answer["status"]), (0, &200.into()), "{answer:#}");
    let decision = up.event("decision");
    assert_eq!(decision["route"], "InboundRoute legal/legal");
    let chain = "/legal of InboundRoute site/www > InboundRoute legal/legal";
    assert_eq!(decision["delegated"], chain, "{decision:#}");
    let (_, answer) = up.ask_with(&more, "finance/clerk", site, ("http", "/finance/books"));
    assert_eq!(answer["status"], 403, "{answer:#}");
    let decision = up.event("decision");
    assert_eq!(decision["reason"], "not_delegated");
    let chain = "/finance of InboundRoute site/www > InboundRoute finance/finance";
    assert_eq!(decision["delegated"], chain, "{decision:#}");
}

#[test]
fn edits_change_the_next_decision_and_a_broken_file_opens_nothing() {
    let directory = example("emojivoto");
    let up = Up::start(directory.path());
    let office = "inside 198.51.100.0/24";
    let status = || up.ask(office, ("emojivoto/web-0", 8080), "http", "/").1["status"].clone();
    let becomes = |expected: u16| {
        let deadline = Instant::now() + PATIENCE;
        while status() != expected {
            assert!(Instant::now() < deadline, "never became {expected}");
        }
    };
    assert_eq!(status(), 200);
    let file = directory.path().join("web.yaml");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("198.51.100.0/24", "198.51.99.0/24").replace("except", "#"))
        .unwrap();
    becomes(403);
    std::fs::write(&file, &text).unwrap();
    becomes(200);
    std::fs::write(&file, text.replace("port: http\n", "port: 0\n")).unwrap();
    becomes(403);
    let problem = up.event("problem");
    assert_eq!(problem["field"], "spec.port", "{problem:#}");
    assert_eq!(problem["line"], 7, "{problem:#}");
    assert!(problem["file"].as_str().unwrap().ends_with("web.yaml"), "{problem:#}");
    std::fs::write(&file, &text).unwrap();
    becomes(200);
    std::fs::remove_file(&file).unwrap();
    becomes(403);
}

#[test]
fn a_misspelt_field_of_a_route_is_an_error_with_what_is_lost() {
    let directory = example("emojivoto");
    let file = directory.path().join("route.yaml");
    let route = "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\n\
                 metadata: {name: extra, namespace: emojivoto}\nspec:\n  hostname: [web.example]\n";
    std::fs::write(file, route).unwrap();
    let up = Up::start(directory.path());
    std::fs::write(directory.path().join("more.yaml"), route.replace("extra", "more")).unwrap();
    let problem = up.event("problem");
    let told = ["severity", "field", "message"].map(|name| problem[name].as_str().unwrap());
    let message = "unknown field, did you mean `hostnames`? An API server drops it: the route is then \
                   for every host";
    assert_eq!(told, ["error", "spec.hostname", message]);
    assert_eq!((&problem["line"], &problem["column"]), (&Value::from(5), &Value::from(3)));
}

#[test]
fn a_client_that_is_too_fast_is_reported_and_so_are_we() {
    let directory = example("emojivoto");
    let up = Up::start(directory.path());
    let deadline = Instant::now() + PATIENCE;
    loop {
        // Twice the limit at once: a machine that is busy starts fewer than that in a second, one
        // after the other.
        let web = ("emojivoto/web-0", 8080);
        let ask = |_| up.command("emojivoto/vote-bot", web, ("http", "/api/vote"));
        let asked: Vec<_> =
            (0..20).map(|n| ask(n).stdout(Stdio::piped()).spawn().unwrap()).collect();
        let answers: Vec<_> =
            asked.into_iter().map(|asked| answer(asked.wait_with_output().unwrap())).collect();
        let decisions: Vec<_> = answers.iter().map(|_| up.event("decision")).collect();
        let statuses = |values: Vec<&Value>| {
            let mut all: Vec<_> = values.iter().map(|value| value["status"].as_u64()).collect();
            all.sort_unstable();
            all
        };
        let told = statuses(answers.iter().map(|(_, answer)| answer).collect());
        assert_eq!(statuses(decisions.iter().collect()), told);
        if let Some((code, _)) = answers.iter().find(|(_, answer)| answer["status"] == 429) {
            assert_eq!(*code, 4);
            let decision = decisions.iter().find(|decision| decision["status"] == 429).unwrap();
            assert_eq!(decision["reason"], "rate_limited", "{decision:#}");
            return;
        }
        assert!(Instant::now() < deadline, "never limited");
    }
}

#[test]
fn an_open_connection_survives_changes_of_its_policy() {
    let directory = example("emojivoto");
    let up = Up::start(directory.path());
    let office = up.client("inside 198.51.100.0/24")["address"].as_str().unwrap().to_owned();
    let address = up.port("emojivoto/web-0", 8080)["address"].as_str().unwrap().to_owned();
    let file = directory.path().join("web.yaml");
    let text = std::fs::read_to_string(&file).unwrap();
    let closed = text.replace("198.51.100.0/24", "198.51.99.0/24").replace("except", "#");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind(format!("{office}:0").parse().unwrap()).unwrap();
        let stream = socket.connect(address.parse().unwrap()).await.unwrap();
        let stream = hyper_util::rt::TokioIo::new(stream);
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake::<_, String>(stream).await.unwrap();
        let driver = tokio::spawn(connection);
        for expected in [200, 403, 200, 403, 200] {
            std::fs::write(&file, if expected == 200 { &text } else { &closed }).unwrap();
            let deadline = Instant::now() + PATIENCE;
            loop {
                sender.ready().await.unwrap();
                let request = http::Request::get("/").header("host", "web").body(String::new());
                let response = sender.send_request(request.unwrap()).await.unwrap();
                let status = response.status();
                http_body_util::BodyExt::collect(response.into_body()).await.unwrap();
                if status == expected {
                    break;
                }
                assert!(Instant::now() < deadline, "never became {expected}");
                // The page's rate limit is 1000 per second for all clients together.
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
        assert!(!driver.is_finished());
    });
}

#[test]
fn pods_come_and_go_with_the_manifests() {
    let directory = example("per-route");
    let up = Up::start(directory.path());
    let second = "apiVersion: v1\nkind: Pod\nmetadata: {name: annex, namespace: library}\n\
                  spec: {containers: [{name: a, ports: [{containerPort: 9090}]}]}\n";
    let file = directory.path().join("annex.json.yaml");
    std::fs::write(&file, second).unwrap();
    let changed = up.event("changed");
    assert_eq!(changed["ports"][0]["workload"], "library/annex", "{changed:#}");
    let address = changed["ports"][0]["address"].as_str().unwrap();
    let asked = portcullis().args(["request", &format!("http://{address}/")]).output().unwrap();
    assert_eq!(asked.status.code(), Some(0), "{asked:?}");
    std::fs::remove_file(&file).unwrap();
    let changed = up.event("changed");
    assert_eq!(changed["gone"][0], "library/annex", "{changed:#}");
}

#[test]
fn an_end_by_signal_is_clean_and_takes_the_certificates_along() {
    for signal in ["-INT", "-TERM", "-HUP"] {
        let directory = example("audit-mode");
        let mut up = Up::start(directory.path());
        let roots = PathBuf::from(up.ready["roots"].as_str().unwrap());
        assert!(roots.is_file());
        up.signal(signal);
        let status = up.child.wait().unwrap();
        assert!(status.success(), "{signal}: {status}");
        assert!(!roots.parent().unwrap().exists(), "{signal}");
    }
}

#[test]
fn a_second_signal_does_not_wait_for_open_requests() {
    let directory = example("audit-mode");
    let mut up = Up::start(directory.path());
    let address = up.port("bookshop/catalogue-0", 8080)["address"].as_str().unwrap().to_owned();
    let mut slow = portcullis();
    slow.args(["request", "-H", "echo-stream: 1000", &format!("http://{address}/books")]);
    let mut slow = slow.spawn().unwrap();
    assert_eq!(up.event("decision")["decision"], "audit");
    up.signal("-INT");
    std::thread::sleep(Duration::from_millis(300));
    assert!(up.child.try_wait().unwrap().is_none(), "did not wait for the open request");
    up.signal("-INT");
    let begun = Instant::now();
    assert!(up.child.wait().unwrap().success());
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    slow.wait().unwrap();
}

#[test]
fn two_at_once_take_different_addresses() {
    let directory = example("audit-mode");
    let one = Up::start(directory.path());
    let other = Up::start(directory.path());
    let port = ("bookshop/catalogue-0", 8080);
    assert_ne!(one.port(port.0, port.1)["address"], other.port(port.0, port.1)["address"]);
    for up in [&one, &other] {
        assert_eq!(up.ask("outside", port, "http", "/books").1["status"], 200);
    }
}

/// What people see until decisions begin, and on standard error.
fn tables(directory: &Path) -> (String, String) {
    let mut command = portcullis();
    command.arg("up").arg(directory);
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut text = String::new();
    for line in lines.by_ref() {
        let line = line.unwrap();
        text.push_str(&line);
        text.push('\n');
        if line.starts_with("Decisions") {
            break;
        }
    }
    let _ = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(child.wait().unwrap().success());
    let mut errors = String::new();
    child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
    (text, errors)
}

#[test]
fn the_tables_are_for_people_unless_asked_otherwise() {
    let directory = example("audit-mode");
    let (text, errors) = tables(directory.path());
    let (_, subnet) = text.split_once("bookshop/catalogue-0  8080  127.").unwrap();
    let (subnet, _) = subnet.split_once('.').unwrap();
    for expected in [
        &*format!("bookshop/catalogue-0  8080  127.{subnet}.64.1:8080"),
        &*format!("curl -si --interface 127.{subnet}.128.1 http://127.{subnet}.64.1:8080/"),
        "bookshop/nightly-report",
    ] {
        assert!(text.contains(expected), "{expected}:\n{text}\n{errors}");
    }
    assert!(!text.contains('\u{1b}'), "colours without a terminal");
}

/// A pod in its node's network, and a port around the sidecar, were listed with their Servers as all others.
#[test]
fn what_no_sidecar_guards_in_a_cluster_is_said_beside_its_port() {
    let directory = tempfile::tempdir().unwrap();
    let pod = |name: &str, more: &str, annotations: &str| {
        format!(
            "apiVersion: v1\nkind: Pod\n\
             metadata: {{name: {name}, namespace: shop, labels: {{app: web}}, annotations: {{{annotations}}}}}\n\
             spec: {{{more}containers: [{{name: c, image: c, ports: [{{containerPort: 8080}}]}}]}}\n---\n"
        )
    };
    let asks = "portcullis.dev/inject: enabled";
    let text = [
        pod("guarded", "", asks),
        pod("host", "hostNetwork: true, ", asks),
        pod("skipped", "", &format!("{asks}, config.linkerd.io/skip-inbound-ports: '8080'")),
        "apiVersion: policy.linkerd.io/v1beta3\nkind: Server\nmetadata: {name: web, namespace: shop}\n\
         spec: {podSelector: {matchLabels: {app: web}}, port: 8080}\n"
            .to_owned(),
    ];
    std::fs::write(directory.path().join("all.yaml"), text.concat()).unwrap();
    let reasons = [
        ("guarded", None),
        (
            "host",
            Some(
                "the pod has hostNetwork: true; its connections cannot be distinguished from its node's",
            ),
        ),
        (
            "skipped",
            Some("connections to it go around the sidecar, because skip-inbound-ports names it"),
        ),
    ];
    let (shown, _) = tables(directory.path());
    let up = Up::start(directory.path());
    for (name, reason) in reasons {
        let pod = format!("shop/{name}");
        assert_eq!(up.port(&pod, 8080)["unguarded"].as_str(), reason);
        let row = shown.lines().find(|line| line.starts_with(&format!("{pod} "))).unwrap();
        assert_eq!(row.contains("Server shop/web, here alone"), reason.is_some(), "{row}");
        let line =
            reason.map(|reason| format!("{pod}:8080 is open to everybody in a cluster: {reason}"));
        let found = shown.lines().find(|line| line.starts_with(&format!("{pod}:8080 ")));
        assert_eq!(found, line.as_deref());
    }
}
