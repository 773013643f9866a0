//! The texts of flags, whatever they are of.

use std::net::SocketAddr;

/// The items of a list separated by commas, without blanks and empty ones.
pub(crate) fn items(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').map(str::trim).filter(|item| !item.is_empty())
}

/// `:PORT` means every IPv4 address, as in Linkerd's chart.
pub(crate) fn socket_address(value: &str) -> Option<SocketAddr> {
    match value.strip_prefix(':') {
        Some(port) => format!("0.0.0.0:{port}").parse().ok(),
        None => value.parse().ok(),
    }
}
