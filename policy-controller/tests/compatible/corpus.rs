//! Every scenario and example with the preset: nothing in a message shows that it is ours, unless the
//! list of differences or an extension of Linkerd's schema says so.

use crate::messages::{removal, removal_of_calls};
use crate::process::Controller;
use linkerd2_proxy_api::http_route::{HttpRouteMatch, header_match, path_match};
use linkerd2_proxy_api::inbound::inbound_server_policies_client::InboundServerPoliciesClient;
use linkerd2_proxy_api::inbound::proxy_protocol::Kind;
use linkerd2_proxy_api::inbound::{Authz, PortSpec, Server};
use linkerd2_proxy_api::meta::{Metadata, metadata};
use policy_core::DefaultPolicy;
use policy_engine::{ControllerConfig, compile_directory};
use policy_testkit::soon;
use std::path::{Path, PathBuf};
use tonic::transport::Endpoint;

/// Scenarios about what Linkerd's schema does not have, and about pods without Linkerd's injector
/// whose Namespace cannot be read.
const EXTENSIONS: [&str; 3] = [
    "undeclared-ports-are-refused-where-asked",
    "an-invalid-namespace-opens-nothing",
    "the-ports-of-a-traffictarget-are-those-that-it-names",
];

/// The folders of manifests.
fn folders() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let listed = |folder: &str| {
        let entries = std::fs::read_dir(root.join(folder)).unwrap();
        entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()).collect::<Vec<_>>()
    };
    let scenarios = listed("tests/scenarios").into_iter().map(|path| path.join("manifests"));
    let mut folders: Vec<PathBuf> = scenarios.chain(listed("examples")).collect();
    folders.retain(|path| !EXTENSIONS.iter().any(|name| path.to_string_lossy().contains(name)));
    folders.retain(|path| !has_own_kinds(path));
    folders.sort();
    assert!(folders.len() > 70, "{} folders", folders.len());
    folders
}

/// True for manifests of kinds that Linkerd does not have.
fn has_own_kinds(folder: &Path) -> bool {
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut texts = files.filter_map(|file| std::fs::read_to_string(file).ok());
    texts.any(|text| text.contains("apiVersion: portcullis.dev/"))
}

/// Parts of a message that Linkerd's controller would not send.
fn foreign(server: &Server) -> Vec<String> {
    let mut found = Vec::new();
    if !server.server_ips.is_empty() {
        found.push("server_ips".to_owned());
    }
    found.extend(server.authorizations.iter().filter_map(|it| foreign_authz(it, &[])));
    let (http, grpc) = match server.protocol.as_ref().and_then(|protocol| protocol.kind.as_ref()) {
        Some(Kind::Detect(detect)) => (&detect.http_routes[..], &[][..]),
        Some(Kind::Http1(http)) => (&http.routes[..], &[][..]),
        Some(Kind::Http2(http)) => (&http.routes[..], &[][..]),
        Some(Kind::Grpc(grpc)) => (&[][..], &grpc.routes[..]),
        Some(Kind::Opaque(_) | Kind::Tls(_)) | None => (&[][..], &[][..]),
    };
    for route in http {
        found.extend(foreign_name(route.metadata.as_ref(), &["default", "probe"]));
        found.extend(route.authorizations.iter().filter_map(|it| foreign_authz(it, &["probe"])));
        for rule in &route.rules {
            let ours = rule.filters.contains(&removal());
            found.extend(ours.then(|| "removal of l5d-connection-secure".to_owned()));
            found.extend(rule.matches.iter().filter_map(anchored));
        }
    }
    for route in grpc {
        found.extend(foreign_name(route.metadata.as_ref(), &["default"]));
        found.extend(route.authorizations.iter().filter_map(|it| foreign_authz(it, &[])));
        let ours = route.rules.iter().any(|rule| rule.filters.contains(&removal_of_calls()));
        found.extend(ours.then(|| "removal of l5d-connection-secure".to_owned()));
    }
    found
}

fn anchored(matched: &HttpRouteMatch) -> Option<String> {
    let path = matched.path.as_ref().and_then(|path| path.kind.as_ref());
    let path = path.and_then(|kind| match kind {
        path_match::Kind::Regex(text) => Some(text),
        path_match::Kind::Exact(_) | path_match::Kind::Prefix(_) => None,
    });
    let headers = matched.headers.iter().filter_map(|header| match header.value.as_ref() {
        Some(header_match::Value::Regex(text)) => Some(text),
        Some(header_match::Value::Exact(_)) | None => None,
    });
    let found = path.into_iter().chain(headers).find(|text| text.starts_with("^(?:"));
    found.map(|text| format!("the expression {text}"))
}

fn foreign_authz(authorization: &Authz, further: &[&str]) -> Option<String> {
    let known: Vec<&str> = DefaultPolicy::ALL.iter().map(|policy| policy.as_str()).collect();
    foreign_name(authorization.metadata.as_ref(), &[&known[..], further].concat())
}

fn foreign_name(metadata: Option<&Metadata>, known: &[&str]) -> Option<String> {
    match metadata.and_then(|metadata| metadata.kind.as_ref()) {
        Some(metadata::Kind::Resource(_)) => None,
        Some(metadata::Kind::Default(name)) if known.contains(&name.as_str()) => None,
        other => Some(format!("the name {other:?}")),
    }
}

#[tokio::test]
async fn with_the_preset_no_message_of_any_scenario_is_ours() {
    let (mut ours, mut ports) = (Vec::new(), 0_usize);
    for folder in folders() {
        let compiled = compile_directory(&folder, &ControllerConfig::default()).unwrap();
        let controller = Controller::start(&folder, "127.0.0.1:0", &["--linkerd-compatible"]);
        controller.ready();
        let address = format!("http://{}", controller.grpc);
        let channel = soon(Endpoint::from_shared(address).unwrap().connect()).await.unwrap();
        let mut client = InboundServerPoliciesClient::new(channel);
        for (key, workload) in &compiled.workloads {
            let declared = workload.policy.ports.keys().map(|port| port.get());
            for port in declared.chain([4191, 60_000]) {
                let kind = match key.kind {
                    policy_core::WorkloadKind::Pod => "pod",
                    policy_core::WorkloadKind::ExternalWorkload => "external_workload",
                };
                let workload =
                    format!("{{\"ns\": \"{}\", \"{kind}\": \"{}\"}}", key.namespace, key.name);
                let spec = PortSpec { workload, port: port.into() };
                let server = soon(client.get_port(spec)).await.unwrap().into_inner();
                ports += 1;
                let place = || format!("{} {key:?}:{port}", folder.display());
                ours.extend(
                    foreign(&server).into_iter().map(|what| format!("{}: {what}", place())),
                );
            }
        }
    }
    assert!(ports > 150, "{ports} ports");
    assert!(ours.is_empty(), "{}", ours.join("\n"));
}
