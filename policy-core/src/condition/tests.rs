//! Conditions on parts that are there, absent, repeated or ambiguous.

use super::*;
use http::{HeaderMap, HeaderName, HeaderValue, Method};

fn with_path(path: &str, condition: &SegmentCondition) -> bool {
    let headers = HeaderMap::new();
    let (method, host, query) = (&Method::GET, None, None);
    condition.holds(&RequestView { method, host, path, query, headers: &headers })
}

fn book(operator: SegmentOperator, values: &[&str]) -> SegmentCondition {
    SegmentCondition::new("book", 1, operator, values)
}

#[test]
fn a_segment_is_one_of_the_texts_or_none_of_them() {
    let listed = book(SegmentOperator::In, &["42", "43"]);
    let others = book(SegmentOperator::NotIn, &["42", "43"]);
    for (path, is_in, is_not_in) in [
        ("/books/42", true, false),
        ("/books/43/pages", true, false),
        ("/books/44", false, true),
        ("/books/42x", false, true),
        ("/42/books", false, true),
    ] {
        assert_eq!(with_path(path, &listed), is_in, "{path}");
        assert_eq!(with_path(path, &others), is_not_in, "{path}");
    }
    // An empty list names no text.
    assert!(!with_path("/books/42", &book(SegmentOperator::In, &[])));
    assert!(with_path("/books/42", &book(SegmentOperator::NotIn, &[])));
}

#[test]
fn a_segment_that_is_not_there_or_reads_two_ways_meets_neither_operator() {
    for path in [
        "",
        "*",
        "/",
        "/books",
        "/books/",
        "/books//42",
        "books/44",
        "/books/44;v=2",
        "/books/%34%34",
        "/books/4%2F4",
        "/books/caf%c3%a9",
        "/books/44/../42",
        "/books/44/.",
        "/books/44%",
        "/books/4\\4",
        "/books/é",
    ] {
        for operator in [SegmentOperator::In, SegmentOperator::NotIn] {
            let condition = book(operator, &["42", "44", "44;v=2", "é", ""]);
            assert!(!with_path(path, &condition), "{path} {operator:?}");
        }
    }
}

#[test]
fn texts_are_compared_in_the_form_that_paths_are_compared_in() {
    let condition = book(SegmentOperator::In, &["a:b", "c%3Ad", "e f", "caf\u{e9}"]);
    for path in ["/books/a:b", "/books/c:d", "/books/e%20f", "/books/caf%C3%A9"] {
        assert!(with_path(path, &condition), "{path}");
    }
    assert!(!with_path("/books/A:b", &condition), "case counts");
}

fn with_headers(lines: &[(&str, &[u8])], host: Option<&str>, condition: &HeaderCondition) -> bool {
    let mut headers = HeaderMap::new();
    for (name, value) in lines {
        let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
        headers.append(name, HeaderValue::from_bytes(value).unwrap());
    }
    let (method, path, query) = (&Method::GET, "/", None);
    condition.holds(&RequestView { method, host, path, query, headers: &headers })
}

#[test]
fn a_header_is_there_or_not_and_one_of_its_lines_may_be_a_value() {
    let on = |name: &str, operator| HeaderCondition { name: name.into(), operator };
    let values = || vec![Arc::from("a"), Arc::from("b")];
    let (is_in, is_not_in) = (HeaderOperator::In(values()), HeaderOperator::NotIn(values()));
    type Line<'a> = (&'a [(&'a str, &'a [u8])], [bool; 4]);
    let lines: [Line<'_>; 5] = [
        (&[], [false, true, false, true]),
        (&[("x-a", b"a")], [true, false, true, false]),
        (&[("x-a", b"c"), ("x-a", b"b")], [true, false, true, false]),
        (&[("x-a", b"a, b")], [false, true, true, false]),
        (&[("x-b", b"a"), ("x-a", b"\xff")], [false, true, true, false]),
    ];
    for (lines, wanted) in lines {
        let operators =
            [&is_in, &is_not_in, &HeaderOperator::Exists, &HeaderOperator::DoesNotExist];
        let found = operators.map(|one| with_headers(lines, None, &on("x-a", one.clone())));
        assert_eq!(found, wanted, "{lines:?}");
    }
}

#[test]
fn host_is_the_canonical_host_and_not_a_line_of_that_name() {
    let host = |operator| HeaderCondition { name: "host".into(), operator };
    let listed = host(HeaderOperator::In(vec!["web.example".into()]));
    let line: &[(&str, &[u8])] = &[("host", b"web.example")];
    assert!(with_headers(&[], Some("web.example"), &listed));
    assert!(!with_headers(line, Some("other.example"), &listed));
    assert!(!with_headers(line, None, &listed));
    assert!(with_headers(line, None, &host(HeaderOperator::DoesNotExist)));
}

#[test]
fn conditions_read_as_selectors_write_them() {
    let segment = EffectCondition::Segment(book(SegmentOperator::NotIn, &["42", "43"]));
    assert_eq!(segment.to_string(), "path parameter book NotIn [42, 43]");
    let operator = HeaderOperator::Exists;
    let header = EffectCondition::Header(HeaderCondition { name: "x-a".into(), operator });
    assert_eq!(header.to_string(), "header x-a Exists");
}

/// An encoding kept a required change from the header that an application then trusted.
#[test]
fn an_effect_applies_where_parsers_read_different_segments() {
    let may_hold = |path: &str, operator| {
        let headers = http::HeaderMap::new();
        let method = http::Method::GET;
        let request =
            RequestView { method: &method, host: None, path, query: None, headers: &headers };
        let condition = book(operator, &["42"]);
        (condition.holds(&request), EffectCondition::Segment(condition).may_hold(&request))
    };
    for operator in [SegmentOperator::In, SegmentOperator::NotIn] {
        assert_eq!(may_hold("/books/%2F42", operator), (false, true));
        assert_eq!(may_hold("/books//42", operator), (false, true));
        assert_eq!(may_hold("/books/", operator), (false, false));
        assert_eq!(may_hold("*", operator), (false, false));
    }
    assert_eq!(may_hold("/books/42", SegmentOperator::In), (true, true));
    assert_eq!(may_hold("/books/42", SegmentOperator::NotIn), (false, false));
}
