//! Checks of what reached the application: the naive evaluator permits it as the application read it,
//! and the client sent it.

use super::application::Message;
use http::header::{CONNECTION, COOKIE, HOST};
use http::{HeaderMap, HeaderValue};
use policy_core::target::{Target, canonical_target};
use policy_core::{
    Connection, Decision, Facts, PathHandling, RequestView, ServerPolicy, Tls, naive,
};
use std::net::{IpAddr, Ipv4Addr};

/// Fields of one connection alone, and those that say how a body ends or are the sidecar's to set.
const NOT_COMPARED: [&str; 14] = [
    "connection",
    "keep-alive",
    "proxy-connection",
    "http2-settings",
    "upgrade",
    "te",
    "trailer",
    "transfer-encoding",
    "content-length",
    "expect",
    "host",
    "forwarded",
    "x-forwarded-for",
    "cookie",
];

/// Says why `arrived` ought not to be there.
pub(super) fn permitted(policy: &ServerPolicy, arrived: &Message) -> Result<(), String> {
    let target = target(arrived)?;
    canonical(arrived, &target)?;
    if let Some(id) = arrived.headers.get("l5d-client-id") {
        return Err(format!("the application is told that the client is {id:?}"));
    }
    let secure: Vec<_> = arrived.headers.get_all("l5d-connection-secure").iter().collect();
    if secure.iter().any(|value| *value != "false") || secure.len() > 1 {
        return Err(format!("the application is told that the connection is secure: {secure:?}"));
    }
    decided(policy, arrived, &target, &arrived.headers)?;
    decided(policy, arrived, &target, &as_most_read(&arrived.headers))
}

/// Fields as most applications read them: without blanks at the ends of values (RFC 9110 section 5.5), and
/// cookies as one line (RFC 9113 section 8.2.3).
fn as_most_read(headers: &HeaderMap) -> HeaderMap {
    let mut read = HeaderMap::new();
    for (name, value) in headers.iter().filter(|(name, _)| *name != COOKIE) {
        if let Ok(value) = HeaderValue::from_bytes(value.as_bytes().trim_ascii()) {
            read.append(name, value);
        }
    }
    if headers.contains_key(COOKIE)
        && let Ok(value) = HeaderValue::from_bytes(&joined(headers))
    {
        read.insert(COOKIE, value);
    }
    read
}

/// The forwarded form is the form that was decided on, and no other of the same meaning.
fn canonical(arrived: &Message, target: &Target<'_>) -> Result<(), String> {
    let http1 = arrived.version < http::Version::HTTP_2;
    let authority = arrived.uri.authority().map(http::uri::Authority::as_str);
    let line = arrived.headers.get(HOST).and_then(|line| line.to_str().ok());
    let name = if http1 { line } else { authority.or(line) };
    let host = target.host.as_deref().unwrap_or_default();
    let port = name.map(|name| name.strip_prefix(host));
    let is_port = |port: &str| port.is_empty() || port.starts_with(':') && port.len() > 1;
    if target.rewritten().is_some()
        || http1 && authority.is_some()
        || port.is_some_and(|port| !port.is_some_and(is_port))
    {
        return Err(format!("{arrived:?} was not forwarded in the form that was judged"));
    }
    Ok(())
}

fn target(message: &Message) -> Result<Target<'_>, String> {
    let (method, headers) = (&message.method, &message.headers);
    canonical_target(method, &message.uri, message.version, headers, PathHandling::Canonical)
        .map_err(|fault| format!("{message:?} was forwarded: {}", fault.as_str()))
}

fn decided(
    policy: &ServerPolicy,
    arrived: &Message,
    target: &Target<'_>,
    headers: &HeaderMap,
) -> Result<(), String> {
    let facts = Facts::default();
    let client = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let connection = Connection { client, tls: Tls::Absent, facts: &facts };
    let view = RequestView {
        method: &arrived.method,
        host: target.host.as_deref(),
        path: &target.path,
        query: target.query,
        headers,
    };
    match naive::decide_request(policy, &connection, &view) {
        Decision::Permit(_) => Ok(()),
        Decision::Deny(denial) => {
            Err(format!("{} reached the application: {arrived:?}", denial.reason.as_str()))
        }
    }
}

