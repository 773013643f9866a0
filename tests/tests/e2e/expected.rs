//! What examples expect, asked by real clients.

use super::clients::{Got, How, ask_at, come_from, write_credentials};
use super::world::identity;
use policy_cli::expect::{Client, Expectation, Verdict, Version};
use policy_tests::cluster::node::{Node, Place};
use std::net::IpAddr;
use std::path::Path;

/// Somebody inside the cluster's networks.
const INSIDE: &str = "10.99.0.9";

/// Compares an outcome with what an expectation states.
pub(crate) fn as_expected(expectation: &Expectation, seen: &Got) -> Result<(), String> {
    let denied = match (expectation.grpc.is_some(), expectation.reason.as_deref()) {
        (_, _) if expectation.tcp => vec![Got::Nothing],
        (true, Some("no_route")) => vec![Got::Status(1012), Got::Status(1005), Got::Status(404)],
        (true, _) => vec![Got::Status(1007)],
        (false, Some("no_route")) => vec![Got::Status(404)],
        (false, Some(reason)) if reason.starts_with("target_") => vec![Got::Status(400)],
        (false, _) => vec![Got::Status(403)],
    };
    let allowed = vec![Got::Status(200), Got::Status(1000)];
    let expected = match expectation.decision {
        Verdict::Allow => allowed,
        Verdict::Deny => denied,
        Verdict::Audit => return Err("the example audits nothing".to_owned()),
    };
    expected.contains(seen).then_some(()).ok_or_else(|| format!("{seen:?} and not {expected:?}"))
}

/// Asks what the expectation asks, of the pod that it means, from where it says. Who has an identity
/// asks with it from an address of this machine.
pub(crate) async fn put(node: &Node, expectation: &Expectation) -> Got {
    let (server, host) = target(node, expectation).await;
    let (mut arguments, url) = question(expectation, &host);
    let from = &expectation.from;
    assert!(from.identity.is_none() && from.tls.is_none(), "{from:?}: nobody asks like this yet");
    let folder = tempfile::tempdir().unwrap();
    let credentials = credentials(from, folder.path());
    if credentials {
        arguments.extend(How::Meshed(&server).arguments(&folder.path().display().to_string()));
    }
    let place = if from.node { Place::Node } else { Place::Machine };
    if place == Place::Machine {
        let address = from.address.unwrap_or_else(|| INSIDE.parse::<IpAddr>().unwrap());
        come_from(node, address).await;
        arguments.push(format!("--from={address}"));
    }
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    ask_at(node, place, &arguments, &url).await
}

/// The identity of the pod that an expectation means, and its address with the port.
pub(crate) async fn target(node: &Node, expectation: &Expectation) -> (String, String) {
    let to = &expectation.to;
    let (workload, number) = to.name.rsplit_once('-').unwrap();
    let mut pods = node.pods(&to.namespace, &format!("app={workload}")).await.unwrap();
    pods.sort();
    let pod = &pods[number.parse::<usize>().unwrap()];
    let pod = node.pod(&to.namespace, pod).await.unwrap();
    let host = format!("{}:{}", pod["status"]["podIP"].as_str().unwrap(), to.port);
    (identity(&to.namespace, workload), host)
}

/// As arguments and URL of `portcullis request`.
pub(crate) fn question(expectation: &Expectation, host: &str) -> (Vec<String>, String) {
    let mut arguments = Vec::new();
    for (name, lines) in &expectation.headers {
        for line in lines.as_slice() {
            arguments.extend(["-H".to_owned(), format!("{name}: {line}")]);
        }
    }
    if let Some(host) = &expectation.host {
        arguments.extend(["-H".to_owned(), format!("host: {host}")]);
    }
    let url = match (&expectation.http, &expectation.grpc) {
        (Some(http), _) => {
            let (method, target) = http.split_once(' ').unwrap();
            arguments.extend(["-X".to_owned(), method.to_owned()]);
            let scheme = match expectation.version {
                Version::H1 => "http",
                Version::H2 => "h2",
            };
            format!("{scheme}://{host}{target}")
        }
        (None, Some(grpc)) => format!("grpc://{host}/{grpc}"),
        (None, None) => format!("tcp://{host}"),
    };
    (arguments, url)
}

/// Puts the credentials of whom the expectation names into the folder; false: it names nobody.
fn credentials(from: &Client, folder: &Path) -> bool {
    let Some(account) = from.service_account.as_deref() else { return false };
    let (namespace, name) = account.split_once('/').unwrap();
    write_credentials(folder, &identity(namespace, name));
    true
}
