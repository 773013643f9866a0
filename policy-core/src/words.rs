//! Conditions and matches in words, as tables, findings and explanations write them.

use crate::authorization::Predicate;
use crate::identity::IdentityMatch;
use crate::matching::{HeaderMatch, PathPattern, QueryMatch, RequestMatch, Segment, ValueMatch};
use crate::network::{NetworkMatch, NetworkSymbol, NetworkTerm};
use std::fmt::{self, Write};

/// A condition on the client or the request: `from 10.0.0.0/8`, `identity *.shop.example`.
impl fmt::Display for Predicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Network(networks) => {
                f.write_str("from ")?;
                any_of(f, networks)
            }
            Self::MeshTls => f.write_str("mesh TLS, with or without an identity"),
            Self::Identity(identities) => {
                f.write_str("identity ")?;
                any_of(f, identities)
            }
            Self::TlsPassthrough => f.write_str("TLS that is passed through"),
            Self::Segment(condition) => condition.fmt(f),
        }
    }
}

/// Alternatives joined by "or"; without any, nobody.
fn any_of(f: &mut fmt::Formatter<'_>, items: &[impl fmt::Display]) -> fmt::Result {
    if items.is_empty() {
        return f.write_str("nobody");
    }
    for (number, item) in items.iter().enumerate() {
        let separator = if number == 0 { "" } else { " or " };
        write!(f, "{separator}{item}")?;
    }
    Ok(())
}

/// `10.0.0.0/8 except 10.1.0.0/16`, `cluster`, `node-local`.
impl fmt::Display for NetworkMatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.term {
            NetworkTerm::Net(net) => net.fmt(f)?,
            NetworkTerm::Symbol(NetworkSymbol::NodeLocal) => f.write_str("node-local")?,
            NetworkTerm::Symbol(NetworkSymbol::Cluster) => f.write_str("cluster")?,
        }
        for (number, net) in self.except.iter().enumerate() {
            let separator = if number == 0 { " except " } else { ", " };
            write!(f, "{separator}{net}")?;
        }
        Ok(())
    }
}

/// The name as policies write it: `*`, `*.suffix`, or the whole one.
impl fmt::Display for IdentityMatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("*"),
            Self::Exact(name) => f.write_str(name),
            Self::Suffix(suffix) => write!(f, "*.{suffix}"),
        }
    }
}

impl RequestMatch {
    /// The match in one line, with `path` as the words for its path.
    pub fn words_on(&self, path: &str) -> String {
        let method = self.method().map_or("*", http::Method::as_str);
        let mut text = format!("{method} {path}");
        for HeaderMatch { name, value } in self.headers() {
            // Writing to a String cannot fail.
            let _ = write!(text, " header {name}{value}");
        }
        for QueryMatch { name, value } in self.query() {
            // Writing to a String cannot fail.
            let _ = write!(text, " query {name}{value}");
        }
        text
    }
}

/// One line, for example `GET /api/… header x-team=a`.
impl fmt::Display for RequestMatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words_on(&self.path.to_string()))
    }
}

/// `=text` of an exact value, `~expression` of others.
impl fmt::Display for ValueMatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(bytes) => write!(f, "={}", String::from_utf8_lossy(bytes)),
            Self::Regex(pattern) => write!(f, "~{}", pattern.source()),
        }
    }
}

/// `/a/{name}` of an exact path, `/a/…` of a prefix, `~expression` of others.
impl fmt::Display for PathPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (segments, rest) = match self {
            Self::Regex(pattern) => return write!(f, "~{}", pattern.source()),
            Self::Segments { segments, rest } => (segments, *rest),
        };
        for segment in segments {
            match segment {
                Segment::Literal(literal) => write!(f, "/{literal}")?,
                Segment::Parameter(name) => write!(f, "/{{{name}}}")?,
            }
        }
        match (rest, segments.is_empty()) {
            (true, _) => f.write_str("/…"),
            (false, true) => f.write_str("/"),
            (false, false) => Ok(()),
        }
    }
}
