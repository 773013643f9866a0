//! Address and identity of the controller.

use policy_core::Identity;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

/// Address of the controller. Plaintext is possible over loopback only; any other address has the
/// identity that the server must prove.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControllerAddress {
    host: Host,
    port: u16,
    server: Option<Server>,
}

/// The expected server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Server {
    /// The identity that its certificate must prove.
    pub(crate) identity: Identity,
    /// The name for SNI.
    pub(crate) name: Arc<str>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Host {
    Ip(IpAddr),
    /// `localhost.`: loopback by definition, never resolved by DNS (RFC 6761 section 6.3).
    Localhost,
    Name(Arc<str>),
}

/// Error of an address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// The address is not `host:port`.
    #[error("`{0}` is not an address; expected `ip:port`, `[ipv6]:port` or `name:port`")]
    Malformed(String),
    /// The address requires TLS, but no server identity is given.
    #[error("`{0}` is not a loopback address, so the identity of its server must be given")]
    NoServer(String),
    /// The server's identity is a URI, but there is no DNS name for SNI.
    #[error("server identity `{0}` is not a DNS name and the address has none either")]
    NoServerName(String),
    /// The server's identity is neither a DNS name nor a `spiffe://` URI.
    #[error("`{0}` is not a server identity; expected a DNS name or a `spiffe://` URI")]
    Server(String),
}

impl ControllerAddress {
    /// Parses `host:port`. `server` is the identity that the server must prove, a DNS name or a
    /// `spiffe://` URI; it is ignored for loopback addresses and `localhost.`, which use plaintext
    /// (docs/spec/proxy.md 6).
    ///
    /// # Errors
    /// [`AddressError`] names the part that is missing or malformed.
    pub fn parse(address: &str, server: Option<&str>) -> Result<Self, AddressError> {
        let malformed = || AddressError::Malformed(address.to_owned());
        let (host, port) = split(address).ok_or_else(malformed)?;
        let local = match &host {
            Host::Ip(ip) => ip.to_canonical().is_loopback(),
            Host::Localhost => true,
            Host::Name(_) => false,
        };
        if local {
            return Ok(Self { host, port, server: None });
        }
        let server = server.filter(|name| !name.is_empty());
        let server = server.ok_or_else(|| AddressError::NoServer(address.to_owned()))?;
        Ok(Self { server: Some(expected(server, &host)?), host, port })
    }

    /// Creates a loopback address, which uses plaintext.
    ///
    /// # Errors
    /// [`AddressError::NoServer`] if it is not loopback.
    pub fn loopback(address: SocketAddr) -> Result<Self, AddressError> {
        Self::parse(&address.to_string(), None)
    }

    /// Returns true for a loopback address, which uses plaintext.
    pub fn is_loopback(&self) -> bool {
        self.server.is_none()
    }

    pub(crate) fn server(&self) -> Option<&Server> {
        self.server.as_ref()
    }

    /// Returns the `:authority`.
    pub(crate) fn authority(&self) -> String {
        match &self.host {
            Host::Ip(IpAddr::V6(ip)) => format!("[{ip}]:{}", self.port),
            Host::Ip(IpAddr::V4(ip)) => format!("{ip}:{}", self.port),
            Host::Localhost => format!("localhost:{}", self.port),
            Host::Name(name) => format!("{}:{}", name.trim_end_matches('.'), self.port),
        }
    }

    /// Returns every address to try, in order.
    ///
    /// # Errors
    /// The name does not resolve.
    pub(crate) async fn resolve(&self) -> std::io::Result<Vec<SocketAddr>> {
        let at = |ip: IpAddr| SocketAddr::new(ip, self.port);
        match &self.host {
            Host::Ip(ip) => Ok(vec![at(*ip)]),
            Host::Localhost => {
                Ok(vec![at(Ipv4Addr::LOCALHOST.into()), at(Ipv6Addr::LOCALHOST.into())])
            }
            Host::Name(name) => {
                Ok(tokio::net::lookup_host((name.as_ref(), self.port)).await?.collect())
            }
        }
    }
}

/// Formats `host:port` as it was given.
impl std::fmt::Display for ControllerAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.authority())
    }
}

