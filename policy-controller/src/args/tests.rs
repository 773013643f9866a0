//! Flags become settings, and wrong ones are rejected.

use super::run::CLUSTER_ONLY_FLAGS;
use super::*;
use clap::Parser;
use ipnet::IpNet;
use policy_core::{DefaultPolicy, UndeclaredPorts};
use policy_discovery::serve::ServeConfig;
use policy_engine::config::{
    ControllerConfig, KubeletExemption, PodGateways, ProbeRoutes, ReferenceGrants,
};
use std::num::NonZeroU16;

fn settings(flags: &[&str]) -> Result<Settings, String> {
    let command = ["policy-controller", "run", "--manifests", "/m"];
    let cli =
        Cli::try_parse_from(command.iter().chain(flags)).map_err(|error| error.to_string())?;
    let Command::Run(args) = cli.command else { panic!("another command") };
    Settings::try_from(*args).map_err(|error| error.to_string())
}

#[test]
fn flags_that_mean_nothing_with_manifests_are_refused() {
    let switches =
        ["beside_linkerd", "injector", "injector_disable_ipv6", "redirect_linkerd_proxies"];
    for name in CLUSTER_ONLY_FLAGS {
        let value = match name {
            name if switches.contains(&name) => "",
            "injector_sidecar" => "=auto",
            "server_addr" => "=:443",
            "lease_duration" | "watch_freshness" => "=100",
            "webhook_names" => "=a",
            "injector_default" => "=proxy-workers=1",
            "injector_policy_addr" | "injector_issuer_addr" => "=a:1",
            "controller_name" => "=a/b",
            "node_addresses" => "=a=::1",
            _ => "=1",
        };
        let flag = format!("--{}{value}", name.replace('_', "-"));
        let command = ["policy-controller", "run", "--manifests=/m", &flag];
        let error = Cli::try_parse_from(command).unwrap_err();
        assert_eq!(error.kind(), clap::error::ErrorKind::ArgumentConflict, "{flag}: {error}");
    }
}

fn refusal(flags: &[&str]) -> String {
    settings(flags).unwrap_err()
}

#[test]
fn without_flags_the_settings_are_the_defaults() {
    let settings = settings(&[]).unwrap();
    // A deployment of the binary has proxies; a process that embeds the controller may not.
    let proxy_ports = [NonZeroU16::new(4191).unwrap()].into();
    assert_eq!(settings.controller, ControllerConfig { proxy_ports, ..Default::default() });
    assert_eq!(settings.serve, ServeConfig::default());
    assert_eq!(settings.admin.to_string(), "0.0.0.0:8080");
    assert_eq!(settings.log_format, LogFormat::Plain);
}

#[test]
fn every_flag_reaches_its_setting() {
    let settings = settings(&[
        "--grpc-addr=127.0.0.1:8091",
        "--admin-addr=[::]:9990",
        "--cluster-networks=10.0.0.0/8, 192.0.2.1",
        "--default-policy=deny",
        "--detect-timeout=3",
        "--control-plane-namespace=mesh",
        "--probe-networks=node-local,192.0.2.0/24",
        "--kubelet-exemption=all",
        "--pod-gateways=of-pods",
        "--probe-routes=unrouted",
        "--localhost-authorization",
        "--reference-grants=warn",
        "--undeclared-ports=deny",
        "--proxy-ports=4190,4191",
        "--max-connection-age=0",
        "--max-streams-per-peer=7",
        "--max-undeclared-ports=9",
        "--log-format=json",
    ])
    .unwrap();
    let controller = settings.controller;
    assert_eq!(settings.serve.listen.to_string(), "127.0.0.1:8091");
    assert_eq!(settings.admin.to_string(), "[::]:9990");
    let networks: Vec<_> = controller.cluster_networks.iter().map(IpNet::to_string).collect();
    assert_eq!(networks, ["10.0.0.0/8", "192.0.2.1/32"]);
    assert_eq!(controller.default_policy, DefaultPolicy::Deny);
    assert_eq!(controller.detect_timeout.as_secs(), 3);
    assert!(controller.shared_namespaces.contains("mesh"));
    assert_eq!(controller.probe_networks.len(), 2);
    assert_eq!(controller.kubelet_exemption, KubeletExemption::All);
    assert_eq!(controller.pod_gateways, PodGateways::OfPods);
    assert_eq!(controller.probe_routes, ProbeRoutes::Unrouted);
    assert!(controller.localhost_authorization);
    assert_eq!(controller.reference_grants, ReferenceGrants::Warn);
    assert_eq!(controller.undeclared_ports, UndeclaredPorts::Deny);
    assert_eq!(controller.proxy_ports.len(), 2);
    assert_eq!(controller.limits.undeclared_ports_per_workload.get(), 9);
    assert_eq!(settings.serve.max_connection_age, None);
    assert_eq!(settings.serve.max_streams_per_peer, 7);
    assert_eq!(settings.log_format, LogFormat::Json);
}

#[test]
fn refusals_name_the_flag_the_value_and_what_is_allowed() {
    for (flag, want) in [
        (
            "--grpc-addr=localhost",
            "'localhost' for '--grpc-addr <ADDR>': expected an address and port",
        ),
        ("--cluster-networks=10.0.0.0/8,10.0.0.0/33", "`10.0.0.0/33` is not a CIDR or address"),
        ("--probe-networks=node", "`node` is not a CIDR or address or `node-local`"),
        (
            "--default-policy=Deny",
            "'Deny' for '--default-policy <POLICY>': expected one of all-unauth",
        ),
        ("--proxy-ports=0", "'--proxy-ports <PORTS>': `0` is not a port from 1 to 65535"),
        ("--http2-window-bytes=100", "100 is not in 16384..=2147483647"),
        ("--keepalive-interval=18446744073709551615", "18446744073709551615 is not in 1..=86400"),
        ("--max-streams-per-peer=0", "'--max-streams-per-peer <N>': 0 is not in 1..="),
    ] {
        let refused = refusal(&[flag]);
        assert!(refused.contains(want), "{flag}: {refused}");
    }
    assert!(refusal(&["--identity-domain=Cluster"]).contains("'Cluster' for '--identity-domain"));
    assert!(refusal(&["--shared-namespaces=a,B"]).contains("`B` is not a name"));
}
