//! The example, asked by its own applications. They speak plaintext; its policies are about identities.

use super::super::away::controller_stays;
use super::super::clients::ask_in;
use super::super::expected::{as_expected, question, target};
use super::super::world::{meshed_namespace, node};
use super::frames::Frames;
use super::{AUTHENTICATED, addresses_of, workload};
use policy_cli::expect::{Expectation, Expectations};
use policy_tests::cluster::node::Node;
use policy_tests::sources::root;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// Namespaces of this test by the names that the example has for them.
struct Namespaces(BTreeMap<&'static str, String>);

impl Namespaces {
    async fn start(node: &Node) -> Self {
        let mut names = BTreeMap::new();
        for name in ["emojivoto", "monitoring", "other"] {
            names.insert(name, meshed_namespace(node, name, AUTHENTICATED).await);
        }
        Self(names)
    }

    fn of(&self, name: &str) -> &str {
        &self.0[name]
    }

    /// A manifest of the example, for these namespaces.
    fn translate(&self, manifest: &str) -> String {
        self.0.iter().fold(manifest.to_owned(), |text, (name, own)| {
            text.replace(&format!("namespace: {name}"), &format!("namespace: {own}")).replace(
                &format!("kind: Namespace, name: {name}"),
                &format!("kind: Namespace, name: {own}"),
            )
        })
    }
}

/// The client of an expectation that an application can be: `namespace/account`.
fn application(expectation: &Expectation) -> Option<(&str, &str)> {
    let from = &expectation.from;
    assert!(from.identity.is_none() && from.tls.is_none(), "{from:?}: nobody asks like this yet");
    // Applications come from inside the cluster.
    let account = from.service_account.as_deref().filter(|_| from.address.is_none());
    account?.split_once('/')
}

/// The URL's host: the Service of the workload, where it leads to the port.
async fn host(node: &Node, expectation: &Expectation) -> String {
    let to = &expectation.to;
    let (workload, _) = to.name.rsplit_once('-').unwrap();
    match (workload, to.port.get()) {
        ("web", 8080) => format!("web.{}:80", to.namespace),
        (_, 8080) => format!("{workload}.{}:8080", to.namespace),
        (_, _) => target(node, expectation).await.1,
    }
}

/// The addresses of every pod of the namespaces.
async fn addresses(node: &Node, namespaces: &Namespaces) -> Vec<IpAddr> {
    let mut addresses = Vec::new();
    for namespace in namespaces.0.values() {
        for pod in node.pods(namespace, "").await.unwrap() {
            addresses.extend(addresses_of(node, namespace, &pod).await);
        }
    }
    addresses
}

/// Starts the example, and an application for each client that is not part of it.
async fn start(node: &Node, namespaces: &Namespaces, clients: &BTreeSet<(&str, &str)>) {
    for name in ["workloads.yaml", "emoji.yaml", "voting.yaml", "web.yaml", "metrics.yaml"] {
        let file = root().join("examples/emojivoto").join(name);
        let manifest = std::fs::read_to_string(file).unwrap();
        node.apply(&namespaces.translate(&manifest)).await.unwrap();
    }
    let others = || clients.iter().filter(|(namespace, _)| *namespace != "emojivoto");
    for (namespace, account) in others() {
        node.apply(&workload(namespaces.of(namespace), account, "")).await.unwrap();
    }
    for name in ["emoji", "voting", "web", "vote-bot"] {
        let own = namespaces.of("emojivoto");
        node.wait_rolled_out(own, &format!("deployment/{name}")).await.unwrap();
    }
    for (namespace, account) in others() {
        node.wait_ready(namespaces.of(namespace), account).await.unwrap();
    }
}

#[tokio::test]
async fn the_examples_policies_hold_from_its_own_applications() {
    let Some(node) = node().await else { return };
    let _stays = controller_stays().await;
    let file = root().join("examples/emojivoto/expectations.yaml");
    let expectations = Expectations::read(&file).unwrap().requests;
    let clients: BTreeSet<_> = expectations.iter().filter_map(application).collect();
    let namespaces = Namespaces::start(node).await;
    start(node, &namespaces, &clients).await;

    let frames = Frames::start(node, &addresses(node, &namespaces).await).await;
    let mut wrong = Vec::new();
    let mut asked = 0_usize;
    for expectation in &expectations {
        let Some((namespace, account)) = application(expectation) else { continue };
        let mut expectation = expectation.clone();
        expectation.to.namespace = namespaces.of(&expectation.to.namespace).to_owned();
        let own = namespaces.of(namespace);
        let pod = node.pods(own, &format!("app={account}")).await.unwrap().remove(0);
        let container = if namespace == "emojivoto" { account } else { "app" };
        let (arguments, url) = question(&expectation, &host(node, &expectation).await);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let seen = ask_in(node, (own, &pod, container), &arguments, &url).await;
        asked += 1;
        if let Err(instead) = as_expected(&expectation, &seen) {
            wrong.push(format!("{}: {instead}", expectation.name));
        }
    }
    let sent = frames.stop().await;
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(asked > 10 && sent.len() >= asked, "{asked}, {}", sent.len());
    let plain: Vec<_> = sent.iter().filter(|stream| !stream.is_tls()).collect();
    assert!(plain.is_empty(), "not in TLS: {plain:?}");
    for namespace in namespaces.0.values() {
        node.remove_namespace(namespace).await.unwrap();
    }
}
