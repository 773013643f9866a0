//! The clients read every policy of the examples and of the scenarios.

use crate::clients::{Language, root};
use crate::fake::serve;
use policy_core::Feature;
use policy_engine::ControllerConfig;
use policy_engine::compile_directory;
use policy_proto::messages as m;
use policy_proto::messages::watch_request::Kind as Say;
use policy_proto::messages::watch_response::Kind as Hear;
use policy_proto::native::{encode_facts, encode_port, encode_revision};
use std::collections::BTreeSet;
use std::num::NonZeroU16;
use std::path::PathBuf;

/// The folders of manifests.
fn manifests() -> Vec<PathBuf> {
    let folders = |of: &str| {
        let entries = std::fs::read_dir(root().join(of)).unwrap();
        let mut folders: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
        folders.sort();
        folders
    };
    let scenarios = folders("tests/scenarios").into_iter().map(|folder| folder.join("manifests"));
    folders("examples").into_iter().chain(scenarios).filter(|folder| folder.is_dir()).collect()
}

/// Every policy and every workload in them, with its place. Ports are numbered, so that each update is
/// of a port of its own.
fn messages() -> Vec<(String, Hear)> {
    let features: BTreeSet<Feature> = Feature::ALL.into();
    // The proxy's own port has a policy for metrics.
    let own = NonZeroU16::new(4191).unwrap();
    let config = ControllerConfig { proxy_ports: [own].into(), ..ControllerConfig::default() };
    let mut messages = Vec::new();
    let mut port = NonZeroU16::MIN;
    for folder in manifests() {
        let compiled = compile_directory(&folder, &config).unwrap();
        for (key, workload) in &compiled.workloads {
            let place = format!("{}: {key}", folder.display());
            let revision = policy_core::Revision::default();
            let said = m::Workload {
                name: key.to_string(),
                facts: Some(encode_facts(&workload.state.facts)),
                declared_ports: Vec::new(),
                undeclared: m::Undeclared::Deny.into(),
                revision: Some(encode_revision(&revision)),
                takes_refusals: false,
            };
            messages.push((place.clone(), Hear::Workload(said)));
            for (number, policy) in &workload.policy.ports {
                let update = encode_port(policy, &features).full(port, &revision);
                messages.push((format!("{place} {number}"), Hear::Port(update)));
                port = port.checked_add(1).unwrap();
            }
        }
    }
    messages
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_example_clients_read_every_policy_of_examples_and_scenarios() {
    let messages = messages();
    let policies = messages.iter().filter(|(_, said)| matches!(said, Hear::Port(_))).count();
    assert!(policies > 400, "{policies}");
    for language in Language::ALL {
        let (address, mut streams) = serve().await;
        let names = Feature::ALL.map(|feature| format!("--feature={}", feature.as_str()));
        let mut arguments = vec!["shop:web", "--ack"];
        arguments.extend(names.iter().map(String::as_str));
        let mut client = language.client(&address.to_string(), &arguments);
        // It says thousands of lines, which nobody reads here.
        let mut client = client.stdout(std::process::Stdio::null()).spawn().unwrap();
        let mut stream = streams.recv().await.unwrap();
        stream.hello().await;
        let mut refused = Vec::new();
        for (place, said) in &messages {
            stream.send(said.clone()).await;
            let Hear::Port(sent) = said else { continue };
            match stream.next().await {
                Say::Ack(ack) => {
                    assert_eq!((ack.port, ack.revision), (sent.port, sent.revision.clone()));
                }
                other => refused.push(format!("{place}: {other:?}")),
            }
        }
        client.kill().unwrap();
        client.wait().unwrap();
        assert!(refused.is_empty(), "{language:?} refuses:\n{}", refused.join("\n"));
    }
}
