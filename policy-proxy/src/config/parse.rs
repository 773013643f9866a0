//! The formats of settings (docs/spec/proxy.md 6). Each parser returns the expected format as its
//! error.

use ipnet::IpNet;
use policy_core::address::{parse_address, parse_block};
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::num::{NonZeroU16, NonZeroUsize};
use std::time::Duration;

/// Description of the expected value.
pub(super) type Expected = &'static str;

/// A whole number with `ms`, `s`, `m`, `h` or `d`; `0` needs no unit.
pub(super) fn duration(text: &str) -> Result<Duration, Expected> {
    let expected = "expected a whole number with ms, s, m, h or d";
    let text = text.trim();
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at_checked(digits).ok_or(expected)?;
    let number: u64 = number.parse().map_err(|_| expected)?;
    let seconds = |unit: u64| number.checked_mul(unit).map(Duration::from_secs).ok_or(expected);
    match unit {
        "ms" => Ok(Duration::from_millis(number)),
        "s" => seconds(1),
        "m" => seconds(60),
        "h" => seconds(3600),
        "d" => seconds(86_400),
        _ => Err(expected),
    }
}

pub(super) fn boolean(text: &str) -> Result<bool, Expected> {
    match text {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err("expected true or false"),
    }
}

/// `80,443-445`; blanks around items are tolerated, empty items too.
pub(super) fn ports(text: &str) -> Result<BTreeSet<NonZeroU16>, Expected> {
    let expected = "expected ports and ranges such as 80,443-445";
    let port = |text: &str| text.trim().parse::<NonZeroU16>().map_err(|_| expected);
    let mut ports = BTreeSet::new();
    for item in items(text) {
        let (first, last) = item.split_once('-').unwrap_or((item, item));
        let (first, last) = (port(first)?, port(last)?);
        if first > last {
            return Err(expected);
        }
        ports.extend((first.get()..=last.get()).filter_map(NonZeroU16::new));
    }
    Ok(ports)
}

/// A list of blocks with prefix lengths. Never empty.
pub(super) fn networks(text: &str) -> Result<Vec<IpNet>, Expected> {
    let expected = "expected networks such as 10.0.0.0/8,fd00::/8, without leading zeros and \
                    without bits beyond the length";
    let block = |item: &str| {
        let net = parse_block(item).map_err(|_| expected)?;
        item.contains('/').then_some(net).ok_or(expected)
    };
    let networks: Vec<_> = items(text).map(block).collect::<Result<_, _>>()?;
    if networks.is_empty() { Err(expected) } else { Ok(networks) }
}

/// A list of addresses. Never empty.
pub(super) fn addresses(text: &str) -> Result<Vec<IpAddr>, Expected> {
    let expected = "expected addresses such as 10.1.2.3,fd00::1, without leading zeros";
    let address = |item: &str| parse_address(item).map_err(|_| expected);
    let addresses: Vec<_> = items(text).map(address).collect::<Result<_, _>>()?;
    if addresses.is_empty() { Err(expected) } else { Ok(addresses) }
}

pub(super) fn socket(text: &str) -> Result<SocketAddr, Expected> {
    text.parse().map_err(|_| "expected ip:port or [ipv6]:port")
}

pub(super) fn port(text: &str) -> Result<NonZeroU16, Expected> {
    text.parse().map_err(|_| "expected a port from 1 to 65535")
}

/// An address and port that a connection can be made to.
pub(super) fn canary(text: &str) -> Result<SocketAddr, Expected> {
    let usable = |canary: &SocketAddr| {
        let is_scoped = matches!(canary, SocketAddr::V6(six) if six.scope_id() != 0);
        let address = canary.ip();
        let is_mapped = address.to_canonical() != address;
        let is_nobodys = address.is_unspecified() || address.is_multicast();
        canary.port() != 0 && !is_scoped && !is_mapped && !is_nobodys
    };
    let canary = text.parse().ok().filter(usable);
    canary.ok_or("expected ip:port or [ipv6]:port of an address that can be called")
}

pub(super) fn count(text: &str) -> Result<NonZeroUsize, Expected> {
    text.parse().map_err(|_| "expected a whole number above 0")
}

/// `listener,port,application`, several separated by blanks.
pub(super) fn forwards(text: &str) -> Result<Vec<(SocketAddr, NonZeroU16, SocketAddr)>, Expected> {
    let expected = "expected listener,port,application such as 0.0.0.0:9080,8080,127.0.0.1:8080";
    let forward = |item: &str| {
        let mut parts = item.split(',');
        let triple = (parts.next()?, parts.next()?, parts.next()?);
        if parts.next().is_some() {
            return None;
        }
        Some((triple.0.parse().ok()?, triple.1.parse().ok()?, triple.2.parse().ok()?))
    };
    let forwards: Option<Vec<_>> = text.split_whitespace().map(forward).collect();
    forwards.filter(|list| !list.is_empty()).ok_or(expected)
}

fn items(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|item| !item.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_whole_numbers_with_a_unit() {
        for (text, millis) in [
            ("0", 0),
            ("10ms", 10),
            ("3s", 3000),
            ("5m", 300_000),
            ("1h", 3_600_000),
            ("2d", 172_800_000),
        ] {
            assert_eq!(duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "10", "1.5s", "-1s", "s", "10 s", "10sec", "99999999999999999999s"] {
            assert!(duration(text).is_err(), "{text}");
        }
        assert!(duration("18446744073709551615d").is_err(), "too large to count in seconds");
    }

    #[test]
    fn ports_may_be_ranges_with_blanks() {
        let numbers = |text| -> Vec<u16> { ports(text).unwrap().iter().map(|p| p.get()).collect() };
        assert_eq!(numbers("80, 443-445 ,80"), [80, 443, 444, 445]);
        assert_eq!(numbers(""), Vec::<u16>::new());
        assert_eq!(numbers("65535-65535"), [65535]);
        for text in ["0", "445-443", "65536", "a", "1-2-3"] {
            assert!(ports(text).is_err(), "{text}");
        }
    }

    #[test]
    fn an_empty_list_of_networks_or_addresses_is_invalid() {
        assert!(networks("").is_err());
        assert!(networks("10.0.0.1").is_err(), "a prefix length is needed");
        assert_eq!(networks("10.0.0.0/8").unwrap(), ["10.0.0.0/8".parse::<IpNet>().unwrap()]);
        assert!(networks("10.1.2.3/8").is_err(), "one address to some, a network to others");
        assert!(networks("010.0.0.0/8").is_err(), "octal to some");
        assert!(addresses("").is_err());
        assert_eq!(addresses("10.0.0.1, ::1").unwrap().len(), 2);
    }

    #[test]
    fn booleans_are_exact() {
        assert_eq!(boolean("true"), Ok(true));
        assert_eq!(boolean("false"), Ok(false));
        assert!(boolean("").is_err() && boolean("True").is_err() && boolean("1").is_err());
    }

    #[test]
    fn forwards_name_listener_port_and_application() {
        let list = forwards("0.0.0.0:9080,8080,127.0.0.1:8080 [::]:9081,8081,[::1]:8081").unwrap();
        assert_eq!(list.len(), 2);
        for text in ["", "0.0.0.0:9080,8080", "0.0.0.0:9080,0,127.0.0.1:1", "a,1,b", "a:1,1,b:1,c"]
        {
            assert!(forwards(text).is_err(), "{text}");
        }
    }
}
