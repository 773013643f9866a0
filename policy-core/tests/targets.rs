//! The canonical target: what is decoded, what is refused, what hosts are alike.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation,
    reason = "a test stops at the first surprise"
)]

use http::{HeaderMap, HeaderValue, Method, Uri, Version};
use policy_core::host::canonical_host;
use policy_core::{PathHandling, TargetFault, canonical_path, canonical_target};
use proptest::prelude::*;
use std::borrow::Cow;

fn hosts(lines: &[&str]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for line in lines {
        headers.append("host", HeaderValue::from_bytes(line.as_bytes()).unwrap());
    }
    headers
}

/// The canonical host and path of a request, or why it is refused.
fn read(
    method: &Method,
    uri: &str,
    version: Version,
    lines: &[&str],
) -> Result<(Option<String>, String), TargetFault> {
    let uri: Uri = uri.parse().unwrap();
    let headers = hosts(lines);
    let target = canonical_target(method, &uri, version, &headers, PathHandling::Canonical)?;
    Ok((target.host.map(Cow::into_owned), target.path.into_owned()))
}

fn path(text: &str) -> Result<String, TargetFault> {
    canonical_path(text).map(Cow::into_owned)
}

#[test]
fn unreserved_bytes_are_decoded_and_digits_upper_cased() {
    for (written, canonical) in [
        ("/", "/"),
        ("/a/", "/a/"),
        ("/%61dmin", "/admin"),
        ("/%41%7e%2d%5F", "/A~-_"),
        ("/a%2Eb", "/a.b"),
        ("/%3a%2a", "/%3A%2A"),
        ("/%252f", "/%252f"),
        ("/...", "/..."),
        ("/a.b/.c", "/a.b/.c"),
        ("*", "*"),
        ("", ""),
    ] {
        assert_eq!(path(written).as_deref(), Ok(canonical), "{written}");
    }
}

#[test]
fn ambiguous_paths_are_refused_by_name() {
    for (written, fault) in [
        ("a", TargetFault::Malformed),
        ("/.", TargetFault::DotSegment),
        ("/a/../b", TargetFault::DotSegment),
        ("/a/%2e./b", TargetFault::DotSegment),
        ("/%2E", TargetFault::DotSegment),
        ("//", TargetFault::EmptySegment),
        ("//admin", TargetFault::EmptySegment),
        ("/a//", TargetFault::EmptySegment),
        ("/a%2fb", TargetFault::EncodedSlash),
        ("/a%2Fb", TargetFault::EncodedSlash),
        ("/a\\b", TargetFault::Backslash),
        ("/a%5cb", TargetFault::Backslash),
        ("/a%00", TargetFault::Control),
        ("/a%0d%0a", TargetFault::Control),
        ("/a%7F", TargetFault::Control),
        ("/a\u{1}", TargetFault::Control),
        ("/a%", TargetFault::BadEncoding),
        ("/a%2", TargetFault::BadEncoding),
        ("/a%2/f", TargetFault::BadEncoding),
        ("/a%zz", TargetFault::BadEncoding),
        ("/a%+1", TargetFault::BadEncoding),
        ("/a;v=1", TargetFault::PathParameter),
        ("/a/..;/b", TargetFault::PathParameter),
        ("/a%3bv", TargetFault::PathParameter),
        ("/é", TargetFault::NonAscii),
    ] {
        assert_eq!(path(written), Err(fault), "{written}");
    }
}

/// The library calls the path of `?q` `/`, and writes it as it came.
#[test]
fn a_path_of_http_2_begins_with_a_slash() {
    let uri: Uri = "http://web?q".parse().unwrap();
    let headers = HeaderMap::new();
    let target = |version| {
        canonical_target(&Method::GET, &uri, version, &headers, PathHandling::Canonical)
            .map(|target| target.path)
    };
    assert_eq!(target(Version::HTTP_2), Err(TargetFault::Malformed));
    assert_eq!(target(Version::HTTP_10), Ok("/".into()));
}

