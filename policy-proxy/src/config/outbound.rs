//! The settings of the workload's own connections.

use super::limits::positive;
use super::parse::{self, Expected};
use super::reader::Reader;
use crate::args::{OutboundArgs, RunArgs};
use crate::outbound::Destinations;
use crate::outbound::settings::{
    OutboundMode, OutboundSettings, PlaintextAllowed, Transport, Unanswered,
};
use crate::sidecar::{Listener, SidecarConfig, Target};
use ipnet::IpNet;
use policy_core::address::{parse_address, parse_block};
use policy_core::{Facts, ServiceName};
use std::net::SocketAddr;

pub(super) fn read(
    args: &RunArgs,
    reader: &mut Reader<'_>,
    facts: &Facts,
    config: &mut SidecarConfig,
) {
    let args = &args.outbound;
    config.listeners.extend(listeners(args, reader));
    let settings = &mut config.outbound;
    modes(args, reader, settings);
    let given = reader.lookup(
        "outbound-networks",
        args.outbound_networks.as_ref(),
        &["DESTINATION_PROFILE_NETWORKS"],
    );
    let default = match facts.cluster.is_empty() {
        true => std::mem::take(&mut settings.networks),
        false => facts.cluster.clone(),
    };
    settings.networks = reader.read(given, default, parse::networks);
    let typed = args.outbound_plaintext_allowed.as_ref();
    let given = reader.lookup("outbound-plaintext-allowed", typed, &[]);
    settings.plaintext_allowed = reader.read(given, Vec::new(), plaintext_allowed);
    let typed = args.outbound_connect_timeout.as_ref();
    let given = reader.lookup("outbound-connect-timeout", typed, &["OUTBOUND_CONNECT_TIMEOUT"]);
    settings.connect = reader.read(given, settings.connect, positive);
    config.destinations = Destinations::new(settings.table.clone());
}

fn listeners(args: &OutboundArgs, reader: &mut Reader<'_>) -> Vec<Listener> {
    let given = reader.lookup(
        "outbound-listen",
        args.outbound_listen.as_ref(),
        &["OUTBOUND_LISTEN_ADDRS", "OUTBOUND_LISTEN_ADDR"],
    );
    let addresses = reader.read(given, Vec::new(), sockets);
    let given = reader.lookup("outbound-forward", args.outbound_forward.as_ref(), &[]);
    let forwards = reader.read(given, Vec::new(), forwards);
    let redirected =
        addresses.into_iter().map(|address| Listener { address, target: Target::Outbound });
    let forwarded = forwards
        .into_iter()
        .map(|(address, to)| Listener { address, target: Target::OutboundTo(to) });
    redirected.chain(forwarded).collect()
}

fn modes(args: &OutboundArgs, reader: &mut Reader<'_>, settings: &mut OutboundSettings) {
    let given = reader.lookup("outbound-unanswered", args.outbound_unanswered.as_ref(), &[]);
    settings.unanswered = reader.read(given, settings.unanswered, |text| match text {
        "refuse" => Ok(Unanswered::Refuse),
        "plaintext" => Ok(Unanswered::Plaintext),
        _ => Err("expected refuse or plaintext"),
    });
    let given = reader.lookup("outbound-transport", args.outbound_transport.as_ref(), &[]);
    settings.transport = reader.read(given, settings.transport, |text| match text {
        "original" => Ok(Transport::Original),
        "header" => Ok(Transport::Header),
        _ => Err("expected original or header"),
    });
    let given = reader.lookup("outbound-mode", args.outbound_mode.as_ref(), &[]);
    settings.mode = reader.read(given, settings.mode, |text| match text {
        "on" => Ok(OutboundMode::On),
        "mesh-only" => Ok(OutboundMode::MeshOnly),
        _ => Err("expected on or mesh-only"),
    });
}

