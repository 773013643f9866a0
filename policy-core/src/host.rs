//! The canonical form of a host.

use crate::decision::TargetFault;
use std::borrow::Cow;
use std::fmt::{self, Write};
use std::net::{Ipv4Addr, Ipv6Addr};

/// The longest name (RFC 1035 section 2.3.4) and label.
const MAX_NAME: usize = 253;
const MAX_LABEL: usize = 63;

/// A host and the port that was written after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host<'a> {
    /// Lower-case name without a trailing dot, IPv4 address, or IPv6 address in brackets and in
    /// its one short form (RFC 5952).
    pub name: Cow<'a, str>,
    /// The port, where one is written.
    pub port: Option<u16>,
}

/// Parses `host[:port]`. Refuses userinfo, percent-encoding, zone identifiers (they have no meaning
/// outside the sender's node, RFC 6874), and names that merely look like an IPv4 address.
pub fn canonical_host(authority: &str) -> Result<Host<'_>, TargetFault> {
    if authority.starts_with('[') {
        return bracketed(authority);
    }
    // Hosts are short: looking at each byte costs less than setting a search up.
    let colon = authority.bytes().position(|byte| byte == b':');
    let (name, port) = match colon.and_then(|at| authority.split_at_checked(at)) {
        Some((name, port)) => (name, read_port(port.strip_prefix(':').unwrap_or(port))?),
        None => (authority, None),
    };
    let name = name.strip_suffix('.').unwrap_or(name);
    let name = if has_upper_case(name)? {
        Cow::Owned(name.to_ascii_lowercase())
    } else {
        Cow::Borrowed(name)
    };
    Ok(Host { name, port })
}

fn bracketed(authority: &str) -> Result<Host<'_>, TargetFault> {
    let end = authority.find(']').ok_or(TargetFault::InvalidHost)?;
    let (literal, after) =
        authority.split_at_checked(end.saturating_add(1)).ok_or(TargetFault::InvalidHost)?;
    let port = match after.strip_prefix(':') {
        Some(port) => read_port(port)?,
        None if after.is_empty() => None,
        None => return Err(TargetFault::InvalidHost),
    };
    let inner = literal.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let inner = inner.ok_or(TargetFault::InvalidHost)?;
    let address: Ipv6Addr = inner.parse().map_err(|_| TargetFault::InvalidHost)?;
    let mut short = StackString { bytes: [0; 48], used: 0 };
    write!(short, "[{address}]").map_err(|_| TargetFault::InvalidHost)?;
    let name = if short.as_bytes() == literal.as_bytes() {
        Cow::Borrowed(literal)
    } else {
        Cow::Owned(format!("[{address}]"))
    };
    Ok(Host { name, port })
}

/// An empty port is none (RFC 3986 section 3.2.3).
fn read_port(text: &str) -> Result<Option<u16>, TargetFault> {
    if text.is_empty() {
        return Ok(None);
    }
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(TargetFault::InvalidHost);
    }
    match text.parse() {
        Ok(0) | Err(_) => Err(TargetFault::InvalidHost),
        Ok(port) => Ok(Some(port)),
    }
}

/// Checks a name; returns true if it has upper-case letters.
fn has_upper_case(name: &str) -> Result<bool, TargetFault> {
    if name.is_empty() || name.len() > MAX_NAME {
        return Err(TargetFault::InvalidHost);
    }
    let mut upper = false;
    // Where the label begins, and whether it has digits alone.
    let (mut start, mut number) = (0_usize, true);
    let sized = |start: usize, end: usize| {
        let length = end.saturating_sub(start);
        length > 0 && length <= MAX_LABEL
    };
    for (at, byte) in name.bytes().enumerate() {
        match byte {
            b'.' if sized(start, at) => {
                start = at.saturating_add(1);
                number = true;
            }
            b'0'..=b'9' => {}
            b'a'..=b'z' | b'-' | b'_' => number = false,
            b'A'..=b'Z' => {
                upper = true;
                number = false;
            }
            _ => return Err(TargetFault::InvalidHost),
        }
    }
    // Some resolvers read a name that ends in a number as an IPv4 address, with octal, hexadecimal
    // and missing parts (WHATWG URL, "ends in a number"). Only the plain form has one meaning.
    let number = number || name.get(start..).is_some_and(is_hexadecimal);
    if !sized(start, name.len()) || (number && name.parse::<Ipv4Addr>().is_err()) {
        return Err(TargetFault::InvalidHost);
    }
    Ok(upper)
}

/// `0x` and any number of hexadecimal digits.
fn is_hexadecimal(label: &str) -> bool {
    let digits = label.strip_prefix("0x").or_else(|| label.strip_prefix("0X"));
    digits.is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// Room for the longest IPv6 address in brackets, so that comparing does not allocate.
struct StackString {
    bytes: [u8; 48],
    used: usize,
}

impl StackString {
    fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.used).unwrap_or_default()
    }
}

impl Write for StackString {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = self.used.checked_add(text.len()).ok_or(fmt::Error)?;
        let room = self.bytes.get_mut(self.used..end).ok_or(fmt::Error)?;
        room.copy_from_slice(text.as_bytes());
        self.used = end;
        Ok(())
    }
}
