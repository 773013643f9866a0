//! Our messages of Linkerd's API beside Linkerd's own, row by row of the list of deliberate
//! differences (docs/compatible.md), through the program and Linkerd's published client.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::wildcard_imports,
    reason = "a test says what it expects by failing"
)]

mod agreements;
mod cases;
mod corpus;
mod in_time;
mod messages;
#[path = "../process/mod.rs"]
mod process;

use cases::{CASES, Case};
use linkerd2_proxy_api::inbound::inbound_server_policies_client::InboundServerPoliciesClient;
use linkerd2_proxy_api::inbound::{PortSpec, Server};
use messages::without_removal;
use policy_engine::compatibility::{DIFFERENCES, Difference, Restoration, SeenIn};
use policy_testkit::soon;
use process::Controller;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use tonic::transport::Endpoint;

const PRESET: &str = "--linkerd-compatible";

/// Rows that no single message shows, each with the test that holds it.
const IN_TIME: [(&str, &str, &str); 4] = [
    (
        "invalid-updates",
        "policy-controller/tests/compatible/in_time.rs",
        "an_invalid_update_ends_what_the_object_granted",
    ),
    (
        "pod-updates",
        "policy-controller/tests/compatible/in_time.rs",
        "a_pod_of_the_same_name_has_its_own_ports",
    ),
    (
        "emptied-namespaces",
        "policy-controller/tests/compatible/in_time.rs",
        "limits_and_calls_outlive_the_rest_of_their_namespace",
    ),
    (
        "large-messages",
        "policy-controller/discovery/src/serve/tests/compat.rs",
        "a_policy_too_large_for_the_client_is_a_denial",
    ),
];

/// The rows without a flag. One more is a decision: a difference that a flag can undo gets one.
const WITHOUT_A_FLAG: [&str; 11] = [
    "calls-without-a-method",
    "emptied-namespaces",
    "invalid-updates",
    "large-messages",
    "pod-updates",
    "redirects-without-a-status",
    "refused-objects",
    "refused-values",
    "relative-probe-paths",
    "route-acceptance",
    "strangers-routes",
];

/// Documents, and the port of the pod `web` that is asked for.
type Request = (&'static [&'static str], u32);

/// The messages of a controller with `flags`, for documents that are each in namespaces of their own.
async fn messages(requests: &[Request], flags: &[&str]) -> Vec<Server> {
    let manifests = tempfile::tempdir().unwrap();
    for (number, (documents, _)) in requests.iter().enumerate() {
        let text = in_own_namespaces(&documents.join("---\n"), number);
        std::fs::write(manifests.path().join(format!("{number}.yaml")), text).unwrap();
    }
    let controller = Controller::start(manifests.path(), "127.0.0.1:0", flags);
    controller.ready();
    let address = format!("http://{}", controller.grpc);
    let channel = soon(Endpoint::from_shared(address).unwrap().connect()).await.unwrap();
    let mut client = InboundServerPoliciesClient::new(channel);
    let mut found = Vec::new();
    for (number, (_, port)) in requests.iter().enumerate() {
        let workload = format!("{{\"ns\": \"shop-{number}\", \"pod\": \"web\"}}\n");
        let spec = PortSpec { workload, port: *port };
        found.push(soon(client.get_port(spec)).await.unwrap().into_inner());
    }
    found
}

/// The messages of `cases`.
async fn of_cases(cases: &[&Case], flags: &[&str]) -> Vec<Server> {
    let requests: Vec<Request> = cases.iter().map(|case| (case.manifests, case.port)).collect();
    messages(&requests, flags).await
}

/// The manifests in namespaces of this number. Messages name no namespace.
fn in_own_namespaces(text: &str, number: usize) -> String {
    ["shop", "bank"].iter().fold(text.to_owned(), |text, name| {
        let moved =
            text.replace(&format!("namespace: {name}"), &format!("namespace: {name}-{number}"));
        moved.replace(&format!("{{name: {name},"), &format!("{{name: {name}-{number},"))
    })
}

/// The row of a case.
fn row(case: &Case) -> &'static Difference {
    DIFFERENCES.iter().find(|row| row.name == case.row).unwrap_or_else(|| panic!("{}", case.row))
}

/// The cases with the same settings and, if it is asked for, of the same row.
fn grouped(by_row: bool) -> BTreeMap<(&'static [&'static str], &'static str), Vec<&'static Case>> {
    let mut groups: BTreeMap<_, Vec<&Case>> = BTreeMap::new();
    for case in CASES {
        groups.entry((case.settings, if by_row { case.row } else { "" })).or_default().push(case);
    }
    groups
}

#[track_caller]
fn same(found: &Server, expected: &Server, case: &Case, words: &str) {
    assert_eq!(found, expected, "{}: {words}\n{}", case.row, case.manifests.join("---"));
}

