//! Addresses and blocks of addresses as people write them. Resources, flags, settings and
//! expectations are read by these two functions, so that one text means one thing everywhere.
//!
//! Texts that programs read differently are refused: `010.0.0.1` is 10.0.0.1 to some and 8.0.0.1 to
//! others (CVE-2021-29922, CVE-2021-29923), and `10.0.0.1/8` is one address to some and 2^24 to
//! others. `tests/addresses` has what Go, Node.js and Python make of them.

use ipnet::{IpNet, Ipv6Net};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Reads a block such as `10.0.0.0/8`, or an address, which is a block of one.
///
/// # Errors
/// The reason, to follow the quoted text.
pub fn parse_block(text: &str) -> Result<IpNet, String> {
    let (address, length) = match text.split_once('/') {
        Some((address, length)) => (address, Some(length)),
        None => (text, None),
    };
    let address =
        written(address, "is not an address or network such as `10.0.0.0/8` or `fd00::/8`")?;
    let longest: u8 = if address.is_ipv4() { 32 } else { 128 };
    let length = match length {
        Some(length) => prefix_length(length, longest)?,
        None => longest,
    };
    let net = IpNet::new(address, length).map_err(|_| "is not a network".to_owned())?;
    let masked = net.trunc();
    if masked.addr() != address {
        return Err(format!("has bits set beyond the first {length}, write `{masked}`"));
    }
    if let IpNet::V6(v6) = masked {
        refuse_mapped(v6)?;
    }
    Ok(masked)
}

/// Reads an address.
///
/// # Errors
/// The reason, to follow the quoted text.
pub fn parse_address(text: &str) -> Result<IpAddr, String> {
    let address = written(text, "is not an address such as `10.1.2.3` or `fd00::1`")?;
    match address.to_canonical() {
        v4 if v4 != address => {
            Err(format!("is IPv4 in IPv6 notation, which no client has, write `{v4}`"))
        }
        _ => Ok(address),
    }
}

/// Reads the text of an address; `form` is the reason if it is none.
fn written(text: &str, form: &str) -> Result<IpAddr, String> {
    if text.contains('%') {
        return Err("names a zone, which means nothing to another host".to_owned());
    }
    if text.contains(char::is_whitespace) {
        return Err("contains spaces".to_owned());
    }
    if text.contains(':') {
        return text.parse::<Ipv6Addr>().map(IpAddr::V6).map_err(|_| form.to_owned());
    }
    let padded = |part: &str| part.len() > 1 && part.starts_with('0');
    if text.split('.').any(padded) {
        return Err("has leading zeros, which some programs read as octal".to_owned());
    }
    text.parse::<Ipv4Addr>().map(IpAddr::V4).map_err(|_| form.to_owned())
}

fn prefix_length(text: &str, longest: u8) -> Result<u8, String> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let padded = text.len() > 1 && text.starts_with('0');
    match text.parse::<u8>() {
        Ok(length) if digits && !padded && length <= longest => Ok(length),
        Ok(_) | Err(_) => Err(format!(
            "has no valid length after `/`, expected 0 to {longest} without leading zeros"
        )),
    }
}

/// Rejects IPv4-mapped blocks. Clients at `::ffff:a.b.c.d` appear as `a.b.c.d`, so that such a
/// block would match no client.
fn refuse_mapped(net: Ipv6Net) -> Result<(), String> {
    let Some(v4) = net.addr().to_ipv4_mapped() else { return Ok(()) };
    let length = net.prefix_len().saturating_sub(96);
    Err(format!("is IPv4 in IPv6 notation, which matches nobody, write `{v4}/{length}`"))
}
