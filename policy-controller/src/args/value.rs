//! Readers of values of flags. clap names the flag and the value where one makes no sense; what is said
//! here is what is wrong with it, and what is allowed.

use super::text::{items, socket_address};
use ipnet::IpNet;
use policy_core::{DefaultPolicy, NetworkMatch, NetworkSymbol};
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU16;
use std::time::Duration;

/// A list that is one value of a flag. clap would take a flag whose type it knows as `Vec` for one that
/// may be repeated.
pub(super) type List<T> = Vec<T>;

type Read<T> = Result<T, String>;

pub(super) fn address(value: &str) -> Read<SocketAddr> {
    let expected = "expected an address and port, for example `0.0.0.0:8090`";
    socket_address(value).ok_or_else(|| expected.to_owned())
}

pub(super) fn addresses(list: &str) -> Read<List<IpAddr>> {
    let wrong = |item: &str| format!("`{item}` is not an IP address");
    items(list).map(|item| item.parse().map_err(|_| wrong(item))).collect()
}

pub(super) fn cidrs(list: &str) -> Read<List<IpNet>> {
    items(list).map(|item| cidr(item, "")).collect()
}

pub(super) fn probe_networks(list: &str) -> Read<List<NetworkMatch>> {
    let one = |item: &str| match item {
        "node-local" => Ok(NetworkMatch::symbol(NetworkSymbol::NodeLocal)),
        item => cidr(item, " or `node-local`").map(NetworkMatch::net),
    };
    items(list).map(one).collect()
}

/// Networks and the symbols that stand for some.
pub(super) fn networks(list: &str) -> Read<List<NetworkMatch>> {
    let one = |item: &str| match item {
        "node-local" => Ok(NetworkMatch::symbol(NetworkSymbol::NodeLocal)),
        "cluster" => Ok(NetworkMatch::symbol(NetworkSymbol::Cluster)),
        item => cidr(item, ", `node-local` or `cluster`").map(NetworkMatch::net),
    };
    items(list).map(one).collect()
}

fn cidr(item: &str, also: &str) -> Read<IpNet> {
    let net = item.parse::<IpNet>().or_else(|_| item.parse::<IpAddr>().map(IpNet::from));
    net.map_err(|_| format!("`{item}` is not a CIDR or address{also}"))
}

pub(super) fn ports(list: &str) -> Read<List<NonZeroU16>> {
    let wrong = |item: &str| format!("`{item}` is not a port from 1 to 65535");
    items(list).map(|item| item.parse().map_err(|_| wrong(item))).collect()
}

pub(super) fn default_policy(value: &str) -> Read<DefaultPolicy> {
    let allowed = || DefaultPolicy::ALL.map(DefaultPolicy::as_str).join(", ");
    DefaultPolicy::parse(value).ok_or_else(|| format!("expected one of {}", allowed()))
}

/// A duration within bounds, which are written as durations are.
pub(super) fn lasting(
    least: &'static str,
    most: &'static str,
) -> impl Fn(&str) -> Read<Duration> + Clone + Send + Sync + 'static {
    move |value| {
        let within =
            |lasts: &Duration| Some(*lasts) >= duration(least) && Some(*lasts) <= duration(most);
        duration(value.trim()).filter(within).ok_or_else(|| {
            format!("expected a whole number with s, m, h or d, from {least} to {most}")
        })
    }
}

/// A whole number with `s`, `m`, `h` or `d`.
fn duration(text: &str) -> Option<Duration> {
    let unit = text.chars().last()?;
    let seconds: u64 = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3600,
        'd' => 86_400,
        _ => return None,
    };
    let number: u64 = text.strip_suffix(unit)?.parse().ok()?;
    number.checked_mul(seconds).map(Duration::from_secs)
}
