//! The addresses that stand for Services to clients with an identity: what connects there in plaintext
//! arrives in mesh TLS, with the identity of the client.

use super::{PATIENCE, Up, answer, example, portcullis, tables};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

/// The clients of the example that have an identity.
const CLIENTS: [&str; 5] = [
    "emojivoto/emoji",
    "emojivoto/vote-bot",
    "emojivoto/voting",
    "emojivoto/web",
    "monitoring/prometheus",
];

/// The address that stands for a Service to a client.
fn call<'a>(up: &'a Up, client: &str, service: &str) -> &'a str {
    let calls = up.client(client)["calls"].as_array().unwrap();
    let found = calls.iter().find(|call| call["service"] == service);
    found.unwrap_or_else(|| panic!("no {service} in {calls:#?}"))["address"].as_str().unwrap()
}

/// The HTTP status that curl prints, given nothing but an address and a path.
fn curl(address: &str, path: &str) -> String {
    let mut command = Command::new("curl");
    command.args(["-s", "-o", "/dev/null", "-w", "%{http_code}", "-m", "10"]);
    let output = command.arg(format!("http://{address}{path}")).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// The decision of the event that follows.
fn decided(up: &Up) -> Value {
    let decision = up.event("decision");
    let fields = ["client", "identity", "workload", "decision", "reason"];
    fields.map(|field| (field.to_owned(), decision[field].clone())).into_iter().collect()
}

fn identity(account: &str) -> String {
    format!("{account}.emojivoto.serviceaccount.identity.portcullis.cluster.local")
}

#[test]
fn plaintext_to_a_call_arrives_with_the_identity_of_its_client() {
    let directory = example("emojivoto");
    let up = Up::start(directory.path());
    assert_eq!(curl(call(&up, "emojivoto/vote-bot", "emojivoto/web"), "/api/vote"), "200");
    let expected = json!({
        "client": "emojivoto/vote-bot", "identity": identity("vote-bot"),
        "workload": "emojivoto/web-0", "decision": "allow", "reason": null,
    });
    assert_eq!(decided(&up), expected);
    assert_eq!(curl(call(&up, "emojivoto/voting", "emojivoto/web"), "/api/vote"), "403");
    let expected = json!({
        "client": "emojivoto/voting", "identity": identity("voting"),
        "workload": "emojivoto/web-0", "decision": "deny", "reason": "unauthorized",
    });
    assert_eq!(decided(&up), expected);
}

#[test]
fn grpc_in_plaintext_to_a_call_is_decided_by_identity() {
    let directory = example("emojivoto");
    let up = Up::start(directory.path());
    let ask = |client: &str| {
        let address = call(&up, client, "emojivoto/emoji");
        let url = format!("grpc://{address}/emojivoto.v1.EmojiService/ListAll");
        let (code, answer) =
            answer(portcullis().args(["request", "-o", "json", &url]).output().unwrap());
        (code, answer["grpcStatus"].clone())
    };
    assert_eq!(ask("emojivoto/web"), (0, 0.into()));
    assert_eq!(ask("emojivoto/vote-bot"), (3, 7.into()));
}

#[test]
fn the_line_to_paste_needs_neither_certificate_nor_source_address() {
    let directory = example("emojivoto");
    let up = Up::start(directory.path());
    let line = up.client("emojivoto/vote-bot")["command"].as_str().unwrap();
    let address = call(&up, "emojivoto/vote-bot", "emojivoto/web");
    assert_eq!(line, format!("curl -si http://{address}/api"));
    let output = Command::new("sh").args(["-c", line]).stdin(Stdio::null()).output().unwrap();
    let response = String::from_utf8(output.stdout).unwrap();
    assert!(response.starts_with("HTTP/1.1 200 "), "{response}");
}

/// Clients by name with their Services, as `-o json` has them.
fn in_json(up: &Up) -> BTreeSet<[String; 2]> {
    let clients = up.ready["clients"].as_array().unwrap();
    let calls = clients.iter().flat_map(|client| {
        let calls = client.get("calls").and_then(Value::as_array).into_iter().flatten();
        calls.map(|call| {
            let service = format!("{}:{}", call["service"].as_str().unwrap(), call["port"]);
            [client["name"].as_str().unwrap().to_owned(), service]
        })
    });
    calls.collect()
}

/// The same, as people see them.
fn in_table(text: &str) -> BTreeSet<[String; 2]> {
    let rows = text.lines().skip_while(|line| !line.starts_with("CALLER")).skip(1);
    let row = |line: &str| {
        let cells: Vec<&str> = line.split_whitespace().collect();
        let [caller, service, address] = cells[..] else { panic!("{line}") };
        assert!(address.starts_with("127."), "{line}");
        [caller.to_owned(), service.to_owned()]
    };
    rows.take_while(|line| !line.is_empty()).map(row).collect()
}

#[test]
fn every_client_with_an_identity_has_an_address_of_its_own_for_every_service() {
    let directory = example("emojivoto");
    let services = ["emoji:8080", "voting:8080", "web:80"];
    let expected: BTreeSet<_> = CLIENTS
        .into_iter()
        .flat_map(|client| services.map(|own| [client.to_owned(), format!("emojivoto/{own}")]))
        .collect();
    let up = Up::start(directory.path());
    assert_eq!(in_json(&up), expected);
    let clients = up.ready["clients"].as_array().unwrap();
    let calls = clients.iter().flat_map(|client| client.get("calls").and_then(Value::as_array));
    let addresses: BTreeSet<&str> =
        calls.flatten().map(|call| call["address"].as_str().unwrap()).collect();
    assert_eq!(addresses.len(), expected.len(), "{addresses:?}");
    drop(up);
    let (text, _) = tables(directory.path());
    assert_eq!(in_table(&text), expected, "{text}");
}

#[test]
fn without_services_nobody_has_calls() {
    let directory = example("audit-mode");
    let up = Up::start(directory.path());
    assert_eq!(in_json(&up), BTreeSet::new());
    let line = up.client("bookshop/nightly-report")["command"].as_str().unwrap();
    assert!(line.contains(" --cert "), "{line}");
    drop(up);
    let (text, _) = tables(directory.path());
    assert!(!text.contains("CALLER"), "{text}");
}

const LATER: &str = "\
apiVersion: v1
kind: Service
metadata: {name: page, namespace: emojivoto}
spec: {selector: {app: web}, ports: [{name: http, port: 8088, targetPort: http}]}
";

#[test]
fn a_service_that_appears_later_is_told_and_called() {
    let directory = example("emojivoto");
    let up = Up::start(directory.path());
    std::fs::write(directory.path().join("page.yaml"), LATER).unwrap();
    let changed = up.event("changed");
    let calls = changed["calls"].as_array().unwrap();
    let names: BTreeSet<_> = calls
        .iter()
        .map(|call| ["client", "service"].map(|field| call[field].as_str().unwrap()))
        .collect();
    assert_eq!(names, CLIENTS.map(|client| [client, "emojivoto/page"]).into());
    assert_eq!(calls.len(), CLIENTS.len(), "{changed:#}");
    let bot = calls.iter().find(|call| call["client"] == "emojivoto/vote-bot").unwrap();
    assert_eq!(bot["port"], 8088);
    let address = bot["address"].as_str().unwrap();
    assert_eq!(curl(address, "/api/vote"), "200");
    // Calls that were there before keep their addresses.
    assert_eq!(curl(call(&up, "emojivoto/vote-bot", "emojivoto/web"), "/api/vote"), "200");
    std::fs::remove_file(directory.path().join("page.yaml")).unwrap();
    let deadline = Instant::now() + PATIENCE;
    while curl(address, "/api/vote") != "000" {
        assert!(Instant::now() < deadline, "the address of a Service that is gone still answers");
    }
}

/// As many may not bind port 80.
#[test]
fn a_privileged_port_becomes_one_that_everybody_may_bind() {
    let directory = example("emojivoto");
    let up = Up::start(directory.path());
    let address = call(&up, "emojivoto/vote-bot", "emojivoto/web");
    assert!(address.ends_with(":8080"), "{address}");
    let calls = up.client("emojivoto/vote-bot")["calls"].as_array().unwrap();
    let web = calls.iter().find(|call| call["service"] == "emojivoto/web").unwrap();
    assert_eq!(web["port"], 80);
}

#[test]
fn the_readme_has_the_lines_that_are_printed() {
    let directory = example("emojivoto");
    let up = Up::start(directory.path());
    let own = up.port("emojivoto/web-0", 8080)["address"].as_str().unwrap();
    let (subnet, _) = own.split_once(".64.").unwrap();
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("../README.md");
    let readme = std::fs::read_to_string(readme).unwrap().replace("127.10.", &format!("{subnet}."));
    let bot = up.client("emojivoto/vote-bot")["command"].as_str().unwrap();
    let refused = format!("curl -si http://{}/api", call(&up, "emojivoto/voting", "emojivoto/web"));
    let lines: Vec<&str> = readme.lines().map(str::trim).collect();
    for line in [bot, &refused] {
        assert!(lines.contains(&line), "no `{line}`");
    }
}
