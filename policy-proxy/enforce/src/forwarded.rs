//! The `Forwarded` field (RFC 7239): the element that this proxy appends, and the lines of other
//! hops that it may follow.

use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// Formats one element: an IPv6 address is in brackets, and a value with a colon in quotes.
pub(crate) fn element(client: IpAddr, by: SocketAddr) -> String {
    let mut element = String::with_capacity(64);
    element.push_str("for=");
    match client {
        IpAddr::V4(client) => put(client, &mut element),
        // Writing to a string cannot fail, here and below.
        IpAddr::V6(client) => {
            let _ = write!(element, "\"[{client}]\"");
        }
    }
    element.push_str(";by=\"");
    match by {
        SocketAddr::V4(by) => {
            put(*by.ip(), &mut element);
            element.push(':');
            decimal(by.port(), &mut element);
        }
        SocketAddr::V6(by) => {
            let _ = write!(element, "{by}");
        }
    }
    element.push('"');
    element
}

/// Returns true if all readers agree where a line ends. Lines are read as one list (RFC 9110,
/// section 5.3), so an unclosed quote of a client would take in the appended element.
///
/// Stricter than RFC 7239 section 4 because readers differ: no escapes in quotes, which some
/// readers do not support, and ASCII only.
pub(crate) fn is_readable(line: &[u8]) -> bool {
    let mut rest = line;
    loop {
        rest = match after_element(rest.trim_ascii_start()) {
            Some(after) => after.trim_ascii_start(),
            None => return false,
        };
        rest = match rest.split_first() {
            None => return true,
            Some((b',', next)) => next,
            Some(_) => return false,
        };
    }
}

/// Returns the rest behind `[ pair ] *( ";" [ pair ] )`.
fn after_element(mut rest: &[u8]) -> Option<&[u8]> {
    loop {
        if rest.first().is_some_and(is_token) {
            rest = after_value(after_token(rest)?.strip_prefix(b"=")?)?;
        }
        match rest.strip_prefix(b";") {
            Some(next) => rest = next,
            None => return Some(rest),
        }
    }
}

fn after_value(text: &[u8]) -> Option<&[u8]> {
    let Some(quoted) = text.strip_prefix(b"\"") else { return after_token(text) };
    let end = quoted.iter().position(|byte| !is_quotable(byte))?;
    quoted.get(end..)?.strip_prefix(b"\"")
}

fn after_token(text: &[u8]) -> Option<&[u8]> {
    let end = text.iter().position(|byte| !is_token(byte)).unwrap_or(text.len());
    if end == 0 { None } else { text.get(end..) }
}

/// Returns true for a token character (RFC 9110 section 5.6.2).
fn is_token(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte)
}

/// Returns true for a character that may be quoted without an escape (RFC 9110 section 5.6.4, ASCII
/// only).
fn is_quotable(byte: &u8) -> bool {
    matches!(byte, b'\t' | b' '..=b'~') && !b"\"\\".contains(byte)
}

/// Formats an address without the formatting machinery, which would cost a new connection as much
/// as finding its policy.
fn put(address: Ipv4Addr, text: &mut String) {
    for (at, octet) in address.octets().into_iter().enumerate() {
        if at > 0 {
            text.push('.');
        }
        decimal(u16::from(octet), text);
    }
}

fn decimal(number: u16, text: &mut String) {
    let mut begun = false;
    for unit in [10_000, 1_000, 100, 10, 1] {
        let digit = number.checked_div(unit).unwrap_or(0).rem_euclid(10);
        begun |= digit > 0 || unit == 1;
        if begun && let Some(digit) = char::from_digit(u32::from(digit), 10) {
            text.push(digit);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_of_an_address_is_written_as_it_is_displayed() {
        for number in 0..=u16::MAX {
            let mut text = String::new();
            decimal(number, &mut text);
            assert_eq!(text, number.to_string());
        }
        let (client, by) = ("10.0.200.1".parse().unwrap(), "192.168.0.15:80".parse().unwrap());
        assert_eq!(element(client, by), "for=10.0.200.1;by=\"192.168.0.15:80\"");
    }

    #[test]
    fn what_hops_write_is_readable_and_what_could_take_in_our_element_is_not() {
        let ipv6 = element("2001:db8::1".parse().unwrap(), "[fd00::1]:80".parse().unwrap());
        for line in [
            "",
            "for=192.0.2.60",
            "For=\"[2001:db8:cafe::17]:4711\"",
            "for=192.0.2.60;proto=http;by=203.0.113.43",
            "for=192.0.2.43, for=198.51.100.17",
            "for=_hidden;host=\"a,b;c\" , ,for=unknown;",
            &ipv6,
        ] {
            assert!(is_readable(line.as_bytes()), "{line}");
        }
        for line in [
            "for=\"",
            "for=\"a",
            "for=\"a\\\"",
            "for=\"a\\\"\"",
            "for=a\"",
            "\"",
            "for=",
            "for",
            "for=a b",
            "for = a",
            "for=a=b",
            "for=[::1]",
            "for=a;\"",
            "for=(a",
            "for=\"é\"",
        ] {
            assert!(!is_readable(line.as_bytes()), "{line}");
        }
    }
}
