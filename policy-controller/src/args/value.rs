//! Readers of values of flags. clap names the flag and the value where one makes no sense; the messages
//! here describe the problem and the allowed values.

use ipnet::IpNet;
use policy_core::address::{parse_address, parse_block};
use policy_core::{DefaultPolicy, HostPattern, NetworkMatch, NetworkSymbol};
use policy_crds::{is_dns_label, is_dns_name};
use policy_tls::control::ControllerAddress;
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

/// A list that is one value of a flag. clap would take a flag whose type it knows as `Vec` for one that
/// may be repeated.
pub(super) type List<T> = Vec<T>;

/// A value that may be empty, as a variable of the environment may. clap would take a flag whose type
/// it knows as `Option` for one that may be left out.
pub(super) type Optional<T> = Option<T>;

pub(super) type ParseResult<T> = Result<T, String>;

/// A value that is read unless it is empty.
pub(super) fn optional<T: 'static>(
    read: fn(&str) -> ParseResult<T>,
) -> impl Fn(&str) -> ParseResult<Optional<T>> + Clone + Send + Sync + 'static {
    move |value| if value.is_empty() { Ok(None) } else { read(value).map(Some) }
}

/// A name that is one label of the DNS (RFC 1123), as those of namespaces and Services are.
pub(super) fn label<T: for<'a> From<&'a str>>(value: &str) -> ParseResult<T> {
    let expected = || {
        format!("`{value}` is not a name: up to 63 lower-case letters, digits and `-` are allowed")
    };
    is_dns_label(value).then(|| value.into()).ok_or_else(expected)
}

/// Labels, separated by commas.
pub(super) fn labels<T: for<'a> From<&'a str> + Ord>(list: &str) -> ParseResult<BTreeSet<T>> {
    items(list).map(label).collect()
}

/// Labels, separated by commas, at least one.
pub(super) fn some_labels(list: &str) -> ParseResult<BTreeSet<Arc<str>>> {
    let labels = labels(list)?;
    if labels.is_empty() { Err("no name is given".to_owned()) } else { Ok(labels) }
}

/// A name of several labels, as those of objects and domains are.
pub(super) fn name<T: for<'a> From<&'a str>>(value: &str) -> ParseResult<T> {
    let expected = "expected lower-case letters, digits, `-` and `.`, at most 253 characters";
    is_dns_name(value).then(|| value.into()).ok_or_else(|| expected.to_owned())
}

/// Names of several labels, separated by commas.
pub(super) fn names<T: for<'a> From<&'a str> + Ord>(list: &str) -> ParseResult<BTreeSet<T>> {
    items(list).map(name).collect()
}

/// Host names, `*.` in front of one means every host below it; separated by commas.
pub(super) fn hosts(list: &str) -> ParseResult<BTreeSet<HostPattern>> {
    let host = |text: &str| {
        let host = HostPattern::parse(text);
        let expected = "expected a host name, or `*.` and one";
        is_dns_name(host.name()).then_some(host).ok_or_else(|| format!("`{text}`: {expected}"))
    };
    items(list).map(host).collect()
}

/// Texts of any form, separated by commas.
pub(super) fn texts(list: &str) -> ParseResult<BTreeSet<Arc<str>>> {
    Ok(items(list).map(Arc::from).collect())
}

/// An identity that a certificate proves.
pub(super) fn dns_identity(value: &str) -> ParseResult<String> {
    let expected = "expected a DNS name";
    policy_tls::identity::is_dns_name(value)
        .then(|| value.to_owned())
        .ok_or_else(|| expected.to_owned())
}

/// An identity that a server proves, by a DNS name or a URI.
pub(super) fn server_identity(value: &str) -> ParseResult<String> {
    match ControllerAddress::parse("server:1", Some(value)) {
        Ok(_) if !value.is_empty() => Ok(value.to_owned()),
        Ok(_) | Err(_) => Err("expected a DNS name or a `spiffe://` URI".to_owned()),
    }
}

/// An address of a server, by name or number.
pub(super) fn host_port(value: &str) -> ParseResult<String> {
    match ControllerAddress::parse(value, Some("server")) {
        Ok(_) => Ok(value.to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

pub(super) fn ip(value: &str) -> ParseResult<IpAddr> {
    parse_address(value).map_err(|reason| format!("`{value}` {reason}"))
}

/// The items of a list separated by commas, without blanks and empty ones.
pub(super) fn items(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').map(str::trim).filter(|item| !item.is_empty())
}

/// An address to listen on. `:PORT` means every IPv4 address, as in Linkerd's chart.
pub(super) fn address(value: &str) -> ParseResult<SocketAddr> {
    let address = match value.strip_prefix(':') {
        Some(port) => format!("0.0.0.0:{port}").parse(),
        None => value.parse(),
    };
    address.map_err(|_| "expected an address and port, for example `0.0.0.0:8090`".to_owned())
}

pub(super) fn addresses(list: &str) -> ParseResult<List<IpAddr>> {
    items(list).map(ip).collect()
}

pub(super) fn cidrs(list: &str) -> ParseResult<List<IpNet>> {
    items(list).map(|item| cidr(item, "")).collect()
}

pub(super) fn probe_networks(list: &str) -> ParseResult<List<NetworkMatch>> {
    let one = |item: &str| match item {
        "node-local" => Ok(NetworkMatch::symbol(NetworkSymbol::NodeLocal)),
        item => cidr(item, "; `node-local` is allowed, too").map(NetworkMatch::net),
    };
    items(list).map(one).collect()
}

/// Networks and the symbols that stand for some.
pub(super) fn networks(list: &str) -> ParseResult<List<NetworkMatch>> {
    let one = |item: &str| match item {
        "node-local" => Ok(NetworkMatch::symbol(NetworkSymbol::NodeLocal)),
        "cluster" => Ok(NetworkMatch::symbol(NetworkSymbol::Cluster)),
        item => cidr(item, "; `node-local` and `cluster` are allowed, too").map(NetworkMatch::net),
    };
    items(list).map(one).collect()
}

pub(super) fn cidr(item: &str, also: &str) -> ParseResult<IpNet> {
    parse_block(item).map_err(|reason| format!("`{item}` {reason}{also}"))
}

pub(super) fn ports(list: &str) -> ParseResult<List<NonZeroU16>> {
    let wrong = |item: &str| format!("`{item}` is not a port from 1 to 65535");
    items(list).map(|item| item.parse().map_err(|_| wrong(item))).collect()
}

pub(super) fn default_policy(value: &str) -> ParseResult<DefaultPolicy> {
    let allowed = || DefaultPolicy::ALL.map(DefaultPolicy::as_str).join(", ");
    DefaultPolicy::parse(value).ok_or_else(|| format!("expected one of {}", allowed()))
}

/// A duration within bounds, which are written as durations are.
pub(super) fn duration_between(
    least: &'static str,
    most: &'static str,
) -> impl Fn(&str) -> ParseResult<Duration> + Clone + Send + Sync + 'static {
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

/// Parses a command line of these flags alone.
#[cfg(test)]
pub(super) fn parsed<A: clap::Args>(flags: &[&str]) -> Result<A, String> {
    #[derive(clap::Parser)]
    struct Line<A: clap::Args> {
        #[command(flatten)]
        args: A,
    }
    let line: Result<Line<A>, _> = clap::Parser::try_parse_from(["x"].iter().chain(flags));
    line.map(|line| line.args).map_err(|error| error.to_string())
}
