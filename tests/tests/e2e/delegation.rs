//! The delegation of a host's paths among namespaces: the example, applied as its first lines say, and
//! its expectations asked by pods.

use super::away::controller_stays;
use super::clients::{Got, How, ask_in, start_client};
use super::expected::{as_expected, put, question, target};
use super::world::{eventually, node};
use policy_cli::expect::{Expectation, Expectations};
use policy_tests::cluster::node::Node;
use policy_tests::sources::root;
use serde_json::json;
use std::collections::BTreeSet;
use std::future::Future;
use std::time::{Duration, Instant};

const NAMESPACES: [&str; 4] = ["site", "legal", "finance", "partners"];

/// Most that a withdrawn consent may be in force.
const WITHDRAWN: Duration = Duration::from_secs(5);

#[tokio::test]
async fn a_delegated_host_is_answered_as_the_example_says_until_a_consent_is_withdrawn() {
    let Some(node) = node().await else { return };
    let _stays = controller_stays().await;
    let folder = root().join("examples/delegation");
    let expectations = Expectations::read(&folder.join("expectations.yaml")).unwrap().requests;
    let files = NAMESPACES.map(|name| folder.join(format!("{name}.yaml")).display().to_string());
    let files = files.iter().flat_map(|file| ["-f", file.as_str()]);
    node.kubectl().run(&["apply"].into_iter().chain(files).collect::<Vec<_>>()).await.unwrap();
    let workloads = [("site", "site"), ("finance", "ledger"), ("partners", "desk")];
    let rolled_out = workloads.map(|(namespace, name)| async move {
        node.wait_rolled_out(namespace, &format!("deployment/{name}")).await.unwrap();
    });
    let accounts: BTreeSet<&str> =
        expectations.iter().filter_map(|each| each.from.service_account.as_deref()).collect();
    let clients = accounts.iter().map(|account| async move {
        let (namespace, account) = account.split_once('/').unwrap();
        let made = ["wait", "--for=create", "-n", namespace, "serviceaccount/default"];
        node.kubectl().run(&made).await.unwrap();
        start_client(node, namespace, account).await;
    });
    tokio::join!(all(rolled_out), all(clients));

    connected(node).await;
    let asked = expectations.iter().map(|each| async move {
        let seen = from_pod(node, each).await;
        as_expected(each, &seen).map_err(|instead| format!("{}: {instead}", each.name))
    });
    let wrong: Vec<String> = all(asked).await.into_iter().filter_map(Result::err).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));

    withdraw_consent(node, &expectations).await;
    for namespace in NAMESPACES {
        node.remove_namespace(namespace).await.unwrap();
    }
}

/// The status of every object says that the tree is complete.
async fn connected(node: &Node) {
    let state = "{.status.delegationStatuses[*].state.connected.parent.prefix}";
    field(node, ("legal", "legal"), state, "/legal").await;
    field(node, ("finance", "finance"), state, "/finance").await;
    let claims = "{.status.claims[*].state}";
    field(node, ("site", "www"), claims, "Active Active Active Active").await;
    let rules = "{.status.routes[*].state}";
    field(node, ("site", "www"), rules, "Programmed Delegated Delegated Programmed").await;
    field(node, ("site", "www-admin"), rules, "Programmed").await;
}

/// Who consents to another parent alone takes nothing from this one, which goes on with the rest.
async fn withdraw_consent(node: &Node, expectations: &[Expectation]) {
    let named = |name: &str| expectations.iter().find(|each| each.name == name).unwrap();
    let delegated = named("counsel reads what the site's pods answer");
    let kept = named("the site's own page");
    consent(node, "www-admin").await;
    let began = Instant::now();
    eventually("the path is closed", Got::Status(403), || from_pod(node, delegated)).await;
    assert!(began.elapsed() < WITHDRAWN, "{:?}", began.elapsed());
    assert_eq!(from_pod(node, kept).await, Got::Status(200));
    let reason = "{.status.delegationStatuses[*].state.orphaned.reason}";
    field(node, ("legal", "legal"), reason, "NotPermitted").await;
    let rules = "{.status.routes[*].state}";
    field(node, ("site", "www"), rules, "Programmed Blackholed Delegated Programmed").await;
    consent(node, "www").await;
    eventually("the path is open again", Got::Status(200), || from_pod(node, delegated)).await;
}

/// The parent that the namespace `legal` takes a path from.
async fn consent(node: &Node, parent: &str) {
    let parent = json!({"namespace": "site", "name": parent});
    let consent = json!({"fqdn": "www.example.com", "parent": parent});
    let patch = json!({"spec": {"delegatedFrom": [consent]}}).to_string();
    let arguments = ["patch", "inboundroute", "-n", "legal", "legal", "--type=merge", "-p", &patch];
    node.kubectl().run(&arguments).await.unwrap();
}

/// Until a field of an InboundRoute's status has the value.
async fn field(node: &Node, (namespace, name): (&str, &str), path: &str, value: &str) {
    let output = format!("-ojsonpath={path}");
    let arguments = ["get", "inboundroute", "-n", namespace, name, &output];
    let read = async || node.kubectl().run(&arguments).await.unwrap();
    eventually(&format!("{path} of {namespace}/{name}"), value.to_owned(), read).await;
}

/// Asks what an expectation asks: who has an identity from a pod that has it.
async fn from_pod(node: &Node, expectation: &Expectation) -> Got {
    let Some(account) = expectation.from.service_account.as_deref() else {
        return put(node, expectation).await;
    };
    let (namespace, account) = account.split_once('/').unwrap();
    let (server, host) = target(node, expectation).await;
    let (mut arguments, url) = question(expectation, &host);
    arguments.extend(How::Meshed(&server).arguments("/identity"));
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let pod = format!("client-{account}");
    ask_in(node, (namespace, &pod, "client"), &arguments, &url).await
}

async fn all<F: Future>(tasks: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    futures_util::future::join_all(tasks).await
}