/// Holds what arrived to what was sent: HTTP/1 in its order, HTTP/2 in any.
pub(super) fn sent(sent: &[Message], arrived: &[Message]) -> Result<(), String> {
    let mut left: Vec<&Message> = sent.iter().collect();
    for message in arrived {
        let place = left.iter().position(|sent| same(sent, message));
        let place = place.ok_or_else(|| format!("nobody sent {message:?}, but {left:?}"))?;
        if message.version < http::Version::HTTP_2 {
            left.drain(..=place);
        } else {
            left.remove(place);
        }
    }
    Ok(())
}

fn same(sent: &Message, arrived: &Message) -> bool {
    let targets = match (target(sent), target(arrived)) {
        (Ok(one), Ok(other)) => {
            (one.host, one.path, one.query) == (other.host, other.path, other.query)
        }
        (_, _) => false,
    };
    targets
        && sent.method == arrived.method
        && same_fields(&sent.headers, &arrived.headers)
        && same_bodies(sent, arrived)
}

fn same_fields(sent: &HeaderMap, arrived: &HeaderMap) -> bool {
    let listed = |name: &str| {
        let mut lines = sent.get_all(CONNECTION).iter();
        lines.any(|line| {
            let mut tokens = line.as_bytes().split(|byte| *byte == b',');
            tokens.any(|token| token.trim_ascii().eq_ignore_ascii_case(name.as_bytes()))
        })
    };
    let compared =
        |name: &str| !NOT_COMPARED.contains(&name) && !name.replace('_', "-").starts_with("l5d-");
    let names = sent.keys().chain(arrived.keys()).filter(|name| compared(name.as_str()));
    for name in names {
        let gone = !arrived.contains_key(name) && listed(name.as_str());
        if !gone && !sent.get_all(name).iter().eq(arrived.get_all(name).iter()) {
            return false;
        }
    }
    let arrived: Vec<&[u8]> = arrived.get_all(COOKIE).iter().map(HeaderValue::as_bytes).collect();
    let whole = cookie(sent);
    arrived == whole.as_deref().as_slice() || arrived.is_empty() && listed(COOKIE.as_str())
}

/// The one line that the lines of a client's cookies become. A line without a cookie adds nothing: as the
/// last one it would leave a blank at the end, which no value has (RFC 9110 section 5.5), and no reader
/// finds a cookie between two delimiters (RFC 6265 section 4.2.1).
fn cookie(sent: &HeaderMap) -> Option<Vec<u8>> {
    let lines = || sent.get_all(COOKIE).iter().map(HeaderValue::as_bytes);
    let said: Vec<&[u8]> = lines().filter(|line| !line.is_empty()).collect();
    lines().next().map(|_| said.join(&b"; "[..]))
}

/// The lines of cookies as a reader joins them (RFC 9113 section 8.2.3).
fn joined(headers: &HeaderMap) -> Vec<u8> {
    let lines: Vec<&[u8]> = headers.get_all(COOKIE).iter().map(HeaderValue::as_bytes).collect();
    lines.join(&b"; "[..])
}

/// A body that arrived whole was sent whole; else one is the beginning of the other, as far as both
/// were read.
fn same_bodies(sent: &Message, arrived: &Message) -> bool {
    let begins = |one: &[u8], other: &[u8]| one.starts_with(other) || other.starts_with(one);
    if arrived.whole && sent.headers.contains_key(HOST) && sent.version < http::Version::HTTP_2 {
        return sent.whole && sent.body == arrived.body;
    }
    sent.body.is_empty() || begins(&sent.body, &arrived.body)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cookies(lines: &[&'static str]) -> HeaderMap {
        lines.iter().map(|line| (COOKIE, HeaderValue::from_static(line))).collect()
    }

    #[test]
    fn the_lines_of_cookies_arrive_as_one_without_those_that_are_empty() {
        let sent = cookies(&["", "a=1", "", "b=2; c=3", ""]);
        assert!(same_fields(&sent, &cookies(&["a=1; b=2; c=3"])));
        assert!(same_fields(&cookies(&[""; 46]), &cookies(&[""])));
        assert!(same_fields(&cookies(&["a=1;"]), &cookies(&["a=1;"])));
        for other in [
            &["; a=1; ; b=2; c=3; "][..],
            &["a=1", "b=2; c=3"],
            &["b=2; c=3; a=1"],
            &["a=1; c=3"],
            &[""],
            &[],
        ] {
            assert!(!same_fields(&sent, &cookies(other)), "{other:?}");
        }
        assert!(!same_fields(&cookies(&[""]), &cookies(&[])));
        assert!(!same_fields(&cookies(&[]), &cookies(&[""])));
    }
}
