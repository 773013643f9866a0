//! The request line of a decision, for log lines and records.

use http::Method;
use http::header::HOST;
use http::request::Parts;
use http::uri::Authority;

/// The request line of a decision.
#[derive(Clone, Copy, Debug)]
pub struct RequestLine<'a> {
    /// The method.
    pub method: &'a Method,
    /// The host, as sent or canonical; [`Self::of`] leaves out the user information before an `@`.
    pub host: Option<&'a str>,
    /// The path. A query is removed.
    pub path: &'a str,
    /// True if the path is made canonical first; false if policy takes it raw.
    pub canonical: bool,
}

impl<'a> RequestLine<'a> {
    /// Returns the line of a head.
    pub fn of(head: &'a Parts, canonical: bool) -> Self {
        let host = head.headers.get(HOST).and_then(|host| host.to_str().ok());
        let host = head.uri.authority().map(Authority::as_str).or(host);
        let host = host.map(|host| host.rsplit_once('@').map_or(host, |(_, host)| host));
        Self { method: &head.method, host, path: head.uri.path(), canonical }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Request;

    #[test]
    fn credentials_of_an_authority_are_not_recorded() {
        let host = |uri: &str, host: &str| {
            let request = Request::builder().uri(uri).header(HOST, host).body(()).unwrap();
            let (head, ()) = request.into_parts();
            RequestLine::of(&head, true).host.unwrap().to_owned()
        };
        assert_eq!(host("http://user:pass@web:8080/a", "web"), "web:8080");
        assert_eq!(host("/a", "user:p@ss@web"), "web");
        assert_eq!(host("/a", "web.example"), "web.example");
    }
}
