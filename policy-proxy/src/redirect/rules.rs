//! The rules of redirection, independent of the tool that writes them.

use super::settings::{OutboundRedirect, RedirectConfig};
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use std::collections::BTreeSet;
use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::num::{NonZeroU16, NonZeroU32};

/// The rules of one pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rules {
    /// The port that connections are redirected to.
    pub(super) inbound: NonZeroU16,
    /// The user whose connections are not redirected.
    pub(super) user: NonZeroU32,
    /// Ports that are not redirected, with the sidecar's own. Sorted, not adjacent, never empty.
    pub(super) excluded: Vec<Ports>,
    /// The rules of the pod's own connections; absent if none is redirected.
    pub(super) outbound: Option<OutboundRules>,
}

/// The rules of the pod's own connections, in their order: the canary is redirected for every user.
/// The sidecar's connections, those through loopback, and those to the pod's own addresses are left
/// alone, then networks and ports; all others are redirected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OutboundRules {
    /// The port that connections are redirected to.
    pub(super) port: NonZeroU16,
    /// The address that is redirected for every user.
    pub(super) canary: Option<SocketAddr>,
    /// Networks that are not redirected, with the link-local ones. Each once, never empty.
    pub(super) networks: Vec<IpNet>,
    /// Ports that are not redirected, with DNS. Sorted, not adjacent, never empty.
    pub(super) excluded: Vec<Ports>,
}

/// Ports from the first to the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ports {
    pub(super) first: u16,
    pub(super) last: u16,
}

/// State of the rules in the kernel, compared with the expected ones.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum RulesState {
    Same,
    Absent,
    /// The first difference.
    Differs(String),
}

impl Ports {
    /// Formats the range with `separator`, or the single port.
    pub(super) fn to_text(self, separator: char) -> String {
        let Self { first, last } = self;
        if first == last { first.to_string() } else { format!("{first}{separator}{last}") }
    }
}

impl Rules {
    pub(super) fn of(config: &RedirectConfig) -> Self {
        Self {
            inbound: config.inbound,
            user: config.user,
            excluded: ranges(&config.skipped, [config.inbound, config.admin]),
            outbound: config.outbound.as_ref().map(OutboundRules::of),
        }
    }
}

impl OutboundRules {
    fn of(config: &OutboundRedirect) -> Self {
        let networks: BTreeSet<IpNet> = config.skipped_networks.iter().map(IpNet::trunc).collect();
        let mut excluded = LINK_LOCAL.to_vec();
        excluded.extend(networks.into_iter().filter(|network| !LINK_LOCAL.contains(network)));
        Self {
            port: config.port,
            canary: config.canary,
            networks: excluded,
            excluded: ranges(&config.skipped, [DNS]),
        }
    }
}

/// Link-local addresses (RFC 3927, RFC 4291): services of the node such as instance metadata, which
/// no other pod can hold.
const LINK_LOCAL: [IpNet; 2] = [
    IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(169, 254, 0, 0), 16)),
    IpNet::V6(Ipv6Net::new_assert(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0), 10)),
];

/// The port of DNS, which must not depend on a controller that is found by DNS.
const DNS: NonZeroU16 = NonZeroU16::MIN.saturating_add(52);

/// Joins ports that touch to ranges.
fn ranges<const N: usize>(skipped: &BTreeSet<NonZeroU16>, more: [NonZeroU16; N]) -> Vec<Ports> {
    let mut ports = skipped.clone();
    ports.extend(more);
    let mut ranges: Vec<Ports> = Vec::new();
    for port in ports.iter().map(|port| port.get()) {
        match ranges.last_mut() {
            Some(range) if range.last.checked_add(1) == Some(port) => range.last = port,
            Some(_) | None => ranges.push(Ports { first: port, last: port }),
        }
    }
    ranges
}

fn listed(ports: &[Ports]) -> String {
    ports.iter().map(|ports| ports.to_text('-')).collect::<Vec<_>>().join(",")
}

impl fmt::Display for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ports = listed(&self.excluded);
        write!(f, "inbound TCP is redirected to port {}, except to ports {ports}", self.inbound)?;
        let Some(OutboundRules { port, networks, excluded, .. }) = &self.outbound else {
            return Ok(());
        };
        let networks: Vec<String> = networks.iter().map(IpNet::to_string).collect();
        let (ports, networks) = (listed(excluded), networks.join(","));
        write!(f, "; outbound TCP to port {port}, except to ports {ports} and networks {networks}")
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::redirect::settings::{Mode, Task};

    fn config(inbound: u16, admin: u16, skipped: &[u16]) -> RedirectConfig {
        let port = |port| NonZeroU16::new(port).unwrap();
        RedirectConfig {
            inbound: port(inbound),
            admin: port(admin),
            user: NonZeroU32::new(2102).unwrap(),
            skipped: skipped.iter().map(|skipped| port(*skipped)).collect(),
            outbound: None,
            mode: Mode::Auto,
            task: Task::Apply,
        }
    }

    /// Rules for these ports.
    pub(in crate::redirect) fn rules(inbound: u16, admin: u16, skipped: &[u16]) -> Rules {
        Rules::of(&config(inbound, admin, skipped))
    }

    /// Rules of both directions, with this canary.
    pub(in crate::redirect) fn both(canary: Option<&str>) -> Rules {
        let port = |port| NonZeroU16::new(port).unwrap();
        let outbound = OutboundRedirect {
            port: port(4140),
            skipped: [25, 3306, 3307].map(port).into(),
            skipped_networks: ["192.0.2.0/24", "10.0.0.9/32", "169.254.0.0/16", "192.0.2.0/24"]
                .map(|network| network.parse().unwrap())
                .into(),
            canary: canary.map(|canary| canary.parse().unwrap()),
        };
        Rules::of(&RedirectConfig { outbound: Some(outbound), ..config(4143, 4191, &[]) })
    }

    #[test]
    fn ports_that_touch_are_one_range_and_the_sidecars_own_are_left_alone() {
        let shown = |rules: Rules| rules.to_string();
        assert_eq!(
            shown(rules(4143, 4191, &[8002, 8000, 8001, 22, 65535, 4191])),
            "inbound TCP is redirected to port 4143, except to ports 22,4143,4191,8000-8002,65535"
        );
        let all: Vec<u16> = (1..=u16::MAX).collect();
        assert_eq!(rules(4143, 4191, &all).excluded, [Ports { first: 1, last: 65535 }]);
    }

    #[test]
    fn dns_and_link_local_networks_are_never_redirected_and_a_network_is_named_once() {
        assert_eq!(
            both(None).to_string(),
            "inbound TCP is redirected to port 4143, except to ports 4143,4191; outbound TCP to port \
             4140, except to ports 25,53,3306-3307 and networks \
             169.254.0.0/16,fe80::/10,10.0.0.9/32,192.0.2.0/24"
        );
    }
}
