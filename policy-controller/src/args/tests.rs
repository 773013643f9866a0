//! Flags become settings, and wrong ones are rejected.

use super::run::CLUSTER_ONLY_FLAGS;
use super::*;
use clap::Parser;
use ipnet::IpNet;
use policy_core::{DefaultPolicy, UndeclaredPorts};
use policy_discovery::serve::ServeConfig;
use policy_engine::compatibility::{
    DIFFERENCES, Difference, SeenIn, Whose, with_ours, with_preset,
};
use policy_engine::config::{
    ControllerConfig, KubeletExemption, PodGateways, ProbeRoutes, ReferenceGrants,
};
use std::collections::BTreeSet;
use std::num::NonZeroU16;

fn settings(flags: &[&str]) -> Result<Settings, String> {
    settings_in_cluster(&[&["--manifests", "/m"], flags].concat())
}

fn settings_in_cluster(flags: &[&str]) -> Result<Settings, String> {
    let command = ["policy-controller", "run"];
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

/// Of each difference the flag, as it is written and read, sets what the list says.
#[test]
fn each_flag_of_a_difference_sets_what_the_list_says() {
    let controller = |flags: &[&str]| settings(flags).unwrap().controller;
    let plain = controller(&[]);
    for difference in &DIFFERENCES {
        let Some((flag, value)) = difference.flag() else { continue };
        let mut expected = plain.clone();
        difference.set(&mut expected, Whose::Linkerd);
        let flag = format!("--{flag}={value}");
        assert_eq!(controller(&[&flag]), expected, "{flag}");
    }
}

#[test]
fn linkerd_compatible_sets_every_flag_of_the_list_and_what_is_given_wins() {
    let controller = |flags: &[&str]| settings(flags).unwrap().controller;
    let preset = "--linkerd-compatible";
    assert_eq!(controller(&[preset]), with_preset(controller(&[])));
    for (flag, name) in [
        ("--probe-networks=node-local", "probe-networks"),
        ("--probe-routes=always", "probe-routes"),
        ("--reference-grants=enforce", "reference-grants"),
        ("--localhost-authorization=false", "localhost"),
        ("--invalid-routes=portcullis", "invalid-routes"),
        ("--admin-port=portcullis", "admin-port"),
    ] {
        let expected = with_ours(controller(&[preset]), name).unwrap();
        assert_ne!(expected, controller(&[preset]), "{name}");
        // In either order.
        assert_eq!(controller(&[preset, flag]), expected, "{flag}");
        assert_eq!(controller(&[flag, preset]), expected, "{flag}");
    }
    assert!(refusal(&["--invalid-routes=safe"]).contains("possible values: portcullis, linkerd"));
}

/// The page about differences, with its guide and its table of Linkerd's flags.
const PAGE: &str = include_str!("../../../docs/compatible.md");

/// The names in quotes in the first cells of the table below a heading.
fn first_cells(heading: &str) -> BTreeSet<&'static str> {
    let (_, section) = PAGE.split_once(&format!("\n## {heading}\n")).unwrap();
    let section = section.split("\n## ").next().unwrap();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `"));
    let cells = rows.map(|row| row.split(" |").next().unwrap());
    cells.flat_map(|cell| cell.split('`').step_by(2)).filter(|name| !name.is_empty()).collect()
}

#[test]
fn the_guide_has_a_step_for_each_difference_of_messages_with_a_flag() {
    let with_a_flag = |it: &&Difference| it.flag().is_some() && it.seen_in == SeenIn::Messages;
    let expected: BTreeSet<&str> =
        DIFFERENCES.iter().filter(with_a_flag).map(|difference| difference.name).collect();
    assert_eq!(first_cells("Then one difference after the other"), expected);
}

#[test]
fn flags_of_linkerds_controller_are_taken_or_refused_as_the_page_says() {
    let refused = first_cells("Flags of Linkerd's policy controller");
    assert_eq!(refused.len(), 10, "{refused:?}");
    for flag in refused {
        let error = refusal(&[&format!("{flag}=1")]);
        assert!(error.contains(&format!("unexpected argument '{flag}' found")), "{error}");
    }
    for flag in [
        "--log-level=info",
        "--log-format=plain",
        "--admin-addr=:9990",
        "--admission-controller-disabled",
        "--grpc-addr=127.0.0.1:8090",
        "--cluster-networks=10.0.0.0/8",
        "--identity-domain=cluster.local",
        "--default-policy=all-unauthenticated",
        "--control-plane-namespace=linkerd",
        "--probe-networks=0.0.0.0/0,::/0",
    ] {
        assert!(settings(&[flag]).is_ok(), "{flag}");
    }
}

/// Connections to their addresses would go straight on, in plaintext.
#[test]
fn machines_count_by_address_only_where_sidecars_look_it_up() {
    let machines = "--external-workload-namespaces=vms";
    let refused = settings_in_cluster(&["--injector", machines]).unwrap_err();
    assert!(refused.contains("give --injector-outbound-networks"), "{refused}");
    let networks = "--injector-outbound-networks=10.0.0.0/8,192.0.2.0/24";
    for flags in [&["--injector", machines, networks][..], &["--injector"], &[machines]] {
        let read = settings_in_cluster(flags);
        assert!(read.is_ok(), "{flags:?}: {:?}", read.err());
    }
}

#[test]
fn the_injector_knows_whether_lookups_are_answered() {
    for (flag, expected) in [("enabled", false), ("disabled", true)] {
        let flag = format!("--outbound-discovery={flag}");
        let SourceSettings::Cluster(cluster) =
            settings_in_cluster(&["--injector", &flag]).unwrap().source
        else {
            panic!("no cluster")
        };
        assert_eq!(cluster.injector.unwrap().outbound.is_unanswered, expected, "{flag}");
    }
}

#[test]
fn refusals_name_the_flag_the_value_and_what_is_allowed() {
    for (flag, want) in [
        (
            "--grpc-addr=localhost",
            "'localhost' for '--grpc-addr <ADDR>': expected an address and port",
        ),
        ("--cluster-networks=10.0.0.0/8,10.0.0.0/33", "`10.0.0.0/33` has no valid length"),
        ("--cluster-networks=010.0.0.0/8", "`010.0.0.0/8` has leading zeros"),
        ("--host-ips=::ffff:10.0.0.1", "`::ffff:10.0.0.1` is IPv4 in IPv6 notation"),
        ("--probe-networks=node", "`fd00::/8`; `node-local` is allowed, too"),
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