fn split(address: &str) -> Option<(Host, u16)> {
    if let Ok(socket) = address.parse::<SocketAddr>() {
        return (socket.port() != 0).then(|| (Host::Ip(socket.ip()), socket.port()));
    }
    let (name, port) = address.rsplit_once(':')?;
    let port = port.parse::<u16>().ok().filter(|port| *port != 0)?;
    if name.eq_ignore_ascii_case("localhost.") {
        return Some((Host::Localhost, port));
    }
    is_name(name).then(|| (Host::Name(name.into()), port))
}

fn is_name(name: &str) -> bool {
    let label = |label: &str| {
        !label.is_empty() && label.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b))
    };
    name.strip_suffix('.').unwrap_or(name).split('.').all(label)
}

fn expected(server: &str, host: &Host) -> Result<Server, AddressError> {
    if !server.starts_with("spiffe://") {
        if !is_name(server) {
            return Err(AddressError::Server(server.to_owned()));
        }
        let name: Arc<str> = server.trim_end_matches('.').to_ascii_lowercase().into();
        return Ok(Server { identity: Identity::Dns(Arc::clone(&name)), name });
    }
    match host {
        Host::Name(name) => {
            let name = name.trim_end_matches('.').to_ascii_lowercase().into();
            Ok(Server { identity: Identity::Spiffe(server.into()), name })
        }
        Host::Ip(_) | Host::Localhost => Err(AddressError::NoServerName(server.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn plaintext(address: &str) {
        assert!(ControllerAddress::parse(address, None).unwrap().is_loopback(), "{address}");
    }

    #[test]
    fn loopback_and_only_loopback_is_plaintext() {
        plaintext("127.0.0.1:8090");
        plaintext("127.3.2.1:8090");
        plaintext("[::1]:8090");
        plaintext("[::ffff:127.0.0.1]:8090");
        plaintext("localhost.:8090");
        plaintext("LOCALHOST.:8090");
        for remote in
            ["10.0.0.1:8090", "localhost:8090", "policy.linkerd.svc.:8090", "[fd00::1]:8090"]
        {
            let error = ControllerAddress::parse(remote, None).unwrap_err();
            assert_eq!(error, AddressError::NoServer(remote.to_owned()));
            let empty = ControllerAddress::parse(remote, Some("")).unwrap_err();
            assert_eq!(empty, AddressError::NoServer(remote.to_owned()));
            let named = ControllerAddress::parse(remote, Some("policy.example")).unwrap();
            assert!(!named.is_loopback());
        }
    }

    #[test]
    fn the_servers_identity_decides_the_name_for_sni() {
        let dns = ControllerAddress::parse("10.0.0.1:1", Some("Policy.Example.")).unwrap();
        assert_eq!(dns.server().unwrap().name.as_ref(), "policy.example");
        let uri = ControllerAddress::parse("policy.ns.svc.:1", Some("spiffe://td/policy")).unwrap();
        assert_eq!(uri.server().unwrap().name.as_ref(), "policy.ns.svc");
        assert_eq!(uri.server().unwrap().identity, Identity::Spiffe("spiffe://td/policy".into()));
        assert!(ControllerAddress::parse("10.0.0.1:1", Some("spiffe://td/policy")).is_err());
        let error = ControllerAddress::parse("10.0.0.1:1", Some("https://x")).unwrap_err();
        assert_eq!(error, AddressError::Server("https://x".to_owned()));
    }

    #[test]
    fn malformed_addresses_are_named() {
        for address in
            ["", "policy", "policy:", "policy:0", "policy:70000", "a b:1", "127.0.0.1:0", ":1"]
        {
            let error = ControllerAddress::parse(address, Some("x")).unwrap_err();
            assert_eq!(error, AddressError::Malformed(address.to_owned()));
        }
    }

    #[tokio::test]
    async fn localhost_never_asks_a_resolver() {
        let address = ControllerAddress::parse("localhost.:80", None).unwrap();
        let found = address.resolve().await.unwrap();
        assert!(!found.is_empty() && found.iter().all(|a| a.ip().is_loopback()), "{found:?}");
    }
}