/// A list of addresses with ports. Never empty.
fn sockets(text: &str) -> Result<Vec<SocketAddr>, Expected> {
    let sockets: Vec<_> = items(text).map(parse::socket).collect::<Result<_, _>>()?;
    if sockets.is_empty() { Err("expected ip:port or [ipv6]:port") } else { Ok(sockets) }
}

/// `listener,destination`, several separated by blanks.
fn forwards(text: &str) -> Result<Vec<(SocketAddr, SocketAddr)>, Expected> {
    let expected = "expected listener,destination such as 127.0.0.1:9081,10.96.0.7:80";
    let forward = |item: &str| {
        let (listener, to) = item.split_once(',')?;
        Some((listener.parse().ok()?, to.parse().ok()?))
    };
    let forwards: Option<Vec<_>> = text.split_whitespace().map(forward).collect();
    forwards.filter(|list| !list.is_empty()).ok_or(expected)
}

/// Networks, addresses and Services.
fn plaintext_allowed(text: &str) -> Result<Vec<PlaintextAllowed>, Expected> {
    let expected = "expected networks, addresses and Services such as 10.7.0.0/16,db.shop";
    let item = |item: &str| {
        if item.contains('/') {
            return parse_block(item).ok().map(PlaintextAllowed::Network);
        }
        if let Ok(address) = parse_address(item) {
            return Some(PlaintextAllowed::Network(IpNet::from(address)));
        }
        let (name, namespace) = item.split_once('.')?;
        let is_label = |text: &str| {
            let byte = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
            (1..=63).contains(&text.len()) && text.bytes().all(byte)
        };
        // A mistyped address is no Service.
        let is_number = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
        let valid = is_label(name) && is_label(namespace) && !is_number(name);
        let service = ServiceName { namespace: namespace.into(), name: name.into() };
        valid.then_some(PlaintextAllowed::Service(service))
    };
    items(text).map(item).collect::<Option<Vec<_>>>().ok_or(expected)
}

fn items(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|item| !item.is_empty())
}

#[cfg(test)]
mod tests {
    use super::super::{Config, ConfigError};
    use super::*;
    use std::collections::HashMap;
    use std::ffi::OsString;
    use std::time::Duration;

