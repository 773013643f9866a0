//! The settings of `policy-proxy redirect`.

use super::parse;
use super::reader::{ConfigError, Environment, Reader};
use crate::args::RedirectArgs;
use crate::redirect::{Mode, OutboundRedirect, RedirectConfig, Task};
use ipnet::IpNet;
use std::collections::BTreeSet;
use std::num::{NonZeroU16, NonZeroU32};

/// Reads all settings of `redirect`.
///
/// # Errors
/// [`ConfigError`] names each setting that is invalid.
pub fn redirect(
    args: &RedirectArgs,
    environment: Environment<'_>,
) -> Result<RedirectConfig, ConfigError> {
    let mut reader = Reader::new(environment);
    let mut port = |flag, typed, default: NonZeroU16| {
        let given = reader.lookup(flag, typed, &[]);
        reader.read(given, default, parse::port)
    };
    let inbound = port("inbound-port", args.inbound_port.as_ref(), INBOUND);
    let admin = port("admin-port", args.admin_port.as_ref(), ADMIN);
    if inbound == admin {
        reader.fail(format!("--admin-port: `{admin}`: is the inbound port; expected another one"));
    }
    let given = reader.lookup("proxy-uid", args.proxy_uid.as_ref(), &[]);
    let user = reader.read(given, PROXY, |text| {
        // The last one stands for "no user" (setuid(2)).
        let user = text.parse().ok().filter(|user: &NonZeroU32| *user != NonZeroU32::MAX);
        user.ok_or("expected a user id from 1 to 4294967294; the sidecar never runs as root")
    });
    let given = reader.lookup("skip-inbound-ports", args.skip_inbound_ports.as_ref(), &[]);
    let skipped = reader.read(given, BTreeSet::new(), parse::ports);
    let outbound = outbound(&mut reader, args, [inbound, admin]);
    let given = reader.lookup("mode", args.mode.as_ref(), &[]);
    let mode = reader.read(given, Mode::Auto, |text| match text {
        "auto" => Ok(Mode::Auto),
        "nft" => Ok(Mode::Nft),
        "iptables" => Ok(Mode::Iptables),
        _ => Err("expected auto, nft or iptables"),
    });
    let task = match (args.undo, args.check) {
        (true, _) => Task::Undo,
        (false, true) => Task::Check,
        (false, false) => Task::Apply,
    };
    reader.finish(RedirectConfig { inbound, admin, user, skipped, outbound, mode, task })
}

/// Reads the settings of the pod's own connections.
fn outbound(
    reader: &mut Reader<'_>,
    args: &RedirectArgs,
    others: [NonZeroU16; 2],
) -> Option<OutboundRedirect> {
    let given = reader.lookup("outbound-port", args.outbound_port.as_ref(), &[]);
    let is_given = given.is_some();
    let number = reader.read(given, None, |text| parse::port(text).map(Some));
    if let Some(number) = number.filter(|number| others.contains(number)) {
        reader.fail(format!(
            "--outbound-port: `{number}`: is the inbound or the admin port; expected another one"
        ));
    }
    let mut dependent = |flag, typed| {
        let given = reader.lookup(flag, typed, &[]);
        if given.is_some() && !is_given {
            reader.fail(format!("--{flag}: needs --outbound-port"));
        }
        given
    };
    let ports = dependent("skip-outbound-ports", args.skip_outbound_ports.as_ref());
    let networks = dependent("skip-outbound-networks", args.skip_outbound_networks.as_ref());
    let called = dependent("canary", args.canary.as_ref());
    let skipped = reader.read(ports, BTreeSet::new(), parse::ports);
    let skipped_networks = reader.read(networks, Vec::new(), skipped_networks);
    let canary = reader.read(called, None, |text| parse::canary(text).map(Some));
    number.map(|port| OutboundRedirect { port, skipped, skipped_networks, canary })
}

/// Networks that are not all addresses: that would be no redirection at all.
fn skipped_networks(text: &str) -> Result<Vec<IpNet>, parse::Expected> {
    let networks = parse::networks(text)?;
    match networks.iter().any(|network| network.prefix_len() == 0) {
        true => Err("expected networks; to redirect nothing, leave --outbound-port out"),
        false => Ok(networks),
    }
}