#[test]
fn a_fragment_is_neither_matched_nor_forwarded() {
    let uri: Uri = "/admin?q=1#x".parse().unwrap();
    let headers = hosts(&["web"]);
    let target =
        canonical_target(&Method::GET, &uri, Version::HTTP_11, &headers, PathHandling::Canonical)
            .unwrap();
    assert_eq!((&*target.path, target.query), ("/admin", Some("q=1")));
}

#[test]
fn what_is_forwarded_is_what_was_judged() {
    let headers = hosts(&["web"]);
    let rewritten = |uri: &str| {
        let uri: Uri = uri.parse().unwrap();
        let target = canonical_target(
            &Method::GET,
            &uri,
            Version::HTTP_11,
            &headers,
            PathHandling::Canonical,
        );
        target.unwrap().rewritten().map(|target| target.to_string())
    };
    assert_eq!(rewritten("/admin?q=%61"), None);
    assert_eq!(rewritten("/%61dmin?q=%61").as_deref(), Some("/admin?q=%61"));
    assert_eq!(rewritten("/%3a").as_deref(), Some("/%3A"));
}

#[test]
fn raw_paths_are_left_alone_but_hosts_are_not() {
    let read = |uri: &str, line: &str| {
        let uri: Uri = uri.parse().unwrap();
        let headers = hosts(&[line]);
        let handling = PathHandling::Raw;
        canonical_target(&Method::GET, &uri, Version::HTTP_11, &headers, handling)
            .map(|target| (target.host.map(Cow::into_owned), target.path.into_owned()))
    };
    let raw = "/%61/..//;x";
    assert_eq!(read(raw, "WEB."), Ok((Some("web".to_owned()), raw.to_owned())));
    assert_eq!(read(raw, "a b"), Err(TargetFault::InvalidHost));
}

#[test]
fn only_the_form_that_belongs_to_a_method_is_read() {
    let web = &["web"][..];
    let one = Version::HTTP_11;
    let ok = |path: &str| Ok((Some("web".to_owned()), path.to_owned()));
    assert_eq!(read(&Method::OPTIONS, "*", one, web), ok("*"));
    assert_eq!(read(&Method::GET, "*", one, web), Err(TargetFault::Malformed));
    assert_eq!(read(&Method::CONNECT, "web:80", one, &["web:80"]), ok(""));
    assert_eq!(read(&Method::GET, "web:80", one, &["web:80"]), Err(TargetFault::Malformed));
    assert_eq!(read(&Method::CONNECT, "/a", one, web), Err(TargetFault::Malformed));
    assert_eq!(read(&Method::CONNECT, "http://web/a", one, web), Err(TargetFault::Malformed));
    // Extended CONNECT.
    assert_eq!(read(&Method::CONNECT, "http://web/a", Version::HTTP_2, &[]), ok("/a"));
    assert_eq!(read(&Method::GET, "http://web", one, web), ok("/"));
}

#[test]
fn target_and_host_must_agree() {
    let get = |uri: &str, version, lines: &[&str]| read(&Method::GET, uri, version, lines);
    let host = |found: Result<(Option<String>, String), TargetFault>| found.map(|(host, _)| host);
    let (one, two) = (Version::HTTP_11, Version::HTTP_2);
    assert_eq!(host(get("/", one, &["a", "a"])), Err(TargetFault::DuplicateHost));
    assert_eq!(host(get("/", one, &[])), Err(TargetFault::MissingHost));
    assert_eq!(host(get("http://a/", one, &[])), Err(TargetFault::MissingHost));
    assert_eq!(host(get("/", Version::HTTP_10, &[])), Ok(None));
    assert_eq!(host(get("/", two, &[])), Ok(None));
    assert_eq!(host(get("/", two, &["a"])), Ok(Some("a".to_owned())));
    assert_eq!(host(get("http://a/", two, &[])), Ok(Some("a".to_owned())));
    assert_eq!(host(get("http://A.:80/", one, &["a"])), Ok(Some("a".to_owned())));
    for line in ["b", "a:81", "a.b"] {
        assert_eq!(host(get("http://a/", one, &[line])), Err(TargetFault::AuthorityMismatch));
        assert_eq!(host(get("http://a/", two, &[line])), Err(TargetFault::AuthorityMismatch));
    }
    assert_eq!(host(get("http://u@a/", one, &["a"])), Err(TargetFault::InvalidHost));
    assert_eq!(host(get("/", one, &[""])), Ok(None));
    assert_eq!(host(get("/", Version::HTTP_10, &[""])), Ok(None));
    assert_eq!(host(get("http://a/", one, &[""])), Err(TargetFault::InvalidHost));
    assert_eq!(host(get("/", two, &[""])), Err(TargetFault::InvalidHost));
    assert_eq!(host(get("/", one, &["", "a"])), Err(TargetFault::DuplicateHost));
    assert_eq!(host(get("/", one, &["é"])), Err(TargetFault::InvalidHost));
}

