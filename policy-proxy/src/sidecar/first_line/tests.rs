//! First lines, whole and in pieces.

use super::*;
use proptest::prelude::*;

fn verdict(bytes: &[u8]) -> Verdict {
    FirstLine::default().feed(bytes)
}

#[track_caller]
fn check(bytes: &[u8], want: Verdict) {
    assert_eq!(verdict(bytes), want, "{:?}", String::from_utf8_lossy(bytes));
}

#[track_caller]
fn is(bytes: &[u8], want: WireProtocol) {
    check(bytes, Verdict::Known(want));
}

#[test]
fn a_request_line_is_http_1() {
    is(b"GET / HTTP/1.1\r\n", WireProtocol::Http1);
    is(b"GET /a", WireProtocol::Http1);
    is(b"BREW coffee HTTP/1.1\r\n", WireProtocol::Http1);
    is(b"get /a", WireProtocol::Http1);
    is(b"CONNECT a:80 HTTP/1.1\r\n", WireProtocol::Http1);
    is(b"GET http://a/b\r\n", WireProtocol::Http1);
}

#[test]
fn the_preface_is_http_2_and_nothing_less() {
    is(PREFACE, WireProtocol::Http2);
    check(b"PRI * HTTP/2.0\r\n\r\nS", Verdict::Incomplete);
    check(b"P", Verdict::Incomplete);
    is(b"PRI * HTTP/2.0\r\nHost: a\r\n", WireProtocol::Http1);
}

#[test]
fn a_line_that_may_become_a_request_is_waited_for() {
    for line in [&b""[..], b"G", b"GET ", b"GET\x0c", b"\r\n", b"BREW coffee HT", b"BREW http://a"]
    {
        check(line, Verdict::Incomplete);
    }
    check(&[b'A'; 4000], Verdict::Incomplete);
}

#[test]
fn a_line_that_a_lenient_server_takes_for_a_request_is_http() {
    for line in [
        &b"GET /admin\r\n"[..],
        b"\r\n\r\nGET /admin HTTP/1.0\r\n",
        b"GET  /admin",
        b"GET\t/admin",
        b" GET /admin HTTP/1.1\r\n",
        b"\x0b\x0c\x1c\x85\xa0 GET /admin HTTP/1.1\r\n",
        b"GET\x0c/admin\x0cHTTP/1.1\r\n",
        b"BREW\x0b/admin\x1fHTTP/1.1\r\n",
        b"BREW /a b c http/1.1\r\n",
        b"\0\x01\x02GET /admin HTTP/1.1\r\n",
        b"\xef\xbb\xbfGET /admin HTTP/1.1\r\n",
        b"BREW /admin HTTP/9.9\r\n",
        b"OPTIONS rtsp://a/b",
        b"DESCRIBE rtsp://a/b RTSP/1.0\r\n",
        b"SOURCE a ICE/1.0\r\n",
        b"PLAY /admin\r\n",
        b"FOO /admin\r\n",
        b"FOO /admin x\r\n",
        b"FOO /admin HTTP/+1.1\r\n",
        b"GET key\r\n",
        b"GET key\n",
        b"GET\n/admin HTTP/1.1\r\n",
        b"X\nY /admin HTTP/1.1\r\n",
        b"X\nY /admin HTTP/1.1 \n\r\n",
        b"PRI *\r\n",
    ] {
        is(line, WireProtocol::Http1);
    }
    is(&[&[b'A'; 33][..], b" /x HTTP/1.1\r\n"].concat(), WireProtocol::Http1);
    is(&[b"GET ".as_slice(), &[b'x'; 9000]].concat(), WireProtocol::Http1);
    is(&[b'a'; 9000], WireProtocol::Http1);
}

#[test]
fn a_proxy_header_is_one_in_both_versions() {
    is(b"PROXY TCP4 1.1.1.1 2.2.2.2 1 2\r\nGET / HTTP/1.1\r\n", WireProtocol::Proxy);
    is(b"PROXY UNKNOWN\r\n", WireProtocol::Proxy);
    is(b"PROXYX UNKNOWN\r\n", WireProtocol::Proxy);
    is(&[SIGNATURE, b"\x21\x11\0\x0c"].concat(), WireProtocol::Proxy);
    check(b"\r\n\r\n\0\r\nQU", Verdict::Incomplete);
}

#[test]
fn other_protocols_are_not_http() {
    for line in [
        &b"EHLO mail.example\r\n"[..],
        b"PING\r\n",
        b"SET key value\r\n",
        b"get key\r\n",
        b"set /key 0 0 1\r\n",
        b"GET a b\r\n",
        b"*1\r\n$4\r\nPING\r\n",
        b"SSH-2.0-OpenSSH_9\r\n",
        b"REGISTER sip:a SIP/2.0\r\n",
        b"CONNECT {\"verbose\":false}\r\n",
        b"GET user:1 EX\r\n",
        // A line of a log, in a protocol whose lines end in LF.
        b"PUT a\n1.2.3.4 \"GET / HTTP/1.1\" 200\r\n",
        // A record of a log in a binary protocol.
        b"\x93\x00 1.2.3.4 - - GET / HTTP/1.1\r\n",
    ] {
        is(line, WireProtocol::Other);
    }
}

