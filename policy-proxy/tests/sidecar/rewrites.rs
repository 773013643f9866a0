//! Rewriting of request headers under conditions on the request as it was received.

use crate::http2::client;
use crate::support::*;
use bytes::Bytes;
use http::{HeaderName, HeaderValue, Request, StatusCode};
use http_body_util::Full;
use policy_core::filter::{Filter, FilterKind, HeaderRewrite};
use policy_core::{
    EffectCondition, HeaderCondition, HeaderOperator, SegmentCondition, SegmentOperator,
    ServerPolicy, Source,
};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

fn name(name: &'static str) -> HeaderName {
    HeaderName::from_static(name)
}

fn field(of: &'static str, value: &'static str) -> (HeaderName, HeaderValue) {
    (name(of), HeaderValue::from_static(value))
}

fn is_in(name: &str, value: &str) -> EffectCondition {
    let operator = HeaderOperator::In(vec![value.into()]);
    EffectCondition::Header(HeaderCondition { name: name.into(), operator })
}

fn policy(rules: Vec<HeaderRewrite>) -> ServerPolicy {
    let mut policy = server(detect(), everybody());
    let filter =
        |rule| Filter { source: Source::Default("test".into()), kind: FilterKind::Rewrite(rule) };
    policy.effects = rules.into_iter().map(filter).collect();
    policy
}

/// The ordered policy of the proposal: JSON sets `x-foobar`, and one host always clears it.
fn foobar() -> Vec<HeaderRewrite> {
    vec![
        HeaderRewrite {
            when: vec![is_in("content-type", "application/json")],
            set: vec![field("x-foobar", "yahoo"), field("content-type", "text/plain")],
            ..HeaderRewrite::default()
        },
        HeaderRewrite {
            when: vec![is_in("host", "example.com")],
            clear: vec![name("x-foobar")],
            ..HeaderRewrite::default()
        },
    ]
}

/// Sends a request over both versions of HTTP and returns the lines that the application gets of a
/// header.
async fn received(setup: &Setup, host: &str, headers: &[(&str, &str)], of: &str) -> Vec<String> {
    let mut one = Client::new(setup.connect().await).await;
    let both = [("host", host)].into_iter().chain(headers.iter().copied());
    let first = one.ask("/", &both.collect::<Vec<_>>()).await;
    let mut request = Request::get(format!("http://{host}/"));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let mut two = client(setup).await;
    let second = got(two.send_request(request.body(Full::default()).unwrap()).await.unwrap()).await;
    let lines = |got: &Got| -> Vec<String> {
        assert_eq!(got.status, StatusCode::OK);
        let own = got.body.lines().filter_map(|line| line.split_once(": "));
        own.filter(|(name, _)| *name == of).map(|(_, value)| value.to_owned()).collect()
    };
    assert_eq!(lines(&first), lines(&second), "HTTP/1 and HTTP/2");
    lines(&first)
}