#[test]
fn hosts_have_one_form() {
    let ok = |text: &str| canonical_host(text).map(|host| (host.name.into_owned(), host.port));
    for (written, name, port) in [
        ("web", "web", None),
        ("Web.Example.COM.", "web.example.com", None),
        ("web:", "web", None),
        ("web.:8080", "web", Some(8080)),
        ("my_host-1", "my_host-1", None),
        ("10.0.0.1:80", "10.0.0.1", Some(80)),
        ("[FD00:0:0::1]", "[fd00::1]", None),
        ("[::FFFF:1.2.3.4]:80", "[::ffff:1.2.3.4]", Some(80)),
    ] {
        assert_eq!(ok(written), Ok((name.to_owned(), port)), "{written}");
    }
}

#[test]
fn what_is_no_host_is_refused() {
    let long = "a".repeat(64);
    let longer = ["a"; 128].join(".");
    for written in [
        "",
        ".",
        "..",
        "a..",
        "a..b",
        ".a",
        "a b",
        "a/b",
        "u@a",
        "u:p@a",
        "a:b",
        "a:0",
        "a:65536",
        "a:+1",
        "a:80:80",
        "fd00::1",
        "[fd00::1",
        "[fd00::1]x",
        "[[::1]]",
        "[[::1]",
        "[[[::1]:80",
        "a.0x",
        "-.1",
        "[fe80::1%eth0]",
        "[fe80::1%25eth0]",
        "[v1.x]",
        "[10.0.0.1]",
        "010.0.0.1",
        "10.0.1",
        "1",
        "0x7f.1",
        "a.0x1",
        "10.0.0.256",
        "10.0.0.1.",
        "a%2eb",
        "*.a",
        "a,b",
        &long,
        &longer,
    ] {
        let found = canonical_host(written);
        // A trailing dot is taken off an address as off a name.
        if written == "10.0.0.1." {
            assert_eq!(found.unwrap().name, "10.0.0.1");
        } else {
            assert_eq!(found, Err(TargetFault::InvalidHost), "{written}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn a_canonical_path_is_its_own_canonical_form(text in "/[%./;\\\\a-cA-F0-9~:é-]{0,16}") {
        if let Ok(canonical) = canonical_path(&text) {
            let again = canonical_path(&canonical);
            prop_assert!(matches!(&again, Ok(Cow::Borrowed(same)) if *same == canonical));
            prop_assert!(canonical.split('/').all(|segment| segment != "." && segment != ".."));
        }
    }

    #[test]
    fn writing_an_unreserved_byte_encoded_changes_nothing(
        text in "/[a-z~_-]{1,4}(/[a-z0-9]{1,4}){0,2}",
        at in any::<prop::sample::Index>(),
        lower in any::<bool>(),
    ) {
        let at = at.index(text.len() - 1) + 1;
        prop_assume!(text.as_bytes()[at] != b'/');
        let byte = text.as_bytes()[at];
        let encoded = if lower { format!("%{byte:02x}") } else { format!("%{byte:02X}") };
        let written = format!("{}{encoded}{}", &text[..at], &text[at + 1..]);
        prop_assert_eq!(path(&written), Ok(text));
    }

    #[test]
    fn a_canonical_host_is_its_own_canonical_form(text in "[a-cA-C0-9.:x\\[\\]_-]{0,12}") {
        if let Ok(host) = canonical_host(&text) {
            let again = canonical_host(&host.name).unwrap();
            prop_assert!(matches!(again.name, Cow::Borrowed(_)));
            prop_assert_eq!(&again.name, &host.name);
        }
    }
}