#[test]
fn every_row_that_reaches_messages_has_a_case_and_every_case_a_row() {
    let rows = DIFFERENCES.iter().filter(|row| row.seen_in == SeenIn::Messages);
    let rows: BTreeSet<&str> = rows.map(|row| row.name).collect();
    let cases = CASES.iter().map(|case| case.row);
    let without = DIFFERENCES.iter().filter(|row| rows.contains(row.name) && row.flag().is_none());
    let without: BTreeSet<&str> = without.map(|row| row.name).collect();
    assert_eq!(without, BTreeSet::from(WITHOUT_A_FLAG));
    let held: BTreeSet<&str> = cases.chain(IN_TIME.iter().map(|(row, ..)| *row)).collect();
    assert_eq!(held, rows);
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for (row, file, test) in IN_TIME {
        let source = std::fs::read_to_string(root.join(file)).unwrap();
        assert!(source.contains(&format!("fn {test}(")), "{row}: no test {test} in {file}");
        let restoration = DIFFERENCES.iter().find(|difference| difference.name == row);
        assert!(matches!(restoration.unwrap().restoration, Restoration::None(_)), "{row}");
    }
}

#[tokio::test]
async fn with_the_preset_each_message_is_linkerds() {
    for ((settings, _), cases) in grouped(false) {
        let found = of_cases(&cases, &[settings, &[PRESET]].concat()).await;
        for (case, found) in cases.iter().zip(found) {
            assert_ne!((case.linkerd)(), (case.ours)(), "{}", case.row);
            match row(case).flag() {
                Some(_) => same(&found, &(case.linkerd)(), case, "with the preset"),
                None => same(&found, &(case.ours)(), case, "with the preset, without a flag"),
            }
        }
    }
}

#[tokio::test]
async fn each_difference_is_taken_back_alone_by_its_flag_beside_the_preset() {
    for ((settings, name), cases) in grouped(true) {
        let Some(back) = ours(row(cases[0])) else { continue };
        let found = of_cases(&cases, &[settings, &[PRESET, &back]].concat()).await;
        for (case, found) in cases.iter().zip(found) {
            same(&found, &(case.ours)(), case, &format!("with the preset and {back} ({name})"));
        }
    }
}

#[tokio::test]
async fn without_the_preset_each_message_differs_by_its_row_alone() {
    for ((settings, _), cases) in grouped(false) {
        let cases: Vec<&Case> =
            cases.into_iter().filter(|case| row(case).flag().is_some()).collect();
        let found = of_cases(&cases, settings).await;
        for (case, found) in cases.iter().zip(found) {
            same(&plain(case, found), &(case.ours)(), case, "without flags");
        }
    }
}

#[tokio::test]
async fn the_flag_of_a_row_alone_closes_its_difference_alone() {
    for ((settings, _), cases) in grouped(true) {
        let Some((flag, value)) = row(cases[0]).flag() else { continue };
        let flag = format!("--{flag}={value}");
        let found = of_cases(&cases, &[settings, &[&flag]].concat()).await;
        for (case, found) in cases.iter().zip(found) {
            same(&plain(case, found), &(case.linkerd)(), case, &flag);
        }
    }
}

/// The message without the filter that every rule begins with, except in the case about it.
fn plain(case: &Case, message: Server) -> Server {
    if case.row == "connection-secure-header" { message } else { without_removal(message) }
}

/// The flag with which our behaviour is taken back beside the preset.
fn ours(row: &Difference) -> Option<String> {
    let (flag, _) = row.flag()?;
    let value = match flag {
        "probe-networks" => "node-local",
        "probe-routes" => "always",
        "reference-grants" => "enforce",
        switched => {
            assert!(
                matches!(row.restoration, Restoration::Behaviour(_)),
                "our value of {switched}"
            );
            "portcullis"
        }
    };
    Some(format!("--{flag}={value}"))
}

#[tokio::test]
async fn localhost_is_never_sent_because_linkerds_proxies_have_it() {
    let cases: Vec<&Case> = CASES.iter().filter(|case| case.row == "port-lists").collect();
    let plain = of_cases(&cases, &[PRESET, "--localhost-authorization=false"]).await;
    assert_eq!(of_cases(&cases, &[PRESET]).await, plain);
}

#[test]
fn the_program_says_at_its_start_what_the_preset_has_set() {
    let manifests = tempfile::tempdir().unwrap();
    let flags = [PRESET, "--probe-routes=always", "--invalid-routes=portcullis"];
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_policy-controller"));
    let command = command.arg("run").arg("--manifests").arg(manifests.path());
    let command = command.args(["--grpc-addr=127.0.0.1:0", "--admin-addr=127.0.0.1:0"]);
    let command = command.args(["--log-format=json"]).args(flags);
    let program =
        process::Program::start_reading_errors(command.env_remove("LINKERD_POLICY_CONTROLLER_LOG"));
    let (set, kept) = program.find("what the preset has set", |line| {
        let line: serde_json::Value = serde_json::from_str(line).ok()?;
        let fields = line.get("fields")?;
        let text = |name: &str| Some(fields.get(name)?.as_str()?.to_owned());
        Some((text("set")?, text("kept")?))
    });
    let flags = DIFFERENCES.iter().filter_map(Difference::flag);
    let expected: Vec<String> = flags
        .filter(|(flag, _)| !["probe-routes", "invalid-routes"].contains(flag))
        .map(|(flag, value)| format!("--{flag}={value}"))
        .collect();
    assert_eq!(set.split(' ').collect::<Vec<_>>(), expected);
    assert_eq!(kept, "--probe-routes --invalid-routes");
}
