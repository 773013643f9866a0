//! Detection of requests that a page in a browser may have sent through a forwarded port.

use http::header::{HOST, ORIGIN};
use http::uri::Authority;
use http::{HeaderMap, Request};
use std::net::IpAddr;

/// True if a page in a browser may have sent the request. Pages of other origins send `Origin`. A
/// page whose name was rebound to loopback (DNS rebinding) has this origin, but sends its own name
/// as `Host`: other clients of loopback send `localhost` or an address.
pub(super) fn may_come_from_browser<B>(request: &Request<B>) -> bool {
    request.headers().contains_key(ORIGIN) || !host(request).is_some_and(is_local)
}

/// The host of a request, without its port.
pub(super) fn host<B>(request: &Request<B>) -> Option<&str> {
    let named = request.uri().authority().map(Authority::host);
    named.or_else(|| host_of(request.headers()))
}

/// True for `localhost` and addresses of loopback.
pub(super) fn is_loopback(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost") || address(host).is_some_and(|own| own.is_loopback())
}

/// The host of the only `Host` line, without its port.
fn host_of(headers: &HeaderMap) -> Option<&str> {
    let mut lines = headers.get_all(HOST).iter();
    let line = lines.next().filter(|_| lines.next().is_none())?.to_str().ok()?;
    match line.strip_prefix('[') {
        Some(address) => address.split_once(']').map(|(address, _)| address),
        None => line.split(':').next(),
    }
}

fn is_local(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost") || address(host).is_some()
}

fn address(host: &str) -> Option<IpAddr> {
    host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host).parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_asked_for_by_its_name_or_an_address() {
        let from_page = |host: &str| {
            may_come_from_browser(&Request::get("/").header(HOST, host).body(()).unwrap())
        };
        for host in ["localhost:14191", "LOCALHOST", "127.0.0.1:4191", "[::1]:4191", "192.0.2.7"] {
            assert!(!from_page(host), "{host}");
        }
        let names = ["page.example:4191", "localhost.page.example", "127.0.0.1.page.example"];
        for host in names.into_iter().chain(["", "[", "a]", "[localhost", "\u{e9}"]) {
            assert!(from_page(host), "{host}");
        }
        let two = Request::get("/").header(HOST, "localhost").header(HOST, "page.example");
        assert!(may_come_from_browser(&two.body(()).unwrap()));
        assert!(may_come_from_browser(&Request::get("/").body(()).unwrap()), "no name");
        let absolute = |uri: &str| {
            may_come_from_browser(&Request::get(uri).header(HOST, "localhost").body(()).unwrap())
        };
        assert!(absolute("http://page.example/") && !absolute("http://[::1]:4191/"));
    }
}