    const BASE: [(&str, &str); 3] = [
        ("LINKERD2_PROXY_POLICY_SVC_ADDR", "localhost.:8090"),
        ("LINKERD2_PROXY_POLICY_WORKLOAD", r#"{"ns":"emojivoto","pod":"web-0"}"#),
        ("PORTCULLIS_IDENTITY", "none"),
    ];

    fn from(variables: &[(&str, &str)]) -> Result<Config, ConfigError> {
        let all = BASE.iter().chain(variables);
        let map: HashMap<String, OsString> =
            all.map(|(name, value)| ((*name).to_owned(), OsString::from(value))).collect();
        super::super::read(&RunArgs::default(), &|name| map.get(name).cloned())
    }

    fn listeners(config: &Config) -> Vec<(String, Target)> {
        let listeners = config.sidecar.listeners.iter();
        listeners.map(|own| (own.address.to_string(), own.target)).collect()
    }

    #[test]
    fn nothing_is_listened_on_unless_it_is_said() {
        let config = from(&[]).unwrap();
        assert_eq!(listeners(&config), [("0.0.0.0:4143".to_owned(), Target::Original)]);
        assert_eq!(config.sidecar.outbound, OutboundSettings::default());
    }

    #[test]
    fn each_setting_is_read() {
        let config = from(&[
            ("PORTCULLIS_OUTBOUND_LISTEN", "127.0.0.1:4140, [::1]:4140"),
            ("PORTCULLIS_OUTBOUND_FORWARD", "127.0.0.1:9081,10.96.0.7:80"),
            ("PORTCULLIS_OUTBOUND_NETWORKS", "10.0.0.0/8"),
            ("PORTCULLIS_OUTBOUND_UNANSWERED", "plaintext"),
            ("PORTCULLIS_OUTBOUND_TRANSPORT", "header"),
            ("PORTCULLIS_OUTBOUND_MODE", "mesh-only"),
            ("PORTCULLIS_OUTBOUND_PLAINTEXT_ALLOWED", "10.7.0.0/16, 10.8.0.1,db.shop"),
            ("PORTCULLIS_OUTBOUND_CONNECT_TIMEOUT", "7s"),
        ])
        .unwrap();
        let want = [
            ("0.0.0.0:4143", Target::Original),
            ("127.0.0.1:4140", Target::Outbound),
            ("[::1]:4140", Target::Outbound),
            ("127.0.0.1:9081", Target::OutboundTo("10.96.0.7:80".parse().unwrap())),
        ];
        assert_eq!(listeners(&config), want.map(|(own, target)| (own.to_owned(), target)));
        let service = ServiceName { namespace: "shop".into(), name: "db".into() };
        let want = OutboundSettings {
            networks: vec!["10.0.0.0/8".parse().unwrap()],
            unanswered: Unanswered::Plaintext,
            transport: Transport::Header,
            mode: OutboundMode::MeshOnly,
            plaintext_allowed: vec![
                PlaintextAllowed::Network("10.7.0.0/16".parse().unwrap()),
                PlaintextAllowed::Network("10.8.0.1/32".parse().unwrap()),
                PlaintextAllowed::Service(service),
            ],
            connect: Duration::from_secs(7),
            ..OutboundSettings::default()
        };
        assert_eq!(config.sidecar.outbound, want);
    }

    #[test]
    fn linkerds_variables_are_read_and_the_clusters_networks_are_the_default() {
        let config = from(&[
            ("LINKERD2_PROXY_OUTBOUND_LISTEN_ADDRS", "127.0.0.1:4140,[::1]:4140"),
            ("LINKERD2_PROXY_OUTBOUND_CONNECT_TIMEOUT", "1000ms"),
            ("LINKERD2_PROXY_POLICY_CLUSTER_NETWORKS", "10.4.0.0/16"),
        ])
        .unwrap();
        assert_eq!(config.sidecar.listeners.len(), 3);
        assert_eq!(config.sidecar.outbound.connect, Duration::from_secs(1));
        assert_eq!(config.sidecar.outbound.networks, ["10.4.0.0/16".parse().unwrap()]);
        let config = from(&[
            ("LINKERD2_PROXY_OUTBOUND_LISTEN_ADDR", "127.0.0.1:4140"),
            ("LINKERD2_PROXY_DESTINATION_PROFILE_NETWORKS", "10.5.0.0/16"),
            ("LINKERD2_PROXY_POLICY_CLUSTER_NETWORKS", "10.4.0.0/16"),
        ])
        .unwrap();
        assert_eq!(config.sidecar.listeners.len(), 2);
        assert_eq!(config.sidecar.outbound.networks, ["10.5.0.0/16".parse().unwrap()]);
    }

    #[test]
    fn what_is_not_understood_is_named() {
        let wrong = [
            ("LISTEN", "4140", "expected ip:port or [ipv6]:port"),
            ("LISTEN", ",", "expected ip:port or [ipv6]:port"),
            (
                "FORWARD",
                "127.0.0.1:1",
                "expected listener,destination such as 127.0.0.1:9081,10.96.0.7:80",
            ),
            ("UNANSWERED", "yes", "expected refuse or plaintext"),
            ("TRANSPORT", "direct", "expected original or header"),
            ("MODE", "off", "expected on or mesh-only"),
            ("CONNECT_TIMEOUT", "0", "expected more than 0"),
        ];
        for (name, value, expected) in wrong {
            let name = format!("PORTCULLIS_OUTBOUND_{name}");
            let errors = from(&[(&name, value)]).unwrap_err();
            assert_eq!(errors.0, [format!("{name}: `{value}`: {expected}")]);
        }
        for wrong in ["db", "10.8.0.300", "10.8.0.0/99", "Db.shop", "a.b.c"] {
            assert!(plaintext_allowed(wrong).is_err(), "{wrong}");
        }
    }
}
