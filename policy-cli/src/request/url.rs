//! URL on the command line.

use serde::Serialize;
use std::fmt;
use std::num::NonZeroU16;
use std::str::FromStr;

/// Protocol of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// HTTP/1.1.
    Http1,
    /// HTTP/2 with prior knowledge.
    Http2,
    /// A unary gRPC call.
    Grpc,
    /// Raw bytes in both directions.
    Tcp,
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Http1 => "HTTP/1.1",
            Self::Http2 => "HTTP/2",
            Self::Grpc => "gRPC",
            Self::Tcp => "TCP",
        })
    }
}

/// A parsed URL that is not normalised: the request is sent as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestUrl {
    /// `http`, `https`, `h2`, `grpc`, `tcp`.
    pub protocol: Protocol,
    /// True if the scheme requires TLS.
    pub tls: bool,
    /// Host without port and brackets.
    pub host: String,
    /// Port, or the scheme's own.
    pub port: u16,
    /// Host and port as written.
    pub authority: String,
    /// Path and query as written; `/` if there is none.
    pub path: String,
}

/// Error of parsing a URL.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// The scheme is missing or unknown.
    #[error("`{0}` does not begin with http://, https://, h2://, grpc://, grpcs:// or tcp://")]
    Scheme(String),
    /// The host or port cannot be read.
    #[error("`{0}` has no host and port that can be read")]
    Authority(String),
    /// gRPC needs a service and a method.
    #[error("`{0}` names no method: write grpc://host:port/service/method")]
    Method(String),
}

impl FromStr for RequestUrl {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let scheme = || UrlError::Scheme(text.to_owned());
        let (name, rest) = text.split_once("://").ok_or_else(scheme)?;
        let (protocol, tls, default_port) = match name {
            "http" => (Protocol::Http1, false, Some(80)),
            "https" => (Protocol::Http1, true, Some(443)),
            "h2" => (Protocol::Http2, false, None),
            "grpc" => (Protocol::Grpc, false, None),
            "grpcs" => (Protocol::Grpc, true, Some(443)),
            "tcp" => (Protocol::Tcp, false, None),
            _ => return Err(scheme()),
        };
        let split = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(split);
        let wrong = || UrlError::Authority(text.to_owned());
        let parsed = authority.parse::<http::uri::Authority>().map_err(|_| wrong())?;
        let after_host = authority.strip_prefix(parsed.host()).ok_or_else(wrong)?;
        let port = match (after_host.strip_prefix(':'), default_port) {
            (Some(port), _) => port.parse::<NonZeroU16>().map_err(|_| wrong())?.get(),
            (None, Some(port)) if after_host.is_empty() => port,
            (None, _) => return Err(wrong()),
        };
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        if protocol == Protocol::Grpc && path.split('/').filter(|s| !s.is_empty()).count() != 2 {
            return Err(UrlError::Method(text.to_owned()));
        }
        let host = parsed.host().trim_matches(['[', ']']).to_owned();
        Ok(Self { protocol, tls, host, port, authority: authority.to_owned(), path })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_taken_apart_as_written() {
        let target: RequestUrl = "http://[::1]:8080/a/../b?c=%2F".parse().unwrap();
        assert_eq!(target.host, "::1");
        assert_eq!(target.port, 8080);
        assert_eq!(target.authority, "[::1]:8080");
        assert_eq!(target.path, "/a/../b?c=%2F");
        assert!(!target.tls);
    }

    #[test]
    fn https_has_a_port_and_a_path_of_its_own() {
        let target: RequestUrl = "https://web.example".parse().unwrap();
        assert_eq!((target.port, target.path.as_str(), target.tls), (443, "/", true));
    }

    #[test]
    fn what_cannot_be_used_says_why() {
        for (text, expected) in [
            ("web:80", "does not begin with"),
            ("ftp://web:80", "does not begin with"),
            ("tcp://web", "no host and port"),
            ("http://web:99999/", "no host and port"),
            ("http://web:0/", "no host and port"),
            ("http://user@web/", "no host and port"),
            ("grpc://web:1/only-a-service", "names no method"),
        ] {
            let error = text.parse::<RequestUrl>().unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