#[test]
fn bytes_that_no_client_of_http_sends_are_not_waited_for() {
    for bytes in [
        &[0, 0, 0, 8, 4, 210, 22, 47][..],
        &[22, 3, 1, 2, 0],
        // An LDAP bind: its second byte is a form feed.
        &[0x30, 0x0c, 2, 1, 1, 0x60, 7, 2, 1, 3, 4, 0, 0x80, 0],
        b"SET key value",
        b"  V2",
        b"\r\n\r\n\0x",
        b"PING\n",
        b"CONNECT\naccept-version:1.2\n",
    ] {
        check(bytes, Verdict::Doubtful);
    }
}

#[test]
fn a_doubtful_line_is_watched_until_it_ends() {
    let mut line = FirstLine::default();
    assert_eq!(line.feed(b"\x01\x02 "), Verdict::Doubtful);
    assert_eq!(line.feed(b"/admin HTT"), Verdict::Doubtful);
    assert_eq!(line.feed(b"P/1.1\r\n"), Verdict::Known(WireProtocol::Http1));
    let mut line = FirstLine::default();
    assert_eq!(line.feed(b"\x01\x02 "), Verdict::Doubtful);
    assert_eq!(line.feed(b"/admin\r\n"), Verdict::Known(WireProtocol::Other));
}

/// Lines made of the pieces that the rules look at.
fn line() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        prop::sample::select(vec![
            "GET", "BREW", "PRI * ", "PROXY", "/a", "*", "http://a", "rtsp://a", "HTTP/1.1", "HTT",
            " ", "\t", "\r", "\n", "\r\n", "\x0b", "\x0c", "\x1c", "\0", "key",
        ])
        .prop_map(|text| text.as_bytes().to_vec()),
        prop::collection::vec(any::<u8>(), 0..3),
        Just(vec![0x85]),
        Just(vec![0xa0]),
    ];
    prop::collection::vec(piece, 0..10).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn pieces_of_any_size_give_the_same_answer(line in line(), cuts in prop::collection::vec(1_usize..5, 0..60)) {
        let mut pieces = FirstLine::default();
        let mut rest = line.as_slice();
        let mut last = Verdict::Incomplete;
        for cut in cuts.into_iter().chain([line.len().max(1)]) {
            let (piece, after) = rest.split_at(cut.min(rest.len()));
            let before = last;
            last = pieces.feed(piece);
            if let Verdict::Known(_) = before {
                prop_assert_eq!(last, before, "an answer is final");
            }
            rest = after;
        }
        last = pieces.feed(rest);
        prop_assert_eq!(last, verdict(&line));
    }

    #[test]
    fn a_version_is_http_whatever_precedes_it(
        words in prop::collection::vec("[!-~]{1,8}", 0..8),
        blank in prop::sample::select(vec![b' ', b'\t', 0x0b, 0x0c, 0x1c, 0x1f, 0x85, 0xa0]),
        junk in prop::collection::vec(any::<u8>().prop_filter("no blank", |b| !is_blank(*b)), 0..40),
    ) {
        let blank = [blank];
        let words: Vec<&[u8]> = words.iter().map(String::as_bytes).collect();
        let text = [&words.join(&blank[..])[..], &blank, b"HTTP/1.1\r\n"].concat();
        let few = &words[..words.len().min(2)];
        let binary = [&[0], &junk[..], &blank, &few.join(&blank[..]), &blank, b"HTTP/1.1\r\n"].concat();
        for line in [text, binary] {
            let is_token = line.split(|b| is_blank(*b)).find(|word| !word.is_empty());
            let is_token = is_token.is_some_and(|word| word.iter().copied().all(super::is_token));
            let few = line.split(|b| is_blank(*b)).filter(|word| !word.is_empty()).count() <= 4;
            let spoken = verdict(&line);
            let http = matches!(spoken, Verdict::Known(WireProtocol::Http1 | WireProtocol::Http2 | WireProtocol::Proxy));
            prop_assert!(http || !(is_token || few), "{:?} is {:?}", line, spoken);
        }
    }

    #[test]
    fn it_is_always_told_within_the_bounds(text in "[a-zA-Z0-9]{1,50}", zero in any::<bool>()) {
        let (bound, begin) = if zero { (MAX_DOUBTFUL, &b"\0"[..]) } else { (MAX_LINE, &b""[..]) };
        let bound = usize::try_from(bound).unwrap();
        let line = [begin, &text.as_bytes().repeat(bound.saturating_add(1))].concat();
        prop_assert!(matches!(verdict(&line[..=bound]), Verdict::Known(_)), "{}", text);
        let before = if zero { Verdict::Doubtful } else { Verdict::Incomplete };
        prop_assert_eq!(verdict(&line[..bound]), before);
    }
}

#[test]
fn a_line_is_unlikely_where_no_known_method_begins_so_and_no_path_follows() {
    for bytes in ["ruok", "JDWP-Handshake", "AUTH secret", "CP2"] {
        let mut line = FirstLine::default();
        assert_eq!(
            (line.feed(bytes.as_bytes()), line.is_unlikely()),
            (Verdict::Incomplete, true),
            "{bytes}"
        );
    }
    for bytes in ["", "\r\n", "G", "get", "GET x", "FOO /", "PRI", "\r\n\r\n"] {
        let mut line = FirstLine::default();
        assert_eq!(
            (line.feed(bytes.as_bytes()), line.is_unlikely()),
            (Verdict::Incomplete, false),
            "{bytes}"
        );
    }
}