const INBOUND: NonZeroU16 = NonZeroU16::MIN.saturating_add(4142);
const ADMIN: NonZeroU16 = NonZeroU16::MIN.saturating_add(4190);
const PROXY: NonZeroU32 = NonZeroU32::MIN.saturating_add(2101);

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddr;

    fn read(args: RedirectArgs) -> Result<RedirectConfig, ConfigError> {
        redirect(&args, &|_| None)
    }

    fn typed(text: &str) -> Option<String> {
        Some(text.to_owned())
    }

    #[test]
    fn without_flags_the_usual_ports_are_redirected() {
        let port = |port| NonZeroU16::new(port).unwrap();
        let expected = RedirectConfig {
            inbound: port(4143),
            admin: port(4191),
            user: NonZeroU32::new(2102).unwrap(),
            skipped: BTreeSet::new(),
            outbound: None,
            mode: Mode::Auto,
            task: Task::Apply,
        };
        assert_eq!(read(RedirectArgs::default()), Ok(expected.clone()));
        let variables =
            |name: &str| (name == "PORTCULLIS_SKIP_INBOUND_PORTS").then(|| "25, 3306-3307".into());
        let skipped = [25, 3306, 3307].map(port).into();
        assert_eq!(
            redirect(&RedirectArgs::default(), &variables),
            Ok(RedirectConfig { skipped, ..expected })
        );
    }

    #[test]
    fn the_pods_own_connections_are_redirected_if_a_port_is_given() {
        let port = |port| NonZeroU16::new(port).unwrap();
        let args = RedirectArgs { outbound_port: typed("4140"), ..RedirectArgs::default() };
        let outbound = OutboundRedirect {
            port: port(4140),
            skipped: BTreeSet::new(),
            skipped_networks: Vec::new(),
            canary: None,
        };
        assert_eq!(read(args.clone()).unwrap().outbound, Some(outbound.clone()));
        let args = RedirectArgs {
            skip_outbound_ports: typed("25,3306-3307"),
            skip_outbound_networks: typed("192.0.2.0/24,fd00::/8"),
            canary: typed("127.0.0.127:4192"),
            ..args
        };
        let all = OutboundRedirect {
            skipped: [25, 3306, 3307].map(port).into(),
            skipped_networks: ["192.0.2.0/24", "fd00::/8"].map(|n| n.parse().unwrap()).into(),
            canary: Some(SocketAddr::from(([127, 0, 0, 127], 4192))),
            ..outbound
        };
        assert_eq!(read(args).unwrap().outbound, Some(all));
    }

    #[test]
    fn outbound_settings_that_are_invalid_are_named() {
        let alone = RedirectArgs {
            skip_outbound_ports: typed("25"),
            skip_outbound_networks: typed("192.0.2.0/24"),
            canary: typed("127.0.0.127:4192"),
            ..RedirectArgs::default()
        };
        assert_eq!(
            read(alone).unwrap_err().0,
            [
                "--skip-outbound-ports: needs --outbound-port",
                "--skip-outbound-networks: needs --outbound-port",
                "--canary: needs --outbound-port",
            ]
        );
        let wrong = RedirectArgs {
            outbound_port: typed("4191"),
            skip_outbound_ports: typed("http"),
            skip_outbound_networks: typed("::/0"),
            canary: typed("0.0.0.0:4192"),
            ..RedirectArgs::default()
        };
        assert_eq!(
            read(wrong).unwrap_err().0,
            [
                "--outbound-port: `4191`: is the inbound or the admin port; expected another one",
                "--skip-outbound-ports: `http`: expected ports and ranges such as 80,443-445",
                "--skip-outbound-networks: `::/0`: expected networks; to redirect nothing, leave \
                 --outbound-port out",
                "--canary: `0.0.0.0:4192`: expected ip:port or [ipv6]:port of an address that can be \
                 called",
            ]
        );
        for canary in [
            "127.0.0.1:0",
            "[fe80::1%2]:80",
            "[ff02::1]:80",
            "localhost:80",
            "127.0.0.1",
            "[::ffff:127.0.0.1]:80",
        ] {
            assert_eq!(parse::canary(canary).ok(), None, "{canary}");
        }
        let unreadable = RedirectArgs {
            outbound_port: typed("0"),
            canary: typed("127.0.0.127:4192"),
            ..RedirectArgs::default()
        };
        assert_eq!(
            read(unreadable).unwrap_err().0,
            ["--outbound-port: `0`: expected a port from 1 to 65535"]
        );
    }

    #[test]
    fn errors_name_the_setting_its_value_and_what_is_allowed() {
        let args = RedirectArgs {
            inbound_port: typed("0"),
            admin_port: typed("4143"),
            proxy_uid: typed("0"),
            skip_inbound_ports: typed("80-"),
            mode: typed("ipvs"),
            ..RedirectArgs::default()
        };
        assert_eq!(
            read(args).unwrap_err().0,
            [
                "--inbound-port: `0`: expected a port from 1 to 65535",
                "--admin-port: `4143`: is the inbound port; expected another one",
                "--proxy-uid: `0`: expected a user id from 1 to 4294967294; the sidecar never runs as root",
                "--skip-inbound-ports: `80-`: expected ports and ranges such as 80,443-445",
                "--mode: `ipvs`: expected auto, nft or iptables",
            ]
        );
        let no_user = RedirectArgs { proxy_uid: typed("4294967295"), ..RedirectArgs::default() };
        assert!(read(no_user).is_err());
    }
}