#[tokio::test]
async fn the_rules_of_the_proposal_do_what_it_says() {
    let app = App::start().await;
    let setup = Setup::new(policy(foobar()), app.address).await;
    let (json, sent) = (("content-type", "application/json"), ("x-foobar", "sent"));
    type Case<'a> = (&'a str, &'a [(&'a str, &'a str)], &'a [&'a str]);
    let cases: [Case<'_>; 11] = [
        ("example.com", &[json, sent], &[]),
        ("example.com:8080", &[json], &[]),
        ("EXAMPLE.com", &[json, sent], &[]),
        ("web.example", &[json, sent], &["yahoo"]),
        ("web.example", &[json, sent, sent], &["yahoo"]),
        ("web.example", &[json], &["yahoo"]),
        ("example.com", &[sent, sent], &[]),
        ("web.example", &[sent], &["sent"]),
        ("web.example", &[sent, sent], &["sent", "sent"]),
        ("web.example", &[("content-type", "application/json; x"), sent], &["sent"]),
        ("web.example", &[], &[]),
    ];
    for (host, headers, wanted) in cases {
        let got = received(&setup, host, headers, "x-foobar").await;
        assert_eq!(got, wanted, "{host} {headers:?}");
    }
    let types = received(&setup, "web.example", &[json], "content-type").await;
    assert_eq!(types, ["text/plain"]);
}

#[tokio::test]
async fn conditions_look_at_the_request_as_it_was_received_and_changes_at_what_is_left() {
    let app = App::start().await;
    let rule = |when, rewrite: HeaderRewrite| HeaderRewrite { when, ..rewrite };
    let rules = vec![
        rule(
            vec![is_in("x-a", "1")],
            HeaderRewrite {
                clear: vec![name("x-a")],
                set: vec![field("x-b", "2")],
                add: vec![field("x-b", "3")],
                ..HeaderRewrite::default()
            },
        ),
        // The first rule has cleared it, and this one applies nevertheless.
        rule(
            vec![is_in("x-a", "1")],
            HeaderRewrite { add: vec![field("x-b", "4")], ..HeaderRewrite::default() },
        ),
        // The first rule has set it, and this one does not apply.
        rule(
            vec![is_in("x-b", "2")],
            HeaderRewrite { clear: vec![name("x-b")], ..HeaderRewrite::default() },
        ),
    ];
    let setup = Setup::new(policy(rules), app.address).await;
    let sent = [("x-a", "1"), ("x-b", "sent")];
    assert_eq!(received(&setup, "a.example", &sent, "x-b").await, ["2", "3", "4"]);
    assert_eq!(received(&setup, "a.example", &sent, "x-a").await, [""; 0]);
    assert_eq!(received(&setup, "a.example", &[("x-b", "2")], "x-b").await, [""; 0]);
}

#[tokio::test]
async fn a_rewrite_may_depend_on_a_path_parameter() {
    let app = App::start().await;
    let book = SegmentCondition::new("book", 1, SegmentOperator::In, ["42", "a:b"]);
    let rules = vec![HeaderRewrite {
        when: vec![EffectCondition::Segment(book)],
        set: vec![field("x-book", "yes")],
        ..HeaderRewrite::default()
    }];
    let setup = Setup::new(policy(rules), app.address).await;
    let mut client = Client::new(setup.connect().await).await;
    for (path, applies) in [
        ("/books/42", true),
        ("/books/%34%32/pages", true),
        ("/books/a%3Ab", true),
        ("/books/43", false),
        ("/books", false),
    ] {
        let got = client.get(path).await;
        assert_eq!(got.body.contains("x-book: yes"), applies, "{path}: {}", got.body);
    }
}

#[tokio::test]
async fn what_a_rewrite_governs_does_not_come_in_trailers() {
    let app = App::start().await;
    let setup = Setup::new(policy(foobar()), app.address).await;
    let request = "POST /trailers HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\
                   transfer-encoding: chunked\r\ntrailer: x-foobar, x-other\r\n\r\n\
                   1\r\nx\r\n0\r\nx-foobar: smuggled\r\nx-other: kept\r\n\r\n";
    let answer = raw(setup.address, request.as_bytes(), false).await;
    assert!(answer.contains("kept") && !answer.contains("smuggled"), "{answer}");
}

#[tokio::test]
async fn no_policy_sets_what_says_who_the_client_is() {
    let app = App::start().await;
    let rules = vec![HeaderRewrite {
        set: vec![field("l5d_client_id", "admin"), field("x-b", "1")],
        add: vec![field("l5d-client-id", "admin"), field("l5d_connection-secure", "true")],
        ..HeaderRewrite::default()
    }];
    let setup = Setup::new(policy(rules), app.address).await;
    for forged in ["l5d_client_id", "l5d-client-id", "l5d_connection-secure"] {
        assert_eq!(received(&setup, "a.example", &[], forged).await, [""; 0], "{forged}");
    }
    assert_eq!(received(&setup, "a.example", &[], "x-b").await, ["1"]);
}

#[tokio::test]
async fn a_cookie_that_a_policy_adds_joins_the_others() {
    let app = App::start().await;
    let rules =
        vec![HeaderRewrite { add: vec![field("cookie", "b=2")], ..HeaderRewrite::default() }];
    let setup = Setup::new(policy(rules), app.address).await;
    let cookies = received(&setup, "a.example", &[("cookie", "a=1")], "cookie").await;
    assert_eq!(cookies, ["a=1; b=2"]);
    assert_eq!(received(&setup, "a.example", &[], "cookie").await, ["b=2"]);
}

#[tokio::test]
async fn what_a_rewrite_governed_does_not_come_in_trailers_after_a_change_of_policy() {
    let app = App::start().await;
    let setup = Setup::new(policy(foobar()), app.address).await;
    let mut stream = setup.connect().await;
    let head = "POST /trailers HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\
                transfer-encoding: chunked\r\ntrailer: x-foobar, x-new, x-other\r\n\r\n\
                1\r\nx\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    while app.requests() == 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // Two changes: what the first of them left is not what the head was rewritten by.
    setup.apply(policy(Vec::new())).await;
    let new = HeaderRewrite { clear: vec![name("x-new")], ..HeaderRewrite::default() };
    setup.apply(policy(vec![new])).await;
    let trailers = "0\r\nx-foobar: smuggled\r\nx-new: smuggled\r\nx-other: kept\r\n\r\n";
    stream.write_all(trailers.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.contains("kept") && !answer.contains("smuggled"), "{answer}");
}

#[tokio::test]
async fn a_header_that_http2_does_not_carry_is_not_sent() {
    let app = App::start().await;
    let rules = vec![HeaderRewrite {
        set: vec![field("connection", "x-a"), field("keep-alive", "5"), field("x-b", "1")],
        ..HeaderRewrite::default()
    }];
    let setup = Setup::new(policy(rules), app.address).await;
    let mut sender = client(&setup).await;
    let request: Request<Full<Bytes>> =
        Request::get("http://web.example/").header("x-a", "1").body(Full::default()).unwrap();
    let got = got(sender.send_request(request).await.unwrap()).await;
    assert_eq!(got.body, "GET http://web.example/\nx-b: 1\n");
}
